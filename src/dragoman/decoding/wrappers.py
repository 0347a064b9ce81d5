"""Next-token functions around another one, which change what may come next, or what a hypothesis is worth.

The coverage penalty is equation 14 of Wu et al. 2016. `Histories` keeps the tokens of each row for them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

import torch
from torch import Tensor

from dragoman.decoding.hypotheses import NextToken


class Histories:
    """The sentence and the tokens so far of each row, reordered by `parents`."""

    def __init__(self) -> None:
        self.sentences = torch.empty(0, dtype=torch.long)
        """(N,) the number of the sentence that each row belongs to."""
        self.tokens = torch.empty(0, 0, dtype=torch.long)
        """(N, t) the tokens of each row, bos left out."""
        self._started = False

    @property
    def n_tokens(self) -> int:
        """Number of tokens in each row, without bos."""
        return self.tokens.shape[1]

    def follow(self, last: Tensor, parents: Tensor) -> None:
        """Follow a call of a next-token function: row i continues row `parents[i]` with `last[i]`."""
        if not self._started:
            self._started = True
            self.sentences, self.tokens = parents, last.new_empty(len(last), 0)
        else:
            self.sentences = self.sentences[parents]
            self.tokens = torch.cat([self.tokens[parents], last[:, None]], dim=1)


class NotEmpty:
    """A next-token function that does not end before the first token, so that no translation is empty."""

    def __init__(self, step: NextToken, *, eos_id: int) -> None:
        self._step, self._eos_id = step, eos_id
        self._started = False

    def __call__(self, last: Tensor, parents: Tensor) -> Tensor:
        log_probs = self._step(last, parents)
        if self._started:
            return log_probs
        self._started = True
        ends = torch.arange(log_probs.shape[1], device=log_probs.device) == self._eos_id
        return log_probs.masked_fill(ends, -torch.inf)


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
