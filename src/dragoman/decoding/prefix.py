"""Prefix-constrained decoding: sequences that begin with given tokens."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dragoman.decoding.histories import Histories
from dragoman.decoding.hypotheses import NextToken


class ForcedPrefix:
    """A next-token function that forces sentence i to begin with the tokens `prefixes[i]`, if any.

    Within the prefix, every other token has log-probability -inf. The forced token keeps its log-probability
    from `step`, so that the log_prob of a hypothesis is the model's for the whole sequence.
    """

    def __init__(self, step: NextToken, prefixes: Sequence[Sequence[int]]) -> None:
        self._step = step
        self._histories = Histories()
        self._longest = max(map(len, prefixes), default=0)
        self._forced = torch.full((len(prefixes), self._longest), -1)  # (B, longest): -1 behind the end
        for row, prefix in zip(self._forced, prefixes, strict=True):
            row[: len(prefix)] = torch.tensor(prefix, dtype=torch.long)

    def __call__(self, last: Tensor, parents: Tensor) -> Tensor:
        log_probs = self._step(last, parents)
        self._histories.follow(last, parents)
        t = self._histories.n_tokens
        if t >= self._longest:
            return log_probs
        forced = self._forced.to(log_probs.device)[self._histories.sentences, t]  # (N,)
        within = forced >= 0
        tokens = torch.arange(log_probs.shape[1], device=log_probs.device)
        return log_probs.masked_fill(within[:, None] & (tokens != forced[:, None]), -torch.inf)
