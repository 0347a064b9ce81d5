"""Block repeated n-grams."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from dragoman.decoding.histories import Histories
from dragoman.decoding.hypotheses import NextToken


class NoRepeatedNgrams:
    """A next-token function that blocks repeated n-grams (Paulus et al. 2018, section 2.5).

    A token that would repeat an n-gram of its row gets log-probability -inf, with two exceptions. The tokens
    `exempt[i]` may be repeated in sentence i, so that required phrases stay possible. If no other token is
    possible, as within a forced prefix, nothing is blocked.
    """

    def __init__(self, step: NextToken, n: int, *, exempt: Sequence[Collection[int]]) -> None:
        assert n >= 1
        self._step = step
        self._n = n
        self._exempt = exempt
        self._histories = Histories()

    def __call__(self, last: Tensor, parents: Tensor) -> Tensor:
        log_probs = self._step(last, parents)
        histories, n = self._histories, self._n
        histories.follow(last, parents)
        if histories.n_tokens < n:
            return log_probs
        ngrams = histories.tokens.unfold(1, n, 1)  # (N, n-grams of a row, n)
        newest = histories.tokens[:, histories.n_tokens - n + 1 :]  # (N, n - 1)
        begun = (ngrams[:, :, :-1] == newest[:, None]).all(dim=2)  # (N, n-grams)
        rows, which = begun.nonzero(as_tuple=True)
        blocked = torch.zeros_like(log_probs, dtype=torch.bool)
        blocked[rows, ngrams[rows, which, n - 1]] = True
        for row in set(rows.tolist()):
            if exempt := self._exempt[int(histories.sentences[row])]:
                blocked[row, torch.tensor(sorted(exempt), device=blocked.device)] = False
        left = log_probs.masked_fill(blocked, -torch.inf)
        stuck = (left == -torch.inf).all(dim=1, keepdim=True)
        return torch.where(stuck, log_probs, left)
