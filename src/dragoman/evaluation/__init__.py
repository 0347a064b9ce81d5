"""Scores kept in a run, and runs side by side."""
