"""Sampling from the model's distribution, with temperature, top-k, top-p (nucleus) and a seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dragoman.decoding.hypotheses import Hypothesis, NextToken
from dragoman.decoding.log_probs import Floats, Floats32, Ints, LogProbs, are_best, check_no_nan, columns_of
from dragoman.decoding.search import Search


def sample(step: NextToken, *, n_samples: int = 1, **options: Any) -> list[list[Hypothesis]]:
    """Draw `n_samples` independent hypotheses per sentence, best score first; duplicates are possible.

    Tokens are drawn from `truncated(log_probs, ...)`. Samples of sentence i depend only on `seed` and
    `numbers[i]`: drawing more samples keeps the first ones, and other sentences of the batch matter only by
    rounding of log-probabilities. The log_prob of a hypothesis is at temperature 1 and untruncated; its score
    is log_prob over the length penalty. Lengths, eos, sentences without a possible token and RunError are as
    in `greedy_search`; `options` are those of `SamplingSearch`.
    """
    assert n_samples >= 1
    return SamplingSearch(step, n_best=n_samples, **options).run()


class SamplingSearch(Search):
    """Draws `n_best` hypotheses of each sentence: see `sample`."""

    def __init__(
        self,
        step: NextToken,
        *,
        max_lengths: Sequence[int],
        numbers: Sequence[int],
        seed: int,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        **options: Any,
    ) -> None:
        """`numbers[i]` is that of sentence i in what is drawn."""
        super().__init__(step, max_lengths=max_lengths, **options)
        self._truncation: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        draws = np.zeros((len(max_lengths), self.n_best, max(max_lengths, default=0) + 1))
        for samples, length, number in zip(draws, max_lengths, numbers, strict=True):
            generator = np.random.default_rng([seed, number])  # of the sentence alone
            samples[:, : length + 1] = generator.random((self.n_best, length + 1))
        self._draws: Floats = draws.reshape(-1, draws.shape[2])  # (R, longest + 1) in [0, 1)
        self._rows: Ints = np.arange(len(max_lengths)).repeat(self.n_best)
        """(R,) the row of the next call that each sample continues: all of a sentence begin in one."""
        self.limits = self.limits[self._rows]
        self._log_prob: Floats = np.zeros(len(self._rows))

    def choose(self, log_probs: LogProbs) -> tuple[Ints, Ints]:
        rows, n_tokens, values = self._rows, self.histories.n_tokens, log_probs.all()
        check_no_nan(values.max(axis=1))
        tokens = _draw(truncated(values, **self._truncation), rows, self._draws[:, n_tokens])
        tokens[self.limits == n_tokens] = self.eos_id
        drawn = values[rows, tokens].astype(np.float64)
        log_prob = self._log_prob + drawn

        ended = (tokens == self.eos_id) | (drawn == -np.inf)
        self.end(rows[ended], log_prob[ended])
        going = ~ended
        self.limits, self._draws = self.limits[going], self._draws[going]
        self._log_prob, self._rows = log_prob[going], np.arange(going.sum())
        return tokens[going], rows[going]


def truncated(log_probs: Floats32, *, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0) -> Floats:
    """Return sampling weights (N, C), for log_probs (N, C).

    In this order: divide log-probabilities by `temperature`; keep the `top_k` best tokens (0 = all; Fan et
    al. 2018); of those, keep the smallest set of best tokens with a share of `top_p` of their probability
    (nucleus, Holtzman et al. 2020). Ties go to the lower ids. A row without a possible token has weights 0.
    """
    assert temperature > 0
    assert top_k >= 0
    assert 0 < top_p <= 1
    if not top_k and top_p == 1:
        return _weights(log_probs, temperature)
    best_first = -np.sort(-log_probs, axis=1)
    weights = _weights(best_first, temperature)
    if top_k:
        weights[:, top_k:] = 0.0
    before = weights.cumsum(axis=1) - weights
    if top_p < 1:
        weights[before >= top_p * weights.sum(axis=1, keepdims=True)] = 0.0
    n_kept = (weights > 0).sum(axis=1)
    least = columns_of(best_first, n_kept[:, None].clip(min=1) - 1)[:, 0]
    return _weights(np.where(are_best(log_probs, least, n_kept), log_probs, -np.inf), temperature)


def _weights(log_probs: Floats32, temperature: float) -> Floats:
    """exp(log_probs / temperature) (N, C) in fp64, the largest of each row scaled to 1; 0 in a row of -inf.

    Only their sums need fp64; the exponentials of fp32 numbers are taken in fp32, which is much faster.
    """
    largest = log_probs.max(axis=1, keepdims=True)
    largest[largest == -np.inf] = 0.0
    return np.exp((log_probs - largest) / np.float32(temperature)).astype(np.float64)


def _draw(weights: Floats, of_rows: Ints, draws: Floats) -> Ints:
    """Draw a token (R,) for each of `of_rows` (R,) of `weights` (N, C), given `draws` (R,) in [0, 1).

    Inverse transform sampling with tokens in order of id. In order of probability, two nearly equal tokens
    that swap by rounding would change the sample.
    """
    cumulative = weights.cumsum(axis=1)[of_rows]  # (R, C)
    total = cumulative[:, -1:]
    below = np.nextafter(total, 0.0)  # u * total may be rounded up to total
    target = np.minimum(draws[:, None] * total, below)
    tokens: Ints = (cumulative <= target).sum(axis=1)
    return tokens.clip(max=weights.shape[1] - 1)
