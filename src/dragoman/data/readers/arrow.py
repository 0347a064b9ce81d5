"""Records of columns that come as Arrow tables: Parquet files, and data sets of the Hugging Face hub.

Their packages are extras: pyarrow ("parquet") and datasets ("hub"). A data set that would run a program of
its own is never loaded: since its version 4, the package datasets has no means to.
"""

from __future__ import annotations

import shutil
import tempfile
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from dragoman.data.readers.files import (
    COMPRESSED,
    hash_strings,
    longest_line,
    open_bytes,
    too_long,
    unreadable,
)
from dragoman.data.readers.tables import Column, FileTable, Notes, RecordTable
from dragoman.errors import DataError, optional, require

HUB = "hf:"
ROWS = 512
"""Rows in memory at once. A small file may unpack to the longest text there may be in each of them."""


class ArrowTable(RecordTable):
    """Rows that come in batches of columns."""

    unit = "row"

    def fields(self) -> list[str]:
        return list(self._holders)

    def rows(self, columns: Sequence[Column], notes: Notes) -> Iterator[tuple[int, Sequence[object]]]:
        for column in columns:
            if column not in self._holders:
                raise self.unknown(column, self.name, self._holders)
        names = [self._holders[str(column)] for column in columns]
        n, most = 0, longest_line()
        for batch in self._batches(sorted(set(names))):
            for cells in zip(*(batch.column(name).to_pylist() for name in names), strict=True):
                n += 1
                row = [self._cell(*at, n) for at in zip(columns, names, cells, strict=True)]
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

    def _cell(self, column: Column, name: str, value: object, n: int) -> object:
        """Return the value of row `n` in the column `name`, or of the field `column` in it."""
        return None if value is None else self.field({name: value}, column, n)


class Parquet(ArrowTable, FileTable):
    """A Parquet file."""

    KIND = "parquet"

    def _schema(self) -> Any:
        with _open_parquet(self.path) as file:
            return file.schema_arrow

    def _batches(self, names: list[str]) -> Iterator[Any]:
        with _open_parquet(self.path) as file:
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

    def _cell(self, column: Column, name: str, value: object, n: int) -> object:
        value = super()._cell(column, name, value, n)
        classes = getattr(self._dataset.features[name], "names", None)
        if classes is None or not isinstance(value, int):
            return value
        return classes[value] if value >= 0 else None  # the hub writes -1 where a label is kept secret


@contextmanager
def _open_parquet(path: Path) -> Iterator[Any]:
    """Open the file; unpack a compressed one into a temporary file, as Parquet is read from its end."""
    require("pyarrow", extra="parquet", purpose=f"reading {path}")
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    with ExitStack() as stack:
        if path.suffix.lower() in COMPRESSED:
            file: Any = stack.enter_context(tempfile.TemporaryFile())
            with open_bytes(path) as packed:
                shutil.copyfileobj(packed, file)
        else:
            try:
                file = stack.enter_context(path.open("rb"))
            except OSError as error:
                raise unreadable(path, error) from error
        try:
            yield ParquetFile(file)
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
