"""Sampling from the model's distribution, with temperature, top-k, top-p (nucleus) and a seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dragoman.decoding.hypotheses import (
    Floats,
    Hypothesis,
    Ints,
    NextToken,
    best_tokens,
    check_no_nan,
    in_fp64,
)
from dragoman.decoding.search import Search

FEW = 256
"""Number of top tokens in which the nucleus is searched first; it is nearly always among them."""


@torch.no_grad()
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

    def choose(self, log_probs: Tensor) -> tuple[Ints, Ints]:
        rows, n_tokens = self._rows, self.histories.n_tokens
        check_no_nan(log_probs.amax(dim=1).cpu())
        weights = truncated(log_probs, **self._truncation)
        tokens = _draw(weights, rows, self._draws[:, n_tokens])
        tokens[self.limits == n_tokens] = self.eos_id
        where = tuple(torch.from_numpy(each).to(log_probs.device) for each in (rows, tokens))
        values = in_fp64(log_probs[where])
        log_prob = self._log_prob + values

        ended = (tokens == self.eos_id) | (values == -np.inf)
        self.end(rows[ended], log_prob[ended])
        going = ~ended
        self.limits, self._draws = self.limits[going], self._draws[going]
        self._log_prob, self._rows = log_prob[going], np.arange(going.sum())
        return tokens[going], rows[going]


def truncated(log_probs: Tensor, *, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0) -> Tensor:
    """Return sampling weights (N, V) in fp64, for log_probs (N, V).

    In this order: divide log-probabilities by `temperature`; keep the `top_k` best tokens (0 = all; Fan et
    al. 2018); of those, keep the smallest set of best tokens with a share of `top_p` of their probability
    (nucleus, Holtzman et al. 2020). Ties go to the lower ids. A row without a possible token has weights 0.
    """
    assert temperature > 0
    assert top_k >= 0
    assert 0 < top_p <= 1
    if not top_k and top_p == 1:
        return _weights(log_probs, temperature)
    if top_k:
        best, tokens = _best_weights(log_probs, top_k, temperature)  # (N, k) on the CPU
        return _nucleus(best, tokens, best.sum(dim=1), top_p, log_probs.shape)
    total = _weights(log_probs, temperature).sum(dim=1).cpu()
    best, tokens = _best_weights(log_probs, FEW, temperature)
    weights = _nucleus(best, tokens, total, top_p, log_probs.shape)
    wide = best.sum(dim=1) < top_p * total  # a nucleus of more than a few tokens: all are ranked
    if wide.any():
        rows = log_probs[wide.to(log_probs.device)].cpu()
        values, tokens = rows.sort(dim=1, descending=True, stable=True)
        weights[wide] = _nucleus(_weights(values, temperature), tokens, total[wide], top_p, rows.shape)
    return weights


def _best_weights(log_probs: Tensor, k: int, temperature: float) -> tuple[Tensor, Tensor]:
    """Return the weights of the `k` best tokens of each row, and these tokens: (N, k) on the CPU."""
    values, tokens = map(torch.from_numpy, best_tokens(log_probs, k))
    return _weights(values.float(), temperature), tokens


def _nucleus(best: Tensor, tokens: Tensor, total: Tensor, top_p: float, shape: torch.Size) -> Tensor:
    """Weights (N, V), `shape`, of the first of `tokens` (N, k) that hold `top_p` of `total` (N,)."""
    if top_p < 1:
        before = best.cumsum(dim=1) - best
        best = best.masked_fill(before >= top_p * total[:, None], 0.0)
    return best.new_zeros(shape).scatter(1, tokens, best)


def _weights(log_probs: Tensor, temperature: float) -> Tensor:
    """exp(log_probs / temperature) (N, V) in fp64, the largest of each row scaled to 1; 0 in a row of -inf.

    Only their sums need fp64; the exponentials of fp32 numbers are taken in fp32, which is much faster.
    """
    largest = log_probs.amax(dim=1, keepdim=True)
    scaled = (log_probs - largest.masked_fill(largest == -torch.inf, 0.0)) / temperature
    return scaled.exp().double()


def _draw(weights: Tensor, of_rows: Ints, draws: Floats) -> Ints:
    """Draw a token (R,) for each of `of_rows` (R,) of `weights` (N, V), given `draws` (R,) in [0, 1).

    Inverse transform sampling with tokens in order of id. In order of probability, two nearly equal tokens
    that swap by rounding would change the sample.
    """
    rows, uniform = (torch.from_numpy(each).to(weights.device) for each in (of_rows, draws))
    cumulative = weights.cumsum(dim=1)[rows]  # (R, V)
    total = cumulative[:, -1:]
    below = torch.nextafter(total, torch.zeros_like(total))  # u * total may be rounded up to total
    target = torch.minimum(uniform[:, None] * total, below)
    tokens = torch.searchsorted(cumulative, target, right=True)[:, 0]
    return tokens.clamp(max=weights.shape[1] - 1).cpu().numpy()
