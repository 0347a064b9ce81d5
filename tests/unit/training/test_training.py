import json
import os
import re
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from commands import error_of, succeed
from dragoman.config import TranslationConfig, parse_config
from dragoman.data.batching import TranslationBatch, pad, source_mask
from dragoman.data.store import TokenStore
from dragoman.errors import DataError, PausedError, RunError, TrainingError
from dragoman.model.kernels import FAST, PLAIN
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.presets import ROBUST
from dragoman.runs import Run, only_writer
from dragoman.tasks.request import EvaluationRequest
from dragoman.tasks.task import open_run
from dragoman.tasks.training import train
from dragoman.tasks.translation.loss import batch_loss, hide_tokens
from dragoman.tasks.translation.task import TranslationTask
from dragoman.tensors import load_tensors, save_tensors
from dragoman.text.tokenizer import TokenizerPair
from dragoman.text.vocabulary import PAD_ID, SPECIAL_TOKENS, UNK_ID
from dragoman.training.checkpoints import make_room, newest_checkpoint
from dragoman.training.objective import BatchResult, Objective
from dragoman.training.state import TrainPosition, TrainState, average_weights, parameters
from dragoman.training.trainer import TrainingListener
from dragoman.training.updates.divergence import DivergenceError
from dragoman.training.updates.updater import BatchShare, SyncUpdater, lower_loss_scale, raise_loss_scale
from recording import Recorder, Saboteur, losses, tiny_config, tiny_state
from recording import corpus as corpus
from recording import saboteur as saboteur
from tiny import TINY_CLASSIFIER, write_labelled


class PairsTask(Objective[TranslationBatch]):
    """The loss of translation on given batches."""

    item = "token"

    def __init__(self, model: Seq2SeqTransformer) -> None:
        self.model = model

    def unused(self, *_: Any) -> Any:
        raise NotImplementedError

    plan = memory = batch = validate = unused

    def n_items(self, batch: TranslationBatch) -> float:
        return batch.n_tgt_tokens

    def loss(self, batch: TranslationBatch) -> BatchResult:
        return BatchResult(batch_loss(self.model, batch, smoothing=0.1).smoothed, batch.n_tokens)


MakeSaboteur = Callable[..., Saboteur]


def newest() -> str:
    """The newest checkpoint of runs/tiny."""
    path = newest_checkpoint(Run.open("runs/tiny"))
    return "none" if path is None else path.name


def update_on(state: TrainState, batches: list[TranslationBatch], config: TranslationConfig) -> float:
    updater = SyncUpdater(PairsTask(state.model), state, config)
    updater.update([BatchShare(batch) for batch in batches])
    return updater.settle().gradient_norm


def batch_of(*pairs: tuple[list[int], list[int]]) -> TranslationBatch:
    src, tgt = zip(*pairs, strict=True)
    return TranslationBatch(pad(src), pad([[1, *t] for t in tgt]), pad([[*t, 2] for t in tgt]))


PAIRS = [([5, 6, 2], [7, 8, 9]), ([4, 2], [10]), ([9, 9, 9, 9, 2], [11, 12, 13, 14, 15]), ([6, 2], [16, 17])]


@pytest.mark.parametrize("kernels", [PLAIN, FAST], ids=["plain", "fast"])
def test_an_update_does_not_depend_on_how_its_pairs_are_cut_into_batches(kernels: Any) -> None:
    """Gradients are those of the mean over all target tokens, however long the sentences of each batch."""
    weights = []
    for cuts in ([PAIRS], [PAIRS[:1], PAIRS[1:]], [[pair] for pair in PAIRS]):
        config = tiny_config("training.clip_norm=0.0")
        state = tiny_state(config, kernels=kernels)
        # SGD shows the gradient as it is; Adam would hide its scale
        state.optimizer = torch.optim.SGD(state.model.parameters(), lr=1.0)
        update_on(state, [batch_of(*cut) for cut in cuts], config)
        weights.append(parameters(state.model))
    for other in weights[1:]:
        for name, value in weights[0].items():
            torch.testing.assert_close(other[name], value, rtol=1e-4, atol=1e-6)


def test_an_update_whose_loss_is_not_a_number_is_left_out() -> None:
    config, state = tiny_config(), tiny_state(tiny_config())
    with torch.no_grad():
        state.model.decoder[0].feed_forward.linear1.bias[0] = torch.nan
    before = {name: value.clone() for name, value in parameters(state.model).items()}
    updater = SyncUpdater(PairsTask(state.model), state, config)
    for step in (1, 2):
        updater.update([BatchShare(batch_of(*PAIRS))])
        assert updater.settle().skipped == f"step {step} skipped: the loss is not a number"
        assert state.position.step == step
    with pytest.raises(DivergenceError, match="not a number, 3 times in a row"):
        updater.update([BatchShare(batch_of(*PAIRS))])
    for name, value in parameters(state.model).items():
        torch.testing.assert_close(value, before[name], equal_nan=True)


@pytest.mark.slow
def test_training_goes_back_to_a_checkpoint_with_half_the_rate(saboteur: MakeSaboteur) -> None:
    listener = saboteur(8)
    path = train(tiny_config("training.schedule=constant"), "runs/tiny", listener=listener)
    records = Run.open(path).history()
    assert [r["step"] for r in records if r["kind"] == "valid"] == [6, 12]
    (back,) = [r for r in records if r["kind"] == "back"]
    assert (back["step"], back["from_step"], back["rate_factor"]) == (6, 11, 0.5)
    rates = {r["step"]: r["lr"] for r in records if r["kind"] == "train"}
    assert rates[12] == pytest.approx(0.5 * rates[6])
    assert [m for m in listener.messages if "skipped" in m] == [
        f"step {step} skipped: the loss is not a number" for step in (9, 10)
    ]
    went_back = r"step 11: the loss is not a number.*back to step 6 with 0.5 times the rate"
    assert any(re.search(went_back, message) for message in listener.messages)
    assert all(torch.isfinite(value).all() for value in Run.open(path).load_weights().values())


def test_no_checkpoint_is_made_while_updates_are_skipped(saboteur: MakeSaboteur) -> None:
    """The weights break at step 8; a checkpoint would be due at 9, and training is to pause at 10."""
    listener = saboteur(8)
    listener.stop_at = 10
    with pytest.raises(KeyboardInterrupt):
        train(tiny_config("training.valid_every=3"), "runs/tiny", listener=listener)
    records = Run.open("runs/tiny").history()
    assert [r["step"] for r in records if r["kind"] == "valid"] == [3, 6]
    assert [(r["step"], r["from_step"]) for r in records if r["kind"] == "back"] == [(6, 11)]
    assert newest() == "step-000007"  # paused as soon as an update was made


@pytest.mark.parametrize(
    ("broken", "message", "kept"),
    [
        ((8, 8, 8, 8), r"went back 3 times.*last checkpoint is kept.*learning_rate", "step-000006"),
        ((1,), r"not a number.*at step 4, and there is no checkpoint yet.*rate", "none"),
    ],
)
def test_training_gives_up_when_going_back_does_not_help_or_is_not_possible(
    saboteur: MakeSaboteur, broken: tuple[int, ...], message: str, kept: str
) -> None:
    with pytest.raises(TrainingError, match=message):
        train(tiny_config(), "runs/tiny", listener=saboteur(*broken))
    assert newest() == kept


@pytest.mark.slow
def test_a_training_saves_and_leaves_when_its_time_is_up() -> None:
    whole = train(tiny_config(), "runs/whole")
    listener = Recorder()
    n_sittings = 0
    while not (Path("runs/cut") / "report.json").exists():
        with suppress(PausedError):
            train(tiny_config(), "runs/cut", listener=listener, max_hours=1e-9)  # an update each
        n_sittings += 1
    assert n_sittings == 12
    assert "the time is up: at step 1; the same command continues" in " ".join(listener.messages)
    assert losses(Path("runs/cut")) == losses(whole)
    assert (Path("runs/cut") / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_a_training_that_is_asked_to_end_saves_and_says_so() -> None:
    listener = Recorder(stop_at=7, signum=signal.SIGTERM)
    with pytest.raises(PausedError) as stopped:
        train(tiny_config(), "runs/tiny", listener=listener)
    assert stopped.value.reason == signal.SIGTERM
    assert "asked to end (SIGTERM) at step 7" in listener.messages[-1]
    assert newest() == "step-000007"


@pytest.mark.slow
@pytest.mark.parametrize("keep_best", [0, 2])
def test_the_best_checkpoints_are_kept_and_until_the_end_the_newest(keep_best: int) -> None:
    settings = ["training.valid_every=1", "training.log_every=99", f"training.keep_best={keep_best}"]
    config = tiny_config(*settings, "training.metric=loss", "training.average=none")
    run = Run(Path("runs/tiny"), config)

    def kept(*, newest: set[int]) -> bool:
        valid = [r for r in run.history() if r["kind"] == "valid"]
        best = sorted(valid, key=lambda r: r["valid_loss"])[: max(1, keep_best)]
        expected = {f"step-{step:06d}" for step in newest | {r["step"] for r in best}}
        return {folder.name for folder in run.checkpoints.iterdir()} == expected

    with pytest.raises(KeyboardInterrupt):
        train(config, run.path, listener=Recorder(stop_at=9))
    assert kept(newest={9})
    train(config, run.path)
    assert kept(newest=set())


@pytest.mark.parametrize(("average", "left"), [("last", {2, 3}), ("best", {1, 3})])
def test_room_is_made_of_what_is_not_needed_any_more_before_what_scores_worst(
    average: str, left: set[int]
) -> None:
    settings = ["training.keep_checkpoints=3", f"training.average={average}", "training.max_disk_gb=350e-9"]
    run = Run.create("runs/tiny", tiny_config(*settings))
    for step in (1, 2, 3):
        (run.checkpoints / f"step-00000{step}").mkdir(parents=True)
        (run.checkpoints / f"step-00000{step}" / "model.safetensors").write_bytes(bytes(100))
    make_room(run, run.config, TrainPosition(step=4, scores={"1": 3.0, "2": 1.0, "3": 5.0, "4": 9.0}))
    assert {int(folder.name[-1]) for folder in run.checkpoints.iterdir()} == left


def test_the_moving_average_is_the_recursion_it_claims() -> None:
    config = tiny_config("training.ema_decay=0.5")
    state = tiny_state(config)
    name = "decoder.0.feed_forward.linear1.weight"
    expected = parameters(state.model)[name].clone()
    for _ in range(5):
        update_on(state, [batch_of(*PAIRS)], config)
        step = state.position.step
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * parameters(state.model)[name]
    assert state.ema is not None
    torch.testing.assert_close(state.ema[name], expected)


def test_weight_decay_spares_biases_norms_and_embeddings() -> None:
    state = tiny_state(tiny_config("training.weight_decay=0.1"))
    by_id = {id(p): name for name, p in state.model.named_parameters()}
    decayed, others = state.optimizer.param_groups
    assert decayed["weight_decay"] == 0.1
    assert others["weight_decay"] == 0.0
    assert all(by_id[id(p)].endswith("weight") and "norm" not in by_id[id(p)] for p in decayed["params"])
    assert not any("embedding" in by_id[id(p)] for p in decayed["params"])
    assert len(decayed["params"]) + len(others["params"]) == len(by_id)


def test_muon_has_the_matrices_of_the_layers_and_adamw_all_other_weights_at_one_rate() -> None:
    config = tiny_config("training.optimizer=muon", "training.weight_decay=0.1")
    state = tiny_state(config)
    listed = [id(p) for group in state.optimizer.param_groups for p in group["params"]]
    assert sorted(listed) == sorted(id(p) for p in state.model.parameters())
    update_on(state, [batch_of(*PAIRS)], config)
    assert len({group["lr"] for group in state.optimizer.param_groups}) == 1
    for name, parameter in state.model.named_parameters():
        is_hidden = name.startswith(("encoder.", "decoder.")) and parameter.dim() == 2
        kept = {"momentum_buffer"} if is_hidden else {"step", "exp_avg", "exp_avg_sq"}
        assert state.optimizer.state[parameter].keys() == kept, name


def interrupted(*overrides: str, stop_at: int = 7) -> Path:
    """A run that was interrupted, whose newest checkpoint is that of `stop_at`."""
    with pytest.raises(KeyboardInterrupt):
        train(tiny_config(*overrides), "run", listener=Recorder(stop_at=stop_at))
    return Path("run")


def edit_a_line(file: str) -> None:
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    Path(file).write_text("".join(f"{line}\n" for line in [*lines[:-1], "das Haus"]), encoding="utf-8")


def append_pairs() -> None:
    for file in ("train.en", "train.de"):
        with Path(file).open("a", encoding="utf-8") as opened:
            opened.write("the tree\n" * 50)


def content_of(run: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("named", ["train.de", "train.en, train.de", "valid.de"])
def test_changed_text_is_not_mixed_in_when_a_training_continues(named: str) -> None:
    run = interrupted()
    before = content_of(run)
    edit_a_line(named) if "," not in named else append_pairs()
    with pytest.raises(RunError, match=rf"^{named}: changed since the training in run began; put the old t"):
        train(tiny_config(), run)
    assert content_of(run) == before


@pytest.mark.slow
def test_changed_text_that_is_allowed_once_is_the_run_s_own_and_the_history_says_from_where() -> None:
    run = interrupted()
    append_pairs()
    listener = Recorder(stop_at=9)
    with pytest.raises(KeyboardInterrupt):
        train(tiny_config(), run, listener=listener, allow_changed_data=True)
    assert "continuing with changed text from step 7: train.en, train.de" in listener.messages
    train(tiny_config(), run)
    noted = [record for record in Run.open(run).history() if record["kind"] == "data"]
    assert noted == [{"kind": "data", "step": 7, "changed": ["train.en", "train.de"]}]


@pytest.mark.slow
def test_a_run_from_before_there_were_hashes_continues_and_keeps_them() -> None:
    run = interrupted()
    (run / "corpora.json").unlink()
    edit_a_line("train.de")
    train(tiny_config(), run)
    assert Run.open(run).read_json("corpora.json")["train"].keys() == {"train.en", "train.de"}


def test_text_that_was_moved_has_not_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = interrupted()
    (tmp_path / "data").mkdir()
    for file in tmp_path.glob("*.??"):
        file.rename(tmp_path / "data" / file.name)
    monkeypatch.setenv("DRAGOMAN_DATA", str(tmp_path / "data"))
    train(tiny_config(), run)


def test_text_that_changes_between_two_epochs_is_noticed_where_it_is_read_again() -> None:
    class Editor(TrainingListener):
        def stepped(self, position: TrainPosition) -> None:
            if position.step == 2:
                edit_a_line("train.de")

    with pytest.raises(RunError, match=r"^train.de: changed since the training in drawn began"):
        train(tiny_config("tokenizer.dropout=0.1", "training.batch_tokens=2000"), "drawn", listener=Editor())
    few = tiny_config("training.batch_tokens=2000", "training.max_steps=4", "training.valid_every=4")
    train(few, "stored", listener=Editor())  # is not read again


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_checkpoint_restores_every_tensor_and_the_random_state(tmp_path: Path, optimizer: str) -> None:
    config = tiny_config(f"training.optimizer={optimizer}")
    state = tiny_state(config)
    update_on(state, [batch_of(*PAIRS)], config)
    state.snapshot().save(tmp_path / "step-000001")
    draws = torch.rand(5)
    other = tiny_state(config)
    other.restore(tmp_path / "step-000001")
    torch.testing.assert_close(torch.rand(5), draws, rtol=0, atol=0)
    assert other.position == state.position
    for _ in range(2):
        assert all(torch.equal(v, parameters(other.model)[k]) for k, v in parameters(state.model).items())
        update_on(state, [batch_of(*PAIRS)], config)
        update_on(other, [batch_of(*PAIRS)], config)


def _renamed(tensors: dict[str, torch.Tensor], kind: str) -> dict[str, torch.Tensor]:
    """The same tensors; the first name with `kind` in it is misspelt."""
    first = next(name for name in tensors if kind in name)
    return {name.replace(kind, kind + "x") if name == first else name: t for name, t in tensors.items()}


DAMAGES: list[tuple[str, Any, str]] = [
    *((name, bytes(20), "") for name in ("model.safetensors", "optimizer.safetensors")),
    ("optimizer.safetensors", lambda tensors: _renamed(tensors, "linear1"), ""),
    ("optimizer.safetensors", lambda tensors: _renamed(tensors, "exp_avg_sq"), ""),
    ("optimizer.safetensors", lambda tensors: {name: t[..., None] for name, t in tensors.items()}, ""),
    ("ema.safetensors", lambda tensors: _renamed(tensors, "linear1"), ""),
    ("ema.safetensors", lambda tensors: {name: t[:1] for name, t in tensors.items()}, ""),
    ("random.safetensors", lambda tensors: {name: t[:-1] for name, t in tensors.items()}, ""),
    ("random.safetensors", lambda tensors: _renamed(tensors, "cpu"), ""),
    ("position.json", b"[" * 100_000, ""),
    ("position.json", {"step": "1"}, "position.json: step: "),
    ("position.json", {"extra": 1}, "position.json: extra: "),
]
"""A file of a checkpoint, what is in it or what is changed, and what is said of it."""


@pytest.mark.parametrize(("name", "change", "why"), DAMAGES)
def test_a_checkpoint_that_is_damaged_or_of_another_model_is_named(
    tmp_path: Path, name: str, change: Any, why: str
) -> None:
    config, path = tiny_config("training.ema_decay=0.9"), tmp_path / "step-000001" / name
    state = tiny_state(config)
    update_on(state, [batch_of(*PAIRS)], config)
    state.snapshot().save(path.parent)
    if callable(change):
        save_tensors(path, change(load_tensors(path)))
    else:
        is_json = isinstance(change, dict)
        path.write_bytes(json.dumps(json.loads(path.read_bytes()) | change).encode() if is_json else change)
    message = rf"step-000001: the checkpoint is damaged \({why}.*; remove this folder.*from the one before"
    with pytest.raises(RunError, match=message):
        state.restore(path.parent)


def test_the_average_of_checkpoints_is_their_mean(tmp_path: Path) -> None:
    states = []
    for seed in range(3):
        state = tiny_state(tiny_config())
        torch.manual_seed(seed)
        for parameter in state.model.parameters():
            torch.nn.init.normal_(parameter)
        state.snapshot().save(tmp_path / f"step-{seed}")
        states.append(parameters(state.model))
    mean = average_weights([tmp_path / f"step-{seed}" / "model.safetensors" for seed in range(3)])
    for name, value in mean.items():
        torch.testing.assert_close(value, torch.stack([s[name] for s in states]).mean(0))


@pytest.mark.slow
def test_a_run_directory_holds_what_it_promises() -> None:
    path = train(tiny_config(), "runs/tiny")
    kinds = Counter(record["kind"] for record in Run.open(path).history())
    assert (kinds["train"], kinds["valid"], kinds["average"]) == (12, 2, 1)
    best = Run.open(path).read_json("report.json")["best_step"]
    assert [p.name for p in (path / "checkpoints").iterdir()] == [f"step-{best:06d}"]
    (path / "checkpoints" / ".step-000099.partial").mkdir()
    assert newest() == f"step-{best:06d}", "one that is half written does not count"


MODIFIED = [
    *(f"modifiers.{name}={rate}" for name, rate in ROBUST.items()),
    "training.max_steps=24", "training.batch_tokens=400",  # some ten updates an epoch
]  # fmt: skip
SHARDS = (2, 5, 7)  # in the middle of epochs and of shards
CONTINUED = [
    (["training.update_freq=2", "training.ema_decay=0.9"], (7,), "accumulated and averaged"),
    (["training.consistency=2.0", "training.cutoff=0.2"], (7,), "consistency"),
    pytest.param(["training.update_freq=3"], SHARDS, "several shards", marks=pytest.mark.nightly),
    pytest.param(MODIFIED, (3, 20), "modified", marks=pytest.mark.nightly),
]
"""Settings, the updates at which their training is interrupted, and what is special about it."""


@pytest.mark.slow
@pytest.mark.parametrize(("settings", "stops", "name"), CONTINUED)
def test_an_interrupted_run_saves_and_continues_to_the_bit(
    settings: list[str], stops: tuple[int, ...], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "several shards":
        monkeypatch.setattr(TokenStore, "prepare", partial(TokenStore.prepare, shard_pairs=40))
    config = tiny_config(*settings)
    whole = train(config, "runs/whole")
    for stop_at in stops:
        listener = Recorder(stop_at=stop_at)
        with pytest.raises(KeyboardInterrupt):
            train(config, "runs/cut", listener=listener)
        assert f"interrupted at step {stop_at}; the same command continues" in listener.messages[-1]
    if name in ("several shards", "modified"):
        assert len(list(Path("runs/cut/cache/train").iterdir())) > 1
    if name == "modified":
        shutil.rmtree("runs/cut/cache")  # unlike BPE-dropout's, these draws can be repeated
    cut = train(config, "runs/cut")
    assert losses(cut) == losses(whole)
    assert (cut / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_a_warm_up_as_long_as_the_training_is_told() -> None:
    few = ("training.max_steps=2", "training.valid_every=2", "training.warmup_steps=2")
    listener = Recorder()
    train(tiny_config(*few), "runs/tiny", listener=listener)
    assert any("never reaches its peak" in each for each in listener.messages)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["translation", "classification"])
def test_of_past_epochs_no_tokens_stay_on_the_disk(task: str) -> None:
    """Those of the first are read again by what continues; the current ones are there in any case."""
    settings = [
        "training.max_steps=40",
        "training.valid_every=40",
        "training.batch_tokens=400",
        "tokenizer.kind=bpe",
        "tokenizer.dropout=0.1",
    ]
    config: Any = tiny_config(*settings, "modifiers.typos=0.5")
    if task == "classification":
        write_labelled(Path(), "train", 60, seed=1)
        labelled = {"task": task, "name": "c", "data": {"train": ["train.tsv"]}}
        config = parse_config(labelled, overrides=(*TINY_CLASSIFIER, *settings))
    recorder = Recorder()
    n_stores = []

    def stepped(position: TrainPosition) -> None:
        n_stores.append((position.epoch, sum(path.is_dir() for path in Path("run/cache/train").iterdir())))

    recorder.stepped = stepped  # type: ignore[method-assign]
    train(config, "run", listener=recorder)
    assert n_stores[-1][0] > 2
    assert {n for _, n in n_stores} == {1, 2}


@pytest.mark.slow
def test_a_finished_run_continues_with_more_steps() -> None:
    """From its best checkpoint, to the bit: the default schedule does not depend on the number of steps."""
    settings = ("training.average=none", "training.metric=loss", "training.patience=9")
    whole = train(tiny_config(*settings, "training.max_steps=18"), "whole")
    path = train(tiny_config(*settings), "run")
    listener = Recorder()
    longer = tiny_config(*settings, "training.max_steps=18")
    with pytest.raises(RunError, match=r"training.max_steps is 12 there, 11 here"):
        train(tiny_config(*settings, "training.max_steps=11"), path)
    shutil.copytree(path, "without", ignore=shutil.ignore_patterns("step-*"))
    with pytest.raises(
        RunError, match="is finished and holds no checkpoint to continue from; train it further"
    ):
        train(longer, "without")
    train(longer, path, listener=listener)
    assert "continuing from step 12" in listener.messages
    assert losses(path) == losses(whole)
    assert (path / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert Run.open(path).config == longer


def test_a_run_finds_its_text_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tests = 'data.test={news=["valid.en", "valid.de"]}'
    listener = Recorder()
    config = tiny_config(tests, "training.max_steps=1", "tokenizer.vocab_size=500_000")
    run = train(config, "run", listener=listener).resolve()
    n_tokens = len(TokenizerPair.load(run / "tokenizer").src.pieces())
    assert f"the text gives {n_tokens} tokens, fewer than 500,000 (tokenizer.vocab_size)" in listener.messages
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    messages: list[str] = []
    opened, task = open_run(run, messages.append), TranslationTask()
    request = EvaluationRequest()
    assert len(task.tests(opened, request)["news"].pairs) == 20
    assert str(tmp_path / "valid.en") in messages[0]
    assert opened.config.data.train == (str(tmp_path / "train.en"), str(tmp_path / "train.de"))
    said: list[str] = []
    assert list(task.score_validation(opened, said.append)) == []
    assert re.fullmatch(r"BLEU \d\.\d: too little text for drafts; .*: docs/quality.md", said[0])
    (tmp_path / "valid.en").unlink()
    with pytest.raises(DataError, match=f"^{tmp_path / 'valid.en'}: no such file"):
        task.tests(opened, request)


def test_a_run_that_another_training_writes_is_left_alone() -> None:
    path = train(tiny_config("training.max_steps=6"), "runs/tiny")
    (path / "report.json").unlink()
    before = content_of(path)
    with only_writer(path):
        for options in ([], ["--processes", "2"]):
            complaint = error_of("train", path / "config.toml", "--out", path, *options)
            assert f"{path}: process {os.getpid()} is writing it; wait until that has ended" in complaint
        state = f"state     being trained by process {os.getpid()}, step 6 of 6"
        assert state in succeed("show", path).stdout
    assert "state     not finished, step 6 of 6" in succeed("show", path).stdout
    assert content_of(path) == before


def test_patience_stops_a_run_that_no_longer_improves() -> None:
    stuck = ["training.learning_rate=1e-12", "training.valid_every=2", "training.patience=2"]
    path = train(tiny_config(*stuck, "training.max_steps=50", "training.average=none"), "runs/tiny")
    valid = [r["step"] for r in Run.open(path).history() if r["kind"] == "valid"]
    assert valid == [2, 4, 6]


@pytest.mark.slow
def test_the_best_checkpoint_is_the_one_that_is_used() -> None:
    """The average wins only where it scores better; otherwise the weights are those of the best step."""
    path = train(tiny_config("training.metric=loss", "training.valid_every=3"), "runs/tiny")
    records = Run.open(path).history()
    best = min(r["valid_loss"] for r in records if r["kind"] in ("valid", "average"))
    report = json.loads((path / "report.json").read_text(encoding="utf-8"))
    assert report["valid_loss"] == pytest.approx(-best)
    average = next(r for r in records if r["kind"] == "average")
    assert (report["kept"] == "average") == (average["valid_loss"] == best)


@pytest.mark.parametrize("precision", ["bf16", "auto"])
def test_a_training_says_that_its_precision_is_slow_here(
    precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("tasks.training", "hardware"):
        monkeypatch.setattr(f"dragoman.{module}.has_bf16", lambda device: False)
    listener = Recorder()
    few = ("training.max_steps=1", "training.valid_every=1")
    train(tiny_config(f"training.precision={precision}", *few), "runs/tiny", listener=listener)
    is_said = any("there are no instructions for it here" in each for each in listener.messages)
    assert is_said == (precision == "bf16")


@pytest.mark.slow
def test_fp16_learns_and_scales_its_loss(tmp_path: Path) -> None:
    found = {}
    for precision in ("fp32", "fp16"):
        out = train(tiny_config(f'training.precision="{precision}"'), tmp_path / precision)
        found[precision] = dict(losses(out))
    assert found["fp16"] == pytest.approx(found["fp32"], rel=2e-2)


def test_an_fp16_overflow_leaves_the_update_out_and_halves_the_scale() -> None:
    config, state = tiny_config(), tiny_state(tiny_config())
    state.model.dtype = torch.float16
    state.position.loss_scale = 2.0**24
    with torch.no_grad():
        state.model.output.weight *= 1e3
    before = {name: value.clone() for name, value in parameters(state.model).items()}
    update_on(state, [batch_of(*PAIRS)], config)
    assert state.position.loss_scale == 2.0**23
    for name, value in parameters(state.model).items():
        torch.testing.assert_close(value, before[name])


def test_the_loss_scale_doubles_after_two_thousand_good_updates_and_cannot_be_halved_for_ever() -> None:
    position = TrainPosition(loss_scale=8.0)
    for _ in range(2000):
        assert position.loss_scale == 8.0
        raise_loss_scale(position)
    assert position.loss_scale == 16.0
    position = TrainPosition(step=1, loss_scale=2.0**-10)
    with pytest.raises(TrainingError, match=r"fp16 gradients overflow at step 1 .*precision = \"bf16\""):
        lower_loss_scale(position)


@pytest.mark.slow
def test_validation_may_close_every_epoch(tmp_path: Path) -> None:
    """And held-out pairs are used where no validation files are named."""
    epochs = ("training.valid_every=0", "training.max_epochs=2", "training.max_steps=99")
    run = Run.open(train(tiny_config("data.valid=[]", "data.n_held_out=10", *epochs), tmp_path / "run"))
    assert run.config.data.valid == ()
    assert [r["epoch"] for r in run.history() if r["kind"] == "valid"] == [1, 2]
    assert run.read_json("report.json")["epochs"] == 2


@pytest.mark.slow
def test_plateau_lowers_the_rate_when_validation_stalls(tmp_path: Path) -> None:
    config = tiny_config(
        'training.schedule="plateau"', "training.plateau_patience=1", "training.plateau_factor=0.1",
        "training.valid_every=1", "training.learning_rate=10.0", "training.warmup_steps=1",
    )  # fmt: skip
    records = Run.open(train(config, tmp_path / "run")).history()
    rate, expected = 10.0, []
    for record in records:
        if record["kind"] == "train":
            expected.append(rate)
        elif record["kind"] == "valid" and not record["best"]:
            rate *= 0.1
    assert [r["lr"] for r in records if r["kind"] == "train"] == pytest.approx(expected)
    assert rate < 10.0


def test_cutoff_hides_tokens_of_the_second_pass_only() -> None:
    """Without dropout the loss is that of a batch beside itself with hidden tokens; special tokens stay."""
    state, batch = tiny_state(tiny_config("model.dropout=0.0")), batch_of(*PAIRS)
    model = state.model
    torch.manual_seed(3)
    loss = batch_loss(model, batch, smoothing=0.1, consistency=2.0, cutoff=0.5).smoothed
    torch.manual_seed(3)
    hidden = [batch.src.clone(), batch.tgt_in.clone()]
    for ids, whole in zip(hidden, (batch.src, batch.tgt_in), strict=True):
        hide_tokens(ids, 0.5)
        changed = ids != whole
        assert changed.any()
        assert not changed[whole < len(SPECIAL_TOKENS)].any()
        assert (ids[changed] == UNK_ID).all()
    src_mask = source_mask(batch.src, with_end=True)
    real = batch.tgt_out != PAD_ID
    rows = [
        model.decode(tgt_in, model.encode(src, src_mask), src_mask)[real]
        for src, tgt_in in ((batch.src, batch.tgt_in), hidden)
    ]
    expected, _ = model.kernels.linear_cross_entropy(
        torch.cat(rows), model.output.weight, batch.tgt_out[real], 0.1, 2.0
    )
    torch.testing.assert_close(loss, expected)


def test_words_that_the_vocabulary_does_not_know_are_counted(tmp_path: Path) -> None:
    listener = Recorder()
    Path("valid.en").write_text("the cat sees a unicorn\n", encoding="utf-8")  # two of five are new
    Path("valid.de").write_text("das Katze sieht Haus\n", encoding="utf-8")
    config = tiny_config('tokenizer.kind="words"', "tokenizer.vocab_size=50", "training.max_steps=1")
    train(config, tmp_path / "run", listener=listener)
    said = [message for message in listener.messages if "unknown" in message]
    assert said == ["40.0 % of the validation source's tokens are unknown"]
