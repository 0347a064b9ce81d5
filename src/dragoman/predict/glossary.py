"""Glossaries: required translations of source phrases."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from dragoman.data.readers.files import format_suffix, hash_strings
from dragoman.data.readers.tables import Notes
from dragoman.data.readers.terms import TermPair, read_terms
from dragoman.errors import DataError, check_texts
from dragoman.predict.inflection import Inflectable
from dragoman.text.normalisation import normalise
from dragoman.text.spans import UNSPACED

_WORDS = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+|[^\w\s]")
"""A word, a punctuation mark, or a single letter of a script without spaces."""

Words = tuple[str, ...]


class Glossary:
    """Phrases of the source and the phrase of the target that each one requires.

    A phrase is found in a text as whole words, a punctuation mark being a word, from left to right, the
    longest first, and without overlap: where "New York" is found, "York" is not looked for. One in the same
    case goes before one that only agrees when case is ignored, so that "Apple" and "apple" can have two
    targets, and an entry in lower case finds its phrase at the beginning of a sentence, too.

    The target is required as it stands, or with `inflect` in any form that its words may have.
    """

    def __init__(
        self, entries: Iterable[Sequence[str]], *, inflect: bool = False, name: str = "glossary"
    ) -> None:
        """Take pairs of source and target, or those of a file of this `name` with their places.

        Of entries that agree but for case, the first serves a text that has neither's case. DataError: one
        side has no word, or a source has two targets.
        """
        self.remarks: list[str] = []
        """What the file holds that was skipped, a line for each kind."""
        phrase = Inflectable if inflect else str
        self._exact: dict[Words, str] = {}
        self._folded: dict[Words, str] = {}
        firsts: dict[str, tuple[str, str]] = {}
        for i, entry in enumerate(entries, start=1):
            place = entry.place if isinstance(entry, TermPair) else f"entry {i}"
            source, target = map(normalise, entry[-2:])
            words = _words(source)
            if not words or not _words(target):
                raise DataError(f"{name} {place}: has no word on one side; write source and target")
            first_target, first_place = firsts.setdefault(source, (target, place))
            if first_target != target:
                raise DataError(
                    f"{name} {place}: {source!r} is to be {target!r} here and {first_target!r} in "
                    f"{first_place}; keep one of the two"
                )
            self._exact.setdefault(words, phrase(target))
            self._folded.setdefault(_fold(words), phrase(target))
        self._longest = max(map(len, self._exact), default=0)

    @classmethod
    def load(
        cls, name: str | Path, languages: tuple[str, str] = ("", ""), *, inflect: bool = False
    ) -> Glossary:
        """Read a glossary from a file, whose name says the format.

        - .csv: source, comma, target (or semicolon); fields may be quoted.
        - .tbx: a term base; each source term of an entry requires the first target term.
        - any other: source, tab, target.

        A first line that names the columns is optional: codes of `languages`, source and target, or these
        words. `languages` also choose the terms of a term base: "en" finds those in "en-US", too. Empty lines
        are skipped, and entries of a term base without both languages, which `remarks` counts.

        DataError: the file cannot be read, has no entry or a line that is not one, or a source has two
        targets.
        """
        if format_suffix(str(name)) == ".tbx" and not all(languages):
            raise DataError(f"{name}: has terms in several languages; say which: languages=(source, target)")
        notes = Notes("entries")
        glossary = cls(read_terms(str(name), languages, notes), inflect=inflect, name=str(name))
        if not glossary._exact:
            raise DataError(f"{name}: has no entry; write one a line, source and target")
        glossary.remarks = notes.lines(str(name))
        return glossary

    @property
    def fingerprint(self) -> str:
        """A hash of all entries, and of whether they may be inflected."""
        entries = self._exact.items()
        return hash_strings(*chain.from_iterable((*src, type(tgt).__name__, tgt) for src, tgt in entries))

    def required(self, text: str) -> list[str]:
        """Return the target phrases that a translation of `text` must have, each once, in source order."""
        check_texts([text], what="sentence")
        if not self._exact:
            return []
        words = _words(normalise(text))
        folded = _fold(words)
        phrases: dict[str, None] = {}
        start = 0
        while start < len(words):
            for end in range(min(len(words), start + self._longest), start, -1):
                target = self._exact.get(words[start:end]) or self._folded.get(folded[start:end])
                if target is not None:
                    phrases[target] = None
                    start = end
                    break
            else:
                start += 1
        return list(phrases)


def _words(text: str) -> Words:
    return tuple(_WORDS.findall(text))


def _fold(words: Words) -> Words:
    return tuple(word.casefold() for word in words)
