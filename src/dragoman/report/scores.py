"""The picture of the scores of a corpus."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dragoman.data.doctor.selection import TAIL, Distribution
from dragoman.errors import DataError
from dragoman.report.picture import BLUE, ORANGE, finish_axes, picture

N_BARS = 80
"""Of the histogram of scores."""


def draw_scores(distribution: Distribution, path: Path, *, threshold: float | None) -> None:
    """Draw the histogram of scores between the outliers, and the share that each threshold keeps.

    Errors: those of `picture`. DataError: no pair has a score.
    """
    scores = distribution.known
    if not len(scores):
        raise DataError(f"{path}: no pair has a score; there is nothing to draw")
    low, high = (float(scores[round(share * (len(scores) - 1))]) for share in (TAIL, 1 - TAIL))
    edges = np.linspace(low, high if high > low else low + 1, N_BARS + 1)
    starts = np.searchsorted(scores, edges)
    kept = 100 * (len(scores) - starts) / distribution.n_pairs
    with picture(path, size=(7.0, 3.4), purpose="drawing scores") as figure:
        bars = figure.subplots()
        bars.stairs(np.diff(starts), edges, fill=True, color=BLUE, alpha=0.7)
        bars.set_ylabel("pairs")
        shares = bars.twinx()
        shares.plot(edges, kept, color=ORANGE)
        shares.set_ylabel("kept, %", color=ORANGE)
        shares.set_ylim(0, 100)
        if threshold is not None:
            bars.axvline(threshold, color="black", linewidth=1, linestyle="--")
        bars.set_title(f"{len(scores):,} scores; the line: the share of pairs that a threshold keeps")
        finish_axes(bars, label="score")
        bars.set_xlim(float(edges[0]), float(edges[-1]))
