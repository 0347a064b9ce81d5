"""Everything together: a corpus becomes a report. Pairs are judged in windows, here or in other processes."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from dragoman.data.corpora import Corpus
from dragoman.data.doctor.alignment import NOWHERE, AlignedStretch, check_alignment
from dragoman.data.doctor.content import PAIR_CHECKS, is_visible, markup, mixed_scripts
from dragoman.data.doctor.encoding import damage
from dragoman.data.doctor.findings import Faults, Report, Tally, threshold_of, thresholds_of
from dragoman.data.doctor.language import check_languages
from dragoman.data.doctor.overlap import HeldOutIndex
from dragoman.data.doctor.reading import (
    Numbered,
    Progress,
    Texts,
    numbered,
    read,
    unit_of,
    windows,
)
from dragoman.data.doctor.words import (
    MIN_LINES,
    NumberedSide,
    SideReader,
    combine,
    duplicates,
    hash_of,
    length_deviations,
    with_several,
)
from dragoman.data.labelled import LabelledCorpus, labels_of
from dragoman.data.readers.files import hash_text
from dragoman.errors import DataError, counted
from dragoman.processes import Tick, in_order

N_EXAMPLES = 5
_PARTITION = 1_000_000  # hashes that are sorted at a time
UNALIGNED_FROM = 1000
"""Pairs from which a corpus whose sides do not fit is called so; fewer may not teach what fits."""

_WRONG_TEXT = ("empty", "identical", "swapped", "script", "language", "encoding")
"""Faults that make other ones of the same pair likely."""
_MAX_SHOWN = 20  # labels that are listed


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
    progress: Progress = lambda doing, n_read: None,
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
        held=_open_held_out(held_out or {}, ("source", "target"), progress),
        earlier={name: pair_hashes(one.pairs()) for name, one in (earlier or {}).items()},
    )
    tally, whole = Tally(n_examples, with_survey=with_survey), _Whole(unit)
    troubles: list[DataError] = []
    packed = windows(read(numbered(corpus), progress, troubles))
    for examined in examine(packed, examination, n_workers=n_workers, progress=progress):
        whole.add(examined, tally)
    progress("repetitions", tally.n)
    whole.conclude(tally)
    tally.summarise("unreadable", map(str, troubles), count=len(troubles))
    notes = (*corpus.notes(), *whole.notes())  # before examples are read again, which need not read it all
    findings, survey = tally.findings(lambda: numbered(corpus))
    return Report(corpus.name, tally.n, unit, findings, notes, survey)


def _open_held_out(
    corpora: Mapping[str, Corpus] | Mapping[str, LabelledCorpus], sides: Sequence[str], progress: Progress
) -> HeldOutIndex | None:
    if not corpora:
        return None
    progress("reading valid and test", 0)
    by_name = {f"{name} {unit_of(corpus)}": numbered(corpus) for name, corpus in corpora.items()}
    return HeldOutIndex(by_name, sides)


class Examined(NamedTuple):
    """What a window came to."""

    numbers: np.ndarray
    faults: Faults
    """By the index of a pair, from 0."""
    hashes: tuple[np.ndarray, np.ndarray, np.ndarray]
    """Of each source, of each target, and of both but for case, punctuation and digits."""
    facts: dict[str, list[str]]
    """What was said about it as a whole, by kind; notes under ""."""
    stretches: tuple[AlignedStretch, ...]


@dataclass(frozen=True)
class Examination:
    """Finds what is wrong with the pairs of a window, by all that they tell about one another."""

    langs: tuple[str | None, str | None]
    thresholds: Mapping[str, float]
    unit: str
    held: HeldOutIndex | None
    """Texts that must not be among them."""
    earlier: Mapping[str, np.ndarray]
    """`pair_hashes` of other corpora, whose pairs they should not repeat, by name."""

    def __call__(self, texts: Texts, doing: Callable[[str], None]) -> Examined:
        """Examine a window, which is empty afterwards; `doing` is told what with."""
        window = _Window()
        for chunk in texts.chunks():
            window.add(chunk, self.held, self.earlier)
        n, faults = len(window.numbers), window.faults
        src, tgt = (reader.side() for reader in window.readers)
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
        for stretch in alignment.stretches:
            what = describe_stretch(stretch, window.numbers, self.unit)
            for index in range(stretch.start, stretch.end):
                if index not in faults.by_kind["empty"]:
                    faults.add("shifted", index, what)
        facts[""] += [*languages.notes, *alignment.notes]
        faults.remove("language", list(faults.by_kind["identical"]))
        faults.remove("numbers", _explained(faults))
        faults.remove("addresses", _explained(faults))
        _add_graded(faults, self.thresholds, deviations, src, tgt)
        hashes = src.hashes, tgt.hashes, combine((src.near_hashes, tgt.near_hashes))
        numbers = np.array(window.numbers, dtype=np.uint32)
        return Examined(numbers, faults, hashes, facts, alignment.stretches)

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
        self.readers = (SideReader(), SideReader())
        self._similar: dict[int, float] = {}

    def add(
        self, chunk: Sequence[Numbered], held: HeldOutIndex | None, earlier: Mapping[str, np.ndarray]
    ) -> None:
        start = len(self.numbers)
        for kind, check in PAIR_CHECKS.items():
            faults = self.faults.by_kind[kind]
            for index, (_, (src, tgt)) in enumerate(chunk, start):
                if detail := check(src, tgt):
                    faults[index] = detail
        for i in (0, 1):
            self.readers[i].add(one.texts[i] for one in chunk)
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

    def similarities(self) -> np.ndarray:
        """How similar each pair is to the text of valid or test that it is nearly like; 0: to none."""
        values = np.zeros(len(self.numbers))
        values[list(self._similar)] = list(self._similar.values())
        return values


def _explained(faults: Faults) -> set[int]:
    """Return the pairs whose other faults are consequences."""
    return {i for kind in ("shifted", *_WRONG_TEXT) for i in faults.by_kind[kind]}


def _add_graded(
    faults: Faults,
    thresholds: Mapping[str, float],
    deviations: np.ndarray,
    src: NumberedSide,
    tgt: NumberedSide,
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


def describe_stretch(stretch: AlignedStretch, numbers: Sequence[int] | np.ndarray, unit: str) -> str:
    """Where a stretch of lines begins and ends, and where its translations are."""
    first, last = numbers[stretch.start], numbers[stretch.end - 1]
    where = f"{unit} {first}" if first == last else f"{unit}s {first} to {last}"
    if stretch.shift == NOWHERE:
        return f"{where}: no translation near"
    n = abs(stretch.shift)
    direction = "below" if stretch.shift > 0 else "above"
    return f"{where}: the target of a source is {counted(n, unit)} {direction}"


class _Whole:
    """What only the whole corpus tells, of what its windows came to."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._hashes: tuple[list[np.ndarray], ...] = ([], [], [])
        self._parts: list[tuple[int, int, dict[str, list[str]]]] = []
        """Where each window begins and ends, and what was said about it as a whole: `Examined.facts`."""
        self._stretches: list[AlignedStretch] = []
        self._places: list[str] = []
        """What to say in front of facts about each window; "" for the only one."""

    def add(self, window: Examined, tally: Tally) -> None:
        """Add the next window, to the tally as well."""
        for kept, some in zip(self._hashes, window.hashes, strict=True):
            kept.append(some)
        start = tally.n
        for stretch in window.stretches:
            here = AlignedStretch(start + stretch.start, start + stretch.end, stretch.shift)
            if self._stretches and self._stretches[-1][1:] == (here.start, here.shift):
                here = here._replace(start=self._stretches.pop().start)
            self._stretches.append(here)
        tally.add(window.faults, window.numbers)
        self._parts.append((start, tally.n, window.facts))

    def conclude(self, tally: Tally) -> None:
        """Add the facts about the whole, repetitions, and windows that are unlike all others."""
        if self._stretches:
            numbers = tally.numbers
            tally.summarise("shifted", (describe_stretch(s, numbers, self._unit) for s in self._stretches))
        numbers, several = tally.numbers, len(self._parts) > 1
        self._places = [
            f"{self._unit}s {numbers[start]} to {numbers[end - 1]}: " if several else ""
            for start, end, _ in self._parts
        ]
        for kind, marked in (("languages", "language"), ("unaligned", "shifted")):
            wrong = {i: facts[kind] for i, (_, _, facts) in enumerate(self._parts) if facts.get(kind)}
            for i, facts in wrong.items():
                lines = [f"{self._places[i]}{fact}" for fact in facts]
                tally.summarise(kind, lines, count=len(lines))
                if len(wrong) < len(self._parts):  # others show that the corpus is not so as a whole
                    tally.mark(marked, np.arange(*self._parts[i][:2]), partial(_same_for_all, lines[0]))
        src, tgt, near = map(self._take_hashes, range(3))
        _add_repetitions(src, tgt, near, tally, self._unit)

    def _take_hashes(self, i: int) -> np.ndarray:
        """Return the hashes of one kind of all windows, and forget them."""
        taken = np.concatenate(self._hashes[i])
        self._hashes[i].clear()
        return taken

    def notes(self) -> list[str]:
        """Return what could not be judged, and where."""
        parts = zip(self._places, self._parts, strict=True)
        return [f"{place}{note}" for place, (_, _, facts) in parts for note in facts[""]]


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
        facts = [f"{counted(n_sources, 'source')}, {n_lines:,} targets"]
        tally.summarise("several-targets", facts, count=n_sources)
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


def check_labelled(
    corpus: LabelledCorpus,
    *,
    held_out: Mapping[str, LabelledCorpus] | None = None,
    n_examples: int = N_EXAMPLES,
    progress: Progress = lambda doing, n_read: None,
) -> Report:
    """Check labelled text: as `check_corpus`, and equal texts with different labels."""
    faults, tally = Faults(), Tally(n_examples)
    numbers, texts, labels = array("q"), array("q"), array("q")
    n_of_label: Counter[str] = Counter()
    held = _open_held_out(held_out or {}, ("text",), progress)
    troubles: list[DataError] = []
    for chunk in read(numbered(corpus), progress, troubles):
        if held is not None:
            overlap = held.look_up(len(numbers), chunk)
            faults.by_kind["overlap"].update(overlap.exact)
            faults.by_kind["overlap-near"].update(overlap.near)
        for number, (text, label) in chunk:
            parts = {"text": text, "label": label or corpus.separator}
            missing = [f"no {name}" for name, part in parts.items() if not is_visible(part)]
            faulty = {"empty": " and ".join(missing), "encoding": damage(text)}
            faulty |= {"scripts": mixed_scripts(text), "markup": markup(text)}
            for kind in filter(faulty.get, faulty):
                faults.add(kind, len(numbers), faulty[kind])
            numbers.append(number)
            texts.append(hash(" ".join(text.split())))
            labels.append(hash(label))
            n_of_label.update(labels_of(label, corpus.separator))
    unit = unit_of(corpus)
    _add_repeated_texts(np.array(texts), np.array(labels), faults, np.array(numbers), unit)
    tally.add(faults, numbers)
    n_texts = len(numbers) - n_of_label.pop("", 0)
    lines = [
        f"{label!r}: {n:,} ({100 * n / n_texts:.1f} %)" for label, n in n_of_label.most_common(_MAX_SHOWN)
    ]
    if len(n_of_label) > _MAX_SHOWN:
        lines.append(f"and {len(n_of_label) - _MAX_SHOWN:,} more labels")
    tally.summarise("labels", lines, count=len(n_of_label))
    tally.summarise("unreadable", map(str, troubles), count=len(troubles))
    findings, _ = tally.findings(lambda: numbered(corpus))
    return Report(corpus.name, len(numbers), unit, findings)


def _add_repeated_texts(
    texts: np.ndarray, labels: np.ndarray, faults: Faults, numbers: np.ndarray, unit: str
) -> None:
    filled = np.ones(len(texts), dtype=bool)
    filled[list(faults.by_kind["empty"])] = False
    kept = np.flatnonzero(filled)
    first = dict(zip(*map(np.ndarray.tolist, duplicates(texts[kept])), strict=True))
    conflicting = np.isin(texts[kept], texts[kept][with_several(texts[kept], labels[kept])[0]])
    for i in np.flatnonzero(conflicting).tolist():
        other = f"as {unit} {numbers[kept[first[i]]]}, " if i in first else ""
        faults.add("conflict", int(kept[i]), f"{other}with another label elsewhere")
    for i, original in first.items():
        if not conflicting[i]:
            faults.add("duplicate", int(kept[i]), f"as {unit} {numbers[kept[original]]}")
