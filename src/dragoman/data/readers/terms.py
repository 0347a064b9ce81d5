"""Glossaries as files: two columns of a .tsv or .csv file, or a term base (TBX)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from dragoman.data.readers.files import find_file, format_suffix
from dragoman.data.readers.formats import CONTROL, WITH_CONTROLS, XmlStream, language_matches, language_of
from dragoman.data.readers.tables import CommaSeparated, Notes, TabSeparated, one_line
from dragoman.errors import DataError

NAMES = ("source", "src"), ("target", "tgt")
"""Names of the columns of source and target, besides the codes of their languages."""


class TermPair(NamedTuple):
    """A term of the source language, its translation, and the place of both in their file."""

    place: str
    source: str
    target: str


def read_terms(name: str, languages: tuple[str, str], notes: Notes) -> Iterator[TermPair]:
    """Yield the pairs of terms of a file, which its name says the format of: .csv, .tbx, else tabs.

    `languages` are the codes of source and target, which name columns and terms. `notes` counts the entries
    of a term base without both of them.

    Raises:
        DataError: the file cannot be read, or a record is malformed.
    """
    path = find_file(name)
    suffix = format_suffix(name)
    if suffix == ".tbx":
        yield from _tbx(path, languages, notes)
        return
    is_csv = suffix == ".csv"
    records = (CommaSeparated if is_csv else TabSeparated)(path, setting="").records()
    how = "source, comma, target" if is_csv else "source, tab, target"
    columns, n_columns = (0, 1), 2
    with closing(records):
        for i, (n, cells) in enumerate(records):
            if i == 0 and (named := _header(cells, languages)):
                columns, n_columns = named, len(cells)
            elif cells:
                terms = [one_line(cells[k]).strip() for k in columns] if len(cells) == n_columns else []
                if not terms or not all(terms):
                    raise DataError(f"{name} line {n}: is not {how}; write one entry a line")
                yield TermPair(f"line {n}", *terms)


def _header(cells: list[str], languages: tuple[str, str]) -> tuple[int, int] | None:
    """Return the columns of source and target if `cells` name them."""
    names = [cell.strip().lower() for cell in cells]
    matching = [
        [i for i, name in enumerate(names) if name in aliases or (lang and language_matches(name, lang))]
        for aliases, lang in zip(NAMES, languages, strict=True)
    ]
    return (matching[0][0], matching[1][0]) if all(matching) else None


def _tbx(path: Path, languages: tuple[str, str], notes: Notes) -> Iterator[TermPair]:
    """Yield each source term of an entry with the first target term."""
    entries = _Entries(path)
    term_languages: set[str] = set()
    for line, terms in chain.from_iterable(entries.read()):
        notes.n_read += 1
        if any(CONTROL in term for _, term in terms):
            notes.skipped[WITH_CONTROLS] += 1
            continue
        term_languages |= {language for language, _ in terms}
        sources, targets = (
            [term for language, term in terms if language_matches(language, code)] for code in languages
        )
        if not sources or not targets:
            notes.skipped[f"without a term in both {' and '.join(languages)}"] += 1
        for source in dict.fromkeys(sources if targets else []):
            yield TermPair(f"line {line}", source, targets[0])
    if notes.skipped.total() - notes.skipped[WITH_CONTROLS] == notes.n_read:
        raise DataError(
            f"{path}: no entry has terms in both {languages[0]} and {languages[1]}; "
            f"its languages: {', '.join(sorted(term_languages)) or 'none'}"
        )


class _Entries(XmlStream[tuple[int, list[tuple[str, str]]]]):
    """The entries of a term base, each with its line, and the language and text of its terms.

    TBX-Basic, TBX version 2 (<termEntry>) and 3 (<conceptEntry>).
    """

    KIND, ROOTS = "TBX", frozenset({"martif", "tbx"})
    ENTRIES = frozenset({"termEntry", "conceptEntry"})
    LANGUAGES = frozenset({"langSet", "langSec"})

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._terms: list[tuple[str, str]] = []  # (language, term) of this entry
        self._entry_line = 0
        self._language = ""
        self._term: list[str] | None = None

    def _opened(self, tag: str, attributes: dict[str, str]) -> None:
        if tag in self.ENTRIES:
            self._terms, self._left = [], self._most
            self._entry_line = self.parser.CurrentLineNumber
        elif tag in self.LANGUAGES:
            self._language = language_of(attributes)
            if not self._language:
                self.refuse(f"<{tag}> has no xml:lang; name its language")
        elif tag == "term":
            self._term = []

    def _characters(self, text: str) -> None:
        if self._term is not None:
            self._take(len(text))
            self._term.append(text)

    def _closed(self, tag: str) -> None:
        if tag == "term" and self._term is not None:
            term = " ".join("".join(self._term).split())
            if not term:
                self.refuse("<term> is empty; write one, or remove it")
            self._terms.append((self._language, term))
            self._term = None
        elif tag in self.LANGUAGES:
            self._language = ""
        elif tag in self.ENTRIES:
            self._finished.append((self._entry_line, self._terms))
