"""What a training says on the terminal: one line per log step, and a progress bar below."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

from dragoman.config import Config
from dragoman.training.listener import TrainingListener
from dragoman.training.state import Position


class TerminalListener(TrainingListener):
    """Log lines on stderr; on a terminal a bar with the time left stays below them. A context manager."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, markup=False, highlight=False, soft_wrap=True)
        self._progress: Progress | None = None
        self._task = TaskID(0)
        self._max_steps = 1
        self._max_seconds = 0.0
        self._item = "token"

    def __enter__(self) -> TerminalListener:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def message(self, text: str) -> None:
        self._print(text)

    def started(self, position: Position, config: Config, n_parameters: int) -> None:
        training = config.training
        self._max_steps, self._max_seconds = training.max_steps, 60 * training.max_minutes
        self._item = "token" if config.task == "translation" else "text"
        self._print(f"{n_parameters:,} parameters, {training.max_steps:,} steps")
        if self._console.is_terminal:
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TimeRemainingColumn(elapsed_when_finished=True),
                console=self._console,
                transient=True,
            )
            self._task = self._progress.add_task("training", total=1.0)
            self._progress.start()

    def stepped(self, position: Position) -> None:
        if self._progress is not None:
            self._progress.update(
                self._task,
                description=f"step {position.step:,} of {self._max_steps:,}",
                completed=self._share(position),
            )

    def validating(self) -> None:
        if self._progress is not None:
            self._progress.update(self._task, description="validating")

    def logged(self, record: dict[str, Any]) -> None:
        self._print(describe_record(record, item=self._item))

    def _share(self, position: Position) -> float:
        """How much of the training is done, 0 to 1."""
        by_time = position.seconds / self._max_seconds if self._max_seconds else 0.0
        return min(1.0, max(position.step / self._max_steps, by_time))

    def _print(self, text: str) -> None:
        if self._progress is not None:
            self._console.print(text)
        else:
            print(text, file=sys.stderr, flush=True)


def describe_record(record: dict[str, Any], *, item: str) -> str:
    """A record of history.jsonl in words, numbers with units; `item` is what losses are averaged over."""
    if record["kind"] == "train":
        return " · ".join(
            [
                f"step {record['step']:,}",
                f"epoch {record['epoch'] + 1}",
                f"loss {record['train_loss']:.2f} nats/{item}",
                f"{_thousands(record['tokens_per_second'])} tokens/s",
                f"lr {_scientific(record['lr'])}",
            ]
        )
    averaged = record["kind"] == "average"
    verdict = ("kept" if record["best"] else "not kept") if averaged else "best so far" * record["best"]
    parts = [
        f"average of {record['n']} checkpoints" if averaged else "valid",
        f"step {record['step']:,}",
        *describe_scores(record, item=item),
        verdict,
    ]
    return " · ".join(part for part in parts if part)


def describe_scores(record: dict[str, Any], *, item: str) -> list[str]:
    """The loss and the scores of a validation, each in words."""
    names = {
        "bleu": "BLEU",
        "chrf": "chrF",
        "old_bleu": "old BLEU",
        "accuracy": "accuracy",
        "macro_f1": "macro-F1",
    }
    scores = [f"{name} {record[key]:.1f}" for key, name in names.items() if key in record]
    return [f"loss {record['valid_loss']:.2f} nats/{item}", *scores]


def _thousands(value: float) -> str:
    return f"{value / 1000:.1f}k" if value >= 1000 else f"{value:.0f}"


def _scientific(value: float) -> str:
    if not value:
        return "0"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"
