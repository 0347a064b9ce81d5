"""Open a file as a table, and guess which of its columns hold the text and the labels."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Collection, Sequence

from dragoman.data.readers.arrow import HUB, HubTable, Parquet
from dragoman.data.readers.files import find_file, format_suffix, open_bytes
from dragoman.data.readers.tables import (
    Column,
    CommaSeparated,
    FileTable,
    JsonLines,
    RecordTable,
    TabSeparated,
)
from dragoman.errors import DataError
from dragoman.text.languages import language_code, name_of

_TABLES: dict[str, type[FileTable]] = {
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

_SOURCE = ("source", "src")
_TARGET = ("target", "tgt", "trg", "translation")
_TEXT = (
    "text", "review", "sentence", "comment", "content", "document", "message", "tweet", "body", "utterance",
)  # fmt: skip
_LABEL = (
    "label", "labels", "sentiment", "class", "category", "polarity", "rating", "stars", "intent", "topic",
    "target",
)  # fmt: skip
"""Words in the names of columns, in the order in which they are looked for."""


def open_table(name: str, *, setting: str) -> RecordTable:
    """Open the table in the file or data set `name`, by suffix; the default is tab-separated columns.

    Raises:
        DataError: the file does not exist, or its format has no columns.
    """
    if name.startswith(HUB):
        return HubTable(name, setting=setting)
    check_format(name)
    return _TABLES.get(format_suffix(name), TabSeparated)(find_file(name), setting=setting)


def check_format(name: str) -> None:
    """Check that a file can be a table or plain text. DataError: it is not; the message says what to do."""
    suffix = format_suffix(name)
    if suffix in _NO_TABLES:
        raise DataError(
            f"{name}: a {suffix} file has no columns that can be read; give .tsv, .csv, .jsonl or .parquet "
            "(a spreadsheet can be saved as .csv, XLIFF as .tmx)"
        )
    with open_bytes(find_file(name)) as file:
        start = file.read(1 << 12).removeprefix(codecs.BOM_UTF8).lstrip()
    if _TABLES.get(suffix) is JsonLines and start.startswith(b"["):
        raise DataError(
            f"{name}: holds a JSON list; write one object a line, as with: jq -c '.[]' {name} > lines.jsonl"
        )
    if suffix not in _TABLES and b" ||| " in (line := start.split(b"\n")[0]) and b"\t" not in line:
        raise DataError(
            f"{name}: its sides are separated by ' ||| '; separate them by tabs, as with: "
            f"sed 's/ ||| /\\t/' {name} > pairs.tsv"
        )


def by_name(name: str, columns: tuple[Column, Column]) -> tuple[Column, Column]:
    """Return the first two columns of a .csv file, which a user gave by number, by the names that it has.

    By number they are the default, in place of which columns are chosen that are called as is usual. Other
    columns, and those of other files, stay as they are. DataError: the file is not there, or is damaged.
    """
    if set(columns) != {0, 1} or format_suffix(name) != ".csv":
        return columns
    names = open_table(name, setting="columns").fields()
    return (names[int(columns[0])], names[int(columns[1])]) if len(names) > 1 else columns


def match_parallel(names: Sequence[str], *, src_lang: str, tgt_lang: str) -> tuple[str, str] | None:
    """Return the names of the columns with source and target; None where they don't tell.

    By language ("en", "en_US", "text_en", "translation.en", "english"), or else by role ("source", "tgt").
    """
    codes = map(language_code, (src_lang, tgt_lang))
    extra = {"de": "deutsch"}
    by_language = [_only(names, [code, *_words(name_of(code)), extra.get(code, code)]) for code in codes]
    by_role = [_only(names, role) for role in (_SOURCE, _TARGET)]
    for src, tgt in (by_language, by_role):
        if src is not None and tgt is not None and src != tgt:
            return src, tgt
    return None


def match_labelled(names: Sequence[str]) -> tuple[str, str] | None:
    """Return the names of the columns with text and label, as "review" and "sentiment".

    None: they don't tell.
    """
    text = next((name for word in _TEXT if (name := _only(names, (word,)))), None)
    label = next((name for word in _LABEL if (name := _only(names, (word,))) and name != text), None)
    return (text, label) if text is not None and label is not None else None


def looks_like_names(cells: Sequence[str]) -> bool:
    """Whether a line can be the names of columns: short ones, of three words at most."""
    return all(cell.strip() and len(cell) <= 30 and len(_words(cell)) <= 3 for cell in cells)


def unnoticed_header(
    table: RecordTable, columns: Sequence[Column], match: Callable[[Sequence[str]], Sequence[str] | None]
) -> list[str]:
    """Return a remark if columns are given by number and the first line, by `match`, looks like names."""
    if not isinstance(table, TabSeparated) or not all(isinstance(column, int) for column in columns):
        return []
    cells = table.first_line()
    if not looks_like_names(cells) or match(cells) is None:
        return []
    return [
        f"line 1 ({', '.join(cells)}) looks like the names of columns and is read as a pair; "
        f"to leave it out, ask for columns by name ({table.setting})"
    ]


def _words(name: str) -> list[str]:
    """Return the words of a name: "srcText_en-US" has src, text, en and us."""
    return re.findall(r"[^\W\d_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())


def _only(names: Sequence[str], words: Collection[str]) -> str | None:
    """Return the one name that has one of the `words`, or of several the one that is a single word.

    None: there is no such name.
    """
    fitting = [name for name in names if not set(words).isdisjoint(_words(name))]
    plain = [name for name in fitting if len(_words(name)) == 1]
    if len(plain) == 1:
        return plain[0]
    return fitting[0] if len(fitting) == 1 else None
