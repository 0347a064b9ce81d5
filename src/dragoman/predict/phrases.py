"""Tokenize target phrases, so that a search can require them."""

from __future__ import annotations

import re
import unicodedata

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


def continuing_tokens(tokenizer: Tokenizer) -> frozenset[int]:
    """Return the tokens that continue a word: after a letter, they begin with a letter, mark or digit.

    A byte of a character that is longer than one byte counts as such, for most are letters. There are none
    where tokens are words.
    """
    word = tokenizer.encode("a")
    if UNK_ID in word:
        return frozenset()
    n_before = len(tokenizer.decode(word))
    tokens = range(len(SPECIAL_TOKENS), tokenizer.vocab_size)
    written = tokenizer.decode_batch([[*word, token] for token in tokens])
    return frozenset(
        token for token, text in zip(tokens, written, strict=True) if _continues(text[n_before:])
    )


def _continues(text: str) -> bool:
    return text[:1] == "\ufffd" or unicodedata.category(text[:1] or " ")[0] in "LMN"
