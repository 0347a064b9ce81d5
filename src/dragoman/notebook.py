"""HTML representations of results for notebooks: tables and small pictures.

Jupyter asks an object for `_repr_html_`; the types have one, made of what is here. Everything that a corpus
or a model wrote is escaped. Nothing but Python is needed, and no script, font or address is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Protocol, SupportsIndex, TypeAlias, TypeVar, overload

MAX_ROWS = 20
"""Rows of a table that are shown, at most."""
WHITE_INK = 0.935
"""Attention weights above this are white on their blue, others black: each has a contrast of 4.5 and more."""


class Html(str):
    """Markup, which is not escaped again."""

    __slots__ = ()


Cell: TypeAlias = "Html | str | int | float | None"


class Row(Protocol):
    """An object that a table shows as a row."""

    def notebook_row(self) -> Mapping[str, Cell]:
        """Return the cells by their headings."""


Item = TypeVar("Item", bound=Row)


class Shown(list[Item]):
    """A list that a notebook shows as one table."""

    @overload
    def __getitem__(self, index: SupportsIndex) -> Item: ...

    @overload
    def __getitem__(self, index: slice) -> Shown[Item]: ...

    def __getitem__(self, index: SupportsIndex | slice) -> Item | Shown[Item]:
        if isinstance(index, slice):
            return Shown(super().__getitem__(index))
        return super().__getitem__(index)

    def _repr_html_(self) -> str:
        return table_of(self)


def table_of(items: Sequence[Row], *, caption: str = "") -> str:
    """Return the rows of `items` as one table; of many, the first MAX_ROWS and how many more there are."""
    rows = [item.notebook_row() for item in items[:MAX_ROWS]]
    headings = list(dict.fromkeys(heading for row in rows for heading in row))
    cells = [[row.get(heading) for heading in headings] for row in rows]
    return table(headings, cells, caption=caption, n_more=len(items) - len(rows))


def table(
    headings: Sequence[str], rows: Iterable[Sequence[Cell]], *, caption: str = "", n_more: int = 0
) -> str:
    """Return a table. Numbers stand to the right, text in its own direction.

    `n_more` rows are only told of.
    """
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    parts = ["<table>"]
    if caption:
        parts.append(f'<caption style="text-align:left">{escape(caption)}</caption>')
    parts.append(f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
    if n_more > 0:
        parts.append(f"<p>… and {n_more:,} more</p>")
    return "".join(parts)


def facts(rows: Mapping[str, Cell], *, caption: str = "") -> str:
    """Name and what they stand for, one below the other."""
    return table(("", ""), rows.items(), caption=caption)


def curve(points: Sequence[tuple[float, float]], *, name: str) -> Html:
    """Return a line through `points` (x, y), drawn to its own scale, with its first and last value in words.

    What is not a number is left out.
    """
    width, height = 240, 48
    known = [(x, y) for x, y in points if math.isfinite(y)]
    if len(known) < 2:
        return Html(escape("too few values" if known else "no value yet"))
    (x0, x1), (low, high) = (known[0][0], known[-1][0]), _range(y for _, y in known)
    across, up = (width - 4) / max(x1 - x0, 1e-9), (height - 4) / max(high - low, 1e-9)
    line = " ".join(f"{2 + (x - x0) * across:.1f},{height - 2 - (y - low) * up:.1f}" for x, y in known)
    said = f"{name}: {known[0][1]:.4g} at {x0:g}, {known[-1][1]:.4g} at {x1:g}"
    return Html(
        f'<svg width="{width}" height="{height}" role="img" aria-label="{escape(said)}">'
        f'<polyline points="{line}" fill="none" stroke="#0072B2" stroke-width="1.5"/></svg>'
    )


def heat_map(
    weights: Sequence[Sequence[float]],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    caption: str,
    marked: Iterable[tuple[int, int]] = (),
) -> str:
    """Return a table of weights from 0 to 1, a percentage and a shade each.

    `marked` (row, column) have a frame.
    """
    framed = set(marked)
    cells = [
        [Html(escape(name)), *(_shade(weight, (r, c) in framed) for c, weight in enumerate(row))]
        for r, (name, row) in enumerate(zip(rows, weights, strict=True))
    ]
    return table(("", *columns), cells, caption=caption)


def share(value: float) -> Html:
    """Return a share from 0 to 1 as a percentage beside a bar."""
    width = round(60 * min(1.0, max(0.0, value)))
    bar = f'<svg width="60" height="10"><rect width="{width}" height="10" fill="#0072B2"/></svg>'
    return Html(f"{bar} {100 * value:.1f} %")


def _cell(value: Cell) -> str:
    if isinstance(value, Html):
        return f"<td>{value}</td>"
    if isinstance(value, float):
        return f'<td style="text-align:right">{value:.1f}</td>'
    if isinstance(value, int):
        return f'<td style="text-align:right">{value:,}</td>'
    return f'<td dir="auto" style="text-align:start">{escape(value or "")}</td>'


def _shade(weight: float, framed: bool) -> Html:
    """Return a figure of two digits on a blue that is as strong as the weight, on white or dark pages."""
    red, green, blue = (round(255 + weight * (full - 255)) for full in (0, 114, 178))
    ink = "#ffffff" if weight > WHITE_INK else "#000000"
    frame = ";outline:2px solid #D55E00" if framed else ""
    style = f"background:rgb({red},{green},{blue});color:{ink};padding:2px 4px{frame}"
    return Html(f'<span style="{style}">{100 * weight:.0f}</span>')


def _range(values: Iterable[float]) -> tuple[float, float]:
    every = list(values)
    return min(every), max(every)
