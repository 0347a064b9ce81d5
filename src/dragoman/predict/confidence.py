"""Probability of each word of a translation under the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dragoman.predict.alignment import Floats, token_shares, words_of
from dragoman.predict.scoring import score_pairs
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
    probabilities: list[list[WordProbability]] = []
    for target, score in zip(targets, score_pairs(translator, sources, targets), strict=True):
        probabilities.append([])
        if score.log_probs:
            of_words = np.array(score.log_probs[:-1]) @ _shares(translator.tokenizers.tgt, target)
            for (start, end), log_prob in zip(words_of(target), of_words, strict=True):
                probabilities[-1].append(WordProbability(start, end, float(np.exp(min(log_prob, 0.0)))))
    return probabilities


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
