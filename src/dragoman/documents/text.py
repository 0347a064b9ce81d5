"""Documents: text of several lines, in which a line may hold several sentences."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.documents.budget import Budget
from dragoman.errors import check_texts, optional
from dragoman.predict.splitting import gap_between
from dragoman.text.slots import PATTERNS

WINDOW = 10_000
"""Characters of a line in which sentences are told apart at once: what that takes grows with their square."""

_LINE_END = re.compile(r"(\r\n|\n|\r)")
_NUMBER = re.compile(PATTERNS["numbers"])
_THOUSANDS = re.compile(r"(?<=[0-9])[ \u00a0\u202f](?=[0-9]{3}(?![0-9]))")
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Document:
    """The sentences of a text, and all that stands around them.

    `Document.read(text, language).written(sentences, (language, language)) == text` for every text.
    """

    sentences: tuple[str, ...]
    """None of them is empty, begins or ends with white space, or crosses the end of a line."""
    line_numbers: tuple[int, ...]
    """The line on which each sentence stands, counted from 1."""
    gaps: tuple[str, ...]
    """White space and line ends before each sentence and, last, behind them all."""

    @classmethod
    def read(cls, text: str, language: str, budget: Budget | None = None) -> Document:
        """Split `text` into sentences by the rules of `language`, such as "en".

        A line is a paragraph: no sentence goes on in the next. "\\n", "\\r\\n" and "\\r" end one.
        Sentences count in the `budget`.
        MissingExtraError: sentencex is not installed. DataError: more pieces than the budget has.
        """
        check_texts([text], what="document")
        sentences, line_numbers, gaps, gap = [], [], [], ""
        for i, line in enumerate(_LINE_END.split(text)):
            for segment in [line] if i % 2 else segments(line, language, budget):
                sentence = segment.strip()
                if sentence:
                    start = segment.index(sentence)
                    gaps.append(gap + segment[:start])
                    sentences.append(sentence)
                    line_numbers.append(i // 2 + 1)
                    gap = segment[start + len(sentence) :]
                else:
                    gap += segment
        return cls(tuple(sentences), tuple(line_numbers), (*gaps, gap))

    def written(self, translations: Sequence[str], languages: tuple[str, str]) -> str:
        """Return the document with a translation in place of each sentence. `languages`: source and target.

        White space and line ends stay as they are. Only between sentences of a line it depends on the
        languages: see `splitting.gap_between`.
        """
        pieces = [self.gaps[0]]
        for i, translation in enumerate(translations):
            gap = self.gaps[i + 1]
            on = self.line_numbers[i : i + 2]
            within_line = len(on) == 2 and on[0] == on[1]
            pieces += [translation, gap_between(gap, languages) if within_line else gap]
        return "".join(pieces)


def segments(line: str, language: str, budget: Budget | None = None) -> list[str]:
    """Return the sentences of a line, each with the white space behind it; joined, they are the line.

    By the rules of sentencex, which knows the abbreviations of many languages, and takes those of a related
    one for others. MissingExtraError, DataError: as `Document.read`.
    """
    sentencex = optional("sentencex", extra="documents", purpose="telling sentences of a document apart")
    sentences, position = [], 0
    while position < len(line):
        window = _SURROGATES.sub("\ufffd", line[position : position + WINDOW])  # UTF-8 cannot hold them
        lengths = [len(segment) for segment in sentencex.segment(language, window)]
        lengths += [len(window) - sum(lengths)] if sum(lengths) < len(window) else []
        if position + WINDOW < len(line):  # the last one may go on
            lengths = lengths[:-1] or [window.rfind(" ") + 1 or WINDOW]
        if budget is not None:
            budget.spend(len(lengths))
            budget.step(len(window))
        for length in lengths:
            sentences.append(line[position : position + length])
            position += length
    return sentences


def numbers_in(text: str) -> Counter[str]:
    """Return the numbers in a text, however they are written: a minus and the digits, as ASCII."""
    if not text.isascii():
        text = "".join(str(unicodedata.decimal(character, character)) for character in text)
    numbers = (match[0] for match in _NUMBER.finditer(_THOUSANDS.sub("", text)))
    return Counter("-" * number.startswith(("-", "−")) + re.sub("[^0-9]", "", number) for number in numbers)
