"""Batches of few shapes: a dozen length buckets, so that a GPU can replay captured steps.

A captured step (training/updates/captured.py) is good for one shape. So pairs go into the narrowest
bucket that holds them, or into the next one where they would not fill a batch; every batch of a bucket has
its shape, and what is missing is filled up with padding that takes no part in the loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dragoman.data.batching import Indices, Lengths, shifted_right
from dragoman.data.store import Side, TokenStore
from dragoman.text.vocabulary import EOS_ID, PAD_ID

N_BUCKETS = 12
"""Buckets of target lengths, at most."""

COVERED = 0.98
"""Of the pairs of a bucket's target lengths, the part whose sources it has room for; others go up."""


class Bucket(NamedTuple):
    """The shape of a batch."""

    n_pairs: int
    src_length: int
    tgt_length: int


class StaticBatch(NamedTuple):
    """Sentence pairs in the shape of a bucket. Rows and columns that are missing are PAD_ID.

    How much of it is real is known beforehand, so that nobody has to ask a GPU, and wait.
    """

    src: Tensor
    """(B, S): source, end token; a row that is missing has the end token alone."""
    tgt_in: Tensor
    """(B, T): start token, target."""
    tgt_out: Tensor
    """(B, T): target, end token."""
    n_src_tokens: int
    n_tgt_tokens: int

    @property
    def n_tokens(self) -> int:
        """Source and target tokens, padding excluded."""
        return self.n_src_tokens + self.n_tgt_tokens

    @property
    def shape(self) -> tuple[int, int, int]:
        """Pairs, and tokens of source and target."""
        return (*self.src.shape, self.tgt_in.shape[1])


def choose_buckets(store: TokenStore, *, batch_tokens: int) -> tuple[Bucket, ...]:
    """Buckets with as little padding of targets as N_BUCKETS allow, narrow ones first; the last holds all.

    A batch has at most `batch_tokens` target tokens, padding included, or one pair.
    """
    counts = count_lengths(store)
    buckets = []
    shorter = src_length = 0
    edges = choose_edges(counts.sum(axis=0), N_BUCKETS)
    for edge in edges:
        pairs, covered = (counts[:, shorter + 1 : edge + 1], COVERED) if edge < edges[-1] else (counts, 1.0)
        up_to = np.cumsum(pairs.sum(axis=1))  # pairs up to each source length
        needed = np.searchsorted(up_to, np.ceil(covered * (up_to[-1] - 1)), side="right")
        src_length, shorter = max(src_length, int(needed)), edge
        buckets.append(Bucket(max(1, batch_tokens // edge), src_length, edge))
    return tuple(buckets)


def choose_edges(counts: npt.NDArray[np.int64], n_buckets: int) -> list[int]:
    """Return the greatest length of each bucket, where `counts[n]` sentences of n tokens are filled up to it.

    All of them together are then as short as `n_buckets` allow: by dynamic programming over the lengths.
    """
    lengths = np.flatnonzero(counts)
    edges = np.concatenate([[0], lengths])
    n_shorter = np.cumsum(counts[edges])  # counts[0] is 0: no sentence is empty
    # cells[i, j]: tokens, with padding, of a bucket for lengths above edges[i] up to edges[j]; 0 where i = j
    cells = (n_shorter[None, :] - n_shorter[:, None]) * edges[None, :].astype(np.float64)
    cells[np.tril_indices(len(edges), -1)] = np.inf
    least, begins = cells[0], []
    for _ in range(n_buckets - 1):
        together = least[:, None] + cells
        begins.append(together.argmin(axis=0))
        least = together.min(axis=0)
    chosen, j = [], len(edges) - 1
    for begin in (*reversed(begins), np.zeros_like(edges)):
        if begin[j] < j:
            chosen.append(int(edges[j]))
            j = int(begin[j])
    return chosen[::-1]


def count_lengths(store: TokenStore) -> npt.NDArray[np.int64]:
    """How many pairs have each length of source (rows) and of target (columns), counted shard by shard."""
    width = store.max_length + 1
    counts = np.zeros(width * width, dtype=np.int64)
    for k in range(len(store.shards)):
        src, tgt = store.sides(k)
        counts += np.bincount(src.lengths.astype(np.int64) * width + tgt.lengths, minlength=width * width)
    return counts.reshape(width, width)


def fill_buckets(
    src: Lengths, tgt: Lengths, rng: np.random.Generator, *, buckets: Sequence[Bucket]
) -> list[Indices]:
    """Return the indices of each batch's pairs, which one bucket holds, from the tokens of their sides.

    One batch is not full: what fills none in its bucket goes into the next, for an update of a few pairs
    would count like any other.
    """
    bucket = find_bucket(src, tgt, buckets)
    batches: list[Indices] = []
    rest = np.empty(0, dtype=np.int64)
    for i, shape in enumerate(buckets):
        members = rng.permutation(np.concatenate([rest, np.flatnonzero(bucket == i)]))
        ends = range(shape.n_pairs, len(members) + 1, shape.n_pairs)
        *full, rest = np.split(members, ends)
        batches += full
    if len(rest):
        batches.append(rest)
    return [batches[i] for i in rng.permutation(len(batches))]


def find_bucket(src_lengths: Lengths, tgt_lengths: Lengths, buckets: Sequence[Bucket]) -> Indices:
    """Return the number of the narrowest bucket that holds each pair."""
    fits = [(src_lengths <= b.src_length) & (tgt_lengths <= b.tgt_length) for b in buckets]
    return np.argmax(fits, axis=0)


class StaticBatches:
    """Makes batches in the shapes of buckets; the store's tokens lie on the device if they fit there."""

    def __init__(
        self, store: TokenStore, buckets: Sequence[Bucket], device: torch.device, *, max_bytes: float
    ) -> None:
        """`max_bytes`: what a block may take of the device's memory; else its tokens stay where they are."""
        self.store, self.buckets, self.device = store, buckets, device
        n_bytes = [4 * sum(shard.n_tokens) + 16 * (len(shard) + 1) for shard in store.shards]
        largest = max(sum(n_bytes[k] for k in block) for block in store.blocks)
        self.on_device = device.type != "cpu" and largest <= max_bytes
        self._opened: tuple[range, tuple[SideTensors, ...]] = range(0), ()

    def __call__(self, indices: Indices) -> StaticBatch:
        """Return the pairs at `indices`, in the rows of their bucket, or in half of them, a quarter, ..."""
        src_lengths, tgt_lengths = self.store.lengths(indices)
        bucket = self.buckets[int(find_bucket(src_lengths, tgt_lengths, self.buckets).max())]
        n_rows = bucket.n_pairs
        while (n_rows + 1) // 2 >= len(indices) and n_rows > 1:
            n_rows = (n_rows + 1) // 2
        gathered = self._from_device if self.on_device else self._from_files
        src, tgt = gathered(indices, n_rows, (bucket.src_length, bucket.tgt_length))
        src[len(indices) :, 0] = EOS_ID
        return StaticBatch(src, shifted_right(tgt), tgt, int(src_lengths.sum()), int(tgt_lengths.sum()))

    def _from_files(self, indices: Indices, n_rows: int, lengths: tuple[int, int]) -> list[Tensor]:
        """Return source and target as rows of int64 (n_rows, length), filled up with PAD_ID."""
        sides = []
        for ids, length in zip(self.store.padded(indices), lengths, strict=True):
            rows = np.full((n_rows, length), PAD_ID, dtype=np.int64)
            rows[: len(ids), : ids.shape[1]] = ids
            sides.append(torch.from_numpy(rows).to(self.device))
        return sides

    def _from_device(self, indices: Indices, n_rows: int, lengths: tuple[int, int]) -> list[Tensor]:
        """Return the same from tokens that lie on the device: those of one block, the last one asked for."""
        shard = self.store.shard_of(indices[0])
        if shard not in self._opened[0]:
            self._opened = range(0), ()  # let go before the next is read
            block = next(block for block in self.store.blocks if shard in block)
            opened = [self.store.sides(k) for k in block]
            self._opened = block, tuple(SideTensors(side, self.device) for side in zip(*opened, strict=True))
        block, sides = self._opened
        inside = torch.from_numpy(indices - self.store.starts[block.start]).to(self.device)
        return [
            gather_padded(side.ids, side.offsets, inside, n_rows, length)
            for side, length in zip(sides, lengths, strict=True)
        ]


class SideTensors:
    """One language of consecutive shards as tensors on a device, as `gather_padded` takes them."""

    def __init__(self, sides: Sequence[Side], device: torch.device) -> None:
        starts = np.cumsum([0, *(side.offsets[-1] for side in sides)])
        ends = [side.offsets[1:] + start for side, start in zip(sides, starts, strict=False)]
        self.ids = torch.cat([torch.from_numpy(side.ids.astype(np.int32)).to(device) for side in sides])
        self.offsets = torch.from_numpy(np.concatenate([[0], *ends])).to(device)


def gather_padded(ids: Tensor, offsets: Tensor, indices: Tensor, n_rows: int, length: int) -> Tensor:
    """Sentences as rows of int64 (n_rows, length), filled up with PAD_ID, gathered where `ids` lie.

    Sentence i is ids[offsets[i]:offsets[i + 1]].
    """
    starts, ends = offsets[indices][:, None], offsets[indices + 1][:, None]  # (B, 1)
    positions = starts + torch.arange(length, device=ids.device)  # (B, length)
    tokens = ids[positions.clamp(max=len(ids) - 1)].long()
    rows = torch.full((n_rows, length), PAD_ID, dtype=torch.int64, device=ids.device)
    rows[: len(indices)] = torch.where(positions < ends, tokens, PAD_ID)
    return rows
