"""benchmarks/protection.py and benchmarks/consensus.py print the tables that docs/documents.md shows."""

from __future__ import annotations

import random
import runpy
from itertools import pairwise
from pathlib import Path

import pytest

from dragoman.predict.protection import Protection

ROOT = Path(__file__).resolve().parents[2]


def rows_of(text: str) -> list[list[str]]:
    """The cells of the rows of all tables in `text`, headings and rulers left out."""
    lines = text.splitlines()
    ruled = [i for i, line in enumerate(lines) if line.startswith(("|--", "|--:"))]
    heads = {i - 1 for i in ruled} | set(ruled)
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for i, line in enumerate(lines)
        if line.startswith("|") and i not in heads
    ]


def headings_of(text: str) -> list[str]:
    lines = text.splitlines()
    return [head for head, ruler in pairwise(lines) if ruler.startswith(("|--", "|--:"))]


@pytest.mark.slow
def test_protection_keeps_every_span_and_its_outcomes_add_up(
    tiny_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark = runpy.run_path(str(ROOT / "benchmarks" / "protection.py"))
    benchmark["main"](str(tiny_run))
    printed = capsys.readouterr().out
    rows = rows_of(printed)
    by_kind = rows[: len(benchmark["SPANS"])]
    assert [row[0] for row in by_kind] == list(benchmark["SPANS"])
    for _, _, whole, *outcomes, _, _, _ in by_kind:
        assert whole == "100.0 %"
        assert sum(float(share.rstrip(" %")) for share in outcomes) == pytest.approx(100, abs=0.2)
    assert [row[0] for row in rows[len(by_kind) :]] == list(benchmark["STAND_INS"])
    assert headings_of(printed)[0] in (ROOT / "docs" / "documents.md").read_text(encoding="utf-8")


def test_spans_are_inserted_between_words_and_tags_are_balanced() -> None:
    benchmark = runpy.run_path(str(ROOT / "benchmarks" / "protection.py"))
    rng = random.Random(1)
    for text in ("one", "one two", "one two three four five"):
        found = benchmark["insert"](text, ("{x}", "%s"), rng)
        assert [word for word in found.split() if word not in ("{x}", "%s")] == text.split()
        assert found.count("{x}") == found.count("%s") == 1
        tagged = benchmark["enclose"](text, ("<b>", "</b>"), rng)
        assert tagged.index("<b>") < tagged.index("</b>")
        assert benchmark["without"](tagged, ("<b>", "</b>")).split() == text.split()
        assert "".join(benchmark["cut"](tagged, Protection(["tags"]))) == tagged


def test_the_consensus_is_scored_beside_the_best_of_every_beam(
    tiny_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark = runpy.run_path(str(ROOT / "benchmarks" / "consensus.py"))
    benchmark["main"].__globals__["BEAM_SIZES"] = (2, 3)
    benchmark["main"](str(tiny_run))
    printed = capsys.readouterr().out
    assert [row[:2] for row in rows_of(printed)] == [
        [str(size), choice] for size in (2, 3) for choice in ("best", "least risk")
    ]
    assert headings_of(printed)[0] in (ROOT / "docs" / "documents.md").read_text(encoding="utf-8")
