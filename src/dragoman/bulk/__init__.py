"""Text through a model, from a line of stdin to a corpus on a cluster.

An `input` resolves a name and yields chunks. A `job` says, as data, what a worker makes of one, with `output`
for a single line; `scoring` is a job, too. `running` does it here, in other processes or on Ray (`cluster`),
and writes to stdout, a whole file, or one that survives a kill (`journal`).
"""
