"""Which words translate which, learnt from the corpus itself: enough to tell a translation from another line.

IBM model 1 (Brown et al. 1993) over the first letters of words, which serve as stems. The corpus is halved,
and each half is judged by the lexicon of the other, so that no pair is its own witness.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dragoman.data.doctor.words import Bags, WordNumbers, ranges

_STEM = 4  # letters; found on the training parts of five corpora, where 4, 5, 6 and whole words were compared
_ROUNDS = 4
_NOTHING = 0.05  # weight of "no source word" against the source words
_MAX_COMBINATIONS = 3_000_000  # of a source and a target word in a line, per half: about 200 MB
_COMMON = 2048  # stems of a side that are met first, nine tenths of its words
_PART = 500_000  # combinations scored at a time


def stems_of(bags: Bags) -> Bags:
    """Return the words of each line, cut to their first letters: a stem may be in a line more than once."""
    numbers = WordNumbers()
    stem = np.array([numbers[word[:_STEM]] for word in bags.words], dtype=np.int32)
    return Bags(list(numbers), stem[bags.ids], bags.offsets)


class Combinations(NamedTuple):
    """Every source word of a line with every target word of the line beside it.

    For each: which of the pairs of lines it is from, and the positions of the words in `Bags.ids`.
    """

    pair: np.ndarray
    src: np.ndarray
    tgt: np.ndarray


def combine(src: np.ndarray, tgt: np.ndarray, i: np.ndarray, j: np.ndarray) -> Combinations:
    """Return the combinations of source lines `i` and target lines `j`.

    `src` and `tgt` are offsets of lines.
    """
    n_src, n_tgt = src[i + 1] - src[i], tgt[j + 1] - tgt[j]
    pair = np.repeat(np.arange(len(i), dtype=np.int32), n_src * n_tgt)
    position = ranges(np.zeros(len(i), dtype=np.int64), n_src * n_tgt).astype(np.int32)
    of_src, of_tgt = np.divmod(position, n_tgt.astype(np.int32)[pair])
    of_src += src[i].astype(np.int32)[pair]
    of_tgt += tgt[j].astype(np.int32)[pair]
    return Combinations(pair, of_src, of_tgt)


class _Half(NamedTuple):
    """What one half of the corpus taught: t(target | source) by key, and how frequent target stems are."""

    keys: np.ndarray
    probabilities: np.ndarray
    tgt_frequency: np.ndarray
    common: np.ndarray
    """(source, target): the same for those among the first _COMMON stems of each side, at hand at once."""


class AlignmentLexicon:
    """Scores pairs of lines by how well the words of one explain those of the other."""

    def __init__(
        self, src: Bags, tgt: Bags, partner: np.ndarray, *, half_of: np.ndarray, seed: int = 1
    ) -> None:
        """Learn from each source line i and target line `partner[i]`; negative where there is none.

        `half_of` says for each source line to which half, 0 or 1, it belongs.
        """
        self._src, self._tgt, self._half_of = src, tgt, half_of
        usable = (partner >= 0) & (src.sizes > 0)
        usable[usable] &= tgt.sizes[partner[usable]] > 0
        rng = np.random.default_rng(seed)
        self._halves = []
        for half in (0, 1):
            lines = np.flatnonzero(usable & (half_of == half))
            work = src.sizes[lines] * tgt.sizes[partner[lines]]
            order = rng.permutation(len(lines))
            chosen = np.sort(lines[order[np.cumsum(work[order]) <= _MAX_COMBINATIONS]])
            self._halves.append(self._learn(chosen, partner[chosen]))

    def _learn(self, i: np.ndarray, j: np.ndarray) -> _Half:
        combinations = combine(self._src.offsets, self._tgt.offsets, i, j)
        combined = self._keys(self._src.ids[combinations.src], self._tgt.ids[combinations.tgt])
        keys, key_of = np.unique(combined, return_inverse=True)
        slot = self._slots(combinations, j)
        del combinations, combined
        n_src = np.bincount(self._src.ids[_positions(self._src, i)], minlength=len(self._src.words))
        total = n_src[keys // len(self._tgt.words)] + 1.0  # discounted: a word seen once says little
        probabilities: np.ndarray = np.bincount(key_of, minlength=len(keys)) / total
        for _ in range(_ROUNDS):
            posterior = probabilities[key_of]
            posterior /= (np.bincount(slot, posterior) + _NOTHING)[slot]
            probabilities = np.bincount(key_of, posterior, minlength=len(keys)) / total
        n_tgt = np.bincount(self._tgt.ids[_positions(self._tgt, j)], minlength=len(self._tgt.words))
        rows, columns = np.divmod(keys, len(self._tgt.words))
        first = (rows < _COMMON) & (columns < _COMMON)
        common = np.zeros((min(_COMMON, len(self._src.words)), _COMMON))
        common[rows[first], columns[first]] = probabilities[first]
        return _Half(keys, probabilities, (n_tgt + 0.5) / max(1, len(i)), common)

    def scores(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """For source lines `i` beside target lines `j`: the mean log-ratio of a target word's probabilities,
        given the source line and without it. 0 where a side has no words.
        """
        scores = np.zeros(len(i))
        for half in (0, 1):
            mine = np.flatnonzero(self._half_of[i] == half)
            work = np.cumsum(self._src.sizes[i[mine]] * self._tgt.sizes[j[mine]])
            cuts = np.searchsorted(work, np.arange(_PART, work[-1] if len(work) else 0, _PART))
            for part in np.split(mine, cuts):
                scores[part] = self._score(self._halves[1 - half], i[part], j[part])
        return scores

    def _score(self, half: _Half, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        src, tgt = self._src, self._tgt
        sizes = tgt.sizes[j]
        words = tgt.ids[_positions(tgt, j)]
        explained: np.ndarray = np.zeros(len(words))
        if len(half.keys):
            combinations = combine(src.offsets, tgt.offsets, i, j)
            probabilities = self._probabilities(half, src.ids[combinations.src], tgt.ids[combinations.tgt])
            explained = np.bincount(self._slots(combinations, j), probabilities, minlength=len(words))
        pair = np.repeat(np.arange(len(i)), sizes)
        explained = explained / np.maximum(src.sizes[i], 1)[pair]
        frequency = half.tgt_frequency[words]
        logs = np.log(explained / frequency + 0.05)
        both = (src.sizes[i] > 0) & (sizes > 0)
        return np.where(both, np.bincount(pair, logs, minlength=len(i)) / np.maximum(sizes, 1), 0.0)

    def _keys(self, src: np.ndarray, tgt: np.ndarray) -> np.ndarray:
        """One number for each source stem with the target stem beside it."""
        return src.astype(np.int64) * len(self._tgt.words) + tgt

    def _slots(self, combinations: Combinations, j: np.ndarray) -> np.ndarray:
        """Return which word of the target lines `j` each combination is about, numbered through."""
        starts = np.cumsum(self._tgt.sizes[j]) - self._tgt.sizes[j] - self._tgt.offsets[j]
        return starts.astype(np.int32)[combinations.pair] + combinations.tgt

    def _probabilities(self, half: _Half, src: np.ndarray, tgt: np.ndarray) -> np.ndarray:
        """t(target | source) of each of these stems beside each other."""
        is_common = (src < _COMMON) & (tgt < _COMMON)
        probabilities = np.empty(len(src))
        probabilities[is_common] = half.common[src[is_common], tgt[is_common]]
        rare = ~is_common
        keys = self._keys(src[rare], tgt[rare])
        order = np.argsort(keys)  # looked up in their order, keys that follow each other are in the cache
        where = np.empty_like(order)
        where[order] = np.minimum(np.searchsorted(half.keys, keys[order]), len(half.keys) - 1)
        probabilities[rare] = np.where(half.keys[where] == keys, half.probabilities[where], 0.0)
        return probabilities


def _positions(stems: Bags, lines: np.ndarray) -> np.ndarray:
    """Where in `stems.ids` the words of these lines stand."""
    return ranges(stems.offsets[lines], stems.sizes[lines])
