"""Choose the pairs of a corpus by scores: those of a model, or of any other program, one a line."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dragoman.data.corpora import TableCorpus
from dragoman.data.doctor.clean import write_without
from dragoman.data.readers.files import open_lines
from dragoman.data.records import Corpus
from dragoman.errors import DataError

TABLE_COLUMNS = 4
"""Columns of the table of `dragoman score-model`: number, log-probability, perplexity, tokens."""
N_BINS = 20
"""Most bins of a histogram, about."""
TAIL = 0.005
"""Share of the lowest scores, and of the highest ones, that a histogram puts into one bin each."""


class Scores:
    """A score for each pair of a corpus: the mean of one or several files. Iterates as often as needed.

    Higher is better; NaN = without a score, in one file at least. `dual`: the mean of two files minus their
    difference, which for log-probabilities of both directions is the negative dual conditional cross-entropy
    of Junczys-Dowmunt (2018).
    """

    def __init__(self, files: Sequence[Path], *, dual: bool = False) -> None:
        self.files, self.dual = files, dual
        self.name = " + ".join(map(str, files))

    def __iter__(self) -> Iterator[float]:
        """Yield the scores. DataError: a line is not a score, or the files differ in length."""
        for n, values in enumerate(zip_longest(*map(read_scores, self.files))):
            if None in values:
                short = self.files[values.index(None)]
                raise DataError(f"{short} has {n:,} lines and another file of scores more: {self.name}")
            mean = sum(values) / len(values)
            yield mean - abs(values[0] - values[1]) if self.dual else mean


def read_scores(path: Path) -> Iterator[float]:
    """Yield the score of each line of a file; NaN for an empty line.

    A line is a number, or a row of the table of `dragoman score-model`, whose score is the mean
    log-probability of a token.

    Raises:
        DataError: the file cannot be read, or a line is neither.
    """
    for number, line in enumerate(open_lines(path), start=1):
        cells = line.split("\t")
        try:
            if len(cells) == TABLE_COLUMNS and int(cells[0]) == number:
                n_tokens = int(cells[3])
                score = float(cells[1]) / n_tokens if n_tokens else None
            else:
                score = float(line) if line.strip() else None
        except ValueError:
            score = math.nan
        if score is not None and not math.isfinite(score):
            raise DataError(
                f"{path} line {number}: {line[:40]!r} is not a finite number; write one number per line, as "
                "dragoman score-model --mean does"
            )
        yield math.nan if score is None else score


class ScoreCut(NamedTuple):
    """Which scores are kept: those above `threshold`, and the first `n_ties` of those equal to it."""

    threshold: float
    n_ties: int
    n_kept: int


class Bin(NamedTuple):
    """A bin of a histogram: from `low` to the next bin's; that of the first one is -inf."""

    low: float
    n_inside: int
    n_from: int
    """Scores from `low` on."""


class Distribution:
    """The scores of a corpus in rising order, 8 bytes each."""

    def __init__(self, scores: Iterable[float]) -> None:
        """Read the scores; NaN = without a score."""
        ordered = np.fromiter(scores, dtype=np.float64)
        ordered.sort()  # in place; NaN last
        self.n_pairs = len(ordered)
        self.known = ordered[: np.searchsorted(ordered, np.nan)]

    @property
    def n_unscored(self) -> int:
        """Number of pairs without a score."""
        return self.n_pairs - len(self.known)

    def n_from(self, threshold: float) -> int:
        """Return the number of scores from `threshold` on."""
        return len(self.known) - int(np.searchsorted(self.known, threshold))

    def at_least(self, threshold: float) -> ScoreCut:
        """Keep the scores from `threshold` on. DataError: there are none."""
        n_kept = self.n_from(threshold)
        if not n_kept:
            best = f"the highest is {self.known[-1]:g}" if len(self.known) else "there are none"
            raise DataError(f"nothing would be left: no score is at least {threshold:g}; {best}")
        return ScoreCut(threshold, n_kept, n_kept)

    def best(self, share: float) -> ScoreCut:
        """Keep the best scores, as many as `share` of all pairs, 0 to 1; of equal ones the first.

        Raises:
            DataError: that is not one score.
        """
        n_kept = min(round(share * self.n_pairs), len(self.known))
        if not n_kept:
            raise DataError(
                f"nothing would be left: {share:g} of {self.n_pairs:,} pairs is not one that has a score "
                f"({len(self.known):,} have one); keep a larger share"
            )
        threshold = float(self.known[-n_kept])
        n_above = len(self.known) - int(np.searchsorted(self.known, threshold, side="right"))
        return ScoreCut(threshold, n_kept - n_above, n_kept)

    def histogram(self) -> list[Bin]:
        """Return bins of equal width with round limits; outliers share the first and the last one."""
        if not len(self.known):
            return []
        last = len(self.known) - 1
        low, high = (float(self.known[round(share * last)]) for share in (TAIL, 1 - TAIL))
        step = 1.0
        if width := (high - low) / N_BINS:  # rounded up to 1, 2 or 5 times a power of ten
            power = 10.0 ** math.floor(math.log10(width))
            step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= width * (1 - 1e-9))
        first = math.floor(low / step)
        limits = [k * step for k in range(first, max(first + 1, math.ceil(high / step)))]
        starts = [self.n_from(limit) for limit in limits]
        rows = [Bin(-math.inf, len(self.known) - starts[0], len(self.known))] if starts[0] <= last else []
        ends = [*starts[1:], 0]
        return [*rows, *(Bin(x, a - b, a) for x, a, b in zip(limits, starts, ends, strict=True))]


def write_best(
    corpus: Corpus,
    scores: Iterable[float],
    cut: ScoreCut,
    folder: Path,
    *,
    keep_unscored: bool = False,
    langs: tuple[str, str] = ("src", "tgt"),
) -> tuple[Path, ...]:
    """Write the pairs that `cut` keeps into a new folder, all of it or nothing; return the files written.

    `scores` has one for each pair, and is read several times. Files are named as by `write_clean`;
    dropped.jsonl has the number and the score of each other pair. Errors: those of `write_without`.
    """

    def dropped() -> Iterator[tuple[int, dict[str, Any]]]:
        n_ties = cut.n_ties
        # Only the numbers of a table's records need reading.
        is_table = isinstance(corpus, TableCorpus)
        numbers = (one.number for one in corpus.numbered()) if is_table else count(1)
        for number, score in zip(numbers, scores, strict=False):
            is_tie = score == cut.threshold and n_ties > 0
            n_ties -= is_tie
            if math.isnan(score) and not keep_unscored:
                yield number, {"reasons": ["no score"], "score": None}
            elif score < cut.threshold or (score == cut.threshold and not is_tie):
                yield number, {"reasons": ["low score"], "score": score}

    return write_without(corpus, folder, dropped, langs=langs)
