"""Parallel text, read as a stream: two aligned files, a table, a memory, or the embedded phrasebook."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import starmap, zip_longest
from pathlib import Path
from typing import Any

from dragoman.config import Column, each_corpus
from dragoman.data import phrasebook
from dragoman.data.readers.columns import looks_like_names, match_parallel
from dragoman.data.readers.files import (
    ReadOffset,
    find_file,
    format_suffix,
    hash_file,
    hash_strings,
    open_lines,
)
from dragoman.data.readers.formats import tmx
from dragoman.data.readers.tables import Notes, RecordTable, TabSeparated, check_format, open_table
from dragoman.data.records import Corpus, JoinedCorpora, Numbered, Pair, has_text
from dragoman.errors import DataError

SETTING = "--columns or data.columns"
DEFAULT_COLUMNS = (0, 1)
PHRASEBOOK = "phrasebook:"


class AlignedFiles(Corpus):
    """Two text files with a sentence a line, whose lines match one by one."""

    unit = "line"

    def __init__(self, src: Path, tgt: Path) -> None:
        self.src, self.tgt = src, tgt
        self.name = f"{src} + {tgt}"
        self.position = ReadOffset()

    def _read(self) -> Iterator[Pair]:
        return self._read_after(0)

    def _read_after(self, n: int) -> Iterator[Pair]:
        n_src = n_tgt = n
        sources = open_lines(self.src, position=self.position, skip=n)
        for src, tgt in zip_longest(sources, open_lines(self.tgt, skip=n)):
            n_src += src is not None
            n_tgt += tgt is not None
            if src is not None and tgt is not None:
                yield Pair(src, tgt)
        if n_src != n_tgt:
            raise DataError(
                f"{self.src} has {n_src} lines and {self.tgt} {n_tgt}; parallel files must match line by "
                "line (dragoman data check shows where they cease to)"
            )

    def fingerprint(self) -> str:
        return hash_strings("aligned", hash_file(self.src), hash_file(self.tgt))

    def hashes(self) -> dict[str, str]:
        return {str(path): hash_file(path) for path in (self.src, self.tgt)}


class TableCorpus(Corpus):
    """Two columns of a table."""

    def __init__(
        self,
        table: RecordTable,
        columns: tuple[Column, Column],
        match: Callable[[Sequence[str]], Sequence[str] | None],
    ) -> None:
        """`match` finds the columns among names, as a header has them."""
        self.table, self.columns, self._match = table, columns, match
        self.name, self.unit, self.position = table.name, table.unit, table.position

    def _read(self) -> Iterator[Any]:
        return (record for _, record in self._rows())

    def numbered(self) -> Iterator[Numbered]:
        n_usable = 0
        for one in self._rows():
            n_usable += has_text(one.texts)
            yield one
        if not n_usable:
            for _ in self.records():  # which complains
                pass

    def _rows(self) -> Iterator[Numbered]:
        """Yield every record with the number of its row. DataError: a cell cannot be read."""
        self._notes = Notes("lines")
        table, (src, tgt) = self.table, self.columns
        if isinstance(table, TabSeparated) and isinstance(src, int) and isinstance(tgt, int):
            cells = table.first_line()
            if looks_like_names(cells) and self._match(cells) is not None:
                self._notes.remarks.append(
                    f"line 1 ({', '.join(cells)}) looks like the names of columns and is read as a pair; "
                    f"to leave it out, ask for columns by name ({table.setting})"
                )
        for n, texts in table.rows(self.columns, self._notes):
            yield Numbered(n, Pair(table.text(texts[0], n, src), table.text(texts[1], n, tgt)))

    def fingerprint(self) -> str:
        return self.table.fingerprint(self.columns)


class TranslationMemory(Corpus):
    """A TMX file."""

    def __init__(self, path: Path, *, src_lang: str, tgt_lang: str) -> None:
        self.path, self.src_lang, self.tgt_lang = path, src_lang, tgt_lang
        self.name = str(path)

    def _read(self) -> Iterator[Pair]:
        self._notes = Notes("units")
        return starmap(
            Pair, tmx(self.path, src_lang=self.src_lang, tgt_lang=self.tgt_lang, notes=self._notes)
        )

    def fingerprint(self) -> str:
        return hash_strings("units", self.src_lang, self.tgt_lang, hash_file(self.path))


class Embedded(Corpus):
    """A split of the text that comes with Dragoman."""

    def __init__(self, name: str, records: Callable[[], Iterable[Any]], separator: str | None = None) -> None:
        self.name, self._records, self.separator = name, records, separator
        self.unit = "example" if self.is_labelled else "pair"

    def _read(self) -> Iterator[Any]:
        return iter(self._records())

    def fingerprint(self) -> str:
        kind = "reviews" if self.is_labelled else "phrasebook"
        return hash_strings(kind, *(text for record in self._read() for text in record))


def open_corpus(
    files: Sequence[str] | Sequence[Sequence[str]],
    *,
    src_lang: str,
    tgt_lang: str,
    columns: tuple[Column, Column] = DEFAULT_COLUMNS,
) -> Corpus:
    """Open a corpus: two aligned files, one file of any format, or a set such as "phrasebook:train".

    A list of such lists is one corpus as well, read in their order. One file is read by its suffix: .csv,
    .jsonl (.ndjson, .json), .parquet, .tmx, and anything else as tab-separated columns;
    "hf:owner/name:split" is a data set of the hub. A relative name is looked up in the working directory,
    then in $DRAGOMAN_DATA, then among the fetched data sets. `columns` are numbers, counted from 0, or
    names; where they are left at the default, a file that names its columns is asked for the languages'
    ones. DataError: a file is missing, there is no such split or language, or the columns do not tell what
    is in them.
    """
    several = each_corpus(files)
    if len(several) > 1:
        return JoinedCorpora(
            [open_corpus(one, src_lang=src_lang, tgt_lang=tgt_lang, columns=columns) for one in several]
        )
    files = several[0] if several else ()
    if not 1 <= len(files) <= 2:
        hint = "" if files else " (a run that was imported names none: set data.train)"
        raise DataError(
            f"a corpus of {len(files)} files; give two aligned files or one with both sides{hint}"
        )
    if len(files) == 2:
        for name in files:
            check_format(name)
        return AlignedFiles(*map(find_file, files))
    name = files[0]
    if name.startswith(PHRASEBOOK):
        split = name.removeprefix(PHRASEBOOK)
        if split not in phrasebook.SPLITS:
            raise DataError(f"{name}: no such split; there are {', '.join(phrasebook.SPLITS)}")
        for lang in (src_lang, tgt_lang):
            if lang not in phrasebook.LANGUAGES:
                languages = ", ".join(phrasebook.LANGUAGES)
                raise DataError(f"{name}: no language {lang!r} in the phrasebook; there are {languages}")
        return Embedded(name, lambda: starmap(Pair, phrasebook.pairs(split, src_lang, tgt_lang)))
    if format_suffix(name) == ".tmx":
        return TranslationMemory(find_file(name), src_lang=src_lang, tgt_lang=tgt_lang)
    table = open_table(name, setting=SETTING)
    match = partial(match_parallel, src_lang=src_lang, tgt_lang=tgt_lang)
    columns = _columns_of(table, columns, src_lang=src_lang, tgt_lang=tgt_lang)
    return TableCorpus(table, columns, match)


def _columns_of(
    table: RecordTable, columns: tuple[Column, Column], *, src_lang: str, tgt_lang: str
) -> tuple[Column, Column]:
    """Return the columns to read. DataError: they are negative, or left to a table that does not tell."""
    negative = [column for column in columns if isinstance(column, int) and column < 0]
    if negative:
        raise DataError(f"{table.name}: column {negative[0]}; columns are counted from 0 ({SETTING})")
    if isinstance(table, TabSeparated) or columns != DEFAULT_COLUMNS:
        return columns
    names = table.fields()
    matched = match_parallel(names, src_lang=src_lang, tgt_lang=tgt_lang)
    if matched or (table.is_ordered and len(names) == len(columns)):
        return matched or columns
    raise DataError(
        f"{table.name}: cannot tell which columns are {src_lang} and {tgt_lang} among "
        f"{', '.join(names) or 'none'}; name them, as in --columns source,target (data.columns)"
    )
