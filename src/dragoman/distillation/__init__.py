"""A small, fast translator that learns from a large one: sequence-level distillation (Kim & Rush 2016).

`students` is the table of shapes; `material` is the text that lessons are made of; `teaching` lets the
teacher translate it and leaves out what is plainly wrong; `distilling` trains the student on that and
measures both.
"""
