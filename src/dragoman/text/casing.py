"""Text in capitals or in title case, as the vocabulary would write it, and the case put back."""

from __future__ import annotations

import re
import unicodedata
from itertools import chain
from typing import Literal, TypeAlias

from dragoman.text.alterations import WORD, in_capitals, in_title_case, lower, with_capital
from dragoman.text.base import Tokenizer
from dragoman.text.slots import change_outside, without_carried
from dragoman.text.vocabulary import UNK_ID

Casing: TypeAlias = Literal["", "capitals", "title"]
"""How a whole text is written: as usual, in capitals, or with a capital at the beginning of every word."""

MIN_TITLE = 4
"""Words of a text in title case, at least."""

_SENTENCE_ENDS = re.compile(r"[.!?…]\s\W*\Z")


def usual_case(text: str, tokenizer: Tokenizer, language: str) -> tuple[str, Casing]:
    """Return the text as the vocabulary of `tokenizer` would write it, and the casing that it has.

    The text itself, and "", where it has no other case already, where letters have no case, or where it is
    a matter of opinion: words of names and of German nouns begin with a capital in any case. Addresses,
    placeholders, tags and the like in it do not count, and stay. Letters without a capital of their own, such
    as ß, count for neither case. `language` is that of the text, such as "tr".
    """
    parts = text.split()
    if 2 * sum(part[0].islower() for part in parts) > len(parts):  # most text is told from others by this
        return text, ""
    composed = unicodedata.normalize("NFC", text)
    words = WORD.findall(without_carried(composed))
    letters = [letter for word in words for letter in word if letter.isalpha() and len(letter.upper()) == 1]
    if len(letters) < 2 or any(letter.lower() == letter.upper() for letter in letters):
        return text, ""
    capitals = all(letter == letter.upper() for letter in letters)
    if not capitals and (len(words) < MIN_TITLE or any(word[0] == word[0].lower() for word in words)):
        return text, ""
    usual, n_changed = _written(composed, tokenizer, language)
    if capitals:
        return (usual, "capitals") if n_changed else (text, "")
    return (usual, "title") if 2 * n_changed >= len(words) else (text, "")


def _written(text: str, tokenizer: Tokenizer, language: str) -> tuple[str, int]:
    """Return `text` with each word as the vocabulary has it, and how many words that changes.

    A word is written in the fewest tokens, and of these in the most frequent ones: their ids are the lowest
    in every kind of vocabulary. It has a capital where a sentence begins.
    """
    forms: dict[str, tuple[str, str, str]] = {}
    for word in WORD.findall(text):
        small = lower(word, language)
        forms[word] = (small, with_capital(small, language), word)
    every = list(chain.from_iterable(forms.values()))
    ranks = {
        form: (ids.count(UNK_ID), len(ids), max(ids, default=0))
        for form, ids in zip(every, tokenizer.plain.encode_batch(every), strict=True)
    }
    best_of = {word: min(choices, key=ranks.__getitem__) for word, choices in forms.items()}
    n_changed = 0

    def written(part: str) -> str:
        first = WORD.search(part) if text.startswith(part) else None

        def usual(match: re.Match[str]) -> str:
            nonlocal n_changed
            best, start = best_of.get(match[0], match[0]), match.start()
            if (first and first.start() == start) or _SENTENCE_ENDS.search(part, max(0, start - 9), start):
                best = with_capital(best, language)
            n_changed += best != match[0]
            return best

        return WORD.sub(usual, part)

    return change_outside(written, text), n_changed


def in_casing(casing: Casing, text: str, language: str) -> str:
    """Return `text` in capitals, in title case, or as it is."""
    write = {"capitals": in_capitals, "title": in_title_case}.get(casing)
    return write(text, language) if write else text
