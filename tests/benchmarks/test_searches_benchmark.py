"""The comparison of searches, on a tiny run."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from dragoman.config import SearchConfig

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "searches.py"
SCRIPT = runpy.run_path(str(FILE))


def test_every_search_can_be_asked_for_five_alternatives() -> None:
    for settings in SCRIPT["SEARCHES"].values():
        SearchConfig().changed({"n_best": SCRIPT["N_BEST"], **settings}, where="searches")


def test_the_table_has_a_row_for_each_search_and_greedy_leaves_no_choice(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["greedy", "5 groups, penalty 2", "samples"]
    arguments = ["searches.py", str(tiny_run), str(tiny_run), "--limit", "4", "--searches", *names]
    monkeypatch.setattr(sys, "argv", arguments)
    SCRIPT["main"]()
    rows = capsys.readouterr().out.splitlines()[-3:]
    for name, row in zip(names, rows, strict=True):
        assert row.startswith(name)
        first, choice, different, _ = map(float, row.removeprefix(name).split())
        assert different <= 5
        if name == "greedy":
            assert (choice, different) == (first, 1.0)
