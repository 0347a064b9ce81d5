"""A small translator that learns from a large one."""
