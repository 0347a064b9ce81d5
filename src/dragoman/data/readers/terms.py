"""Glossaries as files: two columns of a .tsv or .csv file, or a term base (TBX)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from dragoman.data.readers.files import find_file, format_suffix
from dragoman.data.readers.formats import CONTROL, WITH_CONTROLS, UnitFormat, XmlUnits, language_matches
from dragoman.data.readers.tables import CommaSeparated, Notes, TabSeparated, one_line
from dragoman.errors import DataError

NAMES = ("source", "src"), ("target", "tgt")
"""Names of the columns of source and target, besides the codes of their languages."""
TBX = UnitFormat(
    "TBX", frozenset({"martif", "tbx"}), frozenset({"termEntry", "conceptEntry"}),
    frozenset({"langSet", "langSec"}), "term", is_complete=True,
)  # fmt: skip
"""TBX-Basic, TBX version 2 (<termEntry>) and 3 (<conceptEntry>)."""


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
    records = (CommaSeparated if is_csv else TabSeparated)(str(path), setting="").records()
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
    term_languages: set[str] = set()
    for line, texts in XmlUnits(path, TBX).read():
        notes.n_read += 1
        if any(CONTROL in term for _, term in texts):
            notes.skipped[WITH_CONTROLS] += 1
            continue
        term_languages |= {language for language, _ in texts}
        sources, targets = (
            [" ".join(term.split()) for language, term in texts if language_matches(language, code)]
            for code in languages
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
