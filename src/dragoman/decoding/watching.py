"""Stream partial hypotheses, and cancel the search of a sentence whose client has left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from dragoman.decoding.hypotheses import NextToken
from dragoman.decoding.search import Histories


class Watcher(Protocol):
    """Callbacks for one sentence, called at every step in the thread of the search."""

    def wants(self) -> bool:
        """Return whether the result is still wanted."""

    def see(self, ids: Sequence[int]) -> None:
        """Receive the ids of the current best hypothesis, without bos; a later step may replace it."""


class WatchedSearch:
    """A next-token function that reports each sentence's best hypothesis, and cancels unwanted sentences.

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
        firsts = np.flatnonzero(np.diff(sentences, prepend=-1))
        cancelled = [
            number
            for number, row in zip(sentences[firsts].tolist(), firsts.tolist(), strict=True)
            if not self._show(number, row)
        ]
        if cancelled:
            rows = torch.from_numpy(np.isin(sentences, cancelled)).to(log_probs.device)
            log_probs = log_probs.clone()
            log_probs[rows] = -torch.inf
            log_probs[rows, self._eos_id] = 0.0
        return log_probs

    def _show(self, number: int, row: int) -> bool:
        """Report the best row of sentence `number`; return whether its watcher wants more."""
        watcher = self._watchers[number]
        if watcher is None:
            return True
        if not watcher.wants():
            return False
        watcher.see(self._histories.tokens[row].tolist())
        return True
