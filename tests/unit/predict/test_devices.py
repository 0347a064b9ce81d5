"""All of Dragoman on a device that is not the processor: nothing mixes the two, and nothing else changes."""

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from commands import error_of
from dragoman.config import SearchConfig, parse_config
from dragoman.errors import ConfigError
from dragoman.hardware import choose_device, find_device, has_bf16
from dragoman.model.kernels import FAST_ON_GPU
from dragoman.predict.alignment import align
from dragoman.predict.attention import attention_maps
from dragoman.predict.classifier import Classifier
from dragoman.predict.engine import SearchInput
from dragoman.predict.scoring import score_pairs
from dragoman.predict.torch_engine import TorchEngine
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from dragoman.tasks.training import train
from dragoman.tasks.translation.objective import TranslationObjective
from dragoman.tensors import Rows
from dragoman.training.parallel.processes import ALONE, Processes, device_of_process
from dragoman.training.state import TrainPosition, random_states
from dragoman.training.trainer import Trainer
from dragoman.training.updates.captured import Gradients, untouched
from dragoman.training.updates.updater import LossModule
from elsewhere import Elsewhere, second_device
from exports import classifier_network
from recording import Recorder, losses, tiny_config, tiny_state
from tiny import TINY, TINY_CLASSIFIER, write_corpus, write_labelled

SENTENCES = ["red cat", "two small dogs run", "cat"]


@pytest.fixture
def elsewhere() -> Iterator[torch.device]:
    with second_device() as device:
        yield device


@pytest.fixture
def translator(tiny_run: Path) -> Translator:
    """On the processor, with the kernels of a GPU."""
    translator = Translator.load(tiny_run, device="cpu", precision="fp32")
    translator.model.kernels = FAST_ON_GPU
    return translator


def moved(translator: Translator, device: torch.device) -> Translator:
    translator.model.to(device)
    translator.engine = TorchEngine(*translator.models)
    assert isinstance(translator.model.output.weight.data, Elsewhere)
    return translator


def test_the_second_device_refuses_what_cuda_refuses(elsewhere: torch.device) -> None:
    there, here = torch.arange(3).to(elsewhere), torch.arange(3)
    assert (there + 1).device == elsewhere
    assert there[here.flip(0)].tolist() == [2, 1, 0]  # indices may be of the processor
    assert (there * torch.tensor(2)).cpu().tolist() == [0, 2, 4]  # and so may numbers
    for mixture in (lambda: there + here, lambda: here[there], lambda: torch.isin(there, here)):
        with pytest.raises((RuntimeError, TypeError), match="same device"):
            mixture()
    with pytest.raises(TypeError, match=r"Use Tensor.cpu\(\)"):
        there.numpy()


@pytest.mark.slow
@pytest.mark.parametrize("static", [False, True], ids=["incremental", "static"])
@pytest.mark.parametrize(
    "settings",
    [
        {"beam_size": 1}, {"beam_size": 3, "n_best": 3},
        {"beam_size": 4, "diversity_groups": 2, "diversity_penalty": 0.5},
        {"method": "sampling", "n_best": 2, "top_k": 5, "top_p": 0.9},
        {"beam_size": 2, "no_repeat_ngram": 1, "coverage_penalty": 0.2},
        {"beam_size": 2, "required": [["dog"]] * 3, "prefixes": ["ein"] * 3},
    ],
    ids=str,
)  # fmt: skip
def test_every_search_finds_the_same_there(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], static: bool
) -> None:
    settings |= {"max_length_factor": 0.01, "max_length_extra": 3}
    monkeypatch.setattr("dragoman.predict.torch_engine.can_record", lambda model: static)
    expected = translator.translate(SENTENCES, **settings)
    with second_device() as device:
        found = moved(translator, device).translate(SENTENCES, **settings)
    for one, same in zip(found, expected, strict=True):
        assert one.ids == same.ids
        assert one.score == pytest.approx(same.score, rel=1e-5)


def test_a_search_nobody_waits_for_ends_there_too(translator: Translator, elsewhere: torch.device) -> None:
    wanted = iter([True])
    watchers = [lambda: next(wanted, False), None]
    sentences = [SearchInput([20, 21, 2], watcher=watcher) for watcher in watchers]
    engine = moved(translator, elsewhere).engine
    settings = SearchConfig(beam_size=2, max_length_factor=0.01, max_length_extra=3)
    left, stayed = engine.search(sentences, settings)
    assert len(left[0].ids) <= 1 < len(stayed[0].ids)


def test_an_ensemble_finds_the_same_there(tiny_run: Path) -> None:
    pair = Translator.load([tiny_run, tiny_run], device="cpu", precision="fp32")
    expected = pair.translate(SENTENCES, beam_size=2)
    with second_device() as device:
        pair.models[1].to(device)
        found = moved(pair, device).translate(SENTENCES, beam_size=2)
    assert [t.ids for t in found] == [t.ids for t in expected]


def test_what_looks_into_a_model_sees_the_same_there(translator: Translator) -> None:
    targets = ["rot Katze", "zwei", "Katze"]

    def looked() -> tuple[Any, ...]:
        maps = attention_maps(translator, SENTENCES[0], targets[0])
        return (
            [scored.log_prob for scored in score_pairs(translator, SENTENCES, targets)],
            [[link[:4] for link in links] for links in align(translator, SENTENCES, targets)],
            [each.weights.tolist() for each in maps],
        )

    expected = looked()
    with second_device() as device:
        moved(translator, device)
        scores, links, weights = looked()
    assert scores == pytest.approx(expected[0], rel=1e-5)
    assert links == expected[1]
    for ours, theirs in zip(weights, expected[2], strict=True):
        torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs), rtol=1e-4, atol=1e-5)


def test_a_classifier_says_the_same_there(tiny_classifier_run: Path) -> None:
    classifier = Classifier.load(tiny_classifier_run, device="cpu", precision="fp32")
    texts = ["a good red house", "bad " * 20, ""]
    expected = classifier.classify(texts)
    classifier.compute = network = classifier_network(tiny_classifier_run)
    with second_device() as device:
        network.model.to(device)
        found = classifier.classify(texts)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.label == theirs.label
        assert ours.probabilities == pytest.approx(theirs.probabilities, rel=1e-5)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path, "train", 30, seed=1)
    write_corpus(tmp_path, "valid", 4, seed=2)
    write_labelled(tmp_path, "labelled", 30, seed=3)
    return tmp_path


TRANSLATION = {
    "name": "tiny",
    "data": {"src_lang": "en", "tgt_lang": "de", "train": ["train.tsv"], "valid": ["valid.tsv"]},
}
CLASSIFICATION = {
    "task": "classification",
    "name": "tiny",
    "data": {"train": ["labelled.tsv"], "valid": ["labelled.tsv"], "max_length": 8},
    "tokenizer": {"kind": "words"},
    "model": {"ngrams": 2, "word_dropout": 0.2},
    "training": {"class_weights": "balanced"},
}
SHORT = (
    "training.precision=fp32", "training.max_steps=3", "training.valid_every=2", "training.log_every=1",
    "model.dropout=0.0",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "overrides"),
    [
        (TRANSLATION, ["training.steps=free", "training.update_freq=2"]),
        (TRANSLATION, ["training.steps=static", "training.ema_decay=0.9"]),
        (TRANSLATION, ["training.optimizer=muon"]),
        (CLASSIFICATION, []),
    ],
    ids=["free", "static", "muon", "classification"],
)
def test_a_training_there_has_the_losses_of_one_here_and_continues_to_the_bit(
    folder: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], overrides: list[str]
) -> None:
    tiny = TINY_CLASSIFIER if settings is CLASSIFICATION else TINY
    fewest = [] if settings is CLASSIFICATION else ["search.max_length_factor=0.01"]
    config = parse_config(settings, overrides=[*tiny, *SHORT, *fewest, *overrides])
    here = train(config, "here")
    monkeypatch.setattr("dragoman.tasks.translation.objective.resident_bytes", lambda device: math.inf)
    with second_device() as device:
        monkeypatch.setattr("dragoman.training.parallel.processes.choose_device", lambda name: device)
        there = train(config, "there")
        with pytest.raises(KeyboardInterrupt):
            train(config, "cut", listener=Recorder(stop_at=1))
        cut = train(config, "cut")
    assert losses(there) == [(step, pytest.approx(loss, rel=1e-5)) for step, loss in losses(here)]
    assert losses(cut) == losses(there)
    ours, theirs = (Run.open(path).load_weights() for path in (cut, there))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


# A GPU that is not here


class Cuda:
    """In place of torch.cuda, on a machine with GPUs: which devices are asked for what."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, n_gpus: int = 2, bf16: str = "") -> None:
        """`bf16` is the only one that multiplies in it."""
        self.current, self.states = "cuda:0", {f"cuda:{i}": i for i in range(n_gpus)}
        monkeypatch.setattr(torch.cuda, "is_available", lambda: n_gpus > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: n_gpus)
        monkeypatch.setattr(torch.cuda, "set_device", lambda device: setattr(self, "current", str(device)))
        monkeypatch.setattr(torch.cuda, "device", self.device)
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: self.current == bf16)
        monkeypatch.setattr(torch.cuda, "get_rng_state", self.get_rng_state)
        monkeypatch.setattr(torch.cuda, "set_rng_state", self.set_rng_state)

    def get_rng_state(self, device: object) -> torch.Tensor:
        return torch.tensor([self.states[str(device)]])

    def set_rng_state(self, state: torch.Tensor, device: object) -> None:
        self.states[str(device)] = int(state)

    @contextmanager
    def device(self, wanted: object) -> Iterator[None]:
        before, self.current = self.current, str(wanted)
        yield
        self.current = before


SECOND = torch.device("cuda", 1)


@pytest.mark.parametrize(
    ("name", "expected"), [("auto", "cuda:0"), ("cuda", "cuda:0"), ("cuda:1", "cuda:1"), ("cpu", "cpu")]
)
def test_a_process_computes_on_the_device_that_it_chose(
    monkeypatch: pytest.MonkeyPatch, name: str, expected: str
) -> None:
    cuda = Cuda(monkeypatch)
    cuda.current = "before"
    assert str(choose_device(name)) == str(find_device(name)) == expected
    assert cuda.current == ("before" if name == "cpu" else expected)


def test_a_gpu_that_cannot_be_used_is_named_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = RuntimeError("CUDA error: all devices are busy or unavailable\nCUDA kernel errors might be")
    Cuda(monkeypatch)
    monkeypatch.setattr(torch.cuda, "set_device", Mock(side_effect=busy))
    with pytest.raises(ConfigError, match=r'"cuda:1": cannot be used \(CUDA error: all .* unavailable\); us'):
        choose_device("cuda:1")


def test_each_gpu_is_asked_for_its_own_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    Cuda(monkeypatch, bf16="cuda:1")
    assert [has_bf16(torch.device("cuda", i)) for i in range(2)] == [False, True]


def test_the_random_state_of_the_device_in_use_is_kept_and_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Cuda(monkeypatch)
    assert random_states(ALONE, SECOND)["cuda"].tolist() == [1]
    assert set(random_states(ALONE, torch.device("cpu"))) == {"cpu"}
    cuda.states["cuda:1"] = 7
    module = torch.nn.Linear(1, 1)
    module(torch.ones(1)).backward()
    with untouched(module, SECOND):
        cuda.states["cuda:1"] = 8
    assert cuda.states == {"cuda:0": 0, "cuda:1": 7}


@pytest.mark.parametrize("rank", [0, 1])
def test_restoring_sets_the_random_state_of_the_models_own_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: int
) -> None:
    cuda, state = Cuda(monkeypatch), tiny_state(tiny_config())
    snapshot = state.snapshot()
    more = {"cpu1": torch.get_rng_state(), "cuda": torch.tensor([5]), "cuda1": torch.tensor([6])}
    snapshot.files["random"] |= {name: Rows(each, 0, tuple(each.shape)) for name, each in more.items()}
    snapshot.save(tmp_path / "step-000001")
    monkeypatch.setattr(type(state.model), "device", SECOND)
    state.restore(tmp_path / "step-000001", Processes(rank, 2))
    assert cuda.states == {"cuda:0": 0, "cuda:1": 5 + rank}


def test_each_process_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    Cuda(monkeypatch)
    for device in ("auto", "cuda"):
        assert [device_of_process(device, i, n_processes=2) for i in range(2)] == ["cuda:0", "cuda:1"]
    assert device_of_process("cpu", 3, n_processes=4) == "cpu"
    assert device_of_process("cuda:1", 0, n_processes=1) == "cuda:1"


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("auto", r'^4 processes: each needs .* this machine has 2; start 2, or use training.device = "cpu"$'),
        ("cuda:1", r'"cuda:1": is one GPU, and each of 4 processes needs its own; use .* = "cuda"$'),
        ("mps", r'^device = "mps": is not supported'),
    ],
)
def test_more_processes_than_gpus_are_refused_before_there_is_a_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, device: str, message: str
) -> None:
    Cuda(monkeypatch)
    with pytest.raises(ConfigError, match=message):
        device_of_process(device, 0, n_processes=4)
    arguments = ["--tsv", "train.tsv", "--out", "run", "--processes", 4, "--set", f"training.device={device}"]
    error = error_of("train", *arguments, "--src-lang", "en", "--tgt-lang", "de")
    assert re.search(message.lstrip("^"), error)
    assert not Path("run").exists()


def test_a_process_without_a_part_of_a_batch_has_nothing_to_try(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three processes, and two sentences in the largest batch."""
    fit = Mock()
    monkeypatch.setattr(Trainer, "plan", lambda self: [np.array([3, 4])])
    monkeypatch.setattr("dragoman.training.trainer.fit", fit)
    monkeypatch.setattr(Processes, "largest", lambda self, *values: list(values))
    for rank in range(3):
        task: Any = SimpleNamespace(memory=len)
        state: Any = SimpleNamespace(position=TrainPosition())
        run, module, listener = Mock(), Mock(), Mock()
        processes = Processes(rank, 3, SECOND)
        Trainer(parse_config(TRANSLATION), run, task, state, module, listener, processes, Mock()).find_room()
    assert [batch.tolist() for _, _, batch, _ in (call.args for call in fit.call_args_list)] == [[3], [4]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "translate RUN", "report RUN", "serve RUN", "backtranslate RUN valid.de --out out.tsv",
        "score-model RUN valid.en valid.de", "classify CLASSIFIER",
    ],
)  # fmt: skip
def test_every_command_refuses_a_device_that_is_not_supported_in_one_line(
    folder: Path, tiny_run: Path, tiny_classifier_run: Path, command: str
) -> None:
    places = {"RUN": tiny_run, "CLASSIFIER": tiny_classifier_run}
    arguments = [str(places.get(word, word)) for word in command.split()]
    line = 'error: device = "mps": is not supported; use "auto", "cpu", "cuda" or "cuda:1"'
    assert error_of(*arguments, "--device", "mps", stdin="red cat\n") == line
    assert not Path("out.tsv").exists()


def test_int8_is_for_processors(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.predict.loading.on_processor", lambda name: False)
    with pytest.raises(ConfigError, match='precision int8: is for processors; use precision "auto"'):
        Translator.load(tiny_run, precision="int8")


def test_a_forward_and_backward_pass_asks_the_device_nothing(folder: Path) -> None:
    """What is recorded must not: on the meta device, which has no numbers, it fails."""
    config = parse_config(TRANSLATION, overrides=[*TINY, *SHORT, "training.steps=static"])
    assert config.task == "translation"
    cpu = torch.device("cpu")
    task = TranslationObjective(config, Run.create("run", config), cpu, Recorder(), static=True)
    batch: Any = task.batch(task.plan(0)[0], cpu)
    meta = torch.device("meta")
    there = batch._replace(**{name: getattr(batch, name).to(meta) for name in ("src", "tgt_in", "tgt_out")})
    for precision in (torch.float32, torch.bfloat16):
        task.model.to(meta).dtype = precision
        gradients = Gradients(LossModule(task), meta)
        assert gradients.add(there, 1.0).is_meta
