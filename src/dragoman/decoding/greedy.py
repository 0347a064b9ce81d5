"""Greedy search: choose the most probable token at each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dragoman.decoding.hypotheses import Floats, Hypothesis, Ints, NextToken, best_tokens, in_fp64
from dragoman.decoding.search import Search, finish, limits_of


@torch.no_grad()
def greedy_search(step: NextToken, *, max_lengths: Sequence[int], **options: Any) -> list[list[Hypothesis]]:
    """Return one hypothesis per sentence, each in its own list: the result of `beam_search` with beam size 1.

    Sentence i has at most `max_lengths[i]` tokens. Then eos is forced, and its log-probability counts like
    any other. Ties go to the lowest token id. If every token has log-probability -inf, the sentence ends
    with a log_prob of -inf. `length_penalty` (alpha) affects only the score. `options` are those of `Search`.

    Raises:
        RunError: a log-probability is NaN.
    """
    search = GreedySearch(step, **options)
    search.join(max_lengths)
    return finish(search)


class GreedySearch(Search):
    """A greedy search that sentences may join: see `greedy_search`."""

    def __init__(self, step: NextToken, **options: Any) -> None:
        super().__init__(step, **options)
        self._limits: Ints = np.empty(0, np.int64)
        self._log_prob: Floats = np.empty(0)

    def join(self, max_lengths: Sequence[int]) -> None:
        """Let sentences of up to `max_lengths` tokens join."""
        self.admit(len(max_lengths))
        self._limits = np.concatenate([self._limits, limits_of(max_lengths)])
        self._log_prob = np.concatenate([self._log_prob, np.zeros(len(max_lengths))])

    def choose(self, log_probs: Tensor) -> tuple[Ints, Ints, Ints]:
        best, tokens = best_tokens(log_probs, 1)
        values, columns = best[:, 0], tokens[:, 0]
        at_limit = self._limits == self.histories.lengths
        if at_limit.any():
            columns = np.where(at_limit, self.eos_id, columns)
            values = np.where(at_limit, in_fp64(log_probs[:, self.eos_id]), values)
        log_prob = self._log_prob + values
        ended = (columns == self.eos_id) | (values == -np.inf)
        self.end(ended.nonzero()[0], log_prob[ended])
        parents = (~ended).nonzero()[0]
        self._limits, self._log_prob = self._limits[parents], log_prob[parents]
        return columns[parents], parents, self.histories.sentences[ended]
