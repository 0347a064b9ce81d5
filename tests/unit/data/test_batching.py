"""Batches: every pair once an epoch, within bounds, other ones every epoch and the same ones for a seed."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from dragoman.config import TokenizerConfig
from dragoman.data.batching import (
    SRC_ROOM,
    EpochPlan,
    Indices,
    TranslationBatch,
    cut_by_tokens,
    make_batch,
    pad,
    plan_epoch,
)
from dragoman.data.corpora import open_corpus
from dragoman.data.store import TokenStore
from dragoman.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, TokenizerPair
from dragoman.training.parallel.processes import Processes
from stores import src_lengths, tgt_lengths
from stores import store as store


def shard_of(store: TokenStore, batch: Indices) -> set[int]:
    return set((np.searchsorted(store.starts, batch, side="right") - 1).tolist())


def plan(store: TokenStore, *, batch_tokens: int = 500, seed: int = 1, epoch: int = 0) -> EpochPlan:
    return plan_epoch(store, batch_tokens=batch_tokens, seed=seed, epoch=epoch)


def padding(lengths: np.ndarray, batches: Sequence[np.ndarray]) -> float:
    return 1 - lengths.sum() / sum(len(batch) * lengths[batch].max() for batch in batches)


@pytest.mark.slow
@pytest.mark.parametrize("batch_tokens", [1, 30, 500, 4000, 10**6])
def test_every_pair_is_in_one_batch_of_an_epoch_and_padded_tokens_within_the_bound_unless_it_is_alone(
    store: TokenStore, batch_tokens: int
) -> None:
    src, tgt = src_lengths(store), tgt_lengths(store)
    ratio = max(1.0, src.sum() / tgt.sum())
    for epoch in range(3):
        batches = plan(store, batch_tokens=batch_tokens, epoch=epoch)
        assert np.sort(np.concatenate(batches)).tolist() == list(range(len(store)))
        assert min(map(len, batches)) >= 1
        for batch in batches:
            if len(batch) > 1:
                assert len(batch) * tgt[batch].max() <= batch_tokens
                assert len(batch) * src[batch].max() <= SRC_ROOM * ratio * batch_tokens


@pytest.mark.slow
def test_a_plan_follows_from_seed_and_epoch_and_is_in_no_order_of_length(store: TokenStore) -> None:
    plans = [
        [tuple(batch.tolist()) for batch in plan(store, seed=seed, epoch=epoch)]
        for seed, epoch in ((1, 0), (1, 0), (1, 1), (2, 0))
    ]
    assert plans[0] == plans[1]
    assert plans[0] != plans[2] != plans[3] != plans[0]
    first, second = ({frozenset(batch) for batch in plans[i]} for i in (0, 2))
    assert len(first & second) < len(first) / 10, "pairs meet other pairs in another epoch"
    lengths = tgt_lengths(store)
    widths = np.array([lengths[list(batch)].max() for batch in plans[0]])
    assert abs(np.corrcoef(widths, np.arange(len(widths)))[0, 1]) < 0.3


def test_one_shard_is_planned_by_seed_and_epoch_alone(store: TokenStore) -> None:
    """As before there were shards: a run that was begun then continues with the same batches."""
    lengths = (side.lengths for side in store.sides(0))
    expected = cut_by_tokens(*lengths, np.random.default_rng([3, 4]), batch_tokens=500)
    first = TokenStore(store.shards[:1], max_length=store.max_length)
    planned = plan_epoch(first, batch_tokens=500, seed=3, epoch=4)
    assert [batch.tolist() for batch in planned] == [batch.tolist() for batch in expected]


def test_shards_come_one_after_the_other_in_another_order_each_epoch(store: TokenStore) -> None:
    orders = []
    for epoch in range(3):
        shards = [shard_of(store, batch) for batch in plan(store, epoch=epoch)]
        assert all(len(shard) == 1 for shard in shards)
        changes = [shards[0], *(b for a, b in pairwise(shards) if a != b)]
        orders.append([k for shard in changes for k in shard])
        assert sorted(orders[-1]) == list(range(len(store.shards)))
    assert len(store.shards) == 1 or orders[0] != orders[1] != orders[2]


def test_a_plan_begun_anywhere_is_the_rest_of_the_whole(store: TokenStore) -> None:
    """What a resumed training does: it asks a fresh plan for the batches from its position on."""
    whole = [batch.tolist() for batch in plan(store)]
    for start in (0, 1, len(whole) // 3, len(whole) // 2, len(whole) - 1):
        fresh = plan(store)
        assert len(fresh) == len(whole)
        rest = [batch.tolist() for i in range(start, len(fresh), 4) for batch in fresh[i : i + 4]]
        assert rest == whole[start:]


def test_a_plan_is_a_sequence_that_keeps_one_part_in_memory() -> None:
    calls: list[int] = []

    def part(k: int, n: int) -> list[Indices]:
        calls.append(k)
        return [np.array([10 * k + i]) for i in range(n)]

    planned = EpochPlan([partial(part, k, n) for k, n in enumerate((2, 0, 3))])
    assert calls == [2, 1, 0]
    assert [int(batch[0]) for batch in planned] == [0, 1, 20, 21, 22]
    assert calls == [2, 1, 0, 2]
    assert [int(batch[0]) for batch in planned[1:4]] == [1, 20, 21]
    assert [int(batch[0]) for batch in planned[3:99]] == [21, 22]
    assert planned[-1][0] == 22
    with pytest.raises(IndexError):
        planned[5]


def test_a_shard_without_a_usable_pair_has_no_batches(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("a\tx\na\t\n\tx\nb\ty\n")
    corpus = open_corpus([str(tmp_path / "pairs.tsv")], src_lang="en", tgt_lang="de")
    tokenizers = TokenizerPair.train(corpus.pairs(), TokenizerConfig(vocab_size=300))
    store = TokenStore.prepare(corpus, tokenizers, max_length=9, cache=tmp_path / "cache", shard_pairs=1)
    assert [len(shard) for shard in store.shards] == [1, 0, 0, 1]
    assert sorted(batch.tolist() for batch in plan(store)) == [[0], [1]]
    assert make_batch(store, np.array([1])).n_tokens == len(store.src(1)) + len(store.tgt(1))


class Watched:
    """Ids that remember which of them were looked at."""

    def __init__(self, ids: np.ndarray) -> None:
        self.ids, self.read = ids, set[int]()

    def __getitem__(self, positions: np.ndarray) -> np.ndarray:
        self.read.update(positions.tolist())
        return self.ids[positions]


def test_a_process_reads_the_ids_of_its_own_sentences_only(store: TokenStore) -> None:
    batch = plan(store)[0]
    (k,) = shard_of(store, batch)
    offsets = store.shards[k].open()[0].offsets
    for rank in range(3):
        process, watched = Processes(rank, 3), Watched(store.shards[k].open()[0].ids)
        its_store = TokenStore(store.shards, max_length=store.max_length)
        its_store.sides(k)[0].ids = cast(Any, watched)
        mine = process.share(batch)
        make_batch(its_store, mine)
        own = [range(offsets[i], offsets[i + 1]) for i in mine - store.starts[k]]
        assert watched.read == {position for sentence in own for position in sentence}


def test_sorting_by_length_saves_most_of_the_padding(store: TokenStore) -> None:
    batches = plan(store, batch_tokens=500 // len(store.shards))  # a shard fills as many as the whole would
    unsorted = np.array_split(np.random.default_rng(1).permutation(len(store)), len(batches))
    assert padding(tgt_lengths(store), batches) < 0.1 * padding(tgt_lengths(store), unsorted)
    assert padding(src_lengths(store), batches) < 0.5 * padding(src_lengths(store), unsorted)


def test_a_batch_holds_the_pairs_of_the_store(store: TokenStore) -> None:
    indices = plan(store)[0]
    batch = make_batch(store, indices)
    assert batch.src.dtype == batch.tgt_in.dtype == batch.tgt_out.dtype == torch.int64
    for row, i in enumerate(indices):
        src, tgt = store.src(i).tolist(), store.tgt(i).tolist()
        assert batch.src[row].tolist() == src + [PAD_ID] * (batch.src.shape[1] - len(src))
        room = [PAD_ID] * (batch.tgt_out.shape[1] - len(tgt))
        assert batch.tgt_out[row].tolist() == tgt + room
        assert batch.tgt_in[row].tolist() == [BOS_ID, *tgt[:-1], *room]
    assert batch.src.shape[1] == src_lengths(store)[indices].max()
    assert batch.n_src_tokens == src_lengths(store)[indices].sum(), "tokens are counted without padding"
    assert batch.n_tgt_tokens == tgt_lengths(store)[indices].sum() == (batch.tgt_in != PAD_ID).sum()
    assert batch.n_tokens == batch.n_src_tokens + batch.n_tgt_tokens
    assert TranslationBatch(*(tensor.clone() for tensor in batch)).n_tokens == batch.n_tokens
    alone = make_batch(store, np.array([7]))
    assert PAD_ID not in torch.cat([alone.src, alone.tgt_in, alone.tgt_out], dim=1)


def test_pad_fills_rows_up() -> None:
    assert pad([[5, EOS_ID], [], [6, 7, EOS_ID]]).tolist() == [[5, 2, 0], [0, 0, 0], [6, 7, 2]]
    assert pad([[5]]).dtype == torch.int64
    assert pad([]).shape == (0, 0)
