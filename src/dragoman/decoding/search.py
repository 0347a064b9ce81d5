"""What all searches share: the tokens of each row, and sentences that join and leave."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.decoding.hypotheses import Hypothesis, NextToken, ScoreTerm, length_penalty

FILLER = -1
"""No token: what fills rows behind their last one."""


class Choice(Protocol):
    """What computes only some of the tokens, which may change from call to call."""

    @property
    def ids(self) -> Tensor | None:
        """(K,) the tokens of its columns, rising, the reserved ones first; None: column i is token i."""


class Columns:
    """Which tokens the columns of log-probabilities stand for."""

    def __init__(self, choice: Choice | None = None) -> None:
        """Those of `choice`; None: column i is token i."""
        self._choice = choice

    def tokens(self, columns: Tensor) -> Tensor:
        """Return the tokens of `columns`, a tensor of any shape."""
        ids = None if self._choice is None else self._choice.ids
        return columns if ids is None else ids[columns]

    def of(self, tokens: Tensor) -> Tensor:
        """Return the columns of `tokens`, which all have one; -1 of FILLER."""
        ids = None if self._choice is None else self._choice.ids
        return tokens if ids is None else torch.searchsorted(ids, tokens).masked_fill(tokens == FILLER, -1)


class Histories:
    """The sentence and the tokens so far of each row, reordered by `parents`."""

    def __init__(self) -> None:
        self.sentences = torch.empty(0, dtype=torch.long)
        """(N,) the number of the sentence that each row belongs to."""
        self.tokens = torch.empty(0, 0, dtype=torch.long)
        """(N, T) the tokens of each row, bos left out, and FILLER behind them, as far as there is room."""
        self.lengths = torch.empty(0, dtype=torch.long)
        """(N,) numbers of tokens."""
        self._n_begun = 0

    def follow(self, last: Tensor, parents: Tensor) -> None:
        """Follow a call of a next-token function, as `NextToken` describes it; everything is on the CPU."""
        last, parents = last.cpu(), parents.cpu()
        n_before = len(self.sentences)
        if n_new := int((parents >= n_before).sum()):
            self.sentences = torch.cat([self.sentences, torch.arange(self._n_begun, self._n_begun + n_new)])
            self.lengths = torch.cat([self.lengths, torch.full((n_new,), -1)])
            fillers = self.tokens.new_full((n_new, self.tokens.shape[1]), FILLER)
            self.tokens = torch.cat([self.tokens, fillers])
            self._n_begun += n_new
            parents = torch.cat([parents[:-n_new], torch.arange(n_before, n_before + n_new)])
        self.sentences, self.tokens = self.sentences[parents], self.tokens[parents]
        self.lengths = self.lengths[parents] + 1
        longest = int(self.lengths.max()) if len(parents) else 0
        if longest > self.tokens.shape[1]:
            self.tokens = F.pad(self.tokens, (0, max(16, longest)), value=FILLER)
        rows = (self.lengths > 0).nonzero()[:, 0]
        self.tokens[rows, self.lengths[rows] - 1] = last[rows]


class Search(ABC):
    """Sentences that are searched for together. Each leaves when it is done, and others may join."""

    def __init__(
        self,
        step: NextToken,
        *,
        bos_id: int,
        eos_id: int,
        length_penalty: float = 1.0,
        n_best: int = 1,
        columns: Columns | None = None,
        score_term: ScoreTerm | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        """`step` is called with tensors on `device`; everything else is on the CPU, in fp64.

        `columns` says what the columns of `step` stand for.
        """
        assert length_penalty >= 0
        self.step, self.bos_id, self.eos_id = step, bos_id, eos_id
        self.alpha, self.n_best = length_penalty, n_best
        self.columns = columns or Columns()
        self.score_term = score_term
        self.device = device
        self.histories = Histories()
        self._last = self._parents = torch.empty(0, dtype=torch.long)
        """(N,) of the next call."""
        self._n_rows = self._n_joined = 0
        self._penalties = torch.empty(0, dtype=torch.float64)
        self._ended: dict[int, list[Hypothesis]] = {}

    @property
    def n_rows(self) -> int:
        """The rows of the next step; 0: all sentences are done."""
        return len(self._last)

    def admit(self, n_sentences: int) -> tuple[Tensor, Tensor]:
        """Let sentences join: return their numbers, which go on from the last ones, and their rows.

        Both (n_sentences,); each begins with one row in the next call.
        """
        numbers, rows = (
            torch.arange(first, first + n_sentences) for first in (self._n_joined, len(self._last))
        )
        self._n_joined += n_sentences
        self._parents = torch.cat([self._parents, self._n_rows + rows])
        self._last = torch.cat([self._last, torch.full_like(rows, self.bos_id)])
        self._ended |= {number: [] for number in numbers.tolist()}
        return numbers, rows

    def advance(self) -> dict[int, list[Hypothesis]]:
        """Make one step, and return the hypotheses of the sentences that are done, by their numbers.

        Best first; of equals, the first that ended. One of log-probability -inf is left out, unless it is
        all its sentence has. RunError: a log-probability is NaN.
        """
        self.histories.follow(self._last, self._parents)
        self._n_rows = len(self._last)
        log_probs = self.step(self._last.to(self.device), self._parents.to(self.device))
        taken, self._parents, done = self.choose(log_probs)
        self._last = self.columns.tokens(taken)
        return {number: self._ranked(self._ended.pop(number)) for number in done.tolist()}

    @abstractmethod
    def choose(self, log_probs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Choose among the continuations `log_probs` (N, V) of all rows, and end hypotheses.

        Return the columns of the tokens and the parents of the next call, and the numbers of the sentences
        that have no rows in it.
        """

    def end(self, rows: Tensor, log_probs: Tensor) -> Tensor:
        """Close `rows` (M,) of this call with eos, with `log_probs` (M,) in all; return scores (M,)."""
        if not len(rows):
            return log_probs
        lengths = self.histories.lengths[rows]
        if len(self._penalties) <= int(lengths.max()):
            lengths_with_end = range(1, 2 * int(lengths.max()) + 2)
            penalties = [length_penalty(length, self.alpha) for length in lengths_with_end]
            self._penalties = torch.tensor(penalties, dtype=torch.float64)
        scores = log_probs / self._penalties[lengths]
        if self.score_term is not None:
            scores = scores + self.score_term(rows)
        columns = (self.histories.sentences[rows], self.histories.tokens[rows], lengths, log_probs, scores)
        ended = zip(*(column.tolist() for column in columns), strict=True)
        for sentence, tokens, length, log_prob, score in ended:
            self._ended[sentence].append(Hypothesis(tuple(tokens[:length]), log_prob, score))
        return scores

    def _ranked(self, ended: list[Hypothesis]) -> list[Hypothesis]:
        best = sorted(ended, key=lambda hypothesis: -hypothesis.score)[: self.n_best]
        return [h for i, h in enumerate(best) if i == 0 or h.score > -torch.inf]


def finish(search: Search) -> list[list[Hypothesis]]:
    """Search until all sentences are done; return their hypotheses in the order in which they joined."""
    found: dict[int, list[Hypothesis]] = {}
    while search.n_rows:
        found |= search.advance()
    return [found[number] for number in sorted(found)]


def limits_of(max_lengths: Sequence[int]) -> Tensor:
    """Return the most tokens of each sentence, eos not counted, as a tensor."""
    assert all(length >= 0 for length in max_lengths)
    return torch.tensor(max_lengths, dtype=torch.long)
