"""Records of columns: tab-separated files, CSV, JSON lines, Parquet files, and data sets of the hub.

Columns are asked for by name, or by number, counted from 0, where a format has an order of columns. A name
with a dot reaches into a field that has fields itself: "translation.en". What is in a cell is the
business of the reader; `RecordTable.text` and `RecordTable.label` say what becomes of it.

Parquet and the hub need extras: pyarrow ("parquet") and datasets ("hub"). A data set that would run a program
of its own is never loaded: since its version 4, the package datasets has no means to.
"""

from __future__ import annotations

import csv
import math
import re
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from dragoman.config import Column, parse_json
from dragoman.data.readers.files import (
    COMPRESSED,
    ReadOffset,
    find_file,
    format_suffix,
    hash_file,
    hash_strings,
    longest_line,
    open_bytes,
    open_lines,
    too_long,
)
from dragoman.errors import DataError, optional, require

HUB = "hf:"
ROWS = 512
"""Arrow rows in memory at once: a small file may unpack to the longest text there may be in each of them."""
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")


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

    kind = ""
    """The format, as fingerprints name it."""
    unit = "line"
    is_ordered = False
    """Its columns can be asked for by number."""

    def __init__(self, name: str, *, setting: str) -> None:
        """`name` is the path of a file, unless a format says otherwise."""
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

    def fingerprint(self, columns: Sequence[Column]) -> str:
        """Return a hash of the content and the columns."""
        are_numbers = all(isinstance(column, int) for column in columns)  # 1 is not the name "1"
        kind = self.kind if are_numbers or not self.is_ordered else f"named {self.kind}"
        return hash_strings(kind, *map(str, columns), hash_file(Path(self.name)))

    def text(self, cell: object, n: int, column: Column) -> str:
        """Return a cell of record `n` as one line of text; "" for one that is missing.

        DataError: it is no text.
        """
        if cell is None:
            return ""
        if not isinstance(cell, str):
            what = f"{_kind_of(cell)}, not text; name another one"
        elif not cell.isascii() and (half := _HALF_CHARACTER.search(cell)):
            what = f"{half[0]!r}, which is half a character; repair or remove the text"
        elif "\0" in cell:
            what = "a NUL character; remove it"
        else:
            return one_line(cell)
        raise DataError(f"{self.where(n)}: column {column!r} holds {what}")

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

    def unknown(self, column: Column, place: str, fields: Iterable[str]) -> DataError:
        """Return the complaint that `column` is not among `fields` at a place."""
        return DataError(f"{place}: no column {column!r}; there are {', '.join(fields)} ({self.setting})")


class DelimitedTable(RecordTable):
    """Rows of cells with a delimiter between them; the first one may name the columns."""

    is_ordered = True

    @abstractmethod
    def records(self) -> Generator[tuple[int, list[str]], None, None]:
        """Yield the line on which each record begins, and its cells; [] for an empty one."""

    def first_line(self) -> list[str]:
        """Return the cells of the first record: names, or text."""
        with closing(self.records()) as records:
            return next(records, (1, [""]))[1]

    def _under_header(self, columns: Sequence[Column]) -> Iterator[tuple[int, Sequence[object]]]:
        """Yield the number of each record behind the first, which names the columns, and its cells in some.

        DataError: a column is nowhere, or at two places, or a record has more cells or fewer.
        """
        with closing(self.records()) as records:
            names = [name.strip() for name in next(records, (1, [""]))[1]]
            positions = [self._position(column, names) for column in columns]
            for n, cells in records:
                if cells and len(cells) != len(names):
                    raise DataError(
                        f"{self.where(n)}: {len(cells)} columns where line 1 names {len(names)}; "
                        "a text that holds the delimiter is to stand in quotes, in a .csv file"
                    )
                yield n, [cells[i] for i in positions] if cells else [""] * len(positions)

    def _position(self, column: Column, names: list[str]) -> int:
        """Return where a column is among those that line 1 names."""
        n_named = names.count(str(column))
        if isinstance(column, int) and column < len(names):
            return column
        if n_named > 1:
            raise DataError(f"{self.where(1)}: two columns are called {column!r}; rename one")
        if isinstance(column, int) or not n_named:
            raise self.unknown(column, self.where(1), names)
        return names.index(column)


class TabSeparated(DelimitedTable):
    """Columns with tabs between them. Asked for by name, the first line holds names; else, it does not."""

    kind = "columns"

    def fields(self) -> list[str]:
        return []

    def records(self) -> Generator[tuple[int, list[str]], None, None]:
        with closing(open_lines(Path(self.name), position=self.position)) as lines:
            for n, line in enumerate(lines, start=1):
                yield n, line.split("\t") if line.strip() else []

    def rows(self, columns: Sequence[Column], notes: Notes) -> Iterator[tuple[int, Sequence[object]]]:
        numbers = [column for column in columns if isinstance(column, int)]
        if len(numbers) < len(columns):
            yield from self._under_header(columns)
            return
        last, width, wider = max(numbers), 0, 0
        with closing(self.records()) as records:
            for n, cells in records:
                width = width or len(cells)
                wider += len(cells) > width
                if cells and len(cells) <= last:
                    raise DataError(
                        f"{self.where(n)}: no column {last}, counted from 0, among {len(cells)}; "
                        f"separate the columns by tabs, or name others with {self.setting}"
                    )
                yield n, [cells[i] for i in numbers] if cells else [""] * len(columns)
        if wider:
            notes.remarks.append(
                f"{wider:,} line{' has' if wider == 1 else 's have'} more tabs than the first one, which has "
                f"{width - 1}; what stands behind these is not read"
            )


class CommaSeparated(DelimitedTable):
    """A CSV file, whose first line names its columns. Quoted fields may hold line breaks.

    The delimiter is a comma, or the semicolon or tab that is more frequent in the first line.
    """

    kind = "csv"

    def fields(self) -> list[str]:
        return [name.strip() for name in self.first_line()]

    def rows(self, columns: Sequence[Column], notes: Notes) -> Iterator[tuple[int, Sequence[object]]]:
        if all(isinstance(column, int) for column in columns):
            names = ", ".join(self.fields())
            notes.remarks.append(f"line 1 is taken for the names of the columns ({names})")
        return self._under_header(columns)

    def records(self) -> Generator[tuple[int, list[str]], None, None]:
        """Yield the line on which each record begins, and its cells."""
        n, most = 1, longest_line()
        remaining = most + 1  # a quote that is never closed would make one field of the rest of the file
        csv.field_size_limit(max(csv.field_size_limit(), min(most, 2**31 - 1)))
        with closing(open_lines(Path(self.name), position=self.position)) as lines:
            first = next(lines, "")

            def bounded() -> Iterator[str]:
                nonlocal remaining
                for line in chain([first], lines):
                    remaining -= len(line) + 1
                    if remaining < 0:
                        raise too_long(self.where(n), most)
                    yield f"{line}\n"

            reader = csv.reader(bounded(), delimiter=max(",;\t", key=first.count), strict=True)
            try:
                for cells in reader:
                    yield n, cells if any(cell.strip() for cell in cells) else []
                    n, remaining = reader.line_num + 1, most + 1
            except csv.Error as error:
                raise DataError(
                    f"{self.where(n)}: not CSV ({error}); a text with quotes is to stand in quotes, "
                    "and each quote in it twice"
                ) from error


class JsonLines(RecordTable):
    """A JSON object a line."""

    kind = "jsonl"

    def fields(self) -> list[str]:
        return next((field_names(record) for _, record in self._records() if record is not None), [])

    def rows(self, columns: Sequence[Column], notes: Notes) -> Iterator[tuple[int, Sequence[object]]]:
        for n, record in self._records():
            yield n, [("" if record is None else self.field(record, column, n)) for column in columns]

    def _records(self) -> Iterator[tuple[int, dict[str, Any] | None]]:
        """Yield the number and the object of each line; None for an empty one."""
        for n, line in enumerate(open_lines(Path(self.name), position=self.position), start=1):
            if not line.strip():
                yield n, None
                continue
            try:
                record = parse_json(line)
            except ValueError as error:
                remedy = "jq -c '.[]'" if line.lstrip().startswith("[") else "jq -c ."
                raise DataError(
                    f"{self.where(n)}: not JSON ({error}); write one object a line, for example with: "
                    f"{remedy}"
                ) from error
            if not isinstance(record, dict):
                raise DataError(
                    f"{self.where(n)}: {_kind_of(record)} and no object with named fields; "
                    "write one object a line"
                )
            yield n, record


class ArrowTable(RecordTable):
    """Rows that come in batches of columns."""

    unit = "row"

    def fields(self) -> list[str]:
        return list(self._holders)

    def rows(self, columns: Sequence[Column], notes: Notes) -> Iterator[tuple[int, Sequence[object]]]:
        for column in columns:
            if column not in self._holders:
                raise self.unknown(column, self.name, self._holders)
        most = longest_line()
        batches = self._batches(sorted({self._holders[str(column)] for column in columns}))
        records = chain.from_iterable(batch.to_pylist() for batch in batches)
        for n, record in enumerate(records, start=1):
            row = [self._cell(record, str(column), n) for column in columns]
            if any(isinstance(cell, str) and len(cell.encode()) > most for cell in row):
                raise too_long(self.where(n), most)
            yield n, row

    @cached_property
    def _holders(self) -> dict[str, str]:
        """The outermost column that holds each field: {"translation.en": "translation"}."""
        return dict(_flat(self._schema()))

    @abstractmethod
    def _schema(self) -> Any:
        """Return the names and types of the columns."""

    @abstractmethod
    def _batches(self, names: list[str]) -> Iterator[Any]:
        """Yield the columns `names` of some rows at a time."""

    def _cell(self, record: Mapping[str, Any], column: str, n: int) -> object:
        """Return the field `column` of row `n`."""
        return None if record[self._holders[column]] is None else self.field(record, column, n)


class Parquet(ArrowTable):
    """A Parquet file."""

    kind = "parquet"

    def _schema(self) -> Any:
        with _open_parquet(Path(self.name)) as file:
            return file.schema_arrow

    def _batches(self, names: list[str]) -> Iterator[Any]:
        with _open_parquet(Path(self.name)) as file:
            yield from file.iter_batches(batch_size=ROWS, columns=names)


class HubTable(ArrowTable):
    """A split of a data set of the hub, or of a local folder that `datasets` can load.

    "hf:owner/name:split", or "hf:owner/name:subset:split" where a data set has subsets; without a split,
    "train". It is fetched once, into the cache of `datasets`.
    """

    def __init__(self, name: str, *, setting: str) -> None:
        super().__init__(name, setting=setting)
        self.repository, *rest = name.removeprefix(HUB).split(":")
        if not self.repository or len(rest) > 2 or not all(rest):
            raise DataError(f"{name}: not the name of a data set; write hf:owner/name:split")
        self.split = rest[-1] if rest else "train"
        self.subset = rest[0] if len(rest) == 2 else None

    def fingerprint(self, columns: Sequence[Column]) -> str:
        digest = hash_strings("hub", *map(str, columns))
        for _, cells in self.rows(columns, Notes("rows")):
            digest = hash_strings(digest, *map(str, cells))
        return digest

    @cached_property
    def _dataset(self) -> Any:
        datasets = optional("datasets", extra="hub", purpose=f"reading {self.name}")
        try:
            return datasets.load_dataset(self.repository, self.subset, split=self.split)
        except Exception as error:  # whatever can go wrong in fetching and parsing what others uploaded
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            raise DataError(
                f"{self.name}: cannot be loaded ({reason}); check the name, the split and the connection"
            ) from error

    def _schema(self) -> Any:
        return self._dataset.features.arrow_schema

    def _batches(self, names: list[str]) -> Iterator[Any]:
        yield from self._dataset.select_columns(names).with_format("arrow").iter(batch_size=ROWS)

    def _cell(self, record: Mapping[str, Any], column: str, n: int) -> object:
        value = super()._cell(record, column, n)
        classes = getattr(self._dataset.features[self._holders[column]], "names", None)
        if classes is None or not isinstance(value, int):
            return value
        return classes[value] if value >= 0 else None  # the hub writes -1 where a label is kept secret


@contextmanager
def _open_parquet(path: Path) -> Iterator[Any]:
    """Open the file; unpack a compressed one into a temporary file, as Parquet is read from its end."""
    require("pyarrow", extra="parquet", purpose=f"reading {path}")
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    with open_bytes(path) as file, tempfile.TemporaryFile() as unpacked:
        is_packed = path.suffix.lower() in COMPRESSED
        if is_packed:
            shutil.copyfileobj(file, unpacked)
        try:
            yield ParquetFile(unpacked if is_packed else file)
        except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
            reason = str(error).partition("\n")[0]
            raise DataError(f"{path}: damaged, or not Parquet ({reason}); write or fetch it again") from error


def _flat(fields: Any, outer: str = "", prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the name of each field, those of its fields in dots, and the outermost column it is in."""
    for field in fields:
        name, holder = prefix + field.name, outer or field.name
        is_struct = str(field.type).startswith("struct<")
        inner = [field.type.field(i) for i in range(field.type.num_fields)] if is_struct else []
        yield from _flat(inner, holder, f"{name}.") if inner else [(name, holder)]


_TABLES: dict[str, type[RecordTable]] = {
    ".csv": CommaSeparated,
    ".json": JsonLines,
    ".jsonl": JsonLines,
    ".ndjson": JsonLines,
    ".parquet": Parquet,
}
_NO_TABLES = frozenset(
    {".7z", ".bz2", ".doc", ".docx", ".ods", ".pdf", ".po", ".rar", ".sdlxliff", ".tar", ".tbz", ".tgz",
     ".tmx", ".xlf", ".xliff", ".xls", ".xlsx", ".xml", ".zip"}
)  # fmt: skip


def open_table(name: str, *, setting: str) -> RecordTable:
    """Open the table in the file or data set `name`, by suffix; the default is tab-separated columns.

    Raises:
        DataError: the file does not exist, or its format has no columns.
    """
    if name.startswith(HUB):
        return HubTable(name, setting=setting)
    check_format(name)
    return _TABLES.get(format_suffix(name), TabSeparated)(str(find_file(name)), setting=setting)


def check_format(name: str) -> None:
    """Check that a file can be a table or plain text. DataError: it is not; the message says what to do."""
    suffix = format_suffix(name)
    if suffix in _NO_TABLES:
        raise DataError(
            f"{name}: a {suffix} file has no columns that can be read; give .tsv, .csv, .jsonl or .parquet "
            "(a spreadsheet can be saved as .csv, XLIFF or PO as .tmx)"
        )
    if Path(name).name.startswith("train.tags."):
        raise DataError(
            f"{name}: a tagged file of IWSLT; get its text with: dragoman data fetch iwslt17-en-de, "
            "or remove the lines that begin with <"
        )


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
