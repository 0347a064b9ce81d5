"""Corpora line by line through a translator: of any size, on several workers, in order, killed and continued.

`stream` cuts a file into chunks of lines; a `job` says what a translator makes of them, with `output` for a
single line; `journal` puts the results into a file that survives a kill. `translate_file` in
`running` puts them together, on worker processes, or on Ray (`cluster`).
"""
