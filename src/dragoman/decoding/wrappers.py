"""Next-token functions around others: they change what may come next, or a hypothesis' worth, or are watched.

The coverage penalty is equation 14 of Wu et al. 2016.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor

from dragoman.decoding.hypotheses import NextToken
from dragoman.decoding.search import FILLER, Columns, Histories


class NotEmpty:
    """A next-token function that does not end before the first token, so that no translation is empty."""

    def __init__(self, step: NextToken, *, eos_id: int) -> None:
        self._step, self._eos_id = step, eos_id
        self._has_begun = False

    def __call__(self, last: Tensor, parents: Tensor) -> Tensor:
        log_probs = self._step(last, parents)
        if self._has_begun:
            return log_probs
        self._has_begun = True
        ends = torch.arange(log_probs.shape[1], device=log_probs.device) == self._eos_id
        return log_probs.masked_fill(ends, -torch.inf)


class ForcedPrefix:
    """A next-token function that forces sentence i to begin with the tokens `prefixes[i]`, if any.

    Within the prefix, every other token has log-probability -inf. The forced token keeps its log-probability
    from `step`, so that the log_prob of a hypothesis is the model's for the whole sequence.
    """

    def __init__(
        self, step: NextToken, prefixes: Sequence[Sequence[int]], *, columns: Columns | None = None
    ) -> None:
        self._step, self._columns = step, columns or Columns()
        self._histories = Histories()
        self._longest = max(map(len, prefixes), default=0)
        self._forced = np.full((len(prefixes), self._longest), FILLER)  # (B, longest)
        for row, prefix in zip(self._forced, prefixes, strict=True):
            row[: len(prefix)] = prefix

    def __call__(self, last: Tensor, parents: Tensor) -> Tensor:
        log_probs = self._step(last, parents)
        self._histories.follow(last, parents)
        n_tokens = self._histories.n_tokens
        if n_tokens >= self._longest:
            return log_probs
        tokens = self._forced[self._histories.sentences, n_tokens]  # (N,)
        forced = torch.from_numpy(self._columns.of(tokens)).to(log_probs.device)[:, None]
        columns = torch.arange(log_probs.shape[1], device=log_probs.device)
        return log_probs.masked_fill((forced >= 0) & (columns != forced), -torch.inf)


class NoRepeatedNgrams:
    """A next-token function that blocks repeated n-grams (Paulus et al. 2018, section 2.5).

    A token that would repeat an n-gram of its row gets log-probability -inf, with two exceptions. The tokens
    `exempt[i]` may be repeated in sentence i, so that required phrases stay possible. If no other token is
    possible, as within a forced prefix, nothing is blocked.
    """

    def __init__(
        self,
        step: NextToken,
        n: int,
        *,
        exempt: Sequence[Collection[int]] = (),
        columns: Columns | None = None,
    ) -> None:
        assert n >= 1
        self._step, self._columns = step, columns or Columns()
        self._n = n
        self._exempt = dict(enumerate(exempt))
        self._histories = Histories()

    def __call__(self, last: Tensor, parents: Tensor) -> Tensor:
        log_probs = self._step(last, parents)
        histories, n = self._histories, self._n
        histories.follow(last, parents)
        if histories.n_tokens < n:
            return log_probs
        ngrams = np.lib.stride_tricks.sliding_window_view(histories.tokens, n, axis=1)  # (N, n-grams, n)
        newest = histories.tokens[:, histories.n_tokens - n + 1 :]  # (N, n - 1)
        begun = (ngrams[:, :, :-1] == newest[:, None]).all(axis=2)  # (N, n-grams)
        rows, which = begun.nonzero()
        blocked = np.zeros(log_probs.shape, np.bool_)
        blocked[rows, self._columns.of(ngrams[rows, which, n - 1])] = True
        for row in set(rows.tolist()):
            if exempt := self._exempt.get(int(histories.sentences[row])):
                blocked[row, self._columns.of(np.array(sorted(exempt)))] = False
        allowed = log_probs.masked_fill(torch.from_numpy(blocked).to(log_probs.device), -torch.inf)
        stuck = (allowed == -torch.inf).all(dim=1, keepdim=True)
        return torch.where(stuck, log_probs, allowed)


Watcher: TypeAlias = Callable[[], bool]
"""Whether the result of a sentence is still wanted; called at every step in the thread of the search."""


class WatchedSearch:
    """A next-token function that cancels sentences that nobody wants any more.

    A cancelled sentence gets probability 1 for eos, so that every search ends it at the next step. Its
    result is meaningless.
    """

    def __init__(self, step: NextToken, watchers: Sequence[Watcher | None], *, eos_id: int) -> None:
        """`watchers[i]` watches sentence i; None = nobody does."""
        self._step = step
        self._watchers = watchers
        self._eos_id = eos_id
        self._histories = Histories()

    def __call__(self, last: Tensor, parents: Tensor) -> Tensor:
        self._histories.follow(last, parents)
        log_probs = self._step(last, parents)
        sentences = self._histories.sentences
        watched = [(number, self._watchers[number]) for number in np.unique(sentences).tolist()]
        cancelled = [number for number, wants in watched if wants is not None and not wants()]
        if cancelled:
            rows = torch.from_numpy(np.isin(sentences, cancelled)).to(log_probs.device)
            log_probs = log_probs.clone()
            log_probs[rows] = -torch.inf
            log_probs[rows, self._eos_id] = 0.0
        return log_probs


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
            rows = parents.to(attention.device)
            self._counted = self._counted[rows]
            self._sums = self._sums[rows] + attention
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
