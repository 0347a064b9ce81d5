"""Two trees are measured in turn, and the ratio is that of the rounds."""

from __future__ import annotations

import pytest

from before_after import compare


def test_trees_take_turns_and_ratios_are_of_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[str] = []

    def measure(tree: str) -> float:
        calls.append(tree)
        n_rounds = calls.count(tree)
        return n_rounds * {"before": 100.0, "after": 50.0}[tree]  # both slow down alike from round to round

    compare(3, ("before", "after"), "speed", measure)
    assert [calls[i : i + 2] for i in (0, 2, 4)] == [
        ["before", "after"],
        ["after", "before"],
        ["before", "after"],
    ]
    assert capsys.readouterr().out == "| speed | 200.0 | 100.0 | 0.500 (0.500 – 0.500) |\n"
