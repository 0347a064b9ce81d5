"""Reproduce recipes: find, train, score, and compare with the recorded scores.

`recipe` finds one, and reads its expected.json; `running` trains, compares with the recorded training on the
way, and judges. tools/record_results.py writes expected.json.
"""
