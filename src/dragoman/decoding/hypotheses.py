"""Types shared by all searches: next-token function, score term and hypothesis."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from dragoman.decoding.log_probs import Floats, Ints, LogProbs


class NextToken(Protocol):
    """The interface of a model for search."""

    def __call__(self, last: Ints, parents: Ints) -> LogProbs:
        """Return log-probabilities (N, C) of the token after `last` (N,).

        Row i continues row `parents[i]` of the previous call. In the first call N is the number of sentences,
        `last` is bos and `parents` is arange(N). N changes from call to call: a sentence grows into the rows
        of its beam, and its rows go when it is done. A forbidden token has log-probability -inf.
        """


class ScoreTerm(Protocol):
    """A term added to the scores of finished hypotheses, such as a coverage penalty."""

    def __call__(self, rows: Ints) -> Floats:
        """Return the terms (M,) <= 0 of `rows` (M,) of the last call if they end now.

        Because terms are at most 0, a search can stop early without losing the best hypothesis.
        """


class Hypothesis(NamedTuple):
    """A finished sequence."""

    ids: tuple[int, ...]
    """The tokens, without bos and eos."""
    log_prob: float
    """Sum of the tokens' log-probabilities in nats, eos included."""
    score: float
    """log_prob divided by the length penalty, plus the score term of the search; ranks hypotheses."""


def length_penalty(length: int, alpha: float) -> float:
    """Return ((5 + length) / 6) ** alpha; `length` includes eos. Wu et al. 2016, equation 14.

    Does not decrease with `length`, for alpha >= 0.
    """
    return ((5 + length) / 6) ** alpha
