"""Batches of sentences of similar length, bounded in tokens: other ones every epoch, the same for a seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dragoman.data.store import TokenStore
from dragoman.text.subword import BOS_ID, EOS_ID, PAD_ID

SRC_ROOM = 1.5
"""Source tokens of a batch, padding included, over what its target tokens let expect, at most."""

SRC_JITTER = 0.5
"""Tokens by which source lengths are shifted at random before sorting, so that batches mix."""


class TranslationBatch(NamedTuple):
    """Sentence pairs as rows of int64 ids, filled up with PAD_ID."""

    src: Tensor
    """(B, S): source, end token."""
    tgt_in: Tensor
    """(B, T): start token, target."""
    tgt_out: Tensor
    """(B, T): target, end token."""

    @property
    def n_src_tokens(self) -> int:
        """Source tokens, padding excluded."""
        return int((self.src != PAD_ID).sum())

    @property
    def n_tgt_tokens(self) -> int:
        """Target tokens, padding excluded: those that the loss is averaged over."""
        return int((self.tgt_out != PAD_ID).sum())

    @property
    def n_tokens(self) -> int:
        """Source and target tokens, padding excluded."""
        return self.n_src_tokens + self.n_tgt_tokens


def plan_epoch(store: TokenStore, *, batch_tokens: int, seed: int, epoch: int) -> list[npt.NDArray[np.int64]]:
    """The indices of each batch's pairs, in the order of training: every pair once.

    A batch has at most `batch_tokens` target tokens, padding included; a longer pair is alone. Its source
    may be half as long again as the corpus' ratio of lengths lets expect. The plan follows from `seed` and
    `epoch` alone.
    """
    src, tgt = store.src_lengths, store.tgt_lengths
    rng = np.random.default_rng([seed, epoch])
    # By target length; within one length by source length, up for even and down for odd target lengths, so
    # that neighbours have similar sources also where the target length changes.
    src_keys = src + rng.uniform(-SRC_JITTER, SRC_JITTER, size=len(src))
    order = np.lexsort((np.where(tgt % 2, -src_keys, src_keys), tgt))
    src_tokens = SRC_ROOM * batch_tokens * max(1.0, src.sum() / tgt.sum())
    ends = _cut(src[order], tgt[order], src_tokens=int(src_tokens), tgt_tokens=batch_tokens)
    batches = np.split(order, ends[:-1])
    return [batches[i] for i in rng.permutation(len(batches))]


def _cut(
    src: npt.NDArray[np.int32], tgt: npt.NDArray[np.int32], *, src_tokens: int, tgt_tokens: int
) -> list[int]:
    """Where each batch ends, the longest ones that fit; `tgt` rises."""
    ends = [0]
    while (start := ends[-1]) < len(tgt):
        most = max(1, tgt_tokens // int(tgt[start]))
        sizes = np.arange(1, min(most, len(tgt) - start) + 1)
        tgt_area = sizes * tgt[start : start + most]
        src_area = sizes * np.maximum.accumulate(src[start : start + most])
        n = int(np.count_nonzero((tgt_area <= tgt_tokens) & (src_area <= src_tokens)))
        ends.append(start + max(1, n))
    return ends[1:]


def make_batch(store: TokenStore, indices: npt.NDArray[np.int64]) -> TranslationBatch:
    """The pairs at `indices` of the store, in that order."""
    src = torch.from_numpy(store.source.padded(indices))
    tgt_out = torch.from_numpy(store.target.padded(indices))
    tgt_in = tgt_out.roll(1, dims=1)
    tgt_in[tgt_in == EOS_ID] = PAD_ID
    tgt_in[:, 0] = BOS_ID
    return TranslationBatch(src, tgt_in, tgt_out)


def pad(sequences: Sequence[Sequence[int]]) -> Tensor:
    """The sequences as rows (B, S) of int64, filled up with PAD_ID."""
    rows = torch.full((len(sequences), max(map(len, sequences), default=0)), PAD_ID, dtype=torch.int64)
    for row, ids in zip(rows, sequences, strict=True):
        row[: len(ids)] = torch.tensor(ids, dtype=torch.int64)
    return rows
