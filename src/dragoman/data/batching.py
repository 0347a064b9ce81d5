"""Batches of sentences of similar length, bounded in tokens; shuffled every epoch, reproducible by seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dragoman.data.store import TokenStore
from dragoman.text.vocabulary import BOS_ID, EOS_ID, PAD_ID

Indices = npt.NDArray[np.int64]
Lengths = npt.NDArray[np.int32]
Cut = Callable[[Lengths, Lengths, np.random.Generator], list[Indices]]
"""Cuts pairs into batches, by the tokens of their sources and targets: `cut_by_tokens`, or `fill_buckets`."""

SRC_ROOM = 1.5
"""Source tokens of a batch, padding included, over what its target tokens let expect, at most."""

SRC_JITTER = 0.5
"""Tokens by which source lengths are shifted at random before sorting, so that batches mix."""

BAND_BATCHES = 3
"""Batches, about, that a band of target lengths fills. Fewer: less padding of targets, more of sources."""

CUT_TOGETHER = 64
"""Batches that are cut at once, at most, where all targets are of one length."""


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

    def to(self, device: torch.device) -> TranslationBatch:
        """Return the same batch on `device`."""
        return TranslationBatch(*(ids.to(device) for ids in self))


class EpochPlan(Sequence[Indices]):
    """The batches of an epoch: those of its parts, one part after the other.

    Only the batches of one part are in memory. Each part is planned once to count its batches, and once more
    when its turn comes.
    """

    def __init__(self, parts: Sequence[Callable[[], list[Indices]]]) -> None:
        """Each of `parts` plans the batches of one, always the same ones."""
        self._parts = parts
        self._planned: tuple[int, list[Indices]] = -1, []
        # Counted from the last to the first, whose batches are then at hand.
        self._ends = np.cumsum([len(self._part(k)) for k in reversed(range(len(parts)))][::-1])

    def __len__(self) -> int:
        return int(self._ends[-1])

    @overload
    def __getitem__(self, i: int) -> Indices: ...
    @overload
    def __getitem__(self, i: slice) -> list[Indices]: ...
    def __getitem__(self, i: int | slice) -> Indices | list[Indices]:
        if isinstance(i, slice):
            return [self[j] for j in range(len(self))[i]]
        i = range(len(self))[i]
        k = int(np.searchsorted(self._ends, i, side="right"))
        return self._part(k)[i - int(self._ends[k])]  # counted from its end

    def _part(self, k: int) -> list[Indices]:
        """Return the batches of part `k`; those of another one are let go."""
        if self._planned[0] != k:
            self._planned = -1, []
            self._planned = k, self._parts[k]()
        return self._planned[1]


def plan_epoch(store: TokenStore, *, batch_tokens: int, seed: int, epoch: int) -> EpochPlan:
    """Return the indices of each batch's pairs, in the order of training: every pair once.

    The pairs of a batch lie in one shard, and shards come in a random order. A batch has at most
    `batch_tokens` target tokens, padding included; a longer pair is alone. Its source may be half as long
    again as the shard's ratio of lengths lets expect. The plan follows from `seed` and `epoch` alone.
    """
    return plan_shards(store, partial(cut_by_tokens, batch_tokens=batch_tokens), seed=seed, epoch=epoch)


def plan_shards(store: TokenStore, cut: Cut, *, seed: int, epoch: int) -> EpochPlan:
    """Return the batches of all shards, which come in a random order."""

    def batches(k: int) -> list[Indices]:
        rng = np.random.default_rng([seed, epoch, k])  # k = 0: the same numbers as without it
        src, tgt = store.sides(k)
        return [indices + store.starts[k] for indices in cut(src.lengths, tgt.lengths, rng)]

    n_shards = len(store.shards)
    turns = np.random.default_rng([seed, epoch, n_shards]).permutation(n_shards)
    return EpochPlan([partial(batches, int(k)) for k in turns])


def cut_by_tokens(
    src: Lengths, tgt: Lengths, rng: np.random.Generator, *, batch_tokens: int
) -> list[Indices]:
    """Return the indices of each batch's pairs, from the tokens of their sides: see `plan_epoch`."""
    if not len(tgt):
        return []
    # Into bands of similar target length, each of a few batches; within a band by source length, up and down
    # by turns, so that neighbours have similar sources also where the band changes.
    n_tokens = np.bincount(tgt, weights=tgt)  # of the target sentences of each length
    bands = (np.cumsum(n_tokens) - n_tokens) // (BAND_BATCHES * batch_tokens)
    band = np.unique(bands, return_inverse=True)[1].astype(np.uint16)[tgt]
    order = _in_order(band, src, rng)
    src_tokens = SRC_ROOM * batch_tokens * max(1.0, src.sum() / tgt.sum())
    ends = _cut(
        src[order], tgt[order], src_tokens=src_tokens, tgt_tokens=batch_tokens, first_filled=rng.random()
    )
    batches = np.split(order, ends[:-1])
    return [batches[i] for i in rng.permutation(len(batches))]


def _in_order(band: npt.NDArray[np.uint16], src: Lengths, rng: np.random.Generator) -> Indices:
    """Return the indices by band; within a band by source tokens, jittered, up and down by turns."""
    order = np.argsort(band, kind="stable")  # 16 bits: a radix sort, in linear time
    ends = np.cumsum(np.bincount(band))[:-1]
    keys = rng.uniform(
        -SRC_JITTER, SRC_JITTER, size=len(src)
    )  # last, so that few large arrays are there at once
    keys += src
    for k, inside in enumerate(np.split(order, ends)):
        signed_keys = -keys[inside] if k % 2 else keys[inside]
        by_key = np.argsort(signed_keys)  # vectorised, unlike a stable sort, which only equal keys ask for
        if np.any(np.diff(signed_keys[by_key]) == 0):
            by_key = np.argsort(signed_keys, kind="stable")
        inside[:] = inside[by_key]  # a view of `order`
    return order


def _cut(
    src: Lengths, tgt: Lengths, *, src_tokens: float, tgt_tokens: float, first_filled: float
) -> list[int]:
    """Where each batch ends: the longest that fit, but for the first, filled in part to move the rest."""
    ends = [0]
    filled = first_filled
    while (start := ends[-1]) < len(tgt):
        most = max(1, int(filled * tgt_tokens // tgt[start]))
        if len(ends) > 1 and (n_full := _n_full(src[start:], tgt[start:], size=most, src_tokens=src_tokens)):
            ends += range(start + most, start + n_full * most + 1, most)
            continue
        src_width = np.maximum.accumulate(src[start : start + most])
        tgt_width = np.maximum.accumulate(tgt[start : start + most])
        n = np.arange(1, len(tgt_width) + 1)
        fits = (n * tgt_width <= filled * tgt_tokens) & (n * src_width <= filled * src_tokens)
        ends.append(start + max(1, int(np.count_nonzero(fits))))
        filled = 1.0
    return ends[1:]


def _n_full(src: Lengths, tgt: Lengths, *, size: int, src_tokens: float) -> int:
    """How many of the next batches, CUT_TOGETHER at most, have `size` pairs: found together.

    0 where targets are not all of one length, which may allow other sizes; `size` is the most that fits of
    that of the first.
    """
    n = min(CUT_TOGETHER, len(tgt) // size)
    if not n or np.any(tgt[: n * size] != tgt[0]):
        return 0
    fits = src[: n * size].reshape(n, size).max(axis=1) * size <= src_tokens
    return n if fits.all() else int(fits.argmin())


def make_batch(store: TokenStore, indices: Indices) -> TranslationBatch:
    """Return the pairs at `indices` of the store, in that order; they lie in one shard."""
    src, tgt_out = map(torch.from_numpy, store.padded(indices))
    return TranslationBatch(src, shifted_right(tgt_out), tgt_out)


def shifted_right(tgt_out: Tensor) -> Tensor:
    """Return what the decoder reads to write `tgt_out` (B, T): a start token in front, no end token."""
    tgt_in = tgt_out.roll(1, dims=1)
    tgt_in = tgt_in.masked_fill(tgt_in == EOS_ID, PAD_ID)  # unlike assigning by a mask, no GPU is waited for
    tgt_in[:, 0] = BOS_ID
    return tgt_in


def source_mask(src: Tensor, *, with_end: bool) -> Tensor:
    """src (B, S) -> (B, S): True at the tokens that a model reads, all but padding.

    Where it does not read the end token, neither is that, but for a source that has no other.
    """
    mask = src != PAD_ID
    if with_end:
        return mask
    mask = mask & (src != EOS_ID)
    mask[:, 0] = True
    return mask


def pad(sequences: Sequence[Sequence[int]]) -> Tensor:
    """Return the sequences as rows (B, S) of int64, filled up with PAD_ID."""
    rows = torch.full((len(sequences), max(map(len, sequences), default=0)), PAD_ID, dtype=torch.int64)
    for row, ids in zip(rows, sequences, strict=True):
        row[: len(ids)] = torch.tensor(ids, dtype=torch.int64)
    return rows
