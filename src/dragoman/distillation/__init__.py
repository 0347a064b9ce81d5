"""A small, fast translator that learns from a large one: sequence-level distillation (Kim & Rush 2016).

`lessons` says what a student learns from; `teaching` opens that text, lets the teacher translate it and
leaves out what is plainly wrong; `distilling` trains the student on that and measures both.
"""
