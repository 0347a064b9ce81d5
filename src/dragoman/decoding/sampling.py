"""Sampling from the model's distribution, with temperature, top-k, top-p (nucleus) and a seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from dragoman.decoding.hypotheses import Hypothesis, NextToken, Paths, best_tokens, check_no_nan

FEW = 256
"""Number of top tokens in which the nucleus is searched first; it is nearly always among them."""


@torch.no_grad()
def sample(
    step: NextToken,
    *,
    max_lengths: Sequence[int],
    bos_id: int,
    eos_id: int,
    seed: int,
    numbers: Sequence[int],
    n_samples: int = 1,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    length_penalty: float = 1.0,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """Draw `n_samples` independent hypotheses per sentence, best score first; duplicates are possible.

    Tokens are drawn from `truncated(log_probs, ...)`. Samples of sentence i depend only on `seed` and
    `numbers[i]`: drawing more samples keeps the first ones, and other sentences of the batch matter only by
    rounding of log-probabilities. The log_prob of a hypothesis is at temperature 1 and untruncated; its score
    is log_prob over the length penalty. Lengths, eos, sentences without a possible token, `device` and
    RunError are as in `greedy_search`.
    """
    assert n_samples >= 1
    limits = torch.tensor(max_lengths, dtype=torch.long)
    draws = _uniform_numbers(max_lengths, numbers, seed=seed, n_samples=n_samples)
    paths = Paths(length_penalty)
    parents = torch.arange(len(limits))
    last = torch.full_like(parents, bos_id)
    rows = parents.repeat_interleave(n_samples)  # (R,): the row of the call that each sample continues
    sentences, copies = rows, torch.arange(n_samples).repeat(len(limits))
    log_prob = torch.zeros(len(rows), dtype=torch.float64)
    while len(rows):
        paths.extend(last, parents)
        log_probs = step(last.to(device), parents.to(device))  # (N, V)
        check_no_nan(log_probs.amax(dim=1).cpu())
        weights = truncated(log_probs, temperature=temperature, top_k=top_k, top_p=top_p)
        tokens = _draw(weights, rows, draws[sentences, copies, paths.n_tokens])
        tokens[limits[sentences] == paths.n_tokens] = eos_id
        values = log_probs[rows.to(device), tokens.to(device)].cpu()
        log_prob = log_prob + values

        ended = (tokens == eos_id) | (values == -torch.inf)
        paths.end(sentences[ended], rows[ended], log_prob[ended])
        parents, last = rows[~ended], tokens[~ended]
        sentences, copies, log_prob = (x[~ended] for x in (sentences, copies, log_prob))
        rows = torch.arange(len(parents))
    return paths.hypotheses(len(max_lengths), n_samples)


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
    values, tokens = best_tokens(log_probs, k)
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


def _draw(weights: Tensor, rows: Tensor, uniform: Tensor) -> Tensor:
    """Draw a token (R,) for each of `rows` (R,) of `weights` (N, V), given `uniform` (R,) in [0, 1).

    Inverse transform sampling with tokens in order of id. In order of probability, two nearly equal tokens
    that swap by rounding would change the sample.
    """
    rows, uniform = rows.to(weights.device), uniform.to(weights.device)
    cumulative = weights.cumsum(dim=1)[rows]  # (R, V)
    total = cumulative[:, -1:]
    below = torch.nextafter(total, torch.zeros_like(total))  # u * total may be rounded up to total
    target = torch.minimum(uniform[:, None] * total, below)
    tokens = torch.searchsorted(cumulative, target, right=True)[:, 0]
    return tokens.clamp(max=weights.shape[1] - 1).cpu()


def _uniform_numbers(
    max_lengths: Sequence[int], numbers: Sequence[int], *, seed: int, n_samples: int
) -> Tensor:
    """(B, n_samples, longest + 1) in [0, 1), fp64: those of sentence i from a generator of its own."""
    draws = np.zeros((len(max_lengths), n_samples, max(max_lengths, default=0) + 1))
    for own, length, number in zip(draws, max_lengths, numbers, strict=True):
        own[:, : length + 1] = np.random.default_rng([seed, number]).random((n_samples, length + 1))
    return torch.from_numpy(draws)
