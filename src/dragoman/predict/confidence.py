"""Probability of each word of a translation under the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dragoman.errors import DataError, check_texts
from dragoman.predict.alignment import Floats, token_shares, words_of
from dragoman.predict.scoring import score_translations
from dragoman.predict.translator import Translator
from dragoman.text.tokenizer import Tokenizer


class WordProbability(NamedTuple):
    """A word of a translation, by its characters, and its probability after what stands before it."""

    start: int
    end: int
    probability: float


def word_probabilities(
    translator: Translator, sources: Sequence[str], targets: Sequence[str]
) -> list[list[WordProbability]]:
    """Return the probability of each word of each target: the product of those of its tokens.

    A token that is part of several words counts for each by its share (`alignment.token_shares`), and one
    that is white space alone for the word behind it. Words are those of `alignment.words_of`. A pair that
    cannot be scored, since a side is empty or longer than the model accepts, has none. DataError: there are
    not as many targets as sources.

    The model's own opinion: what it finds improbable is not always wrong, nor the other way round.
    """
    check_texts(sources, what="source")
    check_texts(targets, what="target")
    if len(sources) != len(targets):
        raise DataError(f"{len(sources)} sources and {len(targets)} targets; each needs its own")
    tokenizers, limit = translator.tokenizers, translator.max_positions
    src, tgt = tokenizers.src.encode_batch(sources), tokenizers.tgt.encode_batch(targets)
    usable = [i for i in range(len(src)) if 0 < len(src[i]) < limit and 0 < len(tgt[i]) < limit]
    found: list[list[WordProbability]] = [[] for _ in targets]
    scored = score_translations(translator, [sources[i] for i in usable], [targets[i] for i in usable])
    for i, translation in zip(usable, scored, strict=True):
        log_probs = np.array([token.log_prob for token in translation.tokens[:-1]])  # without the end
        of_words = log_probs @ _shares(tokenizers.tgt, targets[i])
        found[i] = [
            WordProbability(start, end, float(np.exp(min(log_prob, 0.0))))
            for (start, end), log_prob in zip(words_of(targets[i]), of_words, strict=True)
        ]
    return found


def _shares(tokenizer: Tokenizer, text: str) -> Floats:
    """`token_shares`, but every token belongs to a word: white space to the one behind it, or the last."""
    shares = token_shares(tokenizer, text)
    n_words = shares.shape[1]
    word = n_words - 1
    for t in reversed(range(len(shares))):
        if shares[t].any():
            word = int(shares[t].argmax())
        elif n_words:
            shares[t, word] = 1.0
    return shares
