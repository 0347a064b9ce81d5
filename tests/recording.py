"""Trainings that tests watch, interrupt and disturb."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.config import TranslationConfig, parse_config
from dragoman.model.kernels import PLAIN
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.runs import Run
from dragoman.tasks import training
from dragoman.training.objective import Objective
from dragoman.training.state import TrainPosition, TrainState, parameters
from dragoman.training.trainer import TrainingListener
from dragoman.training.updates.optimizer import make_optimizer

TINY = {
    "name": "tiny",
    "data": {
        "src_lang": "en", "tgt_lang": "de",
        "train": ["train.en", "train.de"], "valid": ["valid.en", "valid.de"],
    },
    "tokenizer": {"vocab_size": 300},
    "model": {
        "d_model": 8, "n_heads": 2, "d_ff": 16, "n_encoder_layers": 1, "n_decoder_layers": 1, "dropout": 0.1,
    },
    "training": {
        "max_steps": 12, "batch_tokens": 120, "learning_rate": 0.01, "warmup_steps": 4, "log_every": 1,
        "valid_every": 6, "keep_checkpoints": 2, "n_threads": 1, "precision": "fp32",
    },
}  # fmt: skip


@pytest.fixture(autouse=True)
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with the files of TINY, in every test of a module that imports this."""
    monkeypatch.chdir(tmp_path)
    words = {"cat": "Katze", "dog": "Hund", "house": "Haus", "tree": "Baum", "sees": "sieht", "the": "das"}
    lines = [f"the {a} sees {b} {c}" for a in words for b in words for c in words]
    for name, chosen in {"train": lines[:150], "valid": lines[150:170]}.items():
        translated = [" ".join(words.get(w, w) for w in line.split()) for line in chosen]
        Path(f"{name}.en").write_text("".join(f"{line}\n" for line in chosen), encoding="utf-8")
        Path(f"{name}.de").write_text("".join(f"{line}\n" for line in translated), encoding="utf-8")


def tiny_config(*overrides: str) -> TranslationConfig:
    return parse_config(TINY, overrides=overrides)


def tiny_state(config: TranslationConfig, *, kernels: Any = PLAIN) -> TrainState:
    torch.manual_seed(0)
    settings = config.model.model_copy(update={"dropout": 0.0})
    model = Seq2SeqTransformer(settings, src_vocab_size=20, tgt_vocab_size=20, kernels=kernels)
    ema = {k: v.clone() for k, v in parameters(model).items()}
    return TrainState(model, make_optimizer(model, config.training), ema, TrainPosition())


def losses(run: Path) -> list[tuple[int, float]]:
    return [(r["step"], r["train_loss"]) for r in Run.open(run).history() if r["kind"] == "train"]


class Recorder(TrainingListener):
    def __init__(self, stop_at: int = 0, signum: int = signal.SIGINT) -> None:
        self.stop_at, self.signum = stop_at, signum
        self.messages: list[str] = []

    def message(self, text: str) -> None:
        self.messages.append(text)

    def stepped(self, position: TrainPosition) -> None:
        if position.step == self.stop_at:
            os.kill(os.getpid(), self.signum)


class Saboteur(Recorder):
    """Makes the weights NaN after some steps, as an overflow in the processor might."""

    def __init__(self, *steps: int) -> None:
        super().__init__()
        self.steps = list(steps)
        self.models: list[Seq2SeqTransformer] = []

    def stepped(self, position: TrainPosition) -> None:
        super().stepped(position)
        if self.steps and position.step == self.steps[0]:
            self.steps.pop(0)
            with torch.no_grad():
                for parameter in self.models[0].parameters():
                    parameter.fill_(torch.nan)


@pytest.fixture
def saboteur(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Saboteur]:
    """Makes a listener that gets hold of the model."""

    def make(*steps: int) -> Saboteur:
        listener, original = Saboteur(*steps), training.loss_module

        def loss_module(objective: Objective[Any], *args: Any) -> Any:
            listener.models = [objective.model]
            return original(objective, *args)

        monkeypatch.setattr(training, "loss_module", loss_module)
        return listener

    return make
