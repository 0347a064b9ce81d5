"""Texts of valid or test that are in train as well: the same, or nearly the same.

The same: equal letters and digits, whatever their case, punctuation and spaces. Nearly the same: the sets of
their character sequences (four letters; two in scripts without spaces; twice that in long texts) have a
Jaccard similarity of at least 0.8. The search is exact: no two sets are that similar unless they share one of
their rarest sequences (prefix filtering, Chaudhuri et al. 2006; Xiao et al. 2008), so that only few pairs
have to be compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dragoman.data.doctor.words import UNSPACED, ranges
from dragoman.data.records import Numbered
from dragoman.text.normalisation import plain

SIMILAR = 0.8
"""Jaccard similarity from which texts count as nearly the same."""
MIN_SEQUENCES = 10
"""Texts with fewer different sequences are only compared for equality: a word decides too much there."""

_BASE = np.uint64(0x9E3779B97F4A7C15)  # odd, so that multiplying by it loses nothing

_UNSPACED = re.compile(f"[{UNSPACED}]")
_LONG = 300  # characters of a text, on average
_SKETCH_BITS = 256
_N_BITS = np.array([i.bit_count() for i in range(1 << 16)], dtype=np.uint8)
_HASH_BITS = 40  # of a sequence; the bits above them hold the number of its line


class Match(NamedTuple):
    """A text of train and the held-out text that it is like; `similarity` is 1 where they are the same."""

    line: int
    text: int
    similarity: float


class HeldOutTexts:
    """The texts of one side of valid and test, in which those of train are looked up."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._plain = [plain(text) for text in texts]
        self._exact: dict[str, int] = {}
        for i, text in enumerate(self._plain):
            if text:
                self._exact.setdefault(text, i)
        n_characters = sum(map(len, self._plain))
        n_unspaced = sum(len(_UNSPACED.findall(text)) for text in self._plain)
        self._n = 2 if 2 * n_unspaced > n_characters else 4
        if n_characters > _LONG * len(self._plain):  # else most sequences would be everywhere
            self._n *= 2
        rows, hashes = _sequences(self._plain, self._n)
        self._vocabulary, ids, n_texts = np.unique(hashes, return_inverse=True, return_counts=True)
        self._ranks = np.empty(len(n_texts), dtype=np.int64)  # of each sequence, the rarest first
        self._ranks[np.argsort(n_texts, kind="stable")] = np.arange(len(n_texts))
        self._sizes = np.bincount(rows, minlength=len(self._plain))
        ranks = self._ranks[ids]
        self._keys = np.sort(rows << _HASH_BITS | ranks)
        self._sketches = _sketches(rows, ranks, len(self._plain))
        prefix = _rarest(rows, ranks, self._sizes)
        order = np.argsort(ranks[prefix], kind="stable")
        self._prefix_ranks, self._prefix_rows = ranks[prefix][order], rows[prefix][order]

    def matches(self, texts: Iterable[str]) -> list[Match]:
        """Return the texts equal or similar to held-out ones, each with the most similar of these."""
        lines = [plain(text) for text in texts]
        same = {i: self._exact[text] for i, text in enumerate(lines) if text in self._exact}
        near = self._near([("" if i in same else text) for i, text in enumerate(lines)])
        return sorted([Match(i, text, 1.0) for i, text in same.items()] + near)

    def _near(self, lines: Sequence[str]) -> list[Match]:
        if not len(self._vocabulary):
            return []
        rows, hashes = _sequences(lines, self._n)
        positions = np.minimum(np.searchsorted(self._vocabulary, hashes), len(self._vocabulary) - 1)
        is_known = self._vocabulary[positions] == hashes
        sizes = np.bincount(rows, minlength=len(lines))
        # Similar to a held-out text can only be a line most of whose sequences occur in some of them.
        n_unknown = np.bincount(rows, ~is_known, minlength=len(lines))
        is_kept = (n_unknown <= (1 - SIMILAR) * sizes + 1e-9)[rows]
        rows, positions, is_known = rows[is_kept], positions[is_kept], is_known[is_kept]
        ranks = np.where(is_known, self._ranks[positions], -1)
        sizes = np.bincount(rows, minlength=len(lines))
        prefix = _rarest(rows, ranks, sizes) & is_known
        sketches = _sketches(rows[is_known], ranks[is_known], len(lines))
        pairs = self._candidates(rows[prefix], ranks[prefix], sizes, sketches)
        return self._verify(pairs, rows[is_known], ranks[is_known], sizes)

    def _candidates(
        self, rows: np.ndarray, ranks: np.ndarray, sizes: np.ndarray, sketches: np.ndarray
    ) -> np.ndarray:
        """(n, 2): line and held-out text that share a rare sequence, and are of about one size.

        Their sketches differ in no more bits than the sequences of similar texts can.
        """
        first = np.searchsorted(self._prefix_ranks, ranks, side="left")
        n = np.searchsorted(self._prefix_ranks, ranks, side="right") - first
        lines = np.repeat(rows, n)
        texts = self._prefix_rows[ranges(first, n)]
        smaller = np.minimum(sizes[lines], self._sizes[texts])
        alike = smaller >= SIMILAR * np.maximum(sizes[lines], self._sizes[texts])
        keys = np.unique(lines[alike] * len(self._sizes) + texts[alike])
        lines, texts = np.divmod(keys, len(self._sizes))
        different = _N_BITS[sketches[lines] ^ self._sketches[texts]].sum(axis=1, dtype=np.int64)
        alike = different <= (1 - SIMILAR) / (1 + SIMILAR) * (sizes[lines] + self._sizes[texts]) + 1e-9
        return np.stack([lines[alike], texts[alike]], axis=1)

    def _verify(
        self, pairs: np.ndarray, rows: np.ndarray, ranks: np.ndarray, sizes: np.ndarray
    ) -> list[Match]:
        """Those of `pairs` that are similar enough, the best for each line.

        `rows`, which rise, and `ranks` are the known sequences of the lines; `sizes` counts the others too.
        """
        best: dict[int, Match] = {}
        starts = np.searchsorted(rows, np.arange(len(sizes) + 1))
        for part in np.array_split(pairs, len(pairs) // 20_000 + 1):
            lines, texts = part[:, 0], part[:, 1]
            n = starts[lines + 1] - starts[lines]
            keys = np.repeat(texts, n) << _HASH_BITS | ranks[ranges(starts[lines], n)]
            where = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
            n_shared = np.bincount(
                np.repeat(np.arange(len(part)), n), self._keys[where] == keys, minlength=len(part)
            )
            similarity = n_shared / (sizes[lines] + self._sizes[texts] - n_shared)
            for i in np.flatnonzero(similarity >= SIMILAR - 1e-9).tolist():
                match = Match(int(lines[i]), int(texts[i]), float(similarity[i]))
                if match.line not in best or best[match.line].similarity < match.similarity:
                    best[match.line] = match
        return list(best.values())


def _sequences(lines: Sequence[str], n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct sequences of `n` characters of each line: line numbers, rising, and hashes.

    None for lines that have fewer than MIN_SEQUENCES.
    """
    chars = np.frombuffer("\n".join([*lines, ""]).encode("utf-32-le"), dtype=np.uint32).astype(np.uint64)
    line_of = np.cumsum(chars == 10) - (chars == 10)
    n_windows = max(0, len(chars) - n + 1)
    hashes = np.zeros(n_windows, dtype=np.uint64)
    for i in range(n):
        hashes = (hashes + chars[i : i + n_windows]) * _BASE
        hashes ^= hashes >> np.uint64(29)
    inside = line_of[:n_windows] == line_of[n - 1 : n - 1 + n_windows]
    inside &= chars[n - 1 : n - 1 + n_windows] != 10
    keys = line_of[:n_windows][inside] << _HASH_BITS | (hashes[inside] >> np.uint64(64 - _HASH_BITS)).astype(
        np.int64
    )
    keys.sort()
    keys = keys[np.concatenate([keys[:1] == keys[:1], keys[1:] != keys[:-1]])]
    rows, hashes = keys >> _HASH_BITS, keys & ((1 << _HASH_BITS) - 1)
    enough = np.bincount(rows, minlength=len(lines))[rows] >= MIN_SEQUENCES
    return rows[enough], hashes[enough]


def _sketches(rows: np.ndarray, ranks: np.ndarray, n: int) -> np.ndarray:
    """(n, words of 16 bits): for each line a bit for every sequence, of which several share one."""
    bits = np.zeros((n, _SKETCH_BITS), dtype=bool)
    bits[rows, ranks % _SKETCH_BITS] = True
    return np.packbits(bits, axis=1).view(np.uint16)


def _rarest(rows: np.ndarray, ranks: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return which sequences are among the rarest of their line: enough that similar lines must share one.

    `rows` rise; `sizes` counts them; `ranks` is lower for rarer sequences.
    """
    order = np.argsort(rows << _HASH_BITS | (ranks + 1))
    position = np.arange(len(rows)) - (np.cumsum(sizes) - sizes)[rows]
    chosen = np.zeros(len(rows), dtype=bool)
    chosen[order] = position < sizes[rows] - np.ceil(SIMILAR * sizes[rows] - 1e-9) + 1
    return chosen


class HeldOutIndex:
    """Corpora that train must not overlap with, side by side: looks up the texts of train, and says where."""

    def __init__(self, corpora: Mapping[str, Iterable[Numbered]], sides: Sequence[str]) -> None:
        self._places: list[str] = []
        texts: list[tuple[str, ...]] = []
        for name, numbered in corpora.items():
            for one in numbered:
                self._places.append(f"{name} {one.number}")
                texts.append(one.texts[: len(sides)])
        self._sides = sides
        self._texts = texts
        self._index = [HeldOutTexts([text[i] for text in texts]) for i in range(len(sides))]

    def look_up(
        self,
        start: int,
        chunk: Sequence[Numbered],
        faults: Mapping[str, dict[int, str]],
        similarity: dict[int, float],
    ) -> None:
        """Compare a chunk of train, whose first record has the index `start`.

        By the index of a record, what it is like is added to `faults`, and to `similarity` how much, where
        the two are not the same.
        """
        exact, near = faults["overlap"], faults["overlap-near"]
        for i, side in enumerate(self._sides):
            for match in self._index[i].matches([one.texts[i] for one in chunk]):
                index, what = start + match.line, f"{side} is {self._places[match.text]}"
                if match.similarity < 1.0:
                    like = f"{100 * match.similarity:.0f} % like {self._places[match.text]}"
                    what = f"{side} is {like}: {self._texts[match.text][i]}"
                kind = exact if match.similarity == 1.0 else near
                kind[index] = f"{kind[index]}; {what}" if index in kind else what
                similarity[index] = max(match.similarity, similarity.get(index, 0.0))
        for index in exact.keys() & range(start, start + len(chunk)):
            near.pop(index, None)
            del similarity[index]
