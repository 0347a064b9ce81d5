"""Faults as they are counted: window by window, and in a few bytes a pair for the whole corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dragoman.data.doctor.findings import KINDS, Example, Finding, Step, threshold_of
from dragoman.data.doctor.reading import Numbered, chosen

_BITS = {kind: np.uint32(1 << i) for i, kind in enumerate(KINDS)}
_GRADED = tuple(name for name, kind in KINDS.items() if kind.threshold)
_MIN_KEPT = 1000  # findings of a kind that are remembered with what is wrong, at least


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
        self._numbers: list[np.ndarray] = []
        self._masks: list[np.ndarray] = []
        self._details: dict[str, list[tuple[int, str]]] = {kind: [] for kind in KINDS}
        self._strides = dict.fromkeys(KINDS, 1)
        self._n_graded = {kind: np.zeros(256, dtype=np.int64) for kind in _GRADED}
        """Of kinds with a threshold, how many pairs have each grade."""
        self._sampled: dict[tuple[str, int], tuple[float, int, float]] = {}
        """A pair of each kind and grade: a random number that chose it, its index and its value."""
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
        for kind, details in faults.by_kind.items():
            mask[np.fromiter(details, dtype=np.int64, count=len(details))] |= _BITS[kind]
            self._remember(kind, [(self.n + i, details[i]) for i in sorted(details)])
        if self._with_survey:
            for kind, values in faults.values.items():
                self._grade(kind, values)
        self._masks.append(mask)
        self._numbers.append(np.array(numbers, dtype=np.uint32))
        self.n += len(numbers)

    def _remember(self, kind: str, details: list[tuple[int, str]]) -> None:
        """Keep every finding of the first window, and at equal distances those of a long corpus."""
        kept = self._details[kind]
        while len(kept) > max(_MIN_KEPT, 2 * self._n_examples):
            kept[:], self._strides[kind] = kept[::2], 2 * self._strides[kind]
        kept.extend(details[:: self._strides[kind]])

    def _grade(self, kind: str, values: np.ndarray) -> None:
        """Count the pairs of each grade, and draw one of each."""
        grades = threshold_of(kind).grades(values)
        graded = self._rng.permutation(np.flatnonzero(grades))
        self._n_graded[kind] += np.bincount(grades[graded], minlength=256)
        some, first = np.unique(grades[graded], return_index=True)
        for grade, i in zip(some.tolist(), graded[first].tolist(), strict=True):
            drawn = (float(self._rng.random()), self.n + i, float(values[i]))
            self._sampled[kind, grade] = min(drawn, self._sampled.get((kind, grade), drawn))

    def mark(self, kind: str, indices: np.ndarray, describe: Callable[[int], str]) -> None:
        """Add faults that only the whole corpus tells; `describe(k)` says what is wrong with the k-th."""
        whole = self._whole(self._masks)
        whole[indices] |= _BITS[kind]
        shown = _spread(range(len(indices)), self._n_examples)
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

    def findings(
        self, reread: Callable[[], Iterable[Numbered]]
    ) -> tuple[tuple[Finding, ...], dict[str, tuple[Step, ...]]]:
        """Return the survey, and a finding for each kind of fault, with examples spread over the corpus."""
        by_kind = {kind: sorted(details) for kind, details in self._details.items()}
        shown = {kind: _spread(details, self._n_examples) for kind, details in by_kind.items()}
        indices = [i for some in shown.values() for i, _ in some]
        texts = chosen(reread(), indices + [i for _, i, _ in self._sampled.values()])
        findings = []
        for name, kind in KINDS.items():
            lines = self.lines(name)
            if count := self.counts.get(name, len(lines)):
                examples = tuple(Example(*texts[i], detail) for i, detail in shown[name])
                findings.append(Finding(kind, lines, count, tuple(self.summaries.get(name, ())), examples))
        survey = {kind: tuple(self._steps(kind, texts)) for kind in _GRADED} if self._with_survey else {}
        return tuple(findings), survey

    def _steps(self, kind: str, texts: Mapping[int, Numbered]) -> Iterator[Step]:
        """Yield the thresholds that find more than the next stricter one, in the order of their values."""
        threshold, counts = threshold_of(kind), self._n_graded[kind]
        at_most = np.cumsum(counts)
        at_least = counts.sum() - at_most + counts
        for grade in np.flatnonzero(counts).tolist():
            _, i, value = self._sampled[kind, grade]
            count = int((at_most if threshold.is_upper else at_least)[grade])
            yield Step(threshold.first_with(grade), count, value, Example(*texts[i], ""))


def _spread(items: Sequence[Any], n: int) -> list[Any]:
    """At most `n` of what was found, from the first on, at equal distances."""
    n = min(n, len(items))
    return [items[i * len(items) // n] for i in range(n)]
