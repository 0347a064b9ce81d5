"""From a configuration to a run directory: the loop, and what it is made of.

Read `loop` first; `state` is all that changes while it runs, and all that a checkpoint holds.
"""
