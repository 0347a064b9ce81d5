"""Tokenize target phrases, so that a search can require them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from dragoman.text.tokenizer import UNK_ID, Tokenizer
from dragoman.text.vocabulary import SPECIAL_TOKENS

UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
)
"""Letters of scripts that put no space between words: Thai, Lao, Myanmar, Khmer, Kana and Han."""

_UNSPACED = re.compile(f"[{UNSPACED}]")
_BEFORE = ","


def encode_phrase(tokenizer: Tokenizer, phrase: str) -> list[int]:
    """Return the tokens of `phrase` as they stand within a sentence; none for white space.

    Behind a space, as a sentence begins for subwords; in a script without spaces, behind a comma.
    """
    if not _UNSPACED.match(tokenizer.normalise(phrase)):
        return tokenizer.encode(phrase)
    before = tokenizer.encode(_BEFORE)
    ids = tokenizer.encode(_BEFORE + tokenizer.normalise(phrase))
    return ids[len(before) :] if ids[: len(before)] == before else tokenizer.encode(phrase)


def written_texts(tokenizer: Tokenizer) -> list[str]:
    """Return what each token writes behind a letter, its space included; "" for special tokens.

    Where tokens are words, a space stands before each. A part of a character is written as U+FFFD.
    """
    word = tokenizer.encode("a")
    tokens = range(len(SPECIAL_TOKENS), tokenizer.vocab_size)
    special = [""] * len(SPECIAL_TOKENS)
    if UNK_ID in word:
        return [*special, *(f" {text}" for text in tokenizer.decode_batch([[token] for token in tokens]))]
    n_before = len(tokenizer.decode(word))
    written = tokenizer.decode_batch([[*word, token] for token in tokens])
    return [*special, *(text[n_before:] for text in written)]


def continuing_tokens(written: Sequence[str]) -> frozenset[int]:
    """Return the tokens that continue a word: after a letter, they begin with a letter, mark or digit.

    `written` is what each token writes. A byte of a character that is longer than one byte counts as such,
    for most are letters. There are none where tokens are words.
    """
    firsts = enumerate(text[:1] or " " for text in written)
    return frozenset(i for i, c in firsts if c == "\ufffd" or unicodedata.category(c)[0] in "LMN")
