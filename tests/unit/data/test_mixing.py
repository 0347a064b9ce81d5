"""Several corpora as one: shares, passes, stages, and which pairs an epoch holds."""

import itertools
import math
from collections import Counter
from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import StageConfig, TokenizerConfig
from dragoman.data.batching import cut_by_tokens, make_batch
from dragoman.data.corpora import open_corpus
from dragoman.data.mixing import MixedStore, MixPart, Mixture, plan_mix, shares_by_size
from dragoman.data.store import TokenStore
from dragoman.text.tokenizer import TokenizerPair
from tiny import write_corpus

CUT = partial(cut_by_tokens, batch_tokens=300)
EN_DE, DE_EN, EN_PL = ("en", "de"), ("de", "en"), ("en", "pl")
PARTS = (
    MixPart("news", EN_DE, 800),
    MixPart("talks", EN_DE, 100, weight=2.0),
    MixPart("news", DE_EN, 800),
    MixPart("few", EN_PL, 25),
)


@pytest.mark.parametrize("temperature", [1.0, 5.0, 1000.0])
def test_temperature_bends_the_shares_of_directions_and_not_those_within_one(temperature: float) -> None:
    news, talks, back, few = shares_by_size(PARTS, temperature)
    assert news + talks + back + few == pytest.approx(1)
    assert talks / news == pytest.approx(200 / 800)
    assert few / (news + talks) == pytest.approx((25 / 1000) ** (1 / temperature))
    assert back / (news + talks) == pytest.approx((800 / 1000) ** (1 / temperature))


def test_a_stage_gives_a_corpus_its_share_in_equal_parts_for_its_directions() -> None:
    mix = Mixture(PARTS, stages=[StageConfig(mix={"news": 3.0, "few": 1.0})])
    (stage,) = mix.stages
    assert stage.shares == (0.375, 0.0, 0.375, 0.25)
    assert stage.n_pairs == 800 + 800 + 25


def test_a_stage_ends_with_the_passes_that_it_names() -> None:
    stages = [
        StageConfig(mix={"news": 1.0, "few": 1.0}, until="3 epochs of few"),
        StageConfig(mix={"talks": 1.0}, until="2 epochs"),
        StageConfig(mix={"news": 1.0}),
    ]
    mix = Mixture(PARTS, stages=stages)
    first = int(mix.stages[0].n_epochs)
    assert mix.passes(first)[3] == pytest.approx(3)
    assert mix.passes(first - 1)[3] < 3
    assert mix.passes(first + 2)[3] == mix.passes(first + 50)[3]
    assert mix.passes(first + 2)[1] == pytest.approx(2)


def test_a_stage_has_as_many_epochs_as_its_fractions_say() -> None:
    """Round shares are no sums of powers of two: 0.3 and 0.1 of 300 and 100 pairs are one epoch."""
    for n, m, a, b in itertools.product(
        range(100, 500, 100), range(100, 500, 100), range(1, 10), range(1, 10)
    ):
        parts = [MixPart("a", EN_DE, n), MixPart("b", EN_DE, m)]
        stages = [
            StageConfig(mix={"a": a / 10, "b": b / 10}, until="1 epochs of a"),
            StageConfig(mix={"a": 1.0}),
        ]
        exact = Fraction(n * (a + b), a * (n + m))
        assert Mixture(parts, stages=stages).stages[0].n_epochs == math.ceil(exact), (n, m, a, b)


@given(
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=4),
    temperature=st.floats(1.0, 10.0),
    n_epochs=st.integers(1, 6),
)
def test_epochs_follow_one_another_without_gap_or_repetition(
    sizes: list[int], temperature: float, n_epochs: int
) -> None:
    parts = [MixPart(str(i), ("en", str(i)), n) for i, n in enumerate(sizes)]
    mix = Mixture(parts, temperature=temperature)
    stretches = [stretch for epoch in range(n_epochs) for stretch in mix.epoch(epoch)]
    read = mix.passes(n_epochs)
    for i, passes in enumerate(read):
        own = [s for s in stretches if s.part == i]
        assert (own[0].number, own[0].start) == (0, 0.0)
        for one, following in pairwise(own):
            begins_again = (one.stop, following.number, following.start) == (1.0, one.number + 1, 0.0)
            assert begins_again or (one.stop, one.number) == (following.start, following.number)
        assert own[-1].number + own[-1].stop == pytest.approx(passes)
    n_pairs = sum(n * passes for n, passes in zip(sizes, read, strict=True))
    assert n_pairs == pytest.approx(n_epochs * sum(sizes))


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[TokenStore]:
    """Three stores of one vocabulary, the second in several shards."""
    folder = tmp_path_factory.mktemp("stores")
    made = []
    for n_pairs in (60, 25, 7):
        write_corpus(folder, str(n_pairs), n_pairs, seed=n_pairs)
        corpus = open_corpus([str(folder / f"{n_pairs}.tsv")], src_lang="en", tgt_lang="de")
        tokenizers = TokenizerPair.train(corpus.pairs(), TokenizerConfig(kind="characters", vocab_size=100))
        shard_pairs = 10 if n_pairs == 25 else 99
        cache = folder / "cache"
        store = TokenStore.prepare(corpus, tokenizers, max_length=100, cache=cache, shard_pairs=shard_pairs)
        made.append(store)
    return made


def parts_of(stores: list[TokenStore]) -> list[MixPart]:
    return [MixPart(str(i), ("en", str(i)), len(store)) for i, store in enumerate(stores)]


def test_a_batch_of_a_mix_holds_the_pairs_of_each_store(stores: list[TokenStore]) -> None:
    mixed = MixedStore(stores)
    starts = np.cumsum([0, *map(len, stores)])
    assert len(mixed) == starts[-1]
    assert mixed.n_tgt_tokens == sum(store.n_tgt_tokens for store in stores)
    indices = np.array([0, 91, 60, 84, 59, 72])
    batch = make_batch(mixed, indices)
    src_lengths, tgt_lengths = mixed.lengths(indices)
    for row, i in enumerate(indices):
        k = int(np.searchsorted(starts, i, side="right")) - 1
        src, tgt = stores[k].src(i - starts[k]), stores[k].tgt(i - starts[k])
        assert batch.src[row, : len(src)].tolist() == src.tolist()
        assert not batch.src[row, len(src) :].any()
        assert batch.tgt_out[row, : len(tgt)].tolist() == tgt.tolist()
        assert (src_lengths[row], tgt_lengths[row]) == (len(src), len(tgt))


@pytest.mark.parametrize("round_pairs", [1 << 22, 20])
def test_every_pair_is_read_once_in_a_pass(
    stores: list[TokenStore], round_pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.data.mixing.ROUND_PAIRS", round_pairs)
    mix = Mixture(parts_of(stores), temperature=3.0)
    counts = [Counter[int]() for _ in stores]
    for epoch in range(5):
        stretches = mix.epoch(epoch)
        own = [stores[s.part] for s in stretches]
        mixed = MixedStore(own)
        plan = plan_mix(stretches, mixed.places, mixed, CUT, seed=3, epoch=epoch)
        again = plan_mix(stretches, mixed.places, mixed, CUT, seed=3, epoch=epoch)
        assert [b.tolist() for b in plan] == [b.tolist() for b in again]
        starts = np.cumsum([0, *map(len, own)])
        assert max(len(np.unique(np.searchsorted(starts, b, side="right"))) for b in plan) > 1
        for i in np.concatenate(list(plan)).tolist():
            k = int(np.searchsorted(starts, i, side="right")) - 1
            counts[stretches[k].part][int(i - starts[k])] += 1
    for part, store, passes in zip(counts, stores, mix.passes(5), strict=True):
        times = [part[i] for i in range(len(store))]
        assert set(times) <= {int(passes), int(passes) + 1}
        assert sum(times) == pytest.approx(passes * len(store), abs=1)


def test_another_epoch_and_another_seed_have_another_order(stores: list[TokenStore]) -> None:
    mix = Mixture(parts_of(stores))
    orders = set()
    for epoch, seed in ((0, 1), (0, 2), (1, 1)):
        stretches = mix.epoch(epoch)
        mixed = MixedStore([stores[s.part] for s in stretches])
        plan = plan_mix(stretches, mixed.places, mixed, CUT, seed=seed, epoch=epoch)
        orders.add(str([b.tolist() for b in plan]))
    assert len(orders) == 3
