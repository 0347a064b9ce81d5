"""A corpus becomes a report: windows are examined, here or in other processes, and a tally adds them up."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np

from dragoman.data.doctor.alignment import NOWHERE, AlignedStretch, check_alignment
from dragoman.data.doctor.content import PAIR_CHECKS, TEXT_CHECKS, Check, is_visible
from dragoman.data.doctor.findings import KINDS, THRESHOLDS, FaultyLine, Finding, Report, thresholds_of
from dragoman.data.doctor.language import check_languages
from dragoman.data.doctor.overlap import HeldOutIndex
from dragoman.data.doctor.words import (
    MIN_LINES,
    SideReader,
    combine,
    conflicts,
    duplicates,
    hash_of,
    length_deviations,
)
from dragoman.data.records import Corpus, Numbered, has_text, labels_of
from dragoman.errors import DataError, counted
from dragoman.processes import Tick, in_order

CHUNK = 4096
CHUNK_CHARACTERS = 1_000_000
"""Texts that are looked at together, at most, and about how many characters."""
WINDOW = 131_072
"""Pairs that are judged together: by the lengths, letters and words that are usual among them.

Twice as many teach no better, for a lexicon is learnt from some of them only, and take 0.2 GB more.
"""
TAIL = 16_384
"""Minimum pairs of the last of several windows, and how many more than WINDOW it may have."""

Progress = Callable[[str, int], None]
"""Told what is being done, and how many records have been read."""

N_EXAMPLES = 5
UNALIGNED_FROM = 1000
"""Pairs from which a corpus whose sides do not fit is called so; fewer may not teach what fits."""

_PARTITION = 1_000_000  # hashes that are sorted at a time
_MIN_KEPT = 1000  # findings of a kind that are remembered with what is wrong, at least
_MAX_SHOWN = 20  # labels that are listed
_EXPLAINING = ("shifted", "empty", "identical", "swapped", "script", "language", "encoding")
"""Faults that make other ones of the same pair likely."""
_BITS = {kind: np.uint32(1 << i) for i, kind in enumerate(KINDS)}


def check_corpus(
    corpus: Corpus,
    *,
    src_lang: str | None = None,
    tgt_lang: str | None = None,
    held_out: Mapping[str, Corpus] | None = None,
    n_examples: int = N_EXAMPLES,
    thresholds: Mapping[str, float] | None = None,
    n_workers: int = 1,
    progress: Progress = lambda doing, n_read: None,
) -> Report:
    """Check a corpus, without changing it.

    A corpus is read once, and once more for examples. Of more than WINDOW pairs, each window is judged by
    what it teaches itself, in one of `n_workers` processes; repetitions are those of the whole corpus.
    `held_out` are the corpora for validation and test, by name, that `corpus` must not overlap with.
    `thresholds` are those of `thresholds_of`. The report does not depend on `n_workers`. Of labelled text,
    only `held_out` and `n_examples` count. A corpus that cannot be read to its end is checked as far as it
    goes. DataError: it cannot be read at all, or has no text; or one that is held out cannot. RunError: a
    process died.
    """
    tally, held = Tally(corpus.unit, n_examples), None
    if held_out:
        progress("reading valid and test", 0)
        by_name = {f"{name} {one.unit}": one.numbered() for name, one in held_out.items()}
        held = HeldOutIndex(by_name, ("text",) if corpus.is_labelled else ("source", "target"))
    if corpus.is_labelled:
        _check_labelled(corpus, tally, held, progress)
        return tally.report(corpus)
    examination = Examination((src_lang, tgt_lang), thresholds or thresholds_of(()), tally.unit, held)
    stream = windows(read(corpus, progress, tally.troubles))
    for examined in examine(stream, examination, n_workers=n_workers, progress=progress):
        tally.add(examined)
    progress("repetitions", tally.n)
    notes = [*corpus.notes(), *tally.judge_whole()]  # before examples are read again, perhaps not all
    return tally.report(corpus, notes)


def _check_labelled(corpus: Corpus, tally: Tally, held: HeldOutIndex | None, progress: Progress) -> None:
    """Add the faults of labelled text to `tally`, equal texts with different labels among them."""
    separator = corpus.separator or ""

    def missing(text: str, label: str) -> str:
        parts = {"text": text, "label": label or separator}
        return " and ".join(f"no {name}" for name, part in parts.items() if not is_visible(part))

    checks = {"empty": missing, **TEXT_CHECKS}
    window = Examined()
    hashes = array("q"), array("q")  # of texts, and of labels
    n_of_label: Counter[str] = Counter()
    for chunk in read(corpus, progress, tally.troubles):
        window.add(chunk, checks, held)
        for _, (text, label) in chunk:
            hashes[0].append(hash(" ".join(text.split())))
            hashes[1].append(hash(label))
            n_of_label.update(labels_of(label, separator))
    # Texts that stand with several labels, and repetitions.
    filled = np.ones(len(hashes[0]), dtype=bool)
    filled[list(window.faults["empty"])] = False
    kept = np.flatnonzero(filled)
    texts, labels = (np.asarray(some)[kept] for some in hashes)
    first = dict(zip(*map(np.ndarray.tolist, duplicates(texts)), strict=True))
    conflicting = conflicts(texts, labels)
    for i in np.flatnonzero(conflicting).tolist():
        other = f"as {tally.unit} {window.numbers[kept[first[i]]]}, " if i in first else ""
        window.faults["conflict"][int(kept[i])] = f"{other}with another label elsewhere"
    for i, original in first.items():
        if not conflicting[i]:
            window.faults["duplicate"][int(kept[i])] = f"as {tally.unit} {window.numbers[kept[original]]}"
    tally.add(window)
    n_texts = tally.n - n_of_label.pop("", 0)
    lines = [
        f"{label!r}: {n:,} ({100 * n / n_texts:.1f} %)" for label, n in n_of_label.most_common(_MAX_SHOWN)
    ]
    if len(n_of_label) > _MAX_SHOWN:
        lines.append(f"and {len(n_of_label) - _MAX_SHOWN:,} more labels")
    tally.summarise("labels", lines, count=len(n_of_label))


# Chunks and windows


def read(corpus: Corpus, progress: Progress, troubles: list[DataError]) -> Iterator[list[Numbered]]:
    """Yield all that can be read, in chunks; why a corpus breaks off is added to `troubles`.

    DataError: nothing can be read, or there is no text.
    """
    chunk: list[Numbered] = []
    is_usable, n_characters, n_read = False, 0, 0
    try:
        for one in corpus.numbered():
            is_usable = is_usable or has_text(one.texts)
            chunk.append(one)
            n_read += 1
            n_characters += sum(map(len, one.texts))
            if len(chunk) == CHUNK or n_characters >= CHUNK_CHARACTERS:
                yield chunk
                progress("reading", n_read)
                chunk, n_characters = [], 0
    except DataError as error:
        if not is_usable:
            raise
        troubles.append(error)
    if chunk:
        yield chunk
        progress("reading", n_read)


Window = list[list[Numbered]]
"""Consecutive pairs, in chunks."""


def size_of(window: Window) -> int:
    """Return the number of pairs in a window."""
    return sum(map(len, window))


def windows(chunks: Iterable[list[Numbered]]) -> Iterator[Window]:
    """Cut into windows of WINDOW pairs; the last of several has at least TAIL."""
    window: Window = []
    following: Window = []
    for chunk in chunks:
        (window if size_of(window) < WINDOW else following).append(chunk)
        if size_of(following) >= TAIL:
            yield window
            window, following = following, []
    if window:
        yield window + following


# A window


@dataclass
class Examined:
    """What is wrong with consecutive records, by their indices from 0."""

    numbers: array[int] = field(default_factory=partial(array, "I"))
    faults: dict[str, dict[int, str]] = field(default_factory=lambda: {kind: {} for kind in KINDS})
    """By kind: what is wrong about each record that has such a fault."""
    similarity: dict[int, float] = field(default_factory=dict)
    """How similar the records of overlap-near are to a text of valid or test."""
    hashes: tuple[np.ndarray, ...] = ()
    """Of each source, of each target, and of both but for case, punctuation and digits."""
    whole: dict[str, list[str]] = field(default_factory=dict)
    """What was said about all of it, by kind; notes under ""."""
    stretches: tuple[AlignedStretch, ...] = ()

    def add(self, chunk: Sequence[Numbered], checks: Mapping[str, Check], held: HeldOutIndex | None) -> None:
        """Add the next records, with what can be seen in each alone."""
        start = len(self.numbers)
        for kind, check in checks.items():
            faults = self.faults[kind]
            for index, (_, texts) in enumerate(chunk, start):
                if detail := check(*texts):
                    faults[index] = detail
        if held is not None:
            held.look_up(start, chunk, self.faults, self.similarity)
        self.numbers.extend(one.number for one in chunk)


@dataclass(frozen=True)
class Examination:
    """Finds what is wrong with the pairs of a window, by all that they tell about one another."""

    langs: tuple[str | None, str | None]
    thresholds: Mapping[str, float]
    unit: str
    held: HeldOutIndex | None
    """Texts that must not be among them."""

    def __call__(self, window: Window, doing: Callable[[str], None]) -> Examined:
        """Examine a window; `doing` is told what with."""
        examined, readers = Examined(), (SideReader(), SideReader())
        for chunk in window:
            examined.add(chunk, PAIR_CHECKS, self.held)
            for i, reader in enumerate(readers):
                reader.add(one.texts[i] for one in chunk)
        faults = examined.faults
        src, tgt = (reader.side() for reader in readers)
        examined.hashes = src.hashes, tgt.hashes, combine((src.near_hashes, tgt.near_hashes))
        doing("lengths")
        deviations = length_deviations(src, tgt)
        doing("languages")
        languages = check_languages(src, tgt, langs=self.langs)
        faults.update(languages.lines)
        doing("alignment")
        alignment = check_alignment(src, tgt)
        examined.stretches = alignment.stretches
        for stretch in alignment.stretches:
            shifted = set(range(stretch.start, stretch.end)).difference(faults["empty"])
            what = _describe_stretch(stretch, examined.numbers, self.unit)
            faults["shifted"] |= dict.fromkeys(shifted, what)
        few = [f"lengths were not judged: fewer than {MIN_LINES} pairs"] if len(src) < MIN_LINES else []
        notes = [*few, *languages.notes, *alignment.notes]
        examined.whole = {"": notes, "languages": languages.whole, "unaligned": []}
        if alignment.separation is not None and len(src) >= UNALIGNED_FROM:
            share = f"{100 * alignment.separation:.0f} %"
            examined.whole["unaligned"].append(f"a pair is more alike than a random one in {share} of cases")
        explained = _drop_explained(faults)
        deviations[explained] = 0.0
        alignment.probability[explained] = 1.0
        for i in self._exceeding("length", np.abs(deviations)):
            side = "target" if deviations[i] > 0 else "source"
            off = f"{src.lengths[i]} : {tgt.lengths[i]} characters, {abs(deviations[i]):.0f} deviations off"
            faults["length"][i] = f"{side} too long, {off}"
        for i in self._exceeding("unrelated", alignment.probability):
            percent = f"{100 * alignment.probability[i]:.0f} %"
            faults["unrelated"][i] = f"a translation with a probability of {percent}"
        similarity = np.zeros(len(src))
        similarity[list(examined.similarity)] = list(examined.similarity.values())
        near = self._exceeding("overlap-near", similarity)
        faults["overlap-near"] = {i: faults["overlap-near"][i] for i in near}
        return examined

    def _exceeding(self, kind: str, values: np.ndarray) -> list[int]:
        """Return the pairs whose value is a fault at the threshold of the kind."""
        return np.flatnonzero(THRESHOLDS[kind].exceeded(values, self.thresholds[kind])).tolist()

    def in_worker(self, _: int) -> Callable[[Window, Tick], Examined]:
        """Return the work of a worker process."""
        return lambda window, tick: self(window, lambda doing: None)


def examine(
    stream: Iterator[Window], examination: Examination, *, n_workers: int, progress: Progress
) -> Iterator[Examined]:
    """Examine all windows, in their order; in processes if there are several windows and workers.

    RunError: a worker died.
    """
    first = list(islice(stream, min(n_workers, 2)))
    if len(first) > 1:
        remedy = "nothing was written; fewer --workers need less memory"
        work, stream = examination.in_worker, chain(first, stream)
        yield from in_order(work, stream, n_workers=n_workers, tick=lambda n: None, remedy=remedy)
        return
    n = 0
    for window in chain(first, stream):
        n += size_of(window)
        yield examination(window, lambda doing, n=n: progress(doing, n))  # type: ignore[misc]


def _drop_explained(faults: dict[str, dict[int, str]]) -> list[int]:
    """Forget faults of pairs that others of theirs explain; return the pairs with such an explanation."""
    for index in faults["identical"]:
        faults["language"].pop(index, None)
    explained = sorted({index for kind in _EXPLAINING for index in faults[kind]})
    for index in explained:
        faults["numbers"].pop(index, None)
        faults["addresses"].pop(index, None)
    return explained


def _describe_stretch(stretch: AlignedStretch, numbers: Sequence[int], unit: str) -> str:
    """Where a stretch of lines begins and ends, and where its translations are."""
    first, last = numbers[stretch.start], numbers[stretch.end - 1]
    where = f"{unit} {first}" if first == last else f"{unit}s {first} to {last}"
    if stretch.shift == NOWHERE:
        return f"{where}: no translation near"
    direction = "below" if stretch.shift > 0 else "above"
    return f"{where}: the target of a source is {counted(abs(stretch.shift), unit)} {direction}"


# The whole corpus


class Tally:
    """The faults of a whole corpus: for each record a bit by kind, for some of them what is wrong."""

    def __init__(self, unit: str, n_examples: int) -> None:
        self.unit, self._n_examples = unit, n_examples
        self.troubles: list[DataError] = []
        """Why the corpus cannot be read to its end."""
        self._numbers, self._masks = array("I"), array("I")
        self._hashes = array("q"), array("q"), array("Q")
        """As `Examined.hashes`."""
        self._windows: list[tuple[int, int, dict[str, list[str]]]] = []
        """Where each window begins and ends, and what was said about it as a whole."""
        self._stretches: list[AlignedStretch] = []
        self._details: dict[str, list[tuple[int, str]]] = {kind: [] for kind in KINDS}
        self._strides = dict.fromkeys(KINDS, 1)
        self._summaries: dict[str, list[str]] = {kind: [] for kind in KINDS}
        self._counts = dict.fromkeys(KINDS, 0)
        """Where not pairs are counted."""

    @property
    def n(self) -> int:
        """The number of records so far."""
        return len(self._numbers)

    def summarise(self, kind: str, facts: Iterable[str], *, count: int = 0) -> None:
        """Add facts about the whole; and their number, where there are no lines to count."""
        self._summaries[kind].extend(facts)
        self._counts[kind] += count

    def add(self, window: Examined) -> None:
        """Add the next window."""
        start = self.n
        mask = np.zeros(len(window.numbers), dtype=np.uint32)
        for kind, details in window.faults.items():
            mask[list(details)] |= _BITS[kind]
            # Every finding of the first window is kept, and at equal distances those of a long corpus.
            kept = self._details[kind]
            while len(kept) > max(_MIN_KEPT, 2 * self._n_examples):
                kept[:], self._strides[kind] = kept[::2], 2 * self._strides[kind]
            kept += [(start + i, details[i]) for i in sorted(details)[:: self._strides[kind]]]
        for stretch in window.stretches:
            here = AlignedStretch(start + stretch.start, start + stretch.end, stretch.shift)
            if self._stretches and self._stretches[-1][1:] == (here.start, here.shift):
                here = here._replace(start=self._stretches.pop().start)
            self._stretches.append(here)
        self._masks.frombytes(mask.tobytes())
        self._numbers.extend(window.numbers)
        for kept_hashes, hashes in zip(self._hashes, window.hashes, strict=False):  # of pairs
            kept_hashes.frombytes(hashes.tobytes())
        self._windows.append((start, self.n, window.whole))

    def mark(self, kind: str, indices: np.ndarray, what: str, values: np.ndarray | None = None) -> None:
        """Add faults that only the whole tells; `what` is wrong, with the value of each in place of {}."""
        np.asarray(self._masks)[indices] |= _BITS[kind]
        for k in _spread(range(len(indices)), self._n_examples):
            detail = what if values is None else what.format(values[k])
            self._details[kind].append((int(indices[k]), detail))

    def judge_whole(self) -> list[str]:
        """Add repetitions, and windows unlike all others; return what could not be judged, and where."""
        numbers = self._numbers
        self.summarise("shifted", (_describe_stretch(s, numbers, self.unit) for s in self._stretches))
        places = [""]
        if len(self._windows) > 1:
            places = [f"{self.unit}s {numbers[i]} to {numbers[j - 1]}: " for i, j, _ in self._windows]
        parts = list(zip(places, self._windows, strict=True))
        for kind, marked in (("languages", "language"), ("unaligned", "shifted")):
            n_wrong = sum(bool(whole[kind]) for _, (_, _, whole) in parts)
            for place, (start, end, whole) in parts:
                facts = [f"{place}{fact}" for fact in whole[kind]]
                self.summarise(kind, facts, count=len(facts))
                if facts and n_wrong < len(parts):  # others show that the corpus is not so as a whole
                    self.mark(marked, np.arange(start, end), facts[0])
        self._mark_repetitions()
        return [f"{place}{note}" for place, (_, _, whole) in parts for note in whole[""]]

    def _mark_repetitions(self) -> None:
        """Add pairs that occurred before, wholly or nearly, by hashes."""
        src, tgt, near = map(np.asarray, self._hashes)
        numbers, earlier = np.asarray(self._numbers), f"as {self.unit} {{}}"
        is_distinct = (src != hash_of("")) & (tgt != hash_of(""))
        for kind, hashes in (("duplicate", (src, tgt)), ("duplicate-near", (near,))):
            for some in _partitions(hashes[0]):
                distinct = some[is_distinct[some]]
                among = duplicates(*(one[distinct] for one in hashes))
                repeats, firsts = (distinct[lines] for lines in among)
                is_distinct[repeats] = False
                self.mark(kind, repeats, earlier, numbers[firsts])

    def report(self, corpus: Corpus, notes: Iterable[str] = ()) -> Report:
        """Return the report, with examples spread over the corpus, which is read again for their texts."""
        self.summarise("unreadable", map(str, self.troubles), count=len(self.troubles))
        shown = {kind: _spread(sorted(some), self._n_examples) for kind, some in self._details.items()}
        requested = {i for some in shown.values() for i, _ in some}
        first = islice(corpus.numbered(), max(requested, default=-1) + 1)
        texts = {i: one for i, one in enumerate(first) if i in requested}
        findings = []
        for name, kind in KINDS.items():
            lines = np.asarray(self._numbers)[(np.asarray(self._masks) & _BITS[name]) != 0]
            if count := self._counts[name] or len(lines):
                examples = tuple(FaultyLine(*texts[i], detail) for i, detail in shown[name])
                findings.append(Finding(kind, lines, count, tuple(self._summaries[name]), examples))
        return Report(corpus.name, self.n, self.unit, tuple(findings), tuple(notes))


def _spread(items: Sequence[Any], n: int) -> list[Any]:
    """At most `n` of what was found, from the first on, at equal distances."""
    n = min(n, len(items))
    return [items[i * len(items) // n] for i in range(n)]


def _partitions(hashes: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the indices of equal hashes together, of about a million at a time."""
    lowest_bytes = hashes.view(np.uint8)[:: hashes.itemsize]
    n = min(1 + len(hashes) // _PARTITION, 256)
    for i in range(n):
        yield np.flatnonzero(lowest_bytes % n == i)
