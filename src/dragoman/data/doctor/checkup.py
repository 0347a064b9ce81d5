"""Everything together: a corpus becomes a report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from dragoman.data.corpora import Corpus
from dragoman.data.doctor.alignment import Stretch
from dragoman.data.doctor.findings import Report, thresholds_of
from dragoman.data.doctor.overlap import HeldOut
from dragoman.data.doctor.reading import Numbered, Reading, numbered_pairs, unit_of
from dragoman.data.doctor.statistics import duplicates, with_several
from dragoman.data.doctor.tally import Tally
from dragoman.data.doctor.windows import (
    Examination,
    Examined,
    Progress,
    describe_stretch,
    examine,
    pair_hashes,
    silent,
    windows,
)
from dragoman.data.doctor.words import hash_of

N_EXAMPLES = 5
_PARTITION = 1_000_000  # hashes that are sorted at a time


def check_corpus(
    corpus: Corpus,
    *,
    src_lang: str | None = None,
    tgt_lang: str | None = None,
    held_out: Mapping[str, Corpus] | None = None,
    earlier: Mapping[str, Corpus] | None = None,
    n_examples: int = N_EXAMPLES,
    thresholds: Mapping[str, float] | None = None,
    with_survey: bool = False,
    n_workers: int = 1,
    progress: Progress = silent,
) -> Report:
    """Check a parallel corpus, without changing it.

    A corpus is read once, and once more for examples. Of more than WINDOW pairs, each window is judged by
    what it teaches itself, in one of `n_workers` processes; repetitions are those of the whole corpus.
    `held_out` are the corpora for validation and test, by name, that `corpus` must not overlap with, and
    `earlier` other corpora to train on, whose pairs it should not repeat. `thresholds` are those of
    `thresholds_of`; `with_survey` adds what others would find. The report does not depend on `n_workers`. A
    corpus that cannot be read to its end is checked as far as it goes. DataError: it cannot be read at all,
    or has no text; or one that is held out cannot. RunError: a process died.
    """
    unit = unit_of(corpus)
    examination = Examination(
        (src_lang, tgt_lang),
        thresholds or thresholds_of(()),
        unit,
        held=_open_held_out(held_out or {}, progress),
        earlier={name: pair_hashes(one.pairs()) for name, one in (earlier or {}).items()},
    )
    tally, whole = Tally(n_examples, with_survey=with_survey), _Whole(unit)
    reading = Reading(numbered_pairs(corpus))
    packed = windows(_watched(reading.chunks(), progress))
    for examined in examine(packed, examination, n_workers=n_workers, progress=progress):
        whole.add(examined, tally)
    progress("repetitions", tally.n)
    whole.conclude(tally)
    if reading.trouble is not None:
        tally.summarise("unreadable", [str(reading.trouble)], count=1)
    findings, survey = tally.findings(lambda: numbered_pairs(corpus))
    return Report(corpus.name, tally.n, unit, findings, (*corpus.notes(), *whole.notes()), survey)


def _open_held_out(corpora: Mapping[str, Corpus], progress: Progress) -> HeldOut | None:
    if not corpora:
        return None
    progress("reading valid and test", 0)
    by_name = {f"{name} {unit_of(corpus)}": numbered_pairs(corpus) for name, corpus in corpora.items()}
    return HeldOut(by_name, ("source", "target"))


def _watched(chunks: Iterator[list[Numbered]], progress: Progress) -> Iterator[list[Numbered]]:
    """Yield the same chunks, and say how many pairs have been read."""
    n = 0
    for chunk in chunks:
        yield chunk
        n += len(chunk)
        progress("reading", n)


class _Part(NamedTuple):
    """Where a window begins and ends, and what was said about it as a whole, by kind; notes under ""."""

    start: int
    end: int
    facts: dict[str, list[str]]


class _Whole:
    """What only the whole corpus tells, of what its windows came to."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._hashes: tuple[list[np.ndarray], ...] = ([], [], [])
        self._parts: list[_Part] = []
        self._stretches: list[Stretch] = []
        self._places: list[str] = []

    def add(self, window: Examined, tally: Tally) -> None:
        """Add the next window, to the tally as well."""
        for kept, some in zip(self._hashes, window.hashes, strict=True):
            kept.append(some)
        start = tally.n
        for stretch in window.stretches:
            here = Stretch(start + stretch.start, start + stretch.end, stretch.shift)
            if self._stretches and self._stretches[-1][1:] == (here.start, here.shift):
                here = here._replace(start=self._stretches.pop().start)
            self._stretches.append(here)
        tally.add(window.faults, window.numbers)
        self._parts.append(_Part(start, tally.n, window.facts))

    def conclude(self, tally: Tally) -> None:
        """Add the facts about the whole, repetitions, and windows that are unlike all others."""
        if self._stretches:
            numbers = tally.numbers
            tally.summarise("shifted", (describe_stretch(s, numbers, self._unit) for s in self._stretches))
        self._places = [self._place(part, tally.numbers) for part in self._parts]
        for kind, marked in (("languages", "language"), ("unaligned", "shifted")):
            wrong = [k for k, part in enumerate(self._parts) if part.facts.get(kind)]
            for k in wrong:
                facts = [f"{self._places[k]}{fact}" for fact in self._parts[k].facts[kind]]
                tally.summarise(kind, facts, count=len(facts))
                if len(wrong) < len(self._parts):  # others show that the corpus is not so as a whole
                    part = self._parts[k]
                    tally.mark(marked, np.arange(part.start, part.end), partial(_same_for_all, facts[0]))
        src, tgt, near = map(self._take_hashes, range(3))
        _add_repetitions(src, tgt, near, tally, self._unit)

    def _take_hashes(self, i: int) -> np.ndarray:
        """Return the hashes of one kind of all windows, and forget them."""
        taken = np.concatenate(self._hashes[i])
        self._hashes[i].clear()
        return taken

    def _place(self, part: _Part, numbers: np.ndarray) -> str:
        """Name a window in front of a fact; "" for the only one."""
        first, last = numbers[part.start], numbers[part.end - 1]
        return "" if len(self._parts) == 1 else f"{self._unit}s {first} to {last}: "

    def notes(self) -> list[str]:
        """Return what could not be judged, and where."""
        parts = zip(self._places, self._parts, strict=True)
        return [f"{place}{note}" for place, part in parts for note in part.facts[""]]


def _same_for_all(fact: str, _: int) -> str:
    return fact


def _add_repetitions(src: np.ndarray, tgt: np.ndarray, near: np.ndarray, tally: Tally, unit: str) -> None:
    """Add pairs that occurred before, wholly or nearly, and sources with several targets, by hashes."""

    def describe(firsts: np.ndarray) -> Callable[[int], str]:
        return lambda k: f"as {unit} {tally.numbers[firsts[k]]}"

    is_filled = (src != hash_of("")) & (tgt != hash_of(""))
    is_other = is_filled.copy()
    n_sources = n_lines = 0
    for some in _partitions(src):
        filled = some[is_filled[some]]
        repeats, firsts = (filled[lines] for lines in duplicates(src[filled], tgt[filled]))
        is_other[repeats] = False
        tally.mark("duplicate", repeats, describe(firsts))
        lines, n_targets = with_several(src[filled], tgt[filled])
        tally.mark("several-targets", filled[lines], partial(_several, n_targets))
        n_sources += len(np.unique(src[filled[lines]]))
        n_lines += len(lines)
    if n_sources:
        tally.summarise("several-targets", [f"{n_sources:,} sources, {n_lines:,} targets"], count=n_sources)
    for some in _partitions(near):
        distinct = some[is_other[some]]
        repeats, firsts = (distinct[lines] for lines in duplicates(near[distinct]))
        tally.mark("duplicate-near", repeats, describe(firsts))


def _several(n_targets: np.ndarray, k: int) -> str:
    return f"{n_targets[k]} different targets"


def _partitions(hashes: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the indices of equal hashes together, of about a million at a time."""
    lowest_bytes = hashes.view(np.uint8)[:: hashes.itemsize]
    n = min(1 + len(hashes) // _PARTITION, 256)
    for i in range(n):
        yield np.flatnonzero(lowest_bytes % n == i)
