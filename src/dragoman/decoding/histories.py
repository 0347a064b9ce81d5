"""Token histories of hypotheses, for wrappers of a next-token function."""

from __future__ import annotations

import torch
from torch import Tensor


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
