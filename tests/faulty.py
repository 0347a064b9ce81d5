"""Parallel text in memory, for tests that plant faults into it."""

from collections.abc import Sequence

from dragoman.data.doctor import Report
from dragoman.data.doctor.words import NumberedSide, SideReader


def phrases(n: int, *, tgt_lang: str = "de", src_lang: str = "en") -> list[tuple[str, str]]:
    """Pairs of the embedded corpus, at most 2000."""
    from dragoman.data.phrasebook import pairs

    both = [*pairs("valid", src_lang, tgt_lang), *pairs("test", src_lang, tgt_lang)]
    assert n <= len(both)
    return both[:n]


def sides_of(pairs: Sequence[tuple[str, str]]) -> tuple[NumberedSide, NumberedSide]:
    """The pairs as the doctor's numbers."""
    readers = SideReader(), SideReader()
    for i in (0, 1):
        readers[i].add(pair[i] for pair in pairs)
    return readers[0].side(), readers[1].side()


def lines_with(report: Report, kind: str) -> list[int]:
    """The lines with a fault of that kind."""
    finding = report.finding(kind)
    return [] if finding is None else finding.lines.tolist()
