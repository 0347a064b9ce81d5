"""Hostile cases of each kind, for benchmarks/hostile.py."""
