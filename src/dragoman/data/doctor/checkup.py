"""Everything together: a corpus becomes a report."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from dragoman.data.corpora import Corpus
from dragoman.data.doctor.alignment import NOWHERE, Alignment, Stretch, check_alignment
from dragoman.data.doctor.content import PAIR_CHECKS
from dragoman.data.doctor.findings import Report, threshold_of, thresholds_of
from dragoman.data.doctor.language import check_languages
from dragoman.data.doctor.overlap import HeldOut
from dragoman.data.doctor.reading import Numbered, Reading, numbered_pairs, unit_of
from dragoman.data.doctor.statistics import MIN_LINES, combine, duplicates, length_deviations, with_several
from dragoman.data.doctor.tally import Faults, Tally
from dragoman.data.doctor.words import Side, SideReader
from dragoman.data.readers.files import hash_text

Progress = Callable[[str, int], None]
"""Told what is being done, and how many pairs have been read."""

N_EXAMPLES = 5
WINDOW = 262_144
"""Pairs that are judged together: by the lengths, letters and words that are usual among them."""
TAIL = 16_384
"""Minimum pairs of the last of several windows, and how many more than WINDOW it may have."""
UNALIGNED_FROM = 1000
"""Pairs from which a corpus whose sides do not fit is called so; fewer may not teach what fits."""

_PARTITION = 1_000_000  # hashes that are sorted at a time
_WRONG_TEXT = ("empty", "identical", "swapped", "script", "language", "encoding")
"""Faults that make other ones of the same pair likely."""


def silent(doing: str, n_read: int) -> None:
    """Say nothing."""


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
    progress: Progress = silent,
) -> Report:
    """Check a parallel corpus, without changing it.

    A corpus is read once, and once more for examples. Of more than WINDOW pairs, each window is judged by
    what it teaches itself; repetitions are those of the whole corpus. `held_out` are the corpora for
    validation and test, by name, that `corpus` must not overlap with, and `earlier` other corpora to train
    on, whose pairs it should not repeat. `thresholds` are those of `thresholds_of`; `with_survey` adds what
    others would drop. A corpus that cannot be read to its end is checked as far as it goes. DataError: it
    cannot be read at all, or has no text; or one that is held out cannot.
    """
    unit = unit_of(corpus)
    tally = Tally(n_examples, with_survey=with_survey)
    judge = _Judge((src_lang, tgt_lang), thresholds or thresholds_of(()), unit, progress)
    held = _open_held_out(held_out or {}, progress)
    known = {name: _pair_hashes(one.pairs()) for name, one in (earlier or {}).items()}
    reading = Reading(numbered_pairs(corpus))
    window = _Window()
    for chunk, is_last in windows(reading.chunks()):
        window.add(chunk, held, known)
        progress("reading", tally.n + len(window.numbers))
        if is_last:
            judge.add(window, tally)
            window = _Window()
    progress("repetitions", tally.n)
    judge.conclude(tally)
    if reading.trouble is not None:
        tally.summarise("unreadable", [str(reading.trouble)], count=1)
    findings, survey = tally.findings(lambda: numbered_pairs(corpus))
    return Report(corpus.name, tally.n, unit, findings, (*corpus.notes(), *judge.notes()), survey)


def windows(chunks: Iterable[list[Numbered]]) -> Iterator[tuple[list[Numbered], bool]]:
    """Yield every chunk, and whether a window of WINDOW pairs (the last: at least TAIL) ends with it."""
    waiting: deque[list[Numbered]] = deque()
    n_waiting = n = 0
    for chunk in chunks:
        waiting.append(chunk)
        n_waiting += len(chunk)
        while n_waiting - len(waiting[0]) >= TAIL:
            one = waiting.popleft()
            n_waiting -= len(one)
            n += len(one)
            yield one, n >= WINDOW
            n = 0 if n >= WINDOW else n
    for i, one in enumerate(waiting, start=1):
        yield one, i == len(waiting)


def _pair_hashes(pairs: Iterable[Sequence[str]]) -> np.ndarray:
    """Return a hash of each pair, the same for pairs that differ in white space only."""
    lines = ("\t".join(" ".join(text.split()) for text in pair[:2]) for pair in pairs)
    return np.fromiter((hash_text(line, seed=0) for line in lines), dtype=np.uint64)


def _open_held_out(corpora: Mapping[str, Corpus], progress: Progress) -> HeldOut | None:
    if not corpora:
        return None
    progress("reading valid and test", 0)
    by_name = {f"{name} {unit_of(corpus)}": numbered_pairs(corpus) for name, corpus in corpora.items()}
    return HeldOut(by_name, ("source", "target"))


class _Window:
    """Consecutive pairs, as they are read: as numbers, and what can be seen in each pair alone."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.numbers = array("q")
        self._readers = (SideReader(), SideReader())
        self._similar: dict[int, float] = {}

    def add(self, chunk: Sequence[Numbered], held: HeldOut | None, known: Mapping[str, np.ndarray]) -> None:
        start = len(self.numbers)
        for kind, check in PAIR_CHECKS.items():
            faults = self.faults.by_kind[kind]
            for index, (_, (src, tgt)) in enumerate(chunk, start):
                if detail := check(src, tgt):
                    faults[index] = detail
        for i in (0, 1):
            self._readers[i].add(one.texts[i] for one in chunk)
        if held is not None:
            found = held.look_up(start, chunk)
            self.faults.by_kind["overlap"].update(found.exact)
            self.faults.by_kind["overlap-near"].update(found.near)
            self._similar.update(found.similarity)
        for name, hashes in known.items():
            own = _pair_hashes(one.texts for one in chunk)
            for i in np.flatnonzero(np.isin(own, hashes)).tolist():
                self.faults.add("duplicate-across", start + i, f"stands in {name}, too")
        self.numbers.extend(one.number for one in chunk)

    def sides(self) -> tuple[Side, Side]:
        return self._readers[0].side(), self._readers[1].side()

    def similarities(self) -> np.ndarray:
        """How similar each pair is to the text of valid or test that it is nearly like; 0: to none."""
        values = np.zeros(len(self.numbers))
        values[list(self._similar)] = list(self._similar.values())
        return values


class _Part(NamedTuple):
    """Where a window begins and ends, and what was said about it as a whole, by kind; notes under ""."""

    start: int
    end: int
    facts: dict[str, list[str]]


class _Judge:
    """Adds to a tally what only many pairs tell: window by window, at last for the whole corpus."""

    def __init__(
        self,
        langs: tuple[str | None, str | None],
        thresholds: Mapping[str, float],
        unit: str,
        progress: Progress,
    ) -> None:
        self._langs, self._thresholds, self._unit, self._progress = langs, thresholds, unit, progress
        self._hashes: tuple[list[np.ndarray], ...] = ([], [], [])
        self._parts: list[_Part] = []
        self._stretches: list[Stretch] = []
        self._places: list[str] = []

    def add(self, window: _Window, tally: Tally) -> None:
        """Judge a window by its own pairs, and add it to the tally."""
        n, faults = len(window.numbers), window.faults
        src, tgt = window.sides()
        hashes = src.hashes, tgt.hashes, combine((src.near_hashes, tgt.near_hashes))
        for kept, some in zip(self._hashes, hashes, strict=True):
            kept.append(some)
        facts: dict[str, list[str]] = {}
        self._progress("lengths", tally.n + n)
        deviations = length_deviations(src, tgt)
        if n < MIN_LINES:
            facts[""] = [f"lengths were not judged: {n} pairs are fewer than {MIN_LINES}"]
        self._progress("languages", tally.n + n)
        languages = check_languages(src, tgt, langs=self._langs)
        faults.by_kind.update(languages.lines)
        facts["languages"] = languages.whole
        self._progress("alignment", tally.n + n)
        alignment = check_alignment(src, tgt)
        is_judged = len(alignment.probability) > 0
        faults.values = {
            "length": np.abs(deviations),
            "overlap-near": window.similarities(),
            "unrelated": alignment.probability if is_judged else np.ones(n),
        }
        self._add_alignment(alignment, faults, window.numbers, tally.n, facts)
        facts.setdefault("", []).extend([*languages.notes, *alignment.notes])
        faults.remove("language", list(faults.by_kind["identical"]))
        faults.remove("numbers", _explained(faults))
        faults.remove("addresses", _explained(faults))
        _add_graded(faults, self._thresholds, deviations, src, tgt)
        self._parts.append(_Part(tally.n, tally.n + n, facts))
        tally.add(faults, window.numbers)

    def _add_alignment(
        self,
        alignment: Alignment,
        faults: Faults,
        numbers: Sequence[int],
        start: int,
        facts: dict[str, list[str]],
    ) -> None:
        for stretch in alignment.stretches:
            what = describe_stretch(stretch, numbers, self._unit)
            for index in range(stretch.start, stretch.end):
                if index not in faults.by_kind["empty"]:
                    faults.add("shifted", index, what)
            here = Stretch(start + stretch.start, start + stretch.end, stretch.shift)
            if self._stretches and self._stretches[-1][1:] == (here.start, here.shift):
                here = here._replace(start=self._stretches.pop().start)
            self._stretches.append(here)
        if alignment.separation is not None and len(numbers) >= UNALIGNED_FROM:
            share = f"{100 * alignment.separation:.0f} %"
            facts["unaligned"] = [f"a pair is more alike than a random one in {share} of cases"]

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
    found = {
        kind: np.flatnonzero(threshold_of(kind).exceeded(values, thresholds[kind])).tolist()
        for kind, values in faults.values.items()
    }
    for index in found["length"]:
        side = "target" if deviations[index] > 0 else "source"
        lengths = f"{src.lengths[index]} : {tgt.lengths[index]} characters"
        off = f"{abs(deviations[index]):.0f} deviations off"
        faults.add("length", index, f"{side} too long, {lengths}, {off}")
    for index in found["unrelated"]:
        p = faults.values["unrelated"][index]
        faults.add("unrelated", index, f"a translation with a probability of {100 * p:.0f} %")
    faults.remove("overlap-near", faults.by_kind["overlap-near"].keys() - found["overlap-near"])


def _same_for_all(fact: str, _: int) -> str:
    return fact


def _add_repetitions(src: np.ndarray, tgt: np.ndarray, near: np.ndarray, tally: Tally, unit: str) -> None:
    """Add pairs that occurred before, wholly or nearly, and sources with several targets, by hashes."""

    def describe(firsts: np.ndarray) -> Callable[[int], str]:
        return lambda k: f"as {unit} {tally.numbers[firsts[k]]}"

    is_filled = (src != hash("")) & (tgt != hash(""))
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
        others = some[is_other[some]]
        repeats, firsts = (others[lines] for lines in duplicates(near[others]))
        tally.mark("duplicate-near", repeats, describe(firsts))


def _several(n_targets: np.ndarray, k: int) -> str:
    return f"{n_targets[k]} different targets"


def _partitions(hashes: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the indices of equal hashes together, of about a million at a time."""
    lowest_bytes = hashes.view(np.uint8)[:: hashes.itemsize]
    n = min(1 + len(hashes) // _PARTITION, 256)
    for i in range(n):
        yield np.flatnonzero(lowest_bytes % n == i)


def describe_stretch(stretch: Stretch, numbers: Sequence[int] | np.ndarray, unit: str) -> str:
    """Where a stretch of lines begins and ends, and where its translations are."""
    first, last = numbers[stretch.start], numbers[stretch.end - 1]
    where = f"{unit} {first}" if first == last else f"{unit}s {first} to {last}"
    if stretch.shift == NOWHERE:
        return f"{where}: no translation near"
    n = abs(stretch.shift)
    direction = "below" if stretch.shift > 0 else "above"
    return f"{where}: the target of a source is {n} {unit}{'s' if n > 1 else ''} {direction}"
