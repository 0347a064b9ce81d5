"""Faults as they are counted: window by window, and in a few bytes a pair for the whole corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dragoman.data.doctor.findings import KINDS, Example, Finding, Sample, Survey, threshold_of
from dragoman.data.doctor.reading import Numbered, chosen

_BITS = {kind: np.uint32(1 << i) for i, kind in enumerate(KINDS)}
_GRADED = tuple(name for name, kind in KINDS.items() if kind.threshold)
_MIN_KEPT = 1000  # findings of a kind that are remembered with what is wrong, at least
_N_SAMPLES = 3  # of a survey for each step between thresholds
_N_SURVEYED = 20  # findings of a kind without threshold in a survey


class Faults:
    """What was found in a window: by kind, the indices of pairs, from 0, and what is wrong about each."""

    def __init__(self) -> None:
        self.by_kind: dict[str, dict[int, str]] = {kind: {} for kind in KINDS}
        self.values: dict[str, np.ndarray] = {}
        """Of kinds with a threshold, for each pair."""

    def add(self, kind: str, index: int, detail: str) -> None:
        self.by_kind[kind][index] = detail

    def remove(self, kind: str, indices: Iterable[int]) -> None:
        """Forget what has a better explanation."""
        for index in indices:
            self.by_kind[kind].pop(index, None)


class Tally:
    """The faults of a whole corpus: for each pair a bit by kind, for some of them what is wrong."""

    def __init__(self, n_examples: int, *, with_survey: bool = False) -> None:
        self._n_examples, self._with_survey = n_examples, with_survey
        self._n_kept = max(n_examples, _N_SURVEYED) if with_survey else n_examples
        self._numbers: list[np.ndarray] = []
        self._masks: list[np.ndarray] = []
        self._details: dict[str, list[tuple[int, str]]] = {kind: [] for kind in KINDS}
        self._strides = dict.fromkeys(KINDS, 1)
        self._grades: dict[str, list[np.ndarray]] = {kind: [] for kind in _GRADED}
        self._sampled: dict[tuple[str, int], list[tuple[float, int, float]]] = {}
        self._rng = np.random.default_rng(1)
        self.n = 0
        self.summaries: dict[str, list[str]] = {}
        self.counts: dict[str, int] = {}
        """Where not pairs are counted."""

    def summarise(self, kind: str, facts: Iterable[str], *, count: int | None = None) -> None:
        """Add facts about the whole; and their number, where there are no lines to count."""
        self.summaries.setdefault(kind, []).extend(facts)
        if count is not None:
            self.counts[kind] = self.counts.get(kind, 0) + count

    def add(self, faults: Faults, numbers: Sequence[int] | np.ndarray) -> None:
        """Add a window and the numbers of its pairs."""
        mask = np.zeros(len(numbers), dtype=np.uint32)
        for kind, found in faults.by_kind.items():
            mask[np.fromiter(found, dtype=np.int64, count=len(found))] |= _BITS[kind]
            self._remember(kind, [(self.n + i, found[i]) for i in sorted(found)])
        if self._with_survey:
            for kind in _GRADED:
                self._grade(kind, faults.values.get(kind), len(numbers))
        self._masks.append(mask)
        self._numbers.append(np.array(numbers, dtype=np.uint32))
        self.n += len(numbers)

    def _remember(self, kind: str, found: list[tuple[int, str]]) -> None:
        """Keep every finding of the first window, and at equal distances those of a long corpus."""
        kept = self._details[kind]
        while len(kept) > max(_MIN_KEPT, 2 * self._n_kept):
            kept[:], self._strides[kind] = kept[::2], 2 * self._strides[kind]
        kept.extend(found[:: self._strides[kind]])

    def _grade(self, kind: str, values: np.ndarray | None, n: int) -> None:
        grades = np.zeros(n, dtype=np.uint8) if values is None else threshold_of(kind).grades(values)
        self._grades[kind].append(grades)
        graded = np.flatnonzero(grades)
        if values is None or not len(graded):
            return
        keys = self._rng.random(len(graded))
        order = graded[np.lexsort((keys, grades[graded]))]
        starts = np.searchsorted(grades[order], np.unique(grades[order]))
        for start in starts.tolist():
            grade = int(grades[order[start]])
            some = [i for i in order[start : start + _N_SAMPLES].tolist() if grades[i] == grade]
            kept = self._sampled.setdefault((kind, grade), [])
            kept.extend((float(self._rng.random()), self.n + i, float(values[i])) for i in some)
            kept[:] = sorted(kept)[:_N_SAMPLES]

    def mark(self, kind: str, indices: np.ndarray, describe: Callable[[int], str]) -> None:
        """Add faults that only the whole corpus tells; `describe(k)` says what is wrong with the k-th."""
        whole = self._whole(self._masks)
        whole[indices] |= _BITS[kind]
        shown = _spread(range(len(indices)), self._n_kept)
        self._details[kind] += [(int(indices[k]), describe(k)) for k in shown]

    @property
    def numbers(self) -> np.ndarray:
        """The number of each pair."""
        return self._whole(self._numbers)

    @staticmethod
    def _whole(parts: list[np.ndarray]) -> np.ndarray:
        """Return the one array that `parts` become."""
        if len(parts) != 1:
            parts[:] = [np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint32)]
        return parts[0]

    def lines(self, kind: str) -> np.ndarray:
        """Return the numbers of the pairs with that fault."""
        return self.numbers[(self._whole(self._masks) & _BITS[kind]) != 0]

    def findings(self, reread: Callable[[], Iterable[Numbered]]) -> tuple[tuple[Finding, ...], Survey | None]:
        """Return a finding for each kind of fault there is, with examples spread over the corpus."""
        found = {kind: sorted(details) for kind, details in self._details.items()}
        shown = {kind: _spread(details, self._n_examples) for kind, details in found.items()}
        sampled = self._samples(found) if self._with_survey else []
        wanted = [i for some in shown.values() for i, _ in some] + [one[3] for one in sampled]
        texts = chosen(reread(), wanted)
        findings = []
        for name, kind in KINDS.items():
            lines = self.lines(name)
            if count := self.counts.get(name, len(lines)):
                examples = tuple(Example(*texts[i], detail) for i, detail in shown[name])
                findings.append(Finding(kind, lines, count, tuple(self.summaries.get(name, ())), examples))
        if not self._with_survey:
            return tuple(findings), None
        samples = tuple(
            Sample(kind, grade, value, Example(*texts[i], detail))
            for kind, grade, value, i, detail in sampled
        )
        return tuple(findings), Survey(tuple(self._combinations()), samples)

    def _samples(self, found: Mapping[str, list[tuple[int, str]]]) -> list[tuple[str, int, float, int, str]]:
        """Return kind, grade, value and index of some pairs, and what is wrong about them."""
        graded = [
            (kind, grade, value, i, "")
            for (kind, grade), kept in sorted(self._sampled.items())
            for _, i, value in kept
        ]
        others = [(kind, _spread(found[kind], _N_SURVEYED)) for kind in KINDS if kind not in _GRADED]
        return graded + [(kind, 0, 0.0, i, detail) for kind, some in others for i, detail in some]

    def _combinations(self) -> Iterator[tuple[tuple[str, ...], dict[str, int], int]]:
        codes = self._whole(self._masks).astype(np.uint64)
        for i, kind in enumerate(_GRADED):
            codes &= ~np.uint64(_BITS[kind])
            codes |= self._whole(self._grades[kind]).astype(np.uint64) << np.uint64(32 + 8 * i)
        for code, count in zip(*map(np.ndarray.tolist, np.unique(codes, return_counts=True)), strict=True):
            kinds = tuple(kind for kind, bit in _BITS.items() if code & int(bit))
            grades = {kind: code >> (32 + 8 * i) & 255 for i, kind in enumerate(_GRADED)}
            yield kinds, {kind: grade for kind, grade in grades.items() if grade}, count


def _spread(found: Sequence[Any], n: int) -> list[Any]:
    """At most `n` of what was found, from the first on, at equal distances."""
    n = min(n, len(found))
    return [found[i * len(found) // n] for i in range(n)]
