"""What all searches share, the tokens of each row among it; and greedy search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from dragoman.decoding.hypotheses import Hypothesis, NextToken, ScoreTerm, length_penalty
from dragoman.decoding.log_probs import ALL, Floats, Ints, LogProbs

FILLER = -1
"""No token: fills rows behind their last one."""


class Columns:
    """Which tokens the columns of log-probabilities stand for."""

    def __init__(self, ids: Ints | None = None) -> None:
        """`ids` (K,) are the tokens, rising, the reserved ones first; None: column i is token i."""
        self._ids = ids

    def tokens(self, columns: Ints) -> Ints:
        """Return the tokens of `columns`, an array of any shape."""
        return columns if self._ids is None else self._ids[columns]

    def of(self, tokens: Ints) -> Ints:
        """Return the columns of `tokens`, which all have one; -1 of FILLER."""
        ids = self._ids
        return tokens if ids is None else np.where(tokens == FILLER, -1, np.searchsorted(ids, tokens))


class Histories:
    """The sentence and the tokens so far of each row, reordered by `parents`."""

    def __init__(self) -> None:
        self.sentences: Ints = np.empty(0, np.int64)
        """(N,) the number of the sentence that each row belongs to."""
        self.tokens: Ints = np.empty((0, 0), np.int64)
        """(N, T) the tokens of each row, bos left out."""
        self._has_begun = False

    @property
    def n_tokens(self) -> int:
        """T, the number of tokens of each row."""
        return self.tokens.shape[1]

    def follow(self, last: Ints, parents: Ints) -> None:
        """Follow a call of a next-token function, as `NextToken` describes it."""
        if self._has_begun:
            self.sentences = self.sentences[parents]
            self.tokens = np.concatenate([self.tokens[parents], last[:, None]], axis=1)
        else:
            self.sentences, self.tokens = parents, np.empty((len(parents), 0), np.int64)
            self._has_begun = True


class Search(ABC):
    """Sentences that are searched for together. Each leaves when it is done."""

    def __init__(
        self,
        step: NextToken,
        *,
        max_lengths: Sequence[int],
        bos_id: int,
        eos_id: int,
        length_penalty: float = 1.0,
        n_best: int = 1,
        columns: Columns | None = None,
        score_term: ScoreTerm | None = None,
    ) -> None:
        """Sentence i has at most `max_lengths[i]` tokens, eos not counted.

        `columns` says what the columns of `step` stand for. All but what `step` returns is in fp64.
        """
        assert length_penalty >= 0
        assert all(length >= 0 for length in max_lengths)
        self.step, self.eos_id = step, eos_id
        self.alpha, self.n_best = length_penalty, n_best
        self.columns = columns or Columns()
        self.score_term = score_term
        self.histories = Histories()
        self.limits: Ints = np.array(max_lengths, np.int64)
        self._last: Ints = np.full_like(self.limits, bos_id)
        self._parents: Ints = np.arange(len(self.limits))
        """(N,) of the next call."""
        self._ended: list[list[Hypothesis]] = [[] for _ in max_lengths]

    def run(self) -> list[list[Hypothesis]]:
        """Search until all sentences are done; return the hypotheses of each.

        Best first; of equals, the first that ended. One of log-probability -inf is left out, unless it is
        all its sentence has. RunError: a log-probability is NaN.
        """
        while len(self._last):
            self.histories.follow(self._last, self._parents)
            columns, self._parents = self.choose(self.step(self._last, self._parents))
            self._last = self.columns.tokens(columns)
        return [self._ranked(ended) for ended in self._ended]

    @abstractmethod
    def choose(self, log_probs: LogProbs) -> tuple[Ints, Ints]:
        """Choose among the continuations `log_probs` of all rows, and end hypotheses.

        Return the columns of the tokens and the parents of the next call.
        """

    def penalty(self, n_tokens: int) -> float:
        """Return the length penalty of a hypothesis of `n_tokens`, eos not counted, that ends now."""
        return length_penalty(n_tokens + 1, self.alpha)

    def end(self, rows: Ints, log_probs: Floats) -> Floats:
        """Close `rows` (M,) of this call with eos, with `log_probs` (M,) in all; return scores (M,)."""
        if not len(rows):
            return log_probs
        scores = log_probs / self.penalty(self.histories.n_tokens)
        if self.score_term is not None:
            scores = scores + self.score_term(rows)
        columns = (self.histories.sentences[rows], self.histories.tokens[rows], log_probs, scores)
        ended = zip(*(column.tolist() for column in columns), strict=True)
        for sentence, tokens, log_prob, score in ended:
            self._ended[sentence].append(Hypothesis(tuple(tokens), log_prob, score))
        return scores

    def _ranked(self, ended: list[Hypothesis]) -> list[Hypothesis]:
        best = sorted(ended, key=lambda hypothesis: -hypothesis.score)[: self.n_best]
        return [h for i, h in enumerate(best) if i == 0 or h.score > -np.inf]


def greedy_search(step: NextToken, **options: Any) -> list[list[Hypothesis]]:
    """Return one hypothesis per sentence, each in its own list: the result of `beam_search` with beam size 1.

    Sentence i has at most `max_lengths[i]` tokens. Then eos is forced, and its log-probability counts like
    any other. Ties go to the lowest token id. If every token has log-probability -inf, the sentence ends
    with a log_prob of -inf. `length_penalty` (alpha) affects only the score. `options` are those of `Search`.

    Raises:
        RunError: a log-probability is NaN.
    """
    return GreedySearch(step, **options).run()


class GreedySearch(Search):
    """Chooses the most probable token at each step: see `greedy_search`."""

    def __init__(self, step: NextToken, **options: Any) -> None:
        super().__init__(step, **options)
        self._log_prob: Floats = np.zeros(len(self.limits))

    def choose(self, log_probs: LogProbs) -> tuple[Ints, Ints]:
        values, columns = (best[:, 0] for best in log_probs.best(1))
        at_limit = self.limits == self.histories.n_tokens
        if at_limit.any():
            columns = np.where(at_limit, self.eos_id, columns)
            values = np.where(at_limit, log_probs.at(ALL, self.eos_id), values)
        log_prob = self._log_prob + values
        ended = (columns == self.eos_id) | (values == -np.inf)
        self.end(ended.nonzero()[0], log_prob[ended])
        parents = (~ended).nonzero()[0]
        self.limits, self._log_prob = self.limits[parents], log_prob[parents]
        return columns[parents], parents
