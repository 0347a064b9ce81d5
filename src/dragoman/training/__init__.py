"""From a configuration to a run directory: the loop, and what it is made of.

Read `loop` first; `state` is all that changes while it runs, and all that a checkpoint holds. `tasks` are
what can be learnt, `updates` how weights change, and `parallel` what several processes and machines take.
"""
