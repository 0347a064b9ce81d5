"""A corpus in windows: what the pairs of each tell about one another, found here or in other processes."""

from __future__ import annotations

import json
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from dragoman.data.doctor.alignment import NOWHERE, Alignment, Stretch, check_alignment
from dragoman.data.doctor.content import PAIR_CHECKS
from dragoman.data.doctor.findings import threshold_of
from dragoman.data.doctor.language import check_languages
from dragoman.data.doctor.overlap import HeldOut
from dragoman.data.doctor.reading import Numbered
from dragoman.data.doctor.statistics import MIN_LINES, combine, length_deviations
from dragoman.data.doctor.tally import Faults
from dragoman.data.doctor.words import Side, SideReader
from dragoman.data.readers.files import hash_text
from dragoman.processes import Tick, in_order

Progress = Callable[[str, int], None]
"""Told what is being done, and how many pairs have been read."""
WINDOW = 131_072
"""Pairs that are judged together: by the lengths, letters and words that are usual among them.

Twice as many teach no better, for a lexicon is learnt from some of them only, and take 0.2 GB more.
"""
TAIL = 16_384
"""Minimum pairs of the last of several windows, and how many more than WINDOW it may have."""
UNALIGNED_FROM = 1000
"""Pairs from which a corpus whose sides do not fit is called so; fewer may not teach what fits."""

_WRONG_TEXT = ("empty", "identical", "swapped", "script", "language", "encoding")
"""Faults that make other ones of the same pair likely."""


def silent(doing: str, n_read: int) -> None:
    """Say nothing."""


class Texts:
    """The pairs of a window, packed: a third of the memory, and of what travels to another process."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self.n = 0

    def append(self, chunk: Sequence[Numbered]) -> None:
        self._chunks.append(json.dumps(chunk).encode("ascii"))
        self.n += len(chunk)

    def chunks(self) -> Iterator[list[Numbered]]:
        """Yield chunk by chunk, and forget each."""
        while self._chunks:
            yield [Numbered(number, tuple(texts)) for number, texts in json.loads(self._chunks.popleft())]

    def clear(self) -> None:
        """Forget all of them."""
        self._chunks.clear()


def windows(chunks: Iterable[list[Numbered]]) -> Iterator[Texts]:
    """Cut into windows of WINDOW pairs; the last of several has at least TAIL."""
    window, waiting = Texts(), deque[list[Numbered]]()
    n_waiting = 0
    for chunk in chunks:
        waiting.append(chunk)
        n_waiting += len(chunk)
        while n_waiting - len(waiting[0]) >= TAIL:
            n_waiting -= len(waiting[0])
            window.append(waiting.popleft())
            if window.n >= WINDOW:
                yield window
                window = Texts()
    for chunk in waiting:
        window.append(chunk)
    if window.n:
        yield window


class Examined(NamedTuple):
    """What a window came to."""

    numbers: np.ndarray
    faults: Faults
    """By the index of a pair, from 0."""
    hashes: tuple[np.ndarray, np.ndarray, np.ndarray]
    """Of each source, of each target, and of both but for case, punctuation and digits."""
    facts: dict[str, list[str]]
    """What was said about it as a whole, by kind; notes under ""."""
    stretches: tuple[Stretch, ...]


@dataclass(frozen=True)
class Examination:
    """Finds what is wrong with the pairs of a window, by all that they tell about one another."""

    langs: tuple[str | None, str | None]
    thresholds: Mapping[str, float]
    unit: str
    held: HeldOut | None
    """Texts that must not be among them."""
    earlier: Mapping[str, np.ndarray]
    """`pair_hashes` of other corpora, whose pairs they should not repeat, by name."""

    def __call__(self, texts: Texts, doing: Callable[[str], None]) -> Examined:
        """Examine a window, which is empty afterwards; `doing` is told what with."""
        window = _Window()
        for chunk in texts.chunks():
            window.add(chunk, self.held, self.earlier)
        n, faults = len(window.numbers), window.faults
        src, tgt = window.sides()
        facts: dict[str, list[str]] = {"": []}
        doing("lengths")
        deviations = length_deviations(src, tgt)
        if n < MIN_LINES:
            facts[""].append(f"lengths were not judged: fewer than {MIN_LINES} pairs")
        doing("languages")
        languages = check_languages(src, tgt, langs=self.langs)
        faults.by_kind.update(languages.lines)
        facts["languages"] = languages.whole
        doing("alignment")
        alignment = check_alignment(src, tgt)
        is_judged = len(alignment.probability) > 0
        faults.values = {
            "length": np.abs(deviations),
            "overlap-near": window.similarities(),
            "unrelated": alignment.probability if is_judged else np.ones(n),
        }
        if alignment.separation is not None and n >= UNALIGNED_FROM:
            share = f"{100 * alignment.separation:.0f} %"
            facts["unaligned"] = [f"a pair is more alike than a random one in {share} of cases"]
        self._add_stretches(alignment, window)
        facts[""] += [*languages.notes, *alignment.notes]
        faults.remove("language", list(faults.by_kind["identical"]))
        faults.remove("numbers", _explained(faults))
        faults.remove("addresses", _explained(faults))
        _add_graded(faults, self.thresholds, deviations, src, tgt)
        hashes = src.hashes, tgt.hashes, combine((src.near_hashes, tgt.near_hashes))
        numbers = np.array(window.numbers, dtype=np.uint32)
        return Examined(numbers, faults, hashes, facts, alignment.stretches)

    def _add_stretches(self, alignment: Alignment, window: _Window) -> None:
        for stretch in alignment.stretches:
            what = describe_stretch(stretch, window.numbers, self.unit)
            for index in range(stretch.start, stretch.end):
                if index not in window.faults.by_kind["empty"]:
                    window.faults.add("shifted", index, what)

    def in_worker(self, _: int) -> Callable[[Texts, Tick], Examined]:
        """Return the work of a worker process."""
        return lambda texts, tick: self(texts, lambda doing: None)


def examine(
    stream: Iterator[Texts], examination: Examination, *, n_workers: int, progress: Progress
) -> Iterator[Examined]:
    """Examine all windows, in their order; in processes if there are several windows and workers.

    RunError: a worker died.
    """
    first = list(islice(stream, min(n_workers, 2)))
    if len(first) > 1:
        remedy = "nothing was written; fewer --workers need less memory"
        work = examination.in_worker
        stream = _forgotten(chain(first, stream))
        yield from in_order(work, stream, n_workers=n_workers, tick=lambda n: None, remedy=remedy)
        return
    n = 0
    for texts in chain(first, stream):
        n += texts.n
        yield examination(texts, lambda doing, n=n: progress(doing, n))  # type: ignore[misc]


def _forgotten(stream: Iterable[Texts]) -> Iterator[Texts]:
    """Yield the same windows; each is emptied when the next one is asked for, as others may still hold it."""
    for texts in stream:
        yield texts
        texts.clear()


def pair_hashes(pairs: Iterable[Sequence[str]]) -> np.ndarray:
    """Return a hash of each pair, the same for pairs that differ in white space only."""
    lines = ("\t".join(" ".join(text.split()) for text in pair[:2]) for pair in pairs)
    return np.fromiter((hash_text(line, seed=0) for line in lines), dtype=np.uint64)


class _Window:
    """Consecutive pairs, as they are read: as numbers, and what can be seen in each pair alone."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.numbers = array("q")
        self._readers = (SideReader(), SideReader())
        self._similar: dict[int, float] = {}

    def add(self, chunk: Sequence[Numbered], held: HeldOut | None, earlier: Mapping[str, np.ndarray]) -> None:
        start = len(self.numbers)
        for kind, check in PAIR_CHECKS.items():
            faults = self.faults.by_kind[kind]
            for index, (_, (src, tgt)) in enumerate(chunk, start):
                if detail := check(src, tgt):
                    faults[index] = detail
        for i in (0, 1):
            self._readers[i].add(one.texts[i] for one in chunk)
        if held is not None:
            overlap = held.look_up(start, chunk)
            self.faults.by_kind["overlap"].update(overlap.exact)
            self.faults.by_kind["overlap-near"].update(overlap.near)
            self._similar.update(overlap.similarity)
        if earlier:
            pair_ids = pair_hashes(one.texts for one in chunk)
            for name, hashes in earlier.items():
                for i in np.flatnonzero(np.isin(pair_ids, hashes)).tolist():
                    self.faults.add("duplicate-across", start + i, f"stands in {name}, too")
        self.numbers.extend(one.number for one in chunk)

    def sides(self) -> tuple[Side, Side]:
        return self._readers[0].side(), self._readers[1].side()

    def similarities(self) -> np.ndarray:
        """How similar each pair is to the text of valid or test that it is nearly like; 0: to none."""
        values = np.zeros(len(self.numbers))
        values[list(self._similar)] = list(self._similar.values())
        return values


def _explained(faults: Faults) -> set[int]:
    """Return the pairs whose other faults are consequences."""
    return {i for kind in ("shifted", *_WRONG_TEXT) for i in faults.by_kind[kind]}


def _add_graded(
    faults: Faults, thresholds: Mapping[str, float], deviations: np.ndarray, src: Side, tgt: Side
) -> None:
    """Add the faults whose value exceeds a threshold, but for what another finding explains."""
    explained = sorted(_explained(faults))
    faults.values["length"][explained] = 0.0
    faults.values["unrelated"][explained] = 1.0
    exceeding = {
        kind: np.flatnonzero(threshold_of(kind).exceeded(values, thresholds[kind])).tolist()
        for kind, values in faults.values.items()
    }
    for index in exceeding["length"]:
        side = "target" if deviations[index] > 0 else "source"
        lengths = f"{src.lengths[index]} : {tgt.lengths[index]} characters"
        off = f"{abs(deviations[index]):.0f} deviations off"
        faults.add("length", index, f"{side} too long, {lengths}, {off}")
    for index in exceeding["unrelated"]:
        p = faults.values["unrelated"][index]
        faults.add("unrelated", index, f"a translation with a probability of {100 * p:.0f} %")
    faults.remove("overlap-near", faults.by_kind["overlap-near"].keys() - exceeding["overlap-near"])


def describe_stretch(stretch: Stretch, numbers: Sequence[int] | np.ndarray, unit: str) -> str:
    """Where a stretch of lines begins and ends, and where its translations are."""
    first, last = numbers[stretch.start], numbers[stretch.end - 1]
    where = f"{unit} {first}" if first == last else f"{unit}s {first} to {last}"
    if stretch.shift == NOWHERE:
        return f"{where}: no translation near"
    n = abs(stretch.shift)
    direction = "below" if stretch.shift > 0 else "above"
    return f"{where}: the target of a source is {n} {unit}{'s' if n > 1 else ''} {direction}"
