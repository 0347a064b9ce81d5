"""Ensembles: several models as one next-token function."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from dragoman.decoding.hypotheses import NextToken
from dragoman.decoding.wrappers import AttendingStep


class Ensemble:
    """A next-token function that averages the probabilities of several models with the same vocabulary.

    Probabilities are averaged, rather than log-probabilities, so that a single model cannot veto a token.
    Computed as log-sum-exp, in the precision of the log-probabilities.
    """

    def __init__(self, steps: Sequence[NextToken]) -> None:
        assert steps
        self.steps = tuple(steps)

    def __call__(self, last: Tensor, parents: Tensor) -> Tensor:
        return mean_probability(torch.stack([step(last, parents) for step in self.steps]))


class AttendingEnsemble(Ensemble):
    """An ensemble of steps that attend to the source; its attention is the mean of theirs."""

    def __init__(self, steps: Sequence[AttendingStep]) -> None:
        super().__init__(steps)
        self._attending = tuple(steps)

    @property
    def attention(self) -> Tensor:
        """(N, S) of the last call."""
        return torch.stack([step.attention for step in self._attending]).mean(dim=0)


def mean_probability(log_probs: Tensor) -> Tensor:
    """Return the log of the mean probability (...), for log_probs (models, ...)."""
    return log_probs.logsumexp(dim=0) - math.log(len(log_probs))
