"""Random tables in place of a model, whose sequences can all be listed.

A table gives the log-probabilities of the next token for a sentence and its whole prefix, so that a
wrong back-pointer anywhere changes the result.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from dragoman.decoding.beam import beam_search
from dragoman.decoding.hypotheses import Hypothesis, NextToken, length_penalty
from dragoman.decoding.log_probs import ArrayLogProbs, Ints
from dragoman.decoding.search import greedy_search

BOS, EOS = 0, 1


class Table:
    """Random log-probabilities (V,) per sentence and prefix; bos is forbidden.

    `n_levels` > 0 rounds the logits to that number of values, to make ties; `forbidden` is the share of -inf.
    """

    def __init__(self, seed: int, n_tokens: int, *, n_levels: int = 0, forbidden: float = 0.0) -> None:
        self.seed, self.vocab_size = seed, n_tokens + 2
        self.n_levels, self.forbidden = n_levels, forbidden

    def __call__(self, sentence: int, prefix: tuple[int, ...]) -> np.ndarray:
        random = np.random.default_rng([self.seed, sentence, *prefix])
        logits = random.normal(scale=2.0, size=self.vocab_size)
        if self.n_levels:
            logits = random.integers(self.n_levels, size=self.vocab_size).astype(float)
        log_probs = logits - np.log(np.exp(logits).sum())
        log_probs[random.random(self.vocab_size) < self.forbidden] = -math.inf
        log_probs[BOS] = -math.inf
        return log_probs.astype(np.float32)

    def log_prob(self, sentence: int, ids: Sequence[int]) -> float:
        """That of a whole translation: the sum of its tokens' and its end's."""
        return sum(float(self(sentence, tuple(ids[:t]))[token]) for t, token in enumerate((*ids, EOS)))


seeds = st.integers(0, 2**32 - 1)
max_lengths = st.lists(st.integers(0, 5), min_size=1, max_size=4)
tables = st.builds(
    Table,
    seeds,
    st.integers(1, 6),
    n_levels=st.sampled_from([0, 0, 2, 3]),
    forbidden=st.sampled_from([0.0, 0.3, 0.7]),
)


class Stepper:
    """A next-token function whose state is the sentence and prefix of each row, reordered by `parents`."""

    def __init__(self, table: Table, sentences: Sequence[int]) -> None:
        self.table, self.sentences = table, sentences
        self.rows: list[tuple[int, tuple[int, ...]]] | None = None

    def __call__(self, last: Ints, parents: Ints) -> ArrayLogProbs:
        if self.rows is None:
            assert last.tolist() == [BOS] * len(self.sentences)
            assert parents.tolist() == list(range(len(self.sentences)))
            self.rows = [(sentence, ()) for sentence in self.sentences]
        else:
            self.rows = [
                (self.rows[row][0], (*self.rows[row][1], token))
                for row, token in zip(parents.tolist(), last.tolist(), strict=True)
            ]
        return ArrayLogProbs(np.stack([self.table(*row) for row in self.rows]))


def beam(step: NextToken | Table, sentences: Sequence[int] = (), **options: Any) -> list[list[Hypothesis]]:
    """The beam search of `sentences` of a table, or over any other step."""
    step = Stepper(step, sentences) if isinstance(step, Table) else step
    return beam_search(step, bos_id=BOS, eos_id=EOS, **options)


def greedy(table: Table, sentences: Sequence[int], **options: Any) -> list[list[Hypothesis]]:
    return greedy_search(Stepper(table, sentences), bos_id=BOS, eos_id=EOS, **options)


def all_hypotheses(table: Table, sentence: int, max_length: int, alpha: float) -> list[Hypothesis]:
    """Every possible sequence, best first."""

    def walk(prefix: tuple[int, ...], log_prob: float) -> Iterator[Hypothesis]:
        log_probs = table(sentence, prefix).tolist()
        total = log_prob + log_probs[EOS]
        yield Hypothesis(prefix, total, total / length_penalty(len(prefix) + 1, alpha))
        for token in range(table.vocab_size):
            if token != EOS and len(prefix) < max_length and log_probs[token] > -math.inf:
                yield from walk((*prefix, token), log_prob + log_probs[token])

    found = [hypothesis for hypothesis in walk((), 0.0) if hypothesis.log_prob > -math.inf]
    return sorted(found, key=lambda hypothesis: -hypothesis.score)
