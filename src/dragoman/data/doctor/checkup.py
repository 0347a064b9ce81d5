"""Everything together: a corpus becomes a report."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from dragoman.data.corpora import Corpus
from dragoman.data.doctor.alignment import NOWHERE, Alignment, Stretch, check_alignment
from dragoman.data.doctor.content import PAIR_CHECKS
from dragoman.data.doctor.findings import KINDS, Example, Finding, Report
from dragoman.data.doctor.language import check_languages
from dragoman.data.doctor.overlap import HeldOut
from dragoman.data.doctor.reading import Numbered, Reading, chosen, numbered_pairs, unit_of
from dragoman.data.doctor.statistics import (
    LENGTH_OUTLIER,
    MIN_LINES,
    duplicates,
    length_deviations,
    with_several,
)
from dragoman.data.doctor.words import Side, SideReader
from dragoman.data.readers.files import hash_text

Progress = Callable[[str, int], None]
"""Told what is being done, and how many pairs have been read."""

N_EXAMPLES = 5
UNALIGNED_FROM = 1000
"""Pairs from which a corpus whose sides do not fit is called so; fewer may not teach what fits."""

_WRONG_TEXT = ("empty", "identical", "swapped", "script", "language", "encoding")
"""Faults that make other ones of the same pair likely."""


def silent(doing: str, n_read: int) -> None:
    """Say nothing."""


class Faults:
    """What was found: by kind, the indices of pairs, from 0, and what is wrong about each."""

    def __init__(self) -> None:
        self.by_kind: dict[str, dict[int, str]] = {kind: {} for kind in KINDS}
        self.summaries: dict[str, list[str]] = {}
        self.counts: dict[str, int] = {}
        """Where not pairs are counted."""

    def add(self, kind: str, index: int, detail: str) -> None:
        self.by_kind[kind][index] = detail

    def summarise(self, kind: str, said: Iterable[str], *, count: int | None = None) -> None:
        """Facts about the whole; and their number, where there are no lines to count."""
        self.summaries.setdefault(kind, []).extend(said)
        if count is not None:
            self.counts[kind] = count

    def remove(self, kind: str, indices: Iterable[int]) -> None:
        """Forget what has a better explanation."""
        for index in indices:
            self.by_kind[kind].pop(index, None)


def check_corpus(
    corpus: Corpus,
    *,
    src_lang: str | None = None,
    tgt_lang: str | None = None,
    held_out: Mapping[str, Corpus] | None = None,
    earlier: Mapping[str, Corpus] | None = None,
    n_examples: int = N_EXAMPLES,
    progress: Progress = silent,
) -> Report:
    """Check a parallel corpus, without changing it.

    `held_out` are the corpora for validation and test, by name, that `corpus` must not overlap with, and
    `earlier` other corpora to train on, whose pairs it should not repeat. A
    corpus that cannot be read to its end is checked as far as it goes. DataError: it cannot be read at
    all, or has no text; or one that is held out cannot.
    """
    faults = Faults()
    numbers = array("q")
    sides = (SideReader(), SideReader())
    held = _open_held_out(held_out or {}, progress)
    known = {name: _pair_hashes(one.pairs()) for name, one in (earlier or {}).items()}
    reading = Reading(numbered_pairs(corpus))
    for chunk in reading.chunks():
        _check_pairs(chunk, len(numbers), faults)
        for i in (0, 1):
            sides[i].add(one.texts[i] for one in chunk)
        if held is not None:
            held.look_up(len(numbers), chunk)
        for name, hashes in known.items():
            own = _pair_hashes(one.texts for one in chunk)
            for i in np.flatnonzero(np.isin(own, hashes)).tolist():
                faults.add("duplicate-across", len(numbers) + i, f"stands in {name}, too")
        numbers.extend(one.number for one in chunk)
        progress("reading", len(numbers))
    if held is not None:
        faults.by_kind["overlap"], faults.by_kind["overlap-near"] = held.exact, held.near
    line_numbers = np.array(numbers, dtype=np.int64)
    unit = unit_of(corpus)
    notes = _check_whole(
        sides[0].side(), sides[1].side(), faults, (src_lang, tgt_lang), line_numbers, unit, progress
    )
    if reading.trouble is not None:
        faults.summarise("unreadable", [str(reading.trouble)], count=1)
    findings = make_findings(faults, line_numbers, lambda: numbered_pairs(corpus), n_examples)
    return Report(corpus.name, len(numbers), unit, findings, (*corpus.notes(), *notes))


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


def _check_pairs(chunk: Sequence[Numbered], start: int, faults: Faults) -> None:
    """Add what can be seen in each pair alone."""
    for kind, check in PAIR_CHECKS.items():
        found = faults.by_kind[kind]
        for index, (_, (src, tgt)) in enumerate(chunk, start):
            if detail := check(src, tgt):
                found[index] = detail


def _check_whole(
    src: Side,
    tgt: Side,
    faults: Faults,
    langs: tuple[str | None, str | None],
    numbers: np.ndarray,
    unit: str,
    progress: Progress,
) -> list[str]:
    """Add what only the whole corpus tells; note on what could not be judged."""
    progress("repetitions and lengths", len(numbers))
    _add_repetitions(src, tgt, faults, numbers, unit)
    _add_lengths(src, tgt, faults)
    progress("languages", len(numbers))
    languages = check_languages(src, tgt, langs=langs)
    for kind, lines in languages.lines.items():
        faults.by_kind[kind] = lines
    if languages.whole:
        faults.summarise("languages", languages.whole, count=len(languages.whole))
    progress("alignment", len(numbers))
    alignment = check_alignment(src, tgt)
    _add_alignment(alignment, faults, numbers, unit)
    _forget_consequences(faults)
    few = f"lengths were not judged: {len(numbers)} pairs are fewer than {MIN_LINES}"
    return [*([few] if len(numbers) < MIN_LINES else []), *languages.notes, *alignment.notes]


def _add_repetitions(src: Side, tgt: Side, faults: Faults, numbers: np.ndarray, unit: str) -> None:
    empty = faults.by_kind["empty"]
    for index, first in duplicates(src.hashes, tgt.hashes).items():
        if index not in empty:
            faults.add("duplicate", index, f"as {unit} {numbers[first]}")
    filled = np.ones(len(src), dtype=bool)
    filled[list(empty)] = False
    kept = np.flatnonzero(filled)
    lines, n_targets = with_several(src.hashes[kept], tgt.hashes[kept])
    for index, n in zip(kept[lines].tolist(), n_targets.tolist(), strict=True):
        faults.add("several-targets", index, f"{n} different targets")
    n_sources = len(np.unique(src.hashes[kept[lines]]))
    if n_sources:
        faults.summarise(
            "several-targets", [f"{n_sources:,} sources, {len(lines):,} targets"], count=n_sources
        )


def _add_lengths(src: Side, tgt: Side, faults: Faults) -> None:
    deviations = length_deviations(src, tgt)
    for index in np.flatnonzero(np.abs(deviations) > LENGTH_OUTLIER).tolist():
        side = "target" if deviations[index] > 0 else "source"
        lengths = f"{src.lengths[index]} : {tgt.lengths[index]} characters"
        faults.add(
            "length", index, f"{side} too long, {lengths}, {abs(deviations[index]):.0f} deviations off"
        )


def _add_alignment(alignment: Alignment, faults: Faults, numbers: np.ndarray, unit: str) -> None:
    for stretch in alignment.stretches:
        said = describe_stretch(stretch, numbers, unit)
        faults.summarise("shifted", [said])
        for index in range(stretch.start, stretch.end):
            if index not in faults.by_kind["empty"]:
                faults.add("shifted", index, said)
    for index, p in zip(alignment.unrelated.tolist(), alignment.probability.tolist(), strict=True):
        faults.add("unrelated", index, f"a translation with a probability of {100 * p:.0f} %")
    if alignment.separation is not None and len(numbers) >= UNALIGNED_FROM:
        said = f"a pair is more alike than a random one in {100 * alignment.separation:.0f} % of cases"
        faults.summarise("unaligned", [said], count=1)


def describe_stretch(stretch: Stretch, numbers: np.ndarray, unit: str) -> str:
    """Where a stretch of lines begins and ends, and where its translations are."""
    first, last = numbers[stretch.start], numbers[stretch.end - 1]
    where = f"{unit} {first}" if first == last else f"{unit}s {first} to {last}"
    if stretch.shift == NOWHERE:
        return f"{where}: no translation near"
    n = abs(stretch.shift)
    direction = "below" if stretch.shift > 0 else "above"
    return f"{where}: the target of a source is {n} {unit}{'s' if n > 1 else ''} {direction}"


def _forget_consequences(faults: Faults) -> None:
    """Leave out what another finding explains."""
    faults.remove("language", list(faults.by_kind["identical"]))
    shifted = faults.by_kind["shifted"]
    for kind in ("length", "numbers", "addresses", "unrelated"):
        faults.remove(kind, shifted)
    for wrong in _WRONG_TEXT:
        for kind in ("length", "numbers", "addresses", "unrelated"):
            faults.remove(kind, faults.by_kind[wrong])


def make_findings(
    faults: Faults,
    numbers: np.ndarray,
    reread: Callable[[], Iterable[Numbered]],
    n_examples: int,
) -> tuple[Finding, ...]:
    """Return a finding for each kind of fault there is, with examples spread over the corpus."""
    shown = {kind: _spread(sorted(found), n_examples) for kind, found in faults.by_kind.items() if found}
    texts = chosen(reread(), (index for indices in shown.values() for index in indices))
    findings = []
    for name, kind in KINDS.items():
        found = faults.by_kind[name]
        count = faults.counts.get(name, len(found))
        if count:
            examples = tuple(Example(texts[i].number, texts[i].texts, found[i]) for i in shown.get(name, ()))
            lines = numbers[np.array(sorted(found), dtype=np.int64)]
            findings.append(Finding(kind, lines, count, tuple(faults.summaries.get(name, ())), examples))
    return tuple(findings)


def _spread(indices: Sequence[int], n: int) -> list[int]:
    """At most `n` of the indices, from the first on, at equal distances."""
    n = min(n, len(indices))
    return [indices[i * len(indices) // n] for i in range(n)]
