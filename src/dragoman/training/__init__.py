"""Training of an objective, whatever it learns.

Read `trainer` first; `state` is all that changes while it runs, and all that a checkpoint holds. `objective`
says what a task has to bring, `updates` how weights change, `parallel` what several processes take.
"""
