"""Types shared by all searches: next-token function, hypothesis, and paths."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from dragoman.errors import RunError

GROUP = 64
"""Columns whose largest is found first, in the search for the best tokens of a row."""


class NextToken(Protocol):
    """The interface of a model for search."""

    def __call__(self, last: Tensor, parents: Tensor) -> Tensor:
        """Log-probabilities (N, V), fp32, of the token after `last` (N,).

        Row i continues row `parents[i]` of the previous call. In the first call N is the number of
        sentences, `last` is bos and `parents` is arange(N). N changes from call to call: a sentence
        grows into the rows of its beam, and its rows go when it is done. A forbidden token has
        log-probability -inf.
        """


class ScoreTerm(Protocol):
    """A term added to the scores of finished hypotheses, such as a coverage penalty."""

    def __call__(self, rows: Tensor) -> Tensor:
        """Return the terms (M,) <= 0 of `rows` (M,) of the last call if they end now, in fp64 on the CPU.

        Because terms are at most 0, a search can stop early without losing the best hypothesis.
        """


class Hypothesis(NamedTuple):
    """A finished sequence."""

    ids: tuple[int, ...]
    """The tokens, without bos and eos."""
    log_prob: float
    """Sum of the tokens' log-probabilities in nats, eos included."""
    score: float
    """log_prob divided by the length penalty, plus the score term of the search; ranks hypotheses."""


def length_penalty(length: int, alpha: float) -> float:
    """Return ((5 + length) / 6) ** alpha; `length` includes eos. Wu et al. 2016, equation 14.

    Does not decrease with `length`, for alpha >= 0.
    """
    return ((5 + length) / 6) ** alpha


class Paths:
    """The tree of all explored sequences, as tensors on the CPU: a column of rows per call.

    The arguments of call t of a next-token function are the last token of each row and its back-pointer into
    call t - 1. Sequences are read off these at the end.
    """

    def __init__(self, alpha: float) -> None:
        assert alpha >= 0
        self.alpha = alpha
        self._tokens: list[Tensor] = []
        self._parents: list[Tensor] = []
        self._ends: list[tuple[Tensor, Tensor, Tensor, Tensor, Tensor]] = []

    @property
    def n_tokens(self) -> int:
        """Number of tokens in each live row, without bos."""
        return len(self._tokens) - 1

    def extend(self, last: Tensor, parents: Tensor) -> None:
        """Add the column of rows of the next call."""
        self._tokens.append(last)
        self._parents.append(parents)

    def end(
        self, sentences: Tensor, rows: Tensor, log_probs: Tensor, term: ScoreTerm | None = None
    ) -> Tensor:
        """Close `rows` of the newest column with eos; return scores, with `term`. All arguments (M,)."""
        terms = torch.zeros_like(log_probs) if term is None else term(rows)
        self._ends.append((sentences, rows, log_probs, torch.full_like(rows, self.n_tokens), terms))
        return log_probs / length_penalty(self.n_tokens + 1, self.alpha) + terms

    def hypotheses(self, n_sentences: int, n_best: int) -> list[list[Hypothesis]]:
        """Return the best `n_best` closed rows of each sentence, best first; of equals, the first closed.

        A row of log-probability -inf is left out, unless it is all its sentence has.
        """
        results: list[list[Hypothesis]] = [[] for _ in range(n_sentences)]
        if not self._ends:
            return results
        columns = (torch.cat(column) for column in zip(*self._ends, strict=True))
        sentences, rows, log_probs, lengths, terms = columns
        penalties = [length_penalty(t + 1, self.alpha) for t in range(self.n_tokens + 1)]
        scores = log_probs / log_probs.new_tensor(penalties)[lengths] + terms

        order = scores.argsort(descending=True, stable=True)
        order = order[sentences[order].argsort(stable=True)]
        rank = torch.arange(len(order)) - torch.searchsorted(sentences[order], sentences[order])
        order = order[(rank < n_best) & ((rank == 0) | scores[order].isfinite())]
        ids = self._read(rows[order], lengths[order])
        found = (column[order].tolist() for column in (sentences, lengths, log_probs, scores))
        for path, sentence, length, log_prob, score in zip(ids, *found, strict=True):
            results[sentence].append(Hypothesis(tuple(path[:length]), log_prob, score))
        return results

    def _read(self, rows: Tensor, lengths: Tensor) -> list[list[int]]:
        """Return the tokens on the way to each of `rows` (M,), which lie in the columns `lengths` (M,)."""
        ids = torch.zeros(len(rows), self.n_tokens, dtype=torch.long)
        rows = rows.clone()
        for t in range(self.n_tokens, 0, -1):
            on = lengths >= t
            ids[on, t - 1] = self._tokens[t][rows[on]]
            rows[on] = self._parents[t][rows[on]]
        return ids.tolist()


def best_tokens(log_probs: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the `k` best of each row of `log_probs` (N, V): fp64 values and tokens, (N, k) on the CPU.

    Ties go to the lower id, as in `argmax`; `topk` alone guarantees no order, and half-precision models have
    many ties. RunError: a log-probability is NaN.
    """
    k = min(k, log_probs.size(1))
    values, tokens = (best.cpu() for best in _top(log_probs, min(k + 1, log_probs.size(1))))
    check_no_nan(values[:, :1])  # topk counts NaN as the largest
    if values.size(1) > k:
        tied = (values[:, k] == values[:, k - 1]) & values[:, k].isfinite()
        values, tokens = values[:, :k], tokens[:, :k].clone()
        if tied.any():
            tokens[tied] = _lowest_ids_of_ties(log_probs[tied.to(log_probs.device)], k).cpu()
            values = log_probs.gather(1, tokens.to(log_probs.device)).cpu()
    tokens, by_id = tokens.sort(dim=1)
    values, by_value = values.gather(1, by_id).sort(dim=1, descending=True, stable=True)
    return values.double(), tokens.gather(1, by_value)


def _top(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return `x.topk(k)`; a third of its time for rows of thousands on a CPU.

    The k largest values are in the k groups of columns with the largest maxima, or in the remaining columns.
    """
    n_rows, n_columns = x.shape
    n_groups = n_columns // GROUP
    if x.device.type != "cpu" or n_groups <= 2 * k:
        values, columns = x.topk(k)
        return values, columns
    grouped = x[:, : n_groups * GROUP].view(n_rows, n_groups, GROUP)
    groups = grouped.amax(2).topk(k).indices[:, :, None]  # (N, k, 1)
    candidates = grouped.gather(1, groups.expand(n_rows, k, GROUP)).flatten(1)
    columns = (groups * GROUP + torch.arange(GROUP)).flatten(1)
    if n_groups * GROUP < n_columns:
        rest = torch.arange(n_groups * GROUP, n_columns).expand(n_rows, -1)
        candidates, columns = (
            torch.cat([candidates, x[:, n_groups * GROUP :]], 1),
            torch.cat([columns, rest], 1),
        )
    values, best = candidates.topk(k)
    return values, columns.gather(1, best)


def _lowest_ids_of_ties(log_probs: Tensor, k: int) -> Tensor:
    """Return the tokens (N, k) of the `k` best in order of id; ties at the edge go to the lower ids."""
    edge = log_probs.topk(k).values[:, -1:]
    above, equal = log_probs > edge, log_probs == edge
    room = k - above.sum(dim=1, keepdim=True)
    chosen = above | (equal & (equal.cumsum(dim=1) <= room))
    return chosen.nonzero()[:, 1].view(-1, k)


def check_no_nan(log_probs: Tensor) -> None:
    """RunError: one of `log_probs` is NaN."""
    if log_probs.isnan().any():
        raise RunError(
            "the model's probabilities are not numbers (NaN): its weights are damaged or its training "
            "diverged; use an earlier checkpoint, or train again with a lower learning rate"
        )
