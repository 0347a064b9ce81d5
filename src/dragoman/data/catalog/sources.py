"""What a source of named data sets has to offer: OPUS, mtdata, and whatever comes next.

A source is a module with a prefix and three functions; `SOURCES` in fetching.py lists the sources there are.
`dragoman data list PREFIX…` and `dragoman data fetch PREFIX…` work with each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dragoman.data.datasets import Dataset


@dataclass(frozen=True)
class Listing:
    """The answer to `dragoman data list PREFIX…`: a table for people, records for programs."""

    columns: Sequence[str]
    """Headings; one that begins with ">" is of a column of numbers."""
    rows: Sequence[Sequence[str]]
    records: Sequence[dict[str, Any]]


class Source(Protocol):
    """Data sets whose names begin with a prefix, such as opus:Books/en-pl."""

    @property
    def PREFIX(self) -> str:  # noqa: N802 (a constant of a module)
        """What the names begin with: "opus:"."""
        ...

    def listing(self, name: str) -> Listing:
        """List what the source has for a name. DataError: nothing, or it cannot be reached."""
        ...

    def named(self, name: str) -> Dataset:
        """Return the data set of a name, without a network: its folder and files. DataError: no such set."""
        ...

    def resolved(self, dataset: Dataset) -> Dataset:
        """Return a data set of `named` with its downloads. DataError: the source does not have it."""
        ...
