"""What only the whole corpus tells: repetitions, sources with several translations, unusual lengths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dragoman.data.doctor.words import Side

MIN_LINES = 50
"""With fewer pairs that have text on both sides, no ratio is usual."""
_MIN_BIN = 200  # pairs of about one length, whose ratios are compared
_MAX_BINS = 20
_MIN_FACTOR = np.log(2)  # a side less than twice as long as usual is no outlier
_MIN_DEVIATION = 0.1  # nats: corpora from a grammar are more regular than language is


def duplicates(*hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the lines (from 0, rising) whose hashes all occurred before, and the first that had them."""
    order, starts = _groups(combine(hashes))
    repeats = np.delete(np.arange(len(order)), starts)
    firsts = order[starts[np.searchsorted(starts, repeats, side="right") - 1]]
    lines = order[repeats]
    rising = np.argsort(lines)
    return lines[rising], firsts[rising]


def with_several(keys: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the lines whose key stands beside different values, and for each how many different ones."""
    first = np.delete(np.arange(len(keys)), duplicates(keys, values)[0])
    order, starts = _groups(keys[first])
    sizes = np.diff(np.append(starts, len(order)))
    several = np.repeat(sizes > 1, sizes)
    lines, numbers = first[order[several]], np.repeat(sizes, sizes)[several]
    rising = np.argsort(lines)
    return lines[rising], numbers[rising]


def _groups(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the order that sorts `keys`, equal ones in theirs, and where in it each different key starts."""
    order = np.argsort(keys, kind="stable")
    in_order = keys[order]
    is_new = np.ones(len(keys), dtype=bool)
    np.not_equal(in_order[1:], in_order[:-1], out=is_new[1:])
    return order, np.flatnonzero(is_new)


def combine(hashes: Sequence[np.ndarray]) -> np.ndarray:
    """One hash of several."""
    combined = np.zeros(len(hashes[0]), dtype=np.uint64)
    for part in hashes:
        combined = combined * np.uint64(0x9E3779B97F4A7C15) + part.astype(np.uint64)
        combined ^= combined >> np.uint64(31)
    return combined


def length_deviations(src: Side, tgt: Side) -> np.ndarray:
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
