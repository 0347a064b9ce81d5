"""Words of a text by their characters, what of each token belongs to each, and phrases as tokens."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import regex

from dragoman.text.tokenizer import Tokenizer
from dragoman.text.transformations import REPLACED

UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
)
"""Letters of scripts that put no space between words: Thai, Lao, Myanmar, Khmer, Kana and Han."""

_UNSPACED = re.compile(f"[{UNSPACED}]")
_BEFORE = ","
_UNSEPARATED = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}]"
_BLANKED = {code: new or " " for code, new in REPLACED.items()}
"""`REPLACED` with a space for what is dropped: places stay what they are."""

LETTERS = rf"(?:(?!{_UNSEPARATED})[\p{{L}}\p{{M}}\p{{N}}])+"
WORD = rf"{_UNSEPARATED}\p{{M}}*|{LETTERS}|[^\p{{L}}\p{{M}}\p{{N}}\s]"
"""A run of letters and digits, one other character, or one letter of a script that separates no words."""


def words_of(text: str, word: str = WORD) -> list[tuple[int, int]]:
    """Return the first character of each word of `text`, and the one behind it; `word` says what is one."""
    return [match.span() for match in regex.finditer(word, text.translate(_BLANKED))]


def character_origins(text: str, normalise: Callable[[str], str]) -> list[tuple[int, int]]:
    """For each character of `normalise(text)`, those of `text` it comes from: the first, and the one behind.

    Characters that are composed with others share the span of them all. A word that `normalise` drops belongs
    to the space beside it.
    """
    origins: list[tuple[int, int]] = []
    for match in re.finditer(r"\S+", text):
        word, begin = match[0], match.start()
        normal, spans, start, n_before = normalise(word), list[tuple[int, int]](), 0, 0
        if normal == word or (word.isascii() and len(normal) == len(word)):
            spans = [(begin + i, begin + i + 1) for i in range(len(word))]
        else:  # cut wherever both sides are normalised as if the other were not there
            for end in range(1, len(word) + 1):
                head = normalise(word[:end])
                if head + normalise(word[end:]) == normal:
                    spans += [(begin + start, begin + end)] * (len(head) - n_before)
                    start, n_before = end, len(head)
        if origins and spans:
            origins.append((origins[-1][1], spans[0][0]))
        origins += spans
    return origins


def token_shares(tokenizer: Tokenizer, text: str) -> npt.NDArray[np.float32]:
    """(tokens, words) how much of each token of `text` belongs to each word: rows add up to 1, or are 0."""
    words = words_of(text)
    word_of = {c: w for w, (start, end) in enumerate(words) for c in range(start, end)}
    origins = character_origins(text, tokenizer.normalise)
    tokens = tokenizer.tokens(text)
    shares = np.zeros((len(tokens), len(words)), dtype=np.float32)
    for row, token in zip(shares, tokens, strict=True):
        characters = (c for origin in origins[token.start : token.end] for c in range(*origin))
        touched = {word_of[c] for c in characters if c in word_of}
        row[list(touched)] = 1 / max(1, len(touched))
    return shares


def encode_phrase(tokenizer: Tokenizer, phrase: str) -> list[int]:
    """Return the tokens of `phrase` as they stand within a sentence; none for white space.

    Behind a space, as a sentence begins for subwords; in a script without spaces, behind a comma.
    """
    if not _UNSPACED.match(tokenizer.normalise(phrase)):
        return tokenizer.encode(phrase)
    before = tokenizer.encode(_BEFORE)
    ids = tokenizer.encode(_BEFORE + tokenizer.normalise(phrase))
    return ids[len(before) :] if ids[: len(before)] == before else tokenizer.encode(phrase)
