"""Glossaries: required translations of source phrases."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from dragoman.data.readers.files import find_file, open_lines
from dragoman.errors import DataError, check_texts
from dragoman.predict.inflection import Inflectable
from dragoman.predict.phrases import UNSPACED
from dragoman.text.normalisation import normalise

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

    def __init__(self, entries: Iterable[tuple[str, str]], *, inflect: bool = False) -> None:
        """Of entries that agree but for case, the first serves a text that has neither's case."""
        phrase = Inflectable if inflect else str
        self._exact: dict[Words, str] = {}
        self._folded: dict[Words, str] = {}
        for source, target in entries:
            self._exact.setdefault(_words(source), phrase(target))
            self._folded.setdefault(_fold(_words(source)), phrase(target))
        self._longest = max(map(len, self._exact | self._folded), default=0)

    @classmethod
    def load(cls, name: str | Path) -> Glossary:
        """Read a glossary from a UTF-8 file: source, tab, target on each line; empty lines are skipped.

        DataError: the file cannot be read, has no entry or a line that is not one, or a source has two
        targets.
        """
        path = find_file(str(name))
        entries: dict[str, tuple[str, int]] = {}
        for number, line in enumerate(open_lines(path), start=1):
            if not line.strip():
                continue
            columns = [normalise(column) for column in line.split("\t")]
            if len(columns) != 2 or not all(map(_words, columns)):
                raise DataError(f"{name} line {number}: is not source, tab, target; write one entry a line")
            source, target = columns
            known, first = entries.setdefault(source, (target, number))
            if known != target:
                raise DataError(
                    f"{name} line {number}: {source!r} is to be {target!r} here and {known!r} in line "
                    f"{first}; keep one of the two"
                )
        if not entries:
            raise DataError(f"{name}: has no entry; write source, tab, target on each line")
        return cls((source, target) for source, (target, _) in entries.items())

    def required(self, text: str) -> list[str]:
        """Return the target phrases that a translation of `text` must have, each once, in source order."""
        check_texts([text], what="sentence")
        words = _words(normalise(text))
        folded = _fold(words)
        found: dict[str, None] = {}
        start = 0
        while start < len(words):
            for end in range(min(len(words), start + self._longest), start, -1):
                target = self._exact.get(words[start:end]) or self._folded.get(folded[start:end])
                if target is not None:
                    found[target] = None
                    start = end
                    break
            else:
                start += 1
        return list(found)


def _words(text: str) -> Words:
    return tuple(_WORDS.findall(text))


def _fold(words: Words) -> Words:
    return tuple(word.casefold() for word in words)
