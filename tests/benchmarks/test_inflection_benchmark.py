"""The measurement of inflected terms, on a tiny run."""

from __future__ import annotations

import runpy
from pathlib import Path

from dragoman.data.corpora import Pair
from dragoman.predict.translator import Translator

SCRIPT = runpy.run_path(str(Path(__file__).resolve().parents[2] / "benchmarks" / "inflection.py"))


def test_the_table_has_a_row_for_each_way_and_every_term_is_written(tiny_run: Path) -> None:
    pairs = [Pair("old dogs", "alte Hunde"), Pair("a tree", "ein Baum")]
    report = SCRIPT["report"](Translator.load(tiny_run, precision="fp32"), pairs)
    *_, plain, exact, inflected = report.splitlines()
    assert [row.split()[0] for row in (plain, exact, inflected)] == ["none", "exact", "inflected"]
    assert exact.split()[1:3] == ["100.0%", "100.0%"]
    assert inflected.split()[2] == "100.0%"
    assert report.startswith("2 sentences with 2 terms")


def test_a_form_counts_where_the_reference_has_the_same_word() -> None:
    assert SCRIPT["forms"]("alte Hunde, Hundehaus", "Hund") == {"Hunde"}
    assert SCRIPT["forms"]("kein Tier", "Hund") == set()
