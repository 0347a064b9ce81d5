"""Trainings that tests watch, interrupt and disturb."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.runs import Run
from dragoman.training import loop
from dragoman.training.listener import TrainingListener
from dragoman.training.state import Position


def losses(run: Path) -> list[tuple[int, float]]:
    return [(r["step"], r["train_loss"]) for r in Run.open(run).history() if r["kind"] == "train"]


class Recorder(TrainingListener):
    def __init__(self, stop_at: int = 0, signum: int = signal.SIGINT) -> None:
        self.stop_at, self.signum = stop_at, signum
        self.messages: list[str] = []

    def message(self, text: str) -> None:
        self.messages.append(text)

    def stepped(self, position: Position) -> None:
        if position.step == self.stop_at:
            os.kill(os.getpid(), self.signum)


class Saboteur(Recorder):
    """Makes the weights NaN after some steps, as an overflow in the processor might."""

    def __init__(self, *steps: int) -> None:
        super().__init__()
        self.steps = list(steps)
        self.models: list[Seq2SeqTransformer] = []

    def stepped(self, position: Position) -> None:
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
        listener, original = Saboteur(*steps), loop.make_task

        def make_task(*args: Any, **options: Any) -> Any:
            task = original(*args, **options)
            listener.models = [task.model]
            return task

        monkeypatch.setattr(loop, "make_task", make_task)
        return listener

    return make
