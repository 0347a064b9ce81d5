"""What all searches share: the tokens of each row, and sentences that join and leave."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from dragoman.decoding.hypotheses import Floats, Hypothesis, Ints, NextToken, ScoreTerm, length_penalty

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

    def tokens(self, columns: Ints) -> Ints:
        """Return the tokens of `columns`, an array of any shape."""
        ids = self._ids
        return columns if ids is None else ids[columns]

    def of(self, tokens: Ints) -> Ints:
        """Return the columns of `tokens`, which all have one; -1 of FILLER."""
        ids = self._ids
        return tokens if ids is None else np.where(tokens == FILLER, -1, np.searchsorted(ids, tokens))

    @property
    def _ids(self) -> Ints | None:
        ids = None if self._choice is None else self._choice.ids
        return None if ids is None else ids.numpy()


class Histories:
    """The sentence and the tokens so far of each row, reordered by `parents`."""

    def __init__(self) -> None:
        self.sentences: Ints = np.empty(0, np.int64)
        """(N,) the number of the sentence that each row belongs to."""
        self.tokens: Ints = np.empty((0, 16), np.int64)
        """(N, T) the tokens of each row, bos left out, and FILLER behind them, as far as there is room."""
        self.lengths: Ints = np.empty(0, np.int64)
        """(N,) numbers of tokens."""
        self._n_begun = 0

    def follow(self, last: Tensor, parents: Tensor) -> None:
        """Follow a call of a next-token function, as `NextToken` describes it."""
        newest, going = last.numpy(), parents.numpy()
        n_new = int((going >= len(self.sentences)).sum())
        n = len(going) - n_new
        newest, going = newest[:n], going[:n]
        self.sentences, self.tokens = self.sentences[going], self.tokens[going]
        self.lengths = self.lengths[going] + 1
        longest, room = int(self.lengths.max(initial=0)), self.tokens.shape[1]
        if longest > room:
            self.tokens = np.pad(self.tokens, ((0, 0), (0, longest)), constant_values=FILLER)
        self.tokens[np.arange(n), self.lengths - 1] = newest
        if n_new:
            begun = np.arange(self._n_begun, self._n_begun + n_new)
            fillers = np.full((n_new, self.tokens.shape[1]), FILLER)
            self.sentences = np.concatenate([self.sentences, begun])
            self.tokens = np.concatenate([self.tokens, fillers])
            self.lengths = np.concatenate([self.lengths, np.zeros(n_new, np.int64)])
            self._n_begun += n_new


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
    ) -> None:
        """All but the tensors of `step` is in arrays of NumPy, in fp64: of a few numbers PyTorch's operations
        take several times as long.

        `columns` says what the columns of `step` stand for.
        """
        assert length_penalty >= 0
        self.step, self.bos_id, self.eos_id = step, bos_id, eos_id
        self.alpha, self.n_best = length_penalty, n_best
        self.columns = columns or Columns()
        self.score_term = score_term
        self.histories = Histories()
        self._last: Ints = np.empty(0, np.int64)
        self._parents = self._last
        """(N,) of the next call."""
        self._n_rows = self._n_joined = 0
        self._penalties: Floats = np.empty(0)
        self._ended: dict[int, list[Hypothesis]] = {}

    @property
    def n_rows(self) -> int:
        """The rows of the next step; 0: all sentences are done."""
        return len(self._last)

    def admit(self, n_sentences: int) -> tuple[Ints, Ints]:
        """Let sentences join: return their numbers, which go on from the last ones, and their rows.

        Both (n_sentences,); each begins with one row in the next call.
        """
        numbers, rows = (
            np.arange(first, first + n_sentences, dtype=np.int64)
            for first in (self._n_joined, len(self._last))
        )
        self._n_joined += n_sentences
        self._parents = np.concatenate([self._parents, self._n_rows + rows])
        self._last = np.concatenate([self._last, np.full_like(rows, self.bos_id)])
        self._ended |= {number: [] for number in numbers.tolist()}
        return numbers, rows

    def advance(self) -> dict[int, list[Hypothesis]]:
        """Make one step, and return the hypotheses of the sentences that are done, by their numbers.

        Best first; of equals, the first that ended. One of log-probability -inf is left out, unless it is
        all its sentence has. RunError: a log-probability is NaN.
        """
        last, parents = torch.from_numpy(self._last), torch.from_numpy(self._parents)
        self.histories.follow(last, parents)
        self._n_rows = self.n_rows
        log_probs = self.step(last, parents)
        taken, self._parents, done = self.choose(log_probs)
        self._last = self.columns.tokens(taken)
        return {number: self._ranked(self._ended.pop(number)) for number in done.tolist()}

    @abstractmethod
    def choose(self, log_probs: Tensor) -> tuple[Ints, Ints, Ints]:
        """Choose among the continuations `log_probs` (N, V) of all rows, and end hypotheses.

        Return the columns of the tokens and the parents of the next call, and the numbers of the sentences
        that have no rows in it.
        """

    def penalties(self, lengths: Ints) -> Floats:
        """Return the length penalty of hypotheses of `lengths` tokens, eos not counted, if they end now."""
        longest = int(lengths.max(initial=0))
        if len(self._penalties) <= longest:
            lengths_with_end = range(1, 2 * longest + 2)
            self._penalties = np.array([length_penalty(length, self.alpha) for length in lengths_with_end])
        found: Floats = self._penalties[lengths]
        return found

    def end(self, rows: Ints, log_probs: Floats) -> Floats:
        """Close `rows` (M,) of this call with eos, with `log_probs` (M,) in all; return scores (M,)."""
        if not len(rows):
            return log_probs
        lengths = self.histories.lengths[rows]
        scores = log_probs / self.penalties(lengths)
        if self.score_term is not None:
            scores = scores + self.score_term(torch.from_numpy(rows)).numpy()
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


def limits_of(max_lengths: Sequence[int]) -> Ints:
    """Return the most tokens of each sentence, eos not counted, as an array."""
    assert all(length >= 0 for length in max_lengths)
    return np.array(max_lengths, np.int64)
