"""Records of columns: tab-separated files, CSV and JSON lines; Parquet and the hub are in arrow.py.

Columns are asked for by name, or by number, counted from 0, where a format has an order of columns. A name
with a dot reaches into a field that has fields itself: "translation.en". What is in a cell is the
business of the reader; `Table.text` and `Table.label` say what becomes of it.
"""

from __future__ import annotations

import csv
import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any

from dragoman.config import parse_json
from dragoman.data.readers.files import (
    ReadOffset,
    hash_file,
    hash_strings,
    longest_line,
    open_lines,
    too_long,
)
from dragoman.errors import DataError

Column = int | str


class Notes:
    """What a reader left out, by reason, and what it took for granted. `what` are the things counted."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.n_read = 0
        self.skipped: Counter[str] = Counter()
        self.remarks: list[str] = []

    def lines(self, name: str) -> list[str]:
        """Return a line for what was left out, and one for each remark, each beginning with `name`."""
        reasons = ", ".join(f"{n} {reason}" for reason, n in self.skipped.items())
        total = f"left out {self.skipped.total():,} of {self.n_read:,} {self.what}: {reasons}"
        return [f"{name}: {line}" for line in ([total] if reasons else []) + self.remarks]


class RecordTable(ABC):
    """Records that are read again and again. `setting` names, in complaints, what chooses the columns."""

    unit = "line"
    is_ordered = False
    """Its columns can be asked for by number."""

    def __init__(self, name: str, *, setting: str) -> None:
        self.name, self.setting = name, setting
        self.position = ReadOffset()
        """How far a text file has been read; it stays at 0 for other formats."""

    def where(self, n: int) -> str:
        """Return the place of record `n`, for complaints."""
        return f"{self.name} {self.unit} {n}"

    @abstractmethod
    def fields(self) -> list[str]:
        """Return the names of the columns; [] where there are none."""

    @abstractmethod
    def rows(self, columns: Sequence[Column], notes: Notes) -> Iterator[tuple[int, Sequence[object]]]:
        """Yield the number of each record and its cells in `columns`; "" in all of them for an empty line."""

    @abstractmethod
    def fingerprint(self, columns: Sequence[Column]) -> str:
        """Return a hash of the content and the columns."""

    def text(self, cell: object, n: int, column: Column) -> str:
        """Return a cell of record `n` as one line of text; "" for one that is missing.

        DataError: it is no text.
        """
        if cell is None:
            return ""
        if not isinstance(cell, str):
            raise self._no_text(n, column, f"{_kind_of(cell)}, not text; name another one")
        if not cell.isascii():
            try:
                cell.encode()
            except UnicodeEncodeError as error:
                half = cell[error.start]
                raise self._no_text(
                    n, column, f"{half!r}, which is half a character; repair or remove the text"
                ) from error
        if "\0" in cell:
            raise self._no_text(n, column, "a NUL character; remove it")
        return one_line(cell)

    def label(self, cell: object, n: int, column: Column) -> str:
        """Return a cell as the name of a class; "" for one that is missing.

        DataError: it is a list or an object.
        """
        if isinstance(cell, float) and math.isnan(cell):
            return ""
        if isinstance(cell, bool):
            return str(cell).lower()
        if isinstance(cell, int | float):
            return str(cell)
        return self.text(cell, n, column).strip()

    def field(self, record: Mapping[str, Any], column: Column, n: int) -> object:
        """Return the field `column` of record `n`, as `lookup`. DataError: it has none."""
        try:
            return lookup(record, column)
        except KeyError as error:
            raise self.unknown(column, self.where(n), field_names(record)) from error

    def _no_text(self, n: int, column: Column, what: str) -> DataError:
        return DataError(f"{self.where(n)}: column {column!r} holds {what}")

    def unknown(self, column: Column, place: str, fields: Iterable[str]) -> DataError:
        """Return the complaint that `column` is not among `fields` at a place."""
        return DataError(f"{place}: no column {column!r}; there are {', '.join(fields)} ({self.setting})")


class FileTable(RecordTable):
    """A table in a file."""

    KIND = ""
    """The format, as fingerprints name it."""

    def __init__(self, path: Path, *, setting: str) -> None:
        super().__init__(str(path), setting=setting)
        self.path = path

    def fingerprint(self, columns: Sequence[Column]) -> str:
        are_numbers = all(isinstance(column, int) for column in columns)  # 1 is not the name "1"
        kind = self.KIND if are_numbers or not self.is_ordered else f"named {self.KIND}"
        return hash_strings(kind, *map(str, columns), hash_file(self.path))


class TabSeparated(FileTable):
    """Columns with tabs between them. Asked for by name, the first line holds names; else, it does not."""

    KIND, is_ordered = "columns", True

    def fields(self) -> list[str]:
        return []

    def first_line(self) -> list[str]:
        """Return the cells of the first line: names, or a record."""
        return next(open_lines(self.path), "").split("\t")

    def rows(self, columns: Sequence[Column], notes: Notes) -> Iterator[tuple[int, Sequence[object]]]:
        numbers = [column for column in columns if isinstance(column, int)]
        with closing(open_lines(self.path, position=self.position)) as texts:
            lines = enumerate(texts, start=1)
            if len(numbers) < len(columns):
                _, first = next(lines, (1, ""))
                header = _Header(self, first.split("\t"))
                positions = header.positions(columns)
                for n, line in lines:
                    yield n, header.cells(line.split("\t") if line.strip() else [], positions, n)
                return
            last, width, wider = max(numbers), 0, 0
            for n, line in lines:
                cells = line.split("\t")
                width = width or len(cells)
                wider += len(cells) > width
                if len(cells) > last:
                    yield n, [cells[i] for i in numbers]
                elif not line.strip():
                    yield n, [""] * len(columns)
                else:
                    raise DataError(
                        f"{self.where(n)}: no column {last}, counted from 0, among {len(cells)}; "
                        f"separate the columns by tabs, or name others with {self.setting}"
                    )
        if wider:
            notes.remarks.append(
                f"{wider:,} line{' has' if wider == 1 else 's have'} more tabs than the first one, which has "
                f"{width - 1}; what stands behind these is not read"
            )


class CommaSeparated(FileTable):
    """A CSV file, whose first line names its columns. Quoted fields may hold line breaks.

    The delimiter is a comma, or the semicolon or tab that is more frequent in the first line.
    """

    KIND, is_ordered = "csv", True

    def fields(self) -> list[str]:
        return [name.strip() for name in next(self.records(), (1, [""]))[1]]

    def rows(self, columns: Sequence[Column], notes: Notes) -> Iterator[tuple[int, Sequence[object]]]:
        with closing(self.records()) as records:
            header = _Header(self, next(records, (1, [""]))[1])
            positions = header.positions(columns)
            if all(isinstance(column, int) for column in columns):
                names = ", ".join(header.names)
                notes.remarks.append(f"line 1 is taken for the names of the columns ({names})")
            for n, cells in records:
                yield n, header.cells(cells, positions, n)

    def records(self) -> Generator[tuple[int, list[str]], None, None]:
        """Yield the line on which each record begins, and its cells."""
        with closing(open_lines(self.path, position=self.position)) as lines:
            first = next(lines, "")
            delimiter = max(",;\t", key=first.count)
            n, most = 1, longest_line()
            remaining = most + 1  # a quote that is never closed would make one field of the rest of the file

            def bounded() -> Iterator[str]:
                nonlocal remaining
                for line in chain([first], lines):
                    remaining -= len(line) + 1
                    if remaining < 0:
                        raise too_long(self.where(n), most)
                    yield f"{line}\n"

            reader = csv.reader(bounded(), delimiter=delimiter, strict=True)
            while True:
                previous = csv.field_size_limit(min(most, 2**31 - 1))
                try:
                    cells = next(reader, None)
                except csv.Error as error:
                    raise DataError(
                        f"{self.where(n)}: not CSV ({error}); a text with quotes is to stand in quotes, "
                        "and each quote in it twice"
                    ) from error
                finally:
                    csv.field_size_limit(previous)
                if cells is None:
                    return
                yield n, cells if any(cell.strip() for cell in cells) else []
                n, remaining = reader.line_num + 1, most + 1


class _Header:
    """The names of the columns of a file whose records have to be as long as their list."""

    def __init__(self, table: RecordTable, names: Sequence[str]) -> None:
        self.table, self.names = table, [name.strip() for name in names]

    def positions(self, columns: Sequence[Column]) -> list[int]:
        """Where the columns stand. DataError: nowhere, or at two places."""
        positions = []
        for column in columns:
            n_named = self.names.count(str(column))
            if isinstance(column, int) and column < len(self.names):
                positions.append(column)
            elif isinstance(column, str) and n_named == 1:
                positions.append(self.names.index(column))
            elif n_named > 1:
                raise DataError(f"{self.table.where(1)}: two columns are called {column!r}; rename one")
            else:
                raise self.table.unknown(column, self.table.where(1), self.names)
        return positions

    def cells(self, record: list[str], positions: Sequence[int], n: int) -> list[str]:
        """Return the cells of record `n` at `positions`; empty ones for an empty record."""
        if not record:
            return [""] * len(positions)
        if len(record) != len(self.names):
            raise DataError(
                f"{self.table.where(n)}: {len(record)} columns where line 1 names {len(self.names)}; "
                "a text that holds the delimiter is to stand in quotes, in a .csv file"
            )
        return [record[i] for i in positions]


class JsonLines(FileTable):
    """A JSON object a line."""

    KIND = "jsonl"

    def fields(self) -> list[str]:
        return next((field_names(record) for _, record in self._records() if record is not None), [])

    def rows(self, columns: Sequence[Column], notes: Notes) -> Iterator[tuple[int, Sequence[object]]]:
        for n, record in self._records():
            if record is None:
                yield n, [""] * len(columns)
            else:
                yield n, [self.field(record, column, n) for column in columns]

    def _records(self) -> Iterator[tuple[int, dict[str, Any] | None]]:
        """Yield the number and the object of each line; None for an empty one."""
        for n, line in enumerate(open_lines(self.path, position=self.position), start=1):
            if not line.strip():
                yield n, None
                continue
            try:
                record = parse_json(line)
            except ValueError as error:
                raise DataError(
                    f"{self.where(n)}: not JSON ({error}); write one object a line, for example with: jq -c ."
                ) from error
            if not isinstance(record, dict):
                raise DataError(
                    f"{self.where(n)}: {_kind_of(record)} and no object with named fields; "
                    "write one object a line"
                )
            yield n, record


def lookup(record: Mapping[str, Any], column: Column) -> object:
    """Return the field `column` of a record, or of the fields in it where the name has dots.

    KeyError: none.
    """
    name = str(column)
    if name in record:
        return record[name]
    head, dot, rest = name.partition(".")
    inner = record[head]
    if not dot or not isinstance(inner, Mapping):
        raise KeyError(name)
    return lookup(inner, rest)


def field_names(record: Mapping[str, Any]) -> list[str]:
    """Return the names of a record's fields; of a field with fields, theirs: "translation.en"."""
    names = []
    for name, value in record.items():
        names += [f"{name}.{inner}" for inner in value] if isinstance(value, Mapping) else [name]
    return names


def one_line(text: str) -> str:
    """Return a text of several lines as one: stripped, and joined by spaces."""
    if "\n" not in text and "\r" not in text:
        return text
    return " ".join(stripped for line in re.split(r"[\r\n]+", text) if (stripped := line.strip()))


def _kind_of(value: object) -> str:
    """Return the JSON type of a value, with its article."""
    if isinstance(value, bool):
        return "a truth value"
    kinds = {int: "a number", float: "a number", str: "a string", list: "a list", dict: "an object"}
    return kinds.get(type(value), "nothing" if value is None else f"a {type(value).__name__}")
