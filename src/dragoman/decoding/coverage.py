"""Coverage penalty of Wu et al. 2016, equation 14: penalise source tokens without attention."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from dragoman.decoding.hypotheses import NextToken


class AttendingStep(NextToken, Protocol):
    """A next-token function that tells where in the source it looked."""

    @property
    def attention(self) -> Tensor:
        """(N, S) of the last call: how much each row looked at each source token; rows add up to 1."""


class Coverage:
    """A next-token function that sums up, along each row, the attention paid to every source token.

    With a_i the attention that source token i got from all target tokens, eos included, the term

        cp = beta * sum over i of log(min(a_i, 1))

    is added to the score of a finished hypothesis: at most 0, and 0 where each source token was looked at
    as much as one target token looks at the source. `counted` (B, S) is False where a source token takes
    no part: padding, and the end token, which nothing translates.
    """

    def __init__(self, step: AttendingStep, *, beta: float, counted: Tensor) -> None:
        assert beta >= 0
        self._step = step
        self._beta = beta
        self._counted = counted
        self._sums: Tensor | None = None  # (N, S)

    def __call__(self, last: Tensor, parents: Tensor) -> Tensor:
        log_probs = self._step(last, parents)
        attention = self._step.attention
        if self._sums is None:
            self._sums = attention
        else:
            self._counted = self._counted[parents]
            self._sums = self._sums[parents] + attention
        return log_probs

    def penalty(self, rows: Tensor) -> Tensor:
        """The term of `rows` (M,) of the last call if they end now, (M,) in fp64 on the CPU.

        An attention that fp32 rounds to 0 counts as its smallest number, log -87: still a finite term.
        """
        assert self._sums is not None
        rows = rows.to(self._sums.device)
        sums, counted = self._sums[rows].float(), self._counted[rows]
        logs = sums.clamp(torch.finfo(torch.float32).tiny, 1.0).double().log()
        return self._beta * logs.masked_fill(~counted, 0.0).sum(dim=1).cpu()
