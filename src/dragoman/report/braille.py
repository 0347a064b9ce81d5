"""Curves in characters: each cell of a terminal has two by four Braille dots."""

from __future__ import annotations

import math
from collections.abc import Sequence

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
    first, last = points[0][0], points[-1][0]
    heights: list[int | None] = []
    i = 0
    for column in range(n_columns):
        x = first + (last - first) * column / max(1, n_columns - 1)
        while i + 2 < len(points) and points[i + 1][0] < x:
            i += 1
        y = _between(points[i], points[min(i + 1, len(points) - 1)], x)
        share = (y - low) / (high - low) if high > low else 0.5
        heights.append(None if math.isnan(share) else round(min(1.0, max(0.0, share)) * (n_rows - 1)))
    return heights


def _between(left: tuple[float, float], right: tuple[float, float], x: float) -> float:
    """Return the y at `x` of the straight line from `left` to `right`."""
    if right[0] == left[0]:
        return left[1]
    share = min(1.0, max(0.0, (x - left[0]) / (right[0] - left[0])))
    if share in (0.0, 1.0):  # a gap has edges
        return right[1] if share else left[1]
    return left[1] + share * (right[1] - left[1])
