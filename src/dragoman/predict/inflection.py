"""Required phrases of which any inflection will do: a constraint on the stems of their words.

What a token writes decides, not how a word is cut into tokens: of "Hund", a search may write "Hunde" as one
token, or as "Hun" and "de".
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import cached_property
from math import inf
from typing import NamedTuple

from dragoman.text.tokenizer import Tokenizer
from dragoman.text.vocabulary import SPECIAL_TOKENS

LONGEST_ENDING = 3
"""Letters that a form may have more than the word."""


class Inflectable(str):
    """A required phrase of which any inflection will do."""

    __slots__ = ()


class Stem(NamedTuple):
    """How the forms of a word begin, and how long they may be, in characters."""

    text: str
    longest: int
    varies: bool = True
    """Whether its forms may differ in their endings, and in the marks of letters, as "Rad" and "Räder"."""

    @classmethod
    def of(cls, word: str) -> Stem:
        """Return the stem of a word: its letters but the last, from 5 letters on, or the last two, from 8 on.

        A word of one or two letters, in capitals, or with other characters than letters has no other form.
        """
        if len(word) < 3 or not word.isalpha() or word.isupper():
            return cls(word, len(word), varies=False)
        n_dropped = (len(word) >= 5) + (len(word) >= 8)
        return cls(without_marks(word[: len(word) - n_dropped]), len(word) + LONGEST_ENDING)

    def grow(self, n: int, text: str) -> int:
        """Return how long a form of `n` characters is with `text` behind it; 0 if that begins no form."""
        end, n_missing = n + len(text), max(0, len(self.text) - n)
        ending = text[n_missing:]
        if end > self.longest or (ending and not ending.isalpha()):
            return 0
        beginning = without_marks(text[:n_missing]) if self.varies else text[:n_missing]
        return end if beginning == self.text[n:end] else 0

    def matches(self, word: str) -> bool:
        """Return whether `word` is a form."""
        return self.grow(0, word) >= len(self.text)


def without_marks(text: str) -> str:
    """Return `text` without the marks of its letters, as long as before: "Rader" for "Räder"."""
    if text.isascii():
        return text
    return "".join(unicodedata.normalize("NFD", character)[0] for character in text)


class WrittenTokens:
    """What each token of a vocabulary writes behind a letter, and tokens by the letter they begin with."""

    def __init__(self, texts: Sequence[str]) -> None:
        """Take the text of each token, its space included; "" for special tokens.

        A part of a character is written as U+FFFD.
        """
        self.texts = texts
        self._by_beginning: dict[str, list[int]] = defaultdict(list)
        for token, text in enumerate(texts):
            if text.strip() and "\ufffd" not in text:
                self._by_beginning[without_marks(text[: 1 + text.startswith(" ")])].append(token)

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> WrittenTokens:
        """Return those of a tokenizer. Where tokens are words, a space stands before each."""
        word = tokenizer.encode("a")  # a letter, or the mark of an unknown word
        n_before = len(tokenizer.decode(word))
        tokens = range(len(SPECIAL_TOKENS), tokenizer.vocab_size)
        texts = tokenizer.decode_batch([[*word, token] for token in tokens])
        return cls([*[""] * len(SPECIAL_TOKENS), *(text[n_before:] for text in texts)])

    @cached_property
    def continuing(self) -> frozenset[int]:
        """The tokens that continue a word: after a letter, they begin with a letter, mark or digit.

        A byte of a character that is longer than one byte counts as such, for most are letters. There are
        none where tokens are words.
        """
        firsts = enumerate(text[:1] or " " for text in self.texts)
        return frozenset(i for i, c in firsts if c == "\ufffd" or unicodedata.category(c)[0] in "LMN")

    def beginning(self, text: str) -> Sequence[int]:
        """Return the tokens that begin with a letter like `text`, or with a space and such a letter."""
        return self._by_beginning.get(without_marks(text), ())


class InflectedPhrase:
    """Words that follow each other, each in any of its forms: a `dragoman.decoding.phrases.Phrase`.

    A position counts characters: those that were written of a word, and `_width` for each word before it.
    """

    def __init__(self, words: Sequence[str], written: WrittenTokens) -> None:
        self._stems = [Stem.of(word) for word in words]
        self._written = written
        self._width = 1 + max(stem.longest for stem in self._stems)
        self._ways: dict[int, tuple[float, tuple[int, ...]]] = {}
        """The fewest tokens that complete the phrase from each position, and those that are a step ahead."""
        places = [(word, n) for word, stem in enumerate(self._stems) for n in range(1, stem.longest + 1)]
        for word, n in [*reversed(places), (0, 0)]:  # the last position first
            self._ways[word * self._width + n] = self._measured(word, n)

    @property
    def tokens(self) -> Collection[int]:
        """The tokens that a search must be free to write wherever the phrase needs them."""
        return {token for _, tokens in self._ways.values() for token in tokens}

    def holds(self, ids: Sequence[int]) -> bool:
        """Return whether the tokens `ids` are the phrase in one of its forms."""
        position: int | None = 0
        for token in ids:
            position = None if position is None else self.follow(position, token)
        return position is not None and self.distance(position) == 0

    def follow(self, position: int, token: int) -> int | None:
        """Return the position after `token`, or None if no form goes on so."""
        following = self._follow(position, token)
        return None if following is None or self._ways[following][0] == inf else following

    def distance(self, position: int) -> int:
        """Return the fewest tokens that complete the phrase; 0 where it is complete."""
        return int(self._ways[position][0])

    def forward(self, position: int) -> Sequence[int]:
        """Return the tokens that lead to a smaller distance."""
        return self._ways[position][1]

    def _measured(self, word: int, n: int) -> tuple[float, tuple[int, ...]]:
        """Compute distance and tokens of a position from those behind it."""
        stem = self._stems[word]
        is_whole = n >= len(stem.text)
        if is_whole and word == len(self._stems) - 1:
            return 0, ()
        next_letter = f" {self._stems[word + is_whole].text[0]}" if is_whole or not n else stem.text[n]
        steps = [
            (self._ways[following][0], token)
            for token in self._written.beginning(next_letter)
            if (following := self._follow(word * self._width + n, token)) is not None
        ]
        distance = 1 + min((distance for distance, _ in steps), default=inf)
        return distance, tuple(token for behind, token in steps if behind < distance)

    def _follow(self, position: int, token: int) -> int | None:
        word, n = divmod(position, self._width)
        text = self._written.texts[token]
        if text.startswith(" "):
            if n and (n < len(self._stems[word].text) or word + 1 == len(self._stems)):
                return None
            word, n, text = word + bool(n), 0, text[1:]
        elif not n:
            return None
        length = self._stems[word].grow(n, text) if text else 0
        return word * self._width + length if length else None
