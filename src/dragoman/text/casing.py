"""Text in capitals or in title case, as the vocabulary would write it, and the case put back."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from dragoman.text.alterations import WORD, in_capitals, in_title_case
from dragoman.text.base import Tokenizer
from dragoman.text.slots import change_outside, without_carried
from dragoman.text.vocabulary import UNK_ID

Casing: TypeAlias = Literal["", "capitals", "title"]
"""How a whole text is written: as usual, in capitals, or with a capital at the beginning of every word."""

MIN_TITLE = 4
"""Words of a text in title case, at least."""

_SENTENCE_ENDS = re.compile(r"[.!?…]\s\W*\Z")


def usual_case(text: str, tokenizer: Tokenizer) -> tuple[str, Casing]:
    """Return the text as the vocabulary of `tokenizer` would write it, and the casing that it has.

    The text itself, and "", where it has no other case already, where letters have no case, or where it is
    a matter of opinion: words of names and of German nouns begin with a capital in any case. Addresses,
    placeholders, tags and the like in it do not count, and stay.
    """
    parts = text.split()
    if 2 * sum(part[0].islower() for part in parts) > len(parts):  # most text is told from others by this
        return text, ""
    words = WORD.findall(without_carried(text))
    letters = [letter for word in words for letter in word if letter.isalpha()]
    if len(letters) < 2 or any(letter.lower() == letter.upper() for letter in letters):
        return text, ""
    if all(letter == letter.upper() for letter in letters):
        usual = _written(text, tokenizer)
        return (usual, "capitals") if usual != text else (text, "")
    if len(words) < MIN_TITLE or any(word[0] == word[0].lower() for word in words):
        return text, ""
    usual = _written(text, tokenizer)
    changed = sum(a != b for a, b in zip(WORD.findall(text), WORD.findall(usual), strict=True))
    return (usual, "title") if 2 * changed >= len(words) else (text, "")


def _written(text: str, tokenizer: Tokenizer) -> str:
    """Return `text` with each word as the vocabulary has it, and a capital where a sentence begins.

    That is in the fewest tokens, and of these in the most frequent ones: their ids are the lowest in every
    kind of vocabulary.
    """

    words = list(dict.fromkeys(WORD.findall(text)))
    forms = [form for word in words for form in (word.lower(), _with_capital(word.lower()), word)]
    ranks = [
        (ids.count(UNK_ID), len(ids), max(ids, default=0)) for ids in tokenizer.plain.encode_batch(forms)
    ]
    best_of = {
        word: min(zip(ranks[i : i + 3], range(3), forms[i : i + 3], strict=True))[2]
        for word, i in zip(words, range(0, len(forms), 3), strict=True)
    }

    def written(part: str) -> str:
        first = WORD.search(part) if text.startswith(part) else None

        def usual(match: re.Match[str]) -> str:
            best, start = best_of.get(match[0], match[0]), match.start()
            begins = (first and first.start() == start) or _SENTENCE_ENDS.search(
                part, max(0, start - 9), start
            )
            return _with_capital(best) if begins else best

        return WORD.sub(usual, part)

    return change_outside(written, text)


def _with_capital(word: str) -> str:
    return word[:1].upper() + word[1:]


def in_casing(casing: Casing, text: str) -> str:
    """Return `text` in capitals, in title case, or as it is."""
    return in_capitals(text) if casing == "capitals" else in_title_case(text) if casing == "title" else text
