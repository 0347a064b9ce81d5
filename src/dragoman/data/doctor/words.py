"""A corpus as numbers: words, lengths and hashes of each line; what only the whole tells, as repetitions."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import numpy as np

from dragoman.text.normalisation import plain

UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Thai, Lao, Burmese, Khmer, kana and Han are written without spaces: each character counts as a word."""
_WORD = re.compile(rf"\d+|[{UNSPACED}]|[^\W\d_{UNSPACED}]+")
ADDRESS = re.compile(
    r"(?:https?://|ftp://|www\.)[^\s<>\"'„“”«»，。！？）)]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+", re.IGNORECASE
)
"""URLs and e-mail addresses."""
_DIGITS = re.compile(r"\d+")
_CLOSING = " \t\u00a0\"'”“»«’）)」』]"
_FINAL_MARKS = {"?": 1, "？": 1, "؟": 1, "!": 2, "！": 2, ".": 3, "。": 3, ":": 4, "：": 4, ",": 5, "，": 5}


def words_of(text: str) -> list[str]:
    """Return the words and numbers of `text` in lower case, without punctuation."""
    return _WORD.findall(text.lower())


def has_address(text: str) -> bool:
    """Whether there may be an address in it, at a glance."""
    return "@" in text or "://" in text or "www." in text


def hash_of(text: str) -> int:
    """64 bits, equal for equal texts; in every process, as those of `hash` are not."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


class WordNumbers(dict[str, int]):
    """Numbers words in the order in which they are met."""

    def __missing__(self, word: str) -> int:
        self[word] = n = len(self)
        return n


@dataclass(frozen=True)
class Bags:
    """The distinct words of each line: those of line i are `ids[offsets[i] : offsets[i + 1]]`."""

    words: Sequence[str]
    ids: np.ndarray
    offsets: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """How many distinct words each line has."""
        return np.diff(self.offsets)

    @cached_property
    def rows(self) -> np.ndarray:
        """The line of each id."""
        return np.repeat(np.arange(len(self.offsets) - 1, dtype=np.int32), self.sizes)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The id of each word."""
        return {word: i for i, word in enumerate(self.words)}

    @cached_property
    def n_lines_with(self) -> np.ndarray:
        """For each word the number of lines that have it."""
        return np.bincount(self.ids, minlength=len(self.words))


@dataclass(frozen=True)
class NumberedSide:
    """One side of a corpus as numbers, line by line."""

    bags: Bags
    lengths: np.ndarray
    """In characters."""
    final_marks: np.ndarray
    """Which punctuation mark the line ends with; 0 for none."""
    hashes: np.ndarray
    """`hash_of` the text with single spaces."""
    near_hashes: np.ndarray
    """Of its words alone, every number alike: case, punctuation and digits do not matter."""

    def __len__(self) -> int:
        return len(self.lengths)


class SideReader:
    """Collects a `NumberedSide` from texts as they come."""

    def __init__(self) -> None:
        self._words = WordNumbers()
        self._ids, self._sizes = array("i"), array("i")
        self._lengths, self._final_marks = array("i"), array("b")
        self._hashes, self._near_hashes = array("q"), array("q")

    def add(self, texts: Iterable[str]) -> None:
        number = self._words.__getitem__
        for text in texts:
            readable = ADDRESS.sub(" ", text) if has_address(text) else text
            words = dict.fromkeys(_WORD.findall(readable.lower()))
            self._ids.extend(map(number, words))
            self._sizes.append(len(words))
            self._lengths.append(len(text))
            self._final_marks.append(_FINAL_MARKS.get(text.rstrip(_CLOSING)[-1:], 0))
            self._hashes.append(hash_of(" ".join(text.split())))
            self._near_hashes.append(hash_of(_DIGITS.sub("0", plain(text))))

    def side(self) -> NumberedSide:
        """Everything read so far."""
        sizes = np.array(self._sizes, dtype=np.int64)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return NumberedSide(
            Bags(list(self._words), np.array(self._ids, dtype=np.int32), offsets),
            lengths=np.array(self._lengths, dtype=np.int32),
            final_marks=np.array(self._final_marks, dtype=np.int8),
            hashes=np.array(self._hashes, dtype=np.int64),
            near_hashes=np.array(self._near_hashes, dtype=np.int64),
        )


def ranges(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the numbers start, start + 1, ... of each range, one range after the other."""
    total = int(sizes.sum())
    return np.arange(total) - np.repeat(np.cumsum(sizes) - sizes, sizes) + np.repeat(starts, sizes)


MIN_LINES = 50
"""With fewer pairs that have text on both sides, no ratio is usual."""
_MIN_BIN = 200  # pairs of about one length, whose ratios are compared
_MAX_BINS = 20
_MIN_FACTOR = np.log(2)  # a side less than twice as long as usual is no outlier
_MIN_DEVIATION = 0.1  # nats: corpora from a grammar are more regular than language is


def duplicates(*hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the lines (from 0, rising) whose hashes all occurred before, and the first that had them."""
    keys = combine(hashes)
    order = np.argsort(keys, kind="stable")  # equal ones in the order of their lines
    in_order = keys[order]
    starts = np.flatnonzero(np.append(True, in_order[1:] != in_order[:-1])[: len(order)])
    repeats = np.delete(np.arange(len(order)), starts)
    firsts = order[starts[np.searchsorted(starts, repeats, side="right") - 1]]
    lines = order[repeats]
    rising = np.argsort(lines)
    return lines[rising], firsts[rising]


def conflicts(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return for each line whether its key stands beside different values."""
    kept = np.delete(keys, duplicates(keys, values)[0])
    distinct, n_values = np.unique(kept, return_counts=True)
    return np.isin(keys, distinct[n_values > 1])


def combine(hashes: Sequence[np.ndarray]) -> np.ndarray:
    """One hash of several."""
    combined = np.zeros(len(hashes[0]), dtype=np.uint64)
    for part in hashes:
        combined = combined * np.uint64(0x9E3779B97F4A7C15) + part.astype(np.uint64)
        combined ^= combined >> np.uint64(31)
    return combined


def length_deviations(src: NumberedSide, tgt: NumberedSide) -> np.ndarray:
    """How far the ratio of lengths is from the usual one, in robust standard deviations; 0 for empty sides,
    and in a corpus of fewer than MIN_LINES pairs.

    log(target / source) less its median, divided by 1.48 times the median absolute deviation, both among
    pairs of about the same length: ratios of short texts vary more.
    """
    lengths = src.lengths.astype(float) + 1, tgt.lengths.astype(float) + 1
    ratio = np.log(lengths[1] / lengths[0])
    size = np.log(lengths[0]) + np.log(lengths[1])
    filled = (src.lengths > 0) & (tgt.lengths > 0)
    deviations = np.zeros(len(ratio))
    if filled.sum() < MIN_LINES:
        return deviations
    n_bins = int(np.clip(filled.sum() // _MIN_BIN, 1, _MAX_BINS))
    edges = np.quantile(size[filled], np.linspace(0, 1, n_bins + 1)[1:-1])
    which = np.searchsorted(edges, size, side="right")
    for bin_ in range(n_bins):
        inside = filled & (which == bin_)
        if inside.any():
            off = ratio[inside] - np.median(ratio[inside])
            spread = max(1.4826 * np.median(np.abs(off)), _MIN_DEVIATION)
            deviations[inside] = np.where(np.abs(off) >= _MIN_FACTOR, off / spread, 0.0)
    return deviations
