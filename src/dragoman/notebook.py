"""HTML tables of results for notebooks.

Jupyter asks an object for `_repr_html_`; the types have one, made of what is here. Everything that a corpus
or a model wrote is escaped, and no script, font or address is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Protocol, TypeAlias, TypeVar

MAX_ROWS = 20
"""Rows of a table that are shown, at most."""

Cell: TypeAlias = "str | int | float | None"


class Row(Protocol):
    """An object that a table shows as a row."""

    def notebook_row(self) -> Mapping[str, Cell]:
        """Return the cells by their headings."""


Item = TypeVar("Item", bound=Row)


class Shown(list[Item]):
    """A list that a notebook shows as one table."""

    def _repr_html_(self) -> str:
        return table_of(self)


def table_of(items: Sequence[Row], *, caption: str = "") -> str:
    """Return the rows of `items` as one table; of many, the first MAX_ROWS and how many more there are."""
    rows = [item.notebook_row() for item in items[:MAX_ROWS]]
    headings = list(dict.fromkeys(heading for row in rows for heading in row))
    shown = table(headings, [[row.get(heading) for heading in headings] for row in rows], caption=caption)
    n_more = len(items) - len(rows)
    return f"{shown}<p>… and {n_more:,} more</p>" if n_more else shown


def table(headings: Sequence[str], rows: Iterable[Sequence[Cell]], *, caption: str = "") -> str:
    """Return a table. Numbers are aligned right, text in its own direction."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    named = f'<caption style="text-align:left">{escape(caption)}</caption>' if caption else ""
    return f"<table>{named}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Cell) -> str:
    if isinstance(value, float):
        return f'<td style="text-align:right">{value:.1f}</td>'
    if isinstance(value, int):
        return f'<td style="text-align:right">{value:,}</td>'
    return f'<td dir="auto" style="text-align:start">{escape(value or "")}</td>'
