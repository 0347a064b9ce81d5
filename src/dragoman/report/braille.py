"""Curves in characters: each cell of a terminal has two by four Braille dots."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

BLANK = 0x2800
"""The Braille cell without dots (Unicode 2800–28FF)."""

DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
"""The bits of a cell's two columns of dots, each from the bottom up."""


def braille_curve(
    points: Sequence[tuple[float, float]], *, width: int, height: int, low: float, high: float
) -> list[str]:
    """Return the line through `points` (x, y) in `height` rows of `width` characters, the uppermost first.

    The first x is at the left edge and the last at the right one; `low` is the lowest dot, `high` the
    uppermost. The x must rise. A y that is not a number leaves a gap.
    """
    columns = dot_heights(points, n_columns=2 * width, n_rows=4 * height, low=low, high=high)
    cells = [[BLANK] * width for _ in range(height)]
    before: int | None = None
    for x, dot in enumerate(columns):
        if dot is not None:
            start = dot if before is None else before + (dot > before) - (dot < before)
            for y in range(min(start, dot), max(start, dot) + 1):  # no hole in a steep line
                cells[height - 1 - y // 4][x // 2] |= DOTS[x % 2][y % 4]
        before = dot
    return ["".join(map(chr, row)) for row in cells]


def dot_heights(
    points: Sequence[tuple[float, float]], *, n_columns: int, n_rows: int, low: float, high: float
) -> list[int | None]:
    """Return the row of dots, 0 at the bottom, at which the line through `points` crosses each column."""
    if not points:
        return [None] * n_columns
    xs, ys = np.array(points).T
    at = xs[0] + (xs[-1] - xs[0]) * np.arange(n_columns) / max(1, n_columns - 1)
    shares = (np.interp(at, xs, ys) - low) / (high - low) if high > low else np.full(n_columns, 0.5)
    return [None if math.isnan(y) else round(min(1.0, max(0.0, y)) * (n_rows - 1)) for y in shares.tolist()]
