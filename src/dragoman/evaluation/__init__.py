"""Evaluate runs on test sets, and keep the scores in the run."""
