"""Constraints on translations, read from files: target prefixes, required phrases, a glossary."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from dragoman.errors import DataError


class Content:
    """Constraints read in step with the sentences."""

    def __init__(
        self,
        *,
        prefixes: str | None,
        required: str | None,
        glossary: str | None,
        languages: tuple[str, str],
        inflect: bool,
    ) -> None:
        """Open the files; `prefixes` and `required` have one line for each sentence.

        `languages` are source and target of the glossary. With `inflect`, phrases may take other endings.

        Raises:
            DataError: a file is missing, or the glossary is malformed.
        """
        from dragoman.predict.glossary import Glossary
        from dragoman.predict.inflection import Inflectable

        self._phrase = Inflectable if inflect else str
        self._prefixes = None if prefixes is None else AlignedLines(prefixes)
        self._required = None if required is None else AlignedLines(required)
        self._glossary = None if glossary is None else Glossary.load(glossary, languages, inflect=inflect)
        self.remarks = [] if self._glossary is None else self._glossary.remarks
        """What the glossary's file holds that was skipped."""

    def take(self, sentences: Sequence[str]) -> dict[str, Any]:
        """Return the constraints of the next sentences, as keyword arguments of `Translator.translate`.

        Raises:
            DataError: a file has fewer lines than there are sentences.
        """
        constraints: dict[str, Any] = {}
        if self._prefixes is not None:
            constraints["prefixes"] = self._prefixes.take(len(sentences))
        if self._required is not None:
            lines = self._required.take(len(sentences))
            constraints["required"] = [
                [self._phrase(phrase) for phrase in line.split("\t") if phrase.strip()] for line in lines
            ]
        if self._glossary is not None:
            phrases = [self._glossary.required(sentence) for sentence in sentences]
            required = constraints.get("required", [[] for _ in sentences])
            constraints["required"] = [[*a, *b] for a, b in zip(required, phrases, strict=True)]
        return constraints

    def close(self, n_sentences: int) -> None:
        """Check that all lines were used. DataError: a file has more lines than there were sentences."""
        for lines in (self._prefixes, self._required):
            if lines is not None:
                lines.close(n_sentences)


class AlignedLines:
    """A file with one line, possibly empty, for each sentence."""

    def __init__(self, name: str) -> None:
        from dragoman.data.readers.files import find_file, open_lines

        self._name = name
        self._lines = open_lines(find_file(name))
        self._n_read = 0

    def take(self, n: int) -> list[str]:
        """Return the next `n` lines. DataError: there are fewer."""
        lines = list(islice(self._lines, n))
        self._n_read += len(lines)
        if len(lines) < n:
            raise DataError(
                f"{self._name} has {self._n_read} lines and there are more sentences; "
                "write one line for each sentence, an empty one if there is no constraint"
            )
        return lines

    def close(self, n_sentences: int) -> None:
        """Check that all lines were used. DataError: there are lines left."""
        if next(self._lines, None) is not None:
            raise DataError(
                f"{self._name} has more than {n_sentences} lines for {n_sentences} sentences; "
                "write one line for each sentence"
            )
