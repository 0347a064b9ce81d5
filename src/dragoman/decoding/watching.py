"""Searches that somebody looks on at, and that end where nobody does any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from dragoman.decoding.histories import Histories
from dragoman.decoding.hypotheses import NextToken


class Watcher(Protocol):
    """Whoever waits for a sentence. Its methods are called in the thread of the search, at every step."""

    def wants(self) -> bool:
        """Whether it still waits."""

    def see(self, ids: Sequence[int]) -> None:
        """The best hypothesis as it is now, which may be another one at the next step; bos left out."""


class WatchedSearch:
    """A next-token function that shows each sentence's best hypothesis, and lets none live on in vain.

    Where nobody waits any more, the end is certain, so that every search gives the sentence up at once;
    what it finds then is of no use.
    """

    def __init__(self, step: NextToken, watchers: Sequence[Watcher | None], *, eos_id: int) -> None:
        """`watchers[i]`, if there is one, waits for sentence i."""
        self._step = step
        self._watchers = dict(enumerate(watchers))
        self._eos_id = eos_id
        self._histories = Histories()

    def __call__(self, last: Tensor, parents: Tensor) -> Tensor:
        self._histories.follow(last, parents)
        log_probs = self._step(last, parents)
        sentences = self._histories.sentences
        numbers, counts = torch.unique_consecutive(sentences, return_counts=True)
        firsts = (counts.cumsum(0) - counts).tolist()
        vain = [
            number
            for number, row in zip(numbers.tolist(), firsts, strict=True)
            if not self._show(number, row)
        ]
        if vain:
            rows = torch.isin(sentences, torch.tensor(vain, device=sentences.device))
            log_probs = log_probs.clone()
            log_probs[rows] = -torch.inf
            log_probs[rows, self._eos_id] = 0.0
        return log_probs

    def _show(self, number: int, row: int) -> bool:
        """Shows the sentence `number` as its best row stands; whether its watcher wants more."""
        watcher = self._watchers[number]
        if watcher is None:
            return True
        if not watcher.wants():
            return False
        watcher.see(self._histories.tokens[row].tolist())
        return True
