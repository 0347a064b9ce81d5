"""Test sets run through a model and scored, and the scores kept in the run."""
