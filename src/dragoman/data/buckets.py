"""Batches of few shapes: a dozen buckets of lengths, so that a GPU can repeat what it has recorded.

A captured step (training/captured.py) is good for one shape. So pairs go into the narrowest bucket that holds
them, every batch of a bucket has its shape, and what is missing is filled up with padding that takes no part
in the loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dragoman.data.store import Side, TokenStore
from dragoman.text.vocabulary import BOS_ID, EOS_ID, PAD_ID

Indices = npt.NDArray[np.int64]

N_BUCKETS = 12
"""Buckets of target lengths."""

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


def choose_buckets(store: TokenStore, *, batch_tokens: int, n_buckets: int = N_BUCKETS) -> tuple[Bucket, ...]:
    """Buckets with about equally many target tokens each, narrow ones first; the last holds every pair.

    A batch has at most `batch_tokens` target tokens, padding included, or one pair.
    """
    src, tgt = store.src_lengths, store.tgt_lengths
    tokens = np.cumsum(np.bincount(tgt, weights=tgt))  # up to each target length
    edges = np.searchsorted(tokens, tokens[-1] * np.arange(1, n_buckets + 1) / n_buckets)
    buckets = []
    shorter = src_length = 0
    for edge in np.unique(np.minimum(edges, tgt.max())):
        own = src[(tgt > shorter) & (tgt <= edge)]
        last = edge == tgt.max()
        needed = src.max() if last else np.quantile(own, COVERED, method="higher")
        src_length, shorter = max(src_length, int(needed)), int(edge)
        buckets.append(Bucket(max(1, batch_tokens // shorter), src_length, shorter))
    return tuple(buckets)


def plan_buckets(
    store: TokenStore, buckets: Sequence[Bucket], *, seed: int, epoch: int
) -> list[npt.NDArray[np.int64]]:
    """The indices of each batch's pairs, in the order of training: every pair once, a bucket a batch."""
    rng = np.random.default_rng([seed, epoch])
    bucket = find_bucket(store.src_lengths, store.tgt_lengths, buckets)
    batches: list[Indices] = []
    for i, shape in enumerate(buckets):
        members = rng.permutation(np.flatnonzero(bucket == i))
        batches += (
            np.split(members, range(shape.n_pairs, len(members), shape.n_pairs)) if len(members) else []
        )
    return [batches[i] for i in rng.permutation(len(batches))]


def find_bucket(
    src_lengths: npt.NDArray[np.int32], tgt_lengths: npt.NDArray[np.int32], buckets: Sequence[Bucket]
) -> npt.NDArray[np.int64]:
    """The number of the narrowest bucket that holds each pair."""
    fits = [(src_lengths <= b.src_length) & (tgt_lengths <= b.tgt_length) for b in buckets]
    return np.argmax(fits, axis=0)


class StaticBatches:
    """Makes batches in the shapes of buckets; the store's tokens lie on the device if they fit there."""

    def __init__(
        self, store: TokenStore, buckets: Sequence[Bucket], device: torch.device, *, max_bytes: float
    ) -> None:
        """`max_bytes`: what the tokens may take of the device's memory; else they stay where they are."""
        self.store, self.buckets, self.device = store, buckets, device
        n_bytes = sum(4 * len(side.ids) + 8 * len(side.offsets) for side in (store.source, store.target))
        self.resident = n_bytes <= max_bytes
        place = device if self.resident else torch.device("cpu")
        self.source, self.target = (SideTensors(side, place) for side in (store.source, store.target))

    def __call__(self, indices: Indices) -> StaticBatch:
        """The pairs at `indices`: as many as their bucket has room for, or half, a quarter, ... as many."""
        src_lengths, tgt_lengths = self.store.src_lengths[indices], self.store.tgt_lengths[indices]
        bucket = self.buckets[int(find_bucket(src_lengths, tgt_lengths, self.buckets).max())]
        n_rows = bucket.n_pairs
        while (n_rows + 1) // 2 >= len(indices) and n_rows > 1:
            n_rows = (n_rows + 1) // 2
        src = self.source.padded(indices, n_rows, bucket.src_length).to(self.device, non_blocking=True)
        tgt = self.target.padded(indices, n_rows, bucket.tgt_length).to(self.device, non_blocking=True)
        src[len(indices) :, 0] = EOS_ID
        tgt_in = tgt.roll(1, dims=1)
        tgt_in = tgt_in.masked_fill(tgt_in == EOS_ID, PAD_ID)
        tgt_in[:, 0] = BOS_ID
        return StaticBatch(src, tgt_in, tgt, int(src_lengths.sum()), int(tgt_lengths.sum()))


class SideTensors:
    """A side of a store as tensors, on a device or mapped from its files."""

    def __init__(self, side: Side, device: torch.device) -> None:
        self.side = side
        self.on_device = device.type != "cpu"
        if self.on_device:
            self.ids = torch.from_numpy(side.ids.astype(np.int32)).to(device)
            self.offsets = torch.tensor(side.offsets, device=device)

    def padded(self, indices: Indices, n_rows: int, length: int) -> Tensor:
        """The sentences at `indices` as rows of int64 (n_rows, length), filled up with PAD_ID."""
        if not self.on_device:
            rows = np.full((n_rows, length), PAD_ID, dtype=np.int64)
            found = self.side.padded(indices)
            rows[: len(found), : found.shape[1]] = found
            return torch.from_numpy(rows)
        return gather_padded(self.ids, self.offsets, torch.from_numpy(indices), n_rows, length)


def gather_padded(ids: Tensor, offsets: Tensor, indices: Tensor, n_rows: int, length: int) -> Tensor:
    """Sentences as rows of int64 (n_rows, length), filled up with PAD_ID, gathered where `ids` lie.

    Sentence i is ids[offsets[i]:offsets[i + 1]].
    """
    indices = indices.to(ids.device, non_blocking=True)
    starts, ends = offsets[indices][:, None], offsets[indices + 1][:, None]  # (B, 1)
    positions = starts + torch.arange(length, device=ids.device)  # (B, length)
    tokens = ids[positions.clamp(max=len(ids) - 1)].long()
    rows = torch.full((n_rows, length), PAD_ID, dtype=torch.int64, device=ids.device)
    rows[: len(indices)] = torch.where(positions < ends, tokens, PAD_ID)
    return rows
