"""Reproduce recipes: find, train, score, and compare with the recorded scores.

`recipe` finds one, `expected` is what expected.json says, `running` trains and judges, `recording` writes
expected.json from finished runs, `reference` compares a training with the recorded one while it goes on.
"""
