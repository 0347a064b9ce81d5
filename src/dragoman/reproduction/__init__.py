"""Reproduce recipes: find, train, score, and compare with the recorded scores.

`recipe` finds one, `expected` is what expected.json says, `running` trains and judges, and compares a training
with the recorded one while it goes on. tools/record_results.py writes expected.json.
"""
