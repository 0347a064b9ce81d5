"""Score given translations by the model (forced decoding), without search."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dragoman.data.document_batching import plan_by_length
from dragoman.errors import DataError, check_texts
from dragoman.predict.model import TranslationModel
from dragoman.text.tokenizer import EOS_ID, Tokenizer
from dragoman.text.vocabulary import SPECIAL_TOKENS

BATCH_TOKENS = 2048

TINY_PROBABILITY = -700.0
"""Nats: below this a probability is no number that a computer has."""

EMPTY = "an empty side"
TOO_LONG = "a side longer than the model accepts"


class TokenScores(NamedTuple):
    """Log-probabilities of the tokens of a target given its source, in nats; the end token is the last."""

    log_probs: Sequence[float]
    """Empty if the pair has no score."""
    fault: str = ""
    """Why a pair has no score: EMPTY or TOO_LONG; "" = it has one, or both texts are empty."""

    @property
    def log_prob(self) -> float:
        """Log-probability of the whole target, in nats: `Hypothesis.log_prob` of a search that reads the same
        tokens, those of both texts as they are: no slots, and capitals not in their usual case."""
        return math.fsum(self.log_probs)

    @property
    def mean(self) -> float | None:
        """Mean log-probability of a token, in nats, without length penalty; None = no score."""
        n_tokens = len(self.log_probs)
        return max(TINY_PROBABILITY, self.log_prob / n_tokens) if n_tokens else None

    def tokens(self, tokenizer: Tokenizer, target: str) -> list[tuple[str, float]]:
        """Return the tokens of the target as the vocabulary has them, and their log-probabilities in nats.

        The list is empty where the pair has no score.
        """
        return list(zip(pieces_with_end(tokenizer, target), self.log_probs, strict=False))


def perplexity(log_prob: float, n_tokens: int) -> float:
    """exp(-log_prob / n_tokens), at most e^700; 1 for no token."""
    return math.exp(min(-log_prob / max(n_tokens, 1), 700.0))


def score_pairs(
    model: TranslationModel,
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    batch_tokens: int = BATCH_TOKENS,
    progress: Callable[[int], None] | None = None,
) -> list[TokenScores]:
    """Return the log-probability of each target's tokens given its source, in order.

    As in a search, tokens that are never written take no share of the probability. A target with a word
    that is not in the vocabulary, which no search finds, is scored with <unk> in its place, and then <unk>
    has its share. Pairs that cannot be scored carry their fault. `progress` is called with the number of
    pairs finished. DataError: the numbers of sources and targets differ.
    """
    check_texts(sources, what="source")
    check_texts(targets, what="target")
    if len(sources) != len(targets):
        raise DataError(f"{len(sources)} sources and {len(targets)} targets; each needs its own")
    sides, limit = (model.tokenizers.src, model.tokenizers.tgt), model.max_positions
    pairs = list(zip(*map(Tokenizer.encode_batch, sides, (sources, targets)), strict=True))
    faults = [_fault(*pair, limit=limit) for pair in pairs]
    filled = [i for i, (src, _) in enumerate(pairs) if src and not faults[i]]
    lengths = np.array([max(map(len, pairs[i])) + 1 for i in filled], dtype=np.int64)
    scores: dict[int, list[float]] = {}
    for batch in plan_by_length(lengths, max_length=limit, batch_tokens=batch_tokens):
        chosen = [filled[k] for k in batch.tolist()]
        src, tgt = zip(*(pairs[i] for i in chosen), strict=True)
        log_probs = model.engine.score([[*ids, EOS_ID] for ids in src], tgt)
        scores.update(zip(chosen, log_probs, strict=True))
        if progress is not None:
            progress(len(scores) + len(pairs) - len(filled))
    return [TokenScores(scores.get(i, ()), fault) for i, fault in enumerate(faults)]


def _fault(src: Sequence[int], tgt: Sequence[int], *, limit: int) -> str:
    """Return why a pair of tokens cannot be scored; "": it can, or both sides are empty."""
    if bool(src) != bool(tgt):
        return EMPTY
    return TOO_LONG if max(len(src), len(tgt)) + 1 > limit else ""  # with the end or the start token


def pieces_with_end(tokenizer: Tokenizer, text: str) -> list[str]:
    """Return the tokens of `text` as the vocabulary has them, the end token last."""
    return [*(token.piece for token in tokenizer.tokens(text)), SPECIAL_TOKENS[EOS_ID]]
