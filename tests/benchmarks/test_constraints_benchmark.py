"""The measurement of what constraints cost, on a tiny run."""

from __future__ import annotations

import random
import re
import runpy
import sys
from pathlib import Path

import pytest

from dragoman.predict.translator import Translator

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "constraints.py"
SCRIPT = runpy.run_path(str(FILE))


def test_a_word_is_whole_and_is_put_before_the_last_punctuation() -> None:
    holds, put_behind = SCRIPT["holds"], SCRIPT["put_behind"]
    assert holds("Der Hund.", "Hund")
    assert not holds("Die Hunde", "Hund")
    assert put_behind("Die Hunde.", "Hund") == "Die Hunde Hund."
    assert put_behind("Die Hunde", "Hund") == "Die Hunde Hund"
    assert SCRIPT["share_satisfied"](["a Hund", "Hunde"], ["Hund", "Hund"]) == 0.5


def test_words_are_drawn_from_the_references_and_are_long_enough(tiny_run: Path) -> None:
    pairs, words = SCRIPT["examples"](Translator.load(tiny_run), limit=5, rng=random.Random(1))
    assert len(pairs) == len(words) == 5
    for pair, word in zip(pairs, words, strict=True):
        assert word in pair.tgt.split()
        assert len(word) >= 4


def test_the_table_has_a_row_for_each_beam_and_every_word_is_written(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        sys, "argv", ["constraints.py", str(tiny_run), "--limit", "6", "--beam-sizes", "1", "3"]
    )
    SCRIPT["main"]()
    *_, first, second = capsys.readouterr().out.splitlines()
    for beam_size, row in ((1, first), (3, second)):
        cells = row.split()
        assert cells[0] == str(beam_size)
        assert cells[2] == "100.0%"
        assert re.fullmatch(r"[+-]\d+\.\d\d", cells[5])
