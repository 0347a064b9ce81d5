"""Coverage penalty of Wu et al. 2016, equation 14: penalise source tokens without attention."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from dragoman.decoding.hypotheses import NextToken


class AttendingStep(NextToken, Protocol):
    """A next-token function that exposes its attention to the source."""

    @property
    def attention(self) -> Tensor:
        """Attention weights (N, S) of the last call; each row sums to 1."""


class Coverage:
    """A next-token function that accumulates, for each row, the attention to every source token.

    With a_i the attention that source token i got from all target tokens, eos included, the term

        cp = beta * sum over i of log(min(a_i, 1))

    is added to the score of a finished hypothesis. It is at most 0, and 0 if each source token got at least
    the attention of one target token. `counted` (B, S) is False for source tokens that do not count: padding
    and the end token.
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
        """Return the term (M,) of `rows` (M,) of the last call if they end now, in fp64 on the CPU.

        Attention that fp32 rounds to 0 counts as the smallest fp32 number (log -87): terms are finite.
        """
        assert self._sums is not None
        rows = rows.to(self._sums.device)
        sums, counted = self._sums[rows].float(), self._counted[rows]
        logs = sums.clamp(torch.finfo(torch.float32).tiny, 1.0).double().log()
        return self._beta * logs.masked_fill(~counted, 0.0).sum(dim=1).cpu()
