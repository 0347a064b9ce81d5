"""Batches of few shapes, and updates that are not waited for: the same training as by the plain way."""

import math
from collections.abc import Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import TranslationConfig, parse_config
from dragoman.data.batching import EpochPlan, make_batch, plan_shards
from dragoman.data.buckets import (
    COVERED,
    N_BUCKETS,
    Bucket,
    StaticBatches,
    choose_buckets,
    choose_edges,
    fill_buckets,
    find_bucket,
    gather_padded,
)
from dragoman.data.store import TokenStore
from dragoman.errors import ConfigError
from dragoman.model.kernels import FAST, FAST_ON_GPU, IGNORED, PLAIN
from dragoman.runs import Run
from dragoman.tasks.training import train
from dragoman.tasks.translation.loss import batch_loss, static_batch_loss
from dragoman.tasks.translation.objective import TranslationObjective
from dragoman.text.vocabulary import BOS_ID, EOS_ID, PAD_ID
from dragoman.training import trainer
from dragoman.training.checkpoints import newest_checkpoint
from dragoman.training.state import TrainPosition
from dragoman.training.updates import divergence
from dragoman.training.updates.captured import Ledger
from dragoman.training.updates.divergence import N_USUAL, what_is_wrong
from dragoman.training.updates.updater import SyncUpdater
from recording import Recorder, Saboteur, losses
from recording import saboteur as saboteur
from stores import src_lengths, tgt_lengths
from stores import store as store
from tiny import TINY, write_corpus

CPU = torch.device("cpu")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path, "train", 150, seed=1)
    write_corpus(tmp_path, "valid", 20, seed=2)
    return tmp_path


def config(*overrides: str, steps: str = "static", **data: Any) -> TranslationConfig:
    data = data or {name: [f"{name}.en", f"{name}.de"] for name in ("train", "valid")}
    settings = {"name": "tiny", "data": {"src_lang": "en", "tgt_lang": "de", **data}}
    asked = [*TINY, "training.max_steps=12", f"training.steps={steps}", *overrides]
    found = parse_config(settings, overrides=asked)
    assert found.task == "translation"
    return found


def mixed_config(*overrides: str) -> TranslationConfig:
    """Two corpora of different lengths, the second at first alone, and read more often than the first."""
    files = {name: [f"{name}.en", f"{name}.de"] for name in ("train", "few", "valid")}
    corpora = [{"name": name, "files": files[name], "langs": ["en", "de"]} for name in ("train", "few")]
    stages = [{"mix": {"few": 1.0}, "until": "2 epochs"}, {"mix": {"train": 0.6, "few": 0.4}}]
    return config(*overrides, corpora=[corpora[0] | {"valid": files["valid"]}, corpora[1]], stages=stages)


# Batches


def planned(store: TokenStore, buckets: tuple[Bucket, ...], *, seed: int = 1, epoch: int = 0) -> EpochPlan:
    return plan_shards(store, partial(fill_buckets, buckets=buckets), seed=seed, epoch=epoch)


@pytest.mark.slow
@pytest.mark.parametrize("batch_tokens", [1, 40, 500, 10**6])
def test_every_pair_is_in_one_batch_that_holds_it_an_epoch(store: TokenStore, batch_tokens: int) -> None:
    buckets = choose_buckets(store, batch_tokens=batch_tokens)
    src, tgt = src_lengths(store), tgt_lengths(store)
    for epoch in range(2):
        plan = planned(store, buckets, epoch=epoch)
        assert np.sort(np.concatenate(plan)).tolist() == list(range(len(store)))
        for batch in plan:
            number = find_bucket(src[batch], tgt[batch], buckets).max()
            assert 1 <= len(batch) <= buckets[number].n_pairs
            assert src[batch].max() <= buckets[number].src_length
            assert tgt[batch].max() <= buckets[number].tgt_length
    for bucket in buckets:
        assert bucket.n_pairs == 1 or bucket.n_pairs * bucket.tgt_length <= batch_tokens


def test_a_dozen_buckets_hold_all_with_little_padding(store: TokenStore) -> None:
    n_shards = len(store.shards)
    buckets = choose_buckets(store, batch_tokens=2000 // n_shards)  # as many batches a shard as in one file
    assert len(buckets) <= 12
    assert buckets[-1][1:] == (src_lengths(store).max(), tgt_lengths(store).max())
    assert list(buckets) == sorted(buckets, key=lambda bucket: bucket.tgt_length)
    plan = planned(store, buckets)
    make = StaticBatches(store, buckets, CPU, max_bytes=0)
    cells = sum(make(batch).tgt_out.numel() for batch in plan)
    assert tgt_lengths(store).sum() / cells > 0.88  # 11 % are padding of targets in this corpus
    assert len({make(batch).shape for batch in plan}) <= (1 + n_shards) * len(buckets)  # full, or the rest


def test_buckets_are_chosen_from_the_lengths_of_all_shards(store: TokenStore) -> None:
    src, tgt = src_lengths(store), tgt_lengths(store)
    buckets = choose_buckets(store, batch_tokens=500)
    assert [bucket.tgt_length for bucket in buckets] == choose_edges(np.bincount(tgt), N_BUCKETS)
    shorter, expected = 0, 0
    for n, (_, src_length, tgt_length) in enumerate(buckets, start=1):
        own = src[(shorter < tgt) & (tgt <= tgt_length)]
        covered = src.max() if n == len(buckets) else np.quantile(own, COVERED, method="higher")
        shorter, expected = tgt_length, max(expected, covered)
        assert src_length == expected


@given(counts=st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(any), n_buckets=st.integers(1, 4))
def test_no_other_buckets_have_less_padding(counts: list[int], n_buckets: int) -> None:
    lengths = [n for n, count in enumerate([0, *counts]) if count]

    def padded(edges: Sequence[int]) -> int:
        return sum(count * min(e for e in edges if e >= n) for n, count in enumerate([0, *counts]) if count)

    fewer = (some for k in range(n_buckets) for some in combinations(lengths[:-1], k))
    others = [padded([*some, lengths[-1]]) for some in fewer]
    found = choose_edges(np.array([0, *counts]), n_buckets)
    assert found == sorted(set(found))
    assert len(found) <= n_buckets
    assert padded(found) == min(others)


def test_one_batch_of_a_shard_is_not_full(store: TokenStore) -> None:
    """What fills none goes into a wider bucket: each update counts the same, however few its pairs."""
    buckets = choose_buckets(store, batch_tokens=2000 // len(store.shards))
    full = {bucket.n_pairs for bucket in buckets}
    assert sum(len(batch) not in full for batch in planned(store, buckets)) <= len(store.shards)


def test_the_plan_follows_from_seed_and_epoch(store: TokenStore) -> None:
    buckets = choose_buckets(store, batch_tokens=500)

    def order(seed: int, epoch: int) -> list[int]:
        return [int(i) for batch in planned(store, buckets, seed=seed, epoch=epoch) for i in batch]

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(1, 1)
    assert order(1, 0) != order(2, 0)


def test_a_static_batch_holds_its_pairs_and_rows_that_say_nothing(store: TokenStore) -> None:
    make = StaticBatches(store, choose_buckets(store, batch_tokens=500), CPU, max_bytes=0)
    indices = np.array([3, 1, 4])
    batch = make(indices)
    for row, i in enumerate(indices):
        src, tgt = store.src(i).tolist(), store.tgt(i).tolist()
        assert [t for t in batch.src[row].tolist() if t != PAD_ID] == src
        assert batch.tgt_out[row].tolist() == tgt + [PAD_ID] * (batch.shape[2] - len(tgt))
        assert batch.tgt_in[row].tolist()[: len(tgt)] == [BOS_ID, *tgt[:-1]]
    assert (batch.src[3:, 0] == EOS_ID).all()
    assert (batch.src[3:, 1:] == PAD_ID).all()
    assert (batch.tgt_out[3:] == PAD_ID).all()
    assert batch.n_src_tokens == src_lengths(store)[indices].sum()
    assert batch.n_tgt_tokens == (batch.tgt_out != PAD_ID).sum()


def test_tokens_gathered_on_the_device_are_those_of_the_files(store: TokenStore) -> None:
    side, indices = store.sides(0)[0], np.array([7, len(store.shards[0]) - 1, 0])
    ids = torch.from_numpy(side.ids.astype(np.int32))
    found = gather_padded(ids, torch.tensor(side.offsets), torch.from_numpy(indices), 5, 60)
    assert found.shape == (5, 60)
    for row, i in enumerate(indices):
        assert [t for t in found[row].tolist() if t != PAD_ID] == side[i].tolist()
    assert (found[3:] == PAD_ID).all()


def task_of(config: TranslationConfig) -> TranslationObjective:
    return TranslationObjective(config, Run.create("run", config), CPU, Recorder(), static=True)


@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize("on_device", [False, True])
def test_batches_of_several_corpora_hold_the_pairs_that_the_mix_gives_them(
    folder: Path, drawn: bool, on_device: bool
) -> None:
    write_corpus(folder, "few", 40, seed=3)
    task = task_of(mixed_config(*(["tokenizer.kind=bpe", "tokenizer.dropout=0.1"] if drawn else [])))
    shapes, make = set(), None
    for epoch in range(5):
        plan = task.plan(epoch)
        store, make = task.epoch_store, task.static_batches
        assert make is not None
        make.on_device = on_device  # as on a GPU, where tokens lie in its memory
        expected = task.text.plan(epoch, lambda src, tgt, rng: [np.arange(len(tgt))])
        assert sorted(np.concatenate(plan)) == sorted(np.concatenate(expected))
        for indices in plan:
            batch = make(indices)
            shapes.add(batch.shape)
            assert len(indices) > batch.shape[0] // 2
            for row, i in enumerate(indices):
                assert [t for t in batch.src[row].tolist() if t != PAD_ID] == store.src(i).tolist()
                assert [t for t in batch.tgt_out[row].tolist() if t != PAD_ID] == store.tgt(i).tolist()
    assert make is not None
    assert drawn or len(shapes) <= 4 * len(make.buckets)


@pytest.mark.slow
def test_a_static_training_of_several_corpora_continues_to_the_bit_in_every_stage(folder: Path) -> None:
    write_corpus(folder, "few", 40, seed=3)
    whole = train(mixed_config(), "whole")
    for stop_at in (2, 9):
        with pytest.raises(KeyboardInterrupt):
            train(mixed_config(), "cut", listener=Recorder(stop_at=stop_at))
    assert losses(train(mixed_config(), "cut")) == losses(whole)


# Losses


@pytest.mark.parametrize("kernels", [PLAIN, FAST, FAST_ON_GPU])
def test_ignored_rows_take_no_part_in_a_loss(kernels: Any) -> None:
    torch.manual_seed(1)
    hidden, weight = torch.randn(700, 8, dtype=torch.float64), torch.randn(30, 8, dtype=torch.float64)
    targets = torch.randint(30, (700,))
    ignored = torch.rand(700) < 0.3
    results = []
    without = (hidden[~ignored], targets[~ignored])
    for rows, y in ((hidden, targets.masked_fill(ignored, IGNORED)), without):
        w = weight.clone().requires_grad_()
        h = rows.clone().requires_grad_()
        loss, log_loss = kernels.linear_cross_entropy(h, w, y, 0.1)
        loss.backward()
        results.append((loss, log_loss, w.grad, h.grad if len(rows) < 700 else h.grad[~ignored]))
        if len(rows) == 700:
            assert (h.grad[ignored] == 0).all()
    for ours, expected in zip(*results, strict=True):
        torch.testing.assert_close(ours, expected)


def test_a_static_batch_has_the_loss_and_the_gradient_of_its_pairs(folder: Path) -> None:
    task = task_of(config("model.dropout=0.0", "training.precision=fp32"))
    for indices in task.plan(0)[:5]:
        found = []
        for loss in (
            static_batch_loss(task.model, task.static_batches(indices), smoothing=0.1),  # type: ignore[misc]
            batch_loss(task.model, make_batch(task.epoch_store, indices), smoothing=0.1),
        ):
            task.model.zero_grad()
            loss.smoothed.backward()
            gradient = task.model.output.weight.grad
            assert gradient is not None
            found.append((loss.smoothed.detach(), loss.log_loss, gradient.clone()))
        for ours, expected in zip(*found, strict=True):
            torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)


# Training


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_updates_that_are_not_waited_for_are_those_that_are(
    folder: Path, monkeypatch: pytest.MonkeyPatch, optimizer: str
) -> None:
    """On the same batches: losses, weights and what is known of them."""
    settings = ["training.ema_decay=0.9", "training.update_freq=2", "training.precision=fp32"]
    settings.append(f"training.optimizer={optimizer}")
    deferred = train(config(*settings), "deferred")
    monkeypatch.setattr(trainer, "AsyncUpdater", SyncUpdater)
    waited_for = train(config(*settings), "waited-for")
    assert losses(deferred) == [(step, pytest.approx(loss, rel=1e-5)) for step, loss in losses(waited_for)]
    for name, weights in Run.open(waited_for).load_weights().items():
        torch.testing.assert_close(Run.open(deferred).load_weights()[name], weights, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", pytest.param("bf16", marks=pytest.mark.nightly)])
def test_an_interrupted_static_run_continues_to_the_bit(folder: Path, precision: str) -> None:
    settings = ("training.update_freq=2", "training.ema_decay=0.9", f"training.precision={precision}")
    whole = train(config(*settings), "whole")
    with pytest.raises(KeyboardInterrupt):
        train(config(*settings), "cut", listener=Recorder(stop_at=7))
    newest = newest_checkpoint(Run.open("cut"))
    assert newest is not None
    assert newest.name == "step-000008"  # looked at when the log is written
    cut = train(config(*settings), "cut")
    assert losses(cut) == losses(whole)
    assert (cut / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


@pytest.mark.nightly
def test_a_run_keeps_its_kind_of_batches_where_it_is_continued(folder: Path) -> None:
    """As when a training of a GPU goes on without one: the same batches, other arithmetic."""
    whole = train(config(), "whole")
    with pytest.raises(KeyboardInterrupt):
        train(config(), "cut", listener=Recorder(stop_at=7))
    settings = Path("cut/config.toml").read_text("utf-8").replace('steps = "static"', 'steps = "auto"')
    Path("cut/config.toml").write_text(settings, "utf-8")
    cut = train(config(steps="auto"), "cut")
    assert losses(cut) == losses(whole)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_static_training_that_diverges_goes_back(folder: Path, saboteur: Any, optimizer: str) -> None:
    listener: Saboteur = saboteur(8)
    settings = ("training.valid_every=6", f"training.optimizer={optimizer}")
    path = train(config(*settings), "run", listener=listener)
    (back,) = [r for r in Run.open(path).history() if r["kind"] == "back"]
    assert (back["step"], back["from_step"], back["rate_factor"]) == (6, 12, 0.5)
    assert "not a number or exploded, 4 times in a row" in back["reason"]
    assert any("2 updates were skipped" in message for message in listener.messages)
    assert all(torch.isfinite(value).all() for value in Run.open(path).load_weights().values())


@pytest.mark.slow
def test_batches_that_do_not_fit_are_cut(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ("model.dropout=0.0", "training.precision=fp32")
    whole = train(config(*settings), "whole")
    original = TranslationObjective.loss

    def loss(self: TranslationObjective, batch: Any) -> Any:
        if len(batch.src) > 5:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return original(self, batch)

    monkeypatch.setattr(TranslationObjective, "loss", loss)
    cut = train(config(*settings), "cut")
    assert losses(cut) == [(step, pytest.approx(value, rel=1e-5)) for step, value in losses(whole)]


@pytest.mark.parametrize(
    "override", ["training.precision=fp16", "training.sharding=full", "training.consistency=1.0"]
)
def test_what_does_not_go_with_static_steps_is_said(override: str) -> None:
    with pytest.raises(ConfigError, match=r'steps = "static" does not go with .*set steps = "free"'):
        config(override)


# What is judged on the device


def judged(ledger: Ledger, loss: float, norm: float = 1.0) -> bool:
    """Whether an update of 10 items with this mean loss is skipped."""
    return bool(ledger.judge(torch.tensor(10 * loss, dtype=torch.float64), 10, torch.tensor(norm)))


def test_a_loss_that_explodes_is_skipped_and_one_that_creeps_up_is_divergence() -> None:
    position = TrainPosition()
    ledger = Ledger(position, CPU)
    assert not judged(ledger, 50.0), "nothing is usual yet"
    ledger = Ledger(position, CPU)
    assert not any(judged(ledger, 2.0) for _ in range(N_USUAL))
    for loss, norm in ((5.1, 1.0), (2.0, math.inf), (math.nan, 1.0)):
        assert judged(ledger, loss, norm)
        assert not judged(ledger, 4.9 if loss > 5 else 2.0)
    assert ledger.settle(position) == (1.0, 3)
    assert (position.n_good, position.n_left_out, position.n_in_a_row) == (N_USUAL + 3, 3, 0)
    usual = 0.95**2 * (2.0 + 0.05 * 2.9) + (1 - 0.95**2) * 2.0
    assert position.usual_loss == pytest.approx(usual)
    assert position.lowest_loss == pytest.approx(2.0)
    assert position.window_items == 10 * position.n_good
    assert position.window_loss == pytest.approx(10 * (2.0 * (N_USUAL + 2) + 4.9))
    assert what_is_wrong(5.1, 1.0, usual) == "the loss exploded (5.1 nats, where 2.13 were usual)"
    assert what_is_wrong(2.0, math.inf, usual) == "the gradient is not a number"
    position.usual_loss = 3.9  # 1.5 times the lowest, and one more, is still borne
    assert Ledger(position, CPU).settle(position)[1] == 0
    position.usual_loss = 4.1
    with pytest.raises(divergence.DivergenceError, match=r"the loss rose to 4\.1 nats, from 2 before"):
        Ledger(position, CPU).settle(position)


def test_divergence_between_two_looks_is_not_overlooked() -> None:
    ledger = Ledger(TrainPosition(), CPU)
    for loss in (1.0, math.nan, math.nan, math.nan, 1.0):
        ledger.judge(torch.tensor(loss), 1, torch.tensor(1.0))
    with pytest.raises(divergence.DivergenceError, match="3 times in a row"):
        ledger.settle(TrainPosition())
