"""Next-token functions around others: they change what may come next, or a hypothesis' worth, or are watched.

The coverage penalty is equation 14 of Wu et al. 2016.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from dragoman.decoding.hypotheses import NextToken
from dragoman.decoding.log_probs import ALL, ArrayLogProbs, Bools, Floats, Floats32, Ints, LogProbs
from dragoman.decoding.search import FILLER, Columns, Histories


class NotEmpty:
    """A next-token function that does not end before the first token, so that no translation is empty."""

    def __init__(self, step: NextToken, *, eos_id: int) -> None:
        self._step, self._eos_id = step, eos_id
        self._has_begun = False

    def __call__(self, last: Ints, parents: Ints) -> LogProbs:
        log_probs = self._step(last, parents)
        if not self._has_begun:
            log_probs.put(ALL, self._eos_id, -np.inf)
        self._has_begun = True
        return log_probs


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

    def __call__(self, last: Ints, parents: Ints) -> LogProbs:
        log_probs = self._step(last, parents)
        self._histories.follow(last, parents)
        n_tokens = self._histories.n_tokens
        if n_tokens >= self._longest:
            return log_probs
        tokens = self._forced[self._histories.sentences, n_tokens]  # (N,)
        rows = (tokens != FILLER).nonzero()[0]
        columns = self._columns.of(tokens[rows])
        values = log_probs.at(rows, columns)
        log_probs.put(rows, ALL, -np.inf)
        log_probs.put(rows, columns, values)
        return log_probs


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

    def __call__(self, last: Ints, parents: Ints) -> LogProbs:
        log_probs = self._step(last, parents)
        histories, n = self._histories, self._n
        histories.follow(last, parents)
        if histories.n_tokens < n:
            return log_probs
        ngrams = np.lib.stride_tricks.sliding_window_view(histories.tokens, n, axis=1)  # (N, n-grams, n)
        newest = histories.tokens[:, histories.n_tokens - n + 1 :]  # (N, n - 1)
        begun = (ngrams[:, :, :-1] == newest[:, None]).all(axis=2)  # (N, n-grams)
        rows, which = begun.nonzero()
        tokens = ngrams[rows, which, n - 1]
        pairs = zip(histories.sentences[rows].tolist(), tokens.tolist(), strict=True)
        may = np.array([token in self._exempt.get(sentence, ()) for sentence, token in pairs], np.bool_)
        rows, columns = rows[~may], self._columns.of(tokens[~may])
        if not len(rows):
            return log_probs
        values = log_probs.at(rows, columns)
        log_probs.put(rows, columns, -np.inf)
        stuck = (log_probs.best(1)[0][:, 0] == -np.inf)[rows]
        log_probs.put(rows[stuck], columns[stuck], values[stuck])
        return log_probs


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

    def __call__(self, last: Ints, parents: Ints) -> LogProbs:
        self._histories.follow(last, parents)
        log_probs = self._step(last, parents)
        sentences = self._histories.sentences
        watched = [(number, self._watchers[number]) for number in np.unique(sentences).tolist()]
        cancelled = [number for number, wants in watched if wants is not None and not wants()]
        if cancelled:
            rows = np.isin(sentences, cancelled).nonzero()[0]
            log_probs.put(rows, ALL, -np.inf)
            log_probs.put(rows, self._eos_id, 0.0)
        return log_probs


class AttendingStep(NextToken, Protocol):
    """A next-token function that exposes its attention to the source."""

    @property
    def attention(self) -> Floats32:
        """Attention weights (N, S) of the last call; each row sums to 1."""


class Coverage:
    """A next-token function that accumulates, for each row, the attention to every source token.

    With a_i the attention that source token i got from all target tokens, eos included, the term

        cp = beta * sum over i of log(min(a_i, 1))

    is added to the score of a finished hypothesis. It is at most 0, and 0 if each source token got at least
    the attention of one target token. `counted` (B, S) is False for source tokens that do not count: padding
    and the end token.
    """

    def __init__(self, step: AttendingStep, *, beta: float, counted: Bools) -> None:
        assert beta >= 0
        self._step = step
        self._beta = beta
        self._counted = counted
        self._sums: Floats32 | None = None  # (N, S)

    def __call__(self, last: Ints, parents: Ints) -> LogProbs:
        log_probs = self._step(last, parents)
        attention = self._step.attention
        if self._sums is None:
            self._sums = attention
        else:
            self._counted = self._counted[parents]
            self._sums = self._sums[parents] + attention
        return log_probs

    def penalty(self, rows: Ints) -> Floats:
        """Return the term (M,) of `rows` (M,) of the last call if they end now.

        Attention that fp32 rounds to 0 counts as the smallest fp32 number (log -87): terms are finite.
        """
        assert self._sums is not None
        logs = np.log(self._sums[rows].clip(np.finfo(np.float32).tiny, 1.0).astype(np.float64))
        terms: Floats = self._beta * np.where(self._counted[rows], logs, 0.0).sum(axis=1)
        return terms


class Ensemble:
    """A next-token function that averages the probabilities of several models with the same vocabulary.

    Probabilities are averaged, rather than log-probabilities, so that a single model cannot veto a token.
    """

    def __init__(self, steps: Sequence[Any]) -> None:
        """Average next-token functions; for `attention`, each is an `AttendingStep`."""
        assert steps
        self._steps = tuple(steps)

    def __call__(self, last: Ints, parents: Ints) -> LogProbs:
        log_probs = np.stack([step(last, parents).all() for step in self._steps])  # (models, N, C)
        largest = log_probs.max(axis=0)
        largest[largest == -np.inf] = 0.0  # impossible in every model
        with np.errstate(divide="ignore"):
            return ArrayLogProbs(np.log(np.exp(log_probs - largest).mean(axis=0)) + largest)

    @property
    def attention(self) -> Floats32:
        """(N, S) of the last call: the mean of the models'."""
        mean: Floats32 = np.mean([step.attention for step in self._steps], axis=0)
        return mean
