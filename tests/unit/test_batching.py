"""Batches: every pair once an epoch, within bounds, other ones every epoch and the same ones for a seed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dragoman.config import TokenizerConfig
from dragoman.data.batching import SRC_ROOM, TranslationBatch, make_batch, pad, plan_epoch
from dragoman.data.corpora import open_corpus
from dragoman.data.store import TokenStore
from dragoman.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, TokenizerPair


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> TokenStore:
    """5000 pairs of 2 to about 40 tokens, targets about as long as their sources."""
    rng = np.random.default_rng(1)
    lengths = rng.gamma(4.0, 2.5, size=5000).astype(int) + 1
    pairs = [
        (" ".join(rng.choice(["a", "b", "c", "d"], n)), " ".join(rng.choice(["x", "y"], max(1, n + d))))
        for n, d in zip(lengths, rng.integers(-2, 3, size=5000), strict=True)
    ]
    folder = tmp_path_factory.mktemp("store")
    (folder / "pairs.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs))
    corpus = open_corpus([str(folder / "pairs.tsv")], src_lang="en", tgt_lang="de")
    tokenizers = TokenizerPair.train(pairs, TokenizerConfig(vocab_size=300))
    return TokenStore.prepare(corpus, tokenizers, max_length=100, cache=folder / "cache")


def plan(store: TokenStore, *, batch_tokens: int = 500, seed: int = 1, epoch: int = 0) -> list[np.ndarray]:
    return plan_epoch(store, batch_tokens=batch_tokens, seed=seed, epoch=epoch)


def padding(lengths: np.ndarray, batches: list[np.ndarray]) -> float:
    return 1 - lengths.sum() / sum(len(batch) * lengths[batch].max() for batch in batches)


@pytest.mark.parametrize("batch_tokens", [1, 30, 500, 10**6])
def test_every_pair_is_in_one_batch_of_an_epoch(store: TokenStore, batch_tokens: int) -> None:
    for epoch in range(3):
        batches = plan(store, batch_tokens=batch_tokens, epoch=epoch)
        assert np.sort(np.concatenate(batches)).tolist() == list(range(len(store)))
        assert min(map(len, batches)) >= 1


@pytest.mark.parametrize("batch_tokens", [30, 500, 4000])
def test_padded_tokens_stay_within_the_bound_unless_a_pair_is_alone(
    store: TokenStore, batch_tokens: int
) -> None:
    ratio = max(1.0, store.src_lengths.sum() / store.tgt_lengths.sum())
    for batch in plan(store, batch_tokens=batch_tokens):
        if len(batch) > 1:
            assert len(batch) * store.tgt_lengths[batch].max() <= batch_tokens
            assert len(batch) * store.src_lengths[batch].max() <= SRC_ROOM * ratio * batch_tokens


def test_a_plan_follows_from_seed_and_epoch(store: TokenStore) -> None:
    plans = [
        [batch.tolist() for batch in plan(store, seed=seed, epoch=epoch)]
        for seed, epoch in ((1, 0), (1, 0), (1, 1), (2, 0))
    ]
    assert plans[0] == plans[1]
    assert plans[0] != plans[2] != plans[3] != plans[0]


def test_pairs_meet_other_pairs_in_another_epoch(store: TokenStore) -> None:
    first, second = ({frozenset(batch.tolist()) for batch in plan(store, epoch=epoch)} for epoch in (0, 1))
    assert len(first & second) < len(first) / 10


def test_batches_come_in_no_order_of_length(store: TokenStore) -> None:
    widths = np.array([store.tgt_lengths[batch].max() for batch in plan(store)])
    assert abs(np.corrcoef(widths, np.arange(len(widths)))[0, 1]) < 0.3


def test_sorting_by_length_saves_most_of_the_padding(store: TokenStore) -> None:
    batches = plan(store)
    unsorted = np.array_split(np.random.default_rng(1).permutation(len(store)), len(batches))
    assert padding(store.tgt_lengths, batches) < 0.1 * padding(store.tgt_lengths, unsorted)
    assert padding(store.src_lengths, batches) < 0.5 * padding(store.src_lengths, unsorted)


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
    assert batch.src.shape[1] == store.src_lengths[indices].max()


def test_tokens_are_counted_without_padding(store: TokenStore) -> None:
    indices = plan(store)[3]
    batch = make_batch(store, indices)
    assert batch.n_src_tokens == store.src_lengths[indices].sum()
    assert batch.n_tgt_tokens == store.tgt_lengths[indices].sum()
    assert batch.n_tokens == batch.n_src_tokens + batch.n_tgt_tokens
    assert batch.n_tgt_tokens == (batch.tgt_in != PAD_ID).sum()


def test_a_batch_of_one_pair_has_no_padding(store: TokenStore) -> None:
    batch = make_batch(store, np.array([7]))
    assert PAD_ID not in torch.cat([batch.src, batch.tgt_in, batch.tgt_out], dim=1)


def test_pad_fills_rows_up() -> None:
    assert pad([[5, EOS_ID], [], [6, 7, EOS_ID]]).tolist() == [[5, 2, 0], [0, 0, 0], [6, 7, 2]]
    assert pad([[5]]).dtype == torch.int64
    assert pad([]).shape == (0, 0)


def test_a_batch_is_a_tuple_of_tensors(store: TokenStore) -> None:
    batch = make_batch(store, np.array([1, 2]))
    assert TranslationBatch(*(tensor.clone() for tensor in batch)).n_tokens == batch.n_tokens
