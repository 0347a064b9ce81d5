"""Training progress on the terminal: log lines, validation samples, curves and time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from rich.live import Live

from dragoman.cli.app import as_called
from dragoman.cli.console import Console
from dragoman.cli.live import LivePanel, sample_table
from dragoman.config import Config
from dragoman.report.schedule import rate_in_words
from dragoman.training.state import Position
from dragoman.training.task import TITLES, Sample
from dragoman.training.trainer import TrainingListener

EVERY = 15.0
"""Seconds between two lines about the preparation of text."""


class TerminalListener(TrainingListener):
    """A listener that prints log lines on stderr. A context manager.

    A terminal also shows samples after each validation, and below the lines the curves of loss and score,
    and a progress bar with the time left.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, markup=False, highlight=False, soft_wrap=True)
        self._live: Live | None = None
        self._panel: LivePanel | None = None
        self._names: tuple[str, str, str] | None = None
        self._item = "token"
        self._noted = 0, time.monotonic()
        """Pairs that had become tokens when that was last said, and when it was."""

    def __enter__(self) -> TerminalListener:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def message(self, text: str) -> None:
        self._print(as_called(text))

    def tokenized(self, n_pairs: int) -> None:
        before, then = self._noted
        now = time.monotonic()
        if n_pairs < before:  # of another corpus
            self._noted = n_pairs, now
        elif now - then >= EVERY:
            self._noted = n_pairs, now
            self._print(f"tokenizing: {n_pairs:,} pairs, {(n_pairs - before) / (now - then):,.0f} a second")

    def started(self, position: Position, config: Config, n_parameters: int) -> None:
        self._item = config.names.unit
        self._print(f"{n_parameters:,} parameters, {config.training.max_steps:,} steps")
        if self._console.is_terminal:
            self._names = config.names.sample
            self._panel = LivePanel(self._console, config, position)
            self._live = Live(self._panel, console=self._console, transient=True)
            self._live.start()

    def stepped(self, position: Position) -> None:
        if self._panel is not None:
            self._panel.stepped(position)

    def validating(self) -> None:
        if self._panel is not None:
            self._panel.validating()

    def logged(self, record: dict[str, Any]) -> None:
        if self._panel is not None:
            self._panel.logged(record)
        self._print(describe_record(record, item=self._item))

    def sampled(self, step: int, samples: Sequence[Sample]) -> None:
        if self._names is not None:
            self._console.print(sample_table(samples, self._names), soft_wrap=False)

    def _print(self, text: str) -> None:
        if self._console.is_terminal:
            self._console.print(text)
        else:
            print(text, file=sys.stderr, flush=True)


def describe_record(record: dict[str, Any], *, item: str) -> str:
    """Format a record of history.jsonl as a log line; `item` is the unit that losses are averaged over."""
    if record["kind"] == "train":
        return " · ".join(
            [
                f"step {record['step']:,}",
                f"epoch {record['epoch'] + 1}",
                f"loss {record['train_loss']:.2f} nats/{item}",
                f"{_thousands(record['tokens_per_second'])} tokens/s",
                f"lr {rate_in_words(record['lr'])}",
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
    """Format the loss and the scores of a validation."""
    names = {**TITLES, **({"accuracy": "exact match"} if "micro_f1" in record else {})}
    scores = [f"{name} {record[key]:.1f}" for key, name in names.items() if key in record]
    if "worst" in record:
        scores.append(f"worst {record['worst']} with BLEU {record['bleu ' + record['worst']]:.1f}")
    if "chosen_by" in record:
        own = {key.removeprefix("bleu "): value for key, value in record.items() if key.startswith("bleu ")}
        scores += [f"BLEU {name} {value:.1f}" for name, value in own.items()]
    return [f"loss {record['valid_loss']:.2f} nats/{item}", *scores]


def _thousands(value: float) -> str:
    return f"{value / 1000:.1f}k" if value >= 1000 else f"{value:.0f}"
