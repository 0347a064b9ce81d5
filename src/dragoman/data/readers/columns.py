"""Which columns of a table hold source and target, or the text and the labels, by their names."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from dragoman.config import Column
from dragoman.data.readers.files import format_suffix
from dragoman.data.readers.tables import open_table
from dragoman.text.languages import language_code, name_of

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
