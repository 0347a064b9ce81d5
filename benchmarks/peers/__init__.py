"""The same training step in other people's libraries, as their users would write it."""
