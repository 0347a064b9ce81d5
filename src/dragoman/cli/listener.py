"""Listeners of a training: the terminal, TensorBoard, and Weights & Biases."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from dragoman.cli.app import as_called
from dragoman.cli.console import Console, describe_scores
from dragoman.config import Config, TrainingConfig
from dragoman.errors import counted
from dragoman.training.objective import Sample
from dragoman.training.state import TrainPosition
from dragoman.training.trainer import TrainingListener

EVERY = 15.0
"""Seconds between two lines about the preparation of text."""

LONGEST = 240
"""Maximum characters shown of a sample."""


class TerminalListener(TrainingListener):
    """A listener that prints log lines on stderr. A context manager.

    A terminal also shows samples after each validation, and below all lines a progress bar.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, markup=False, highlight=False, soft_wrap=True)
        self._bar: Progress | None = None
        self._item = "token"
        self._noted = sys.maxsize, 0.0
        """Pairs that had become tokens when the first or last of them were counted, and when that was."""

    def __enter__(self) -> TerminalListener:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def message(self, text: str) -> None:
        self._print(as_called(text))

    def tokenized(self, n_pairs: int) -> None:
        before, then = self._noted
        now = time.monotonic()
        if n_pairs <= before:  # the first ones of a corpus
            self._noted = n_pairs, now
        elif now - then >= EVERY:
            self._noted = n_pairs, now
            self._print(f"tokenizing: {n_pairs:,} pairs, {(n_pairs - before) / (now - then):,.0f} a second")

    def started(self, position: TrainPosition, config: Config, n_parameters: int) -> None:
        self._item = config.names.unit
        self._print(f"{counted(n_parameters, 'parameter')}, {counted(config.training.max_steps, 'step')}")
        if self._console.is_terminal:
            self._config = config
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=None),
                TaskProgressColumn(),
                TimeRemainingColumn(),
                TextColumn("left"),
                console=self._console,
                expand=True,
                transient=True,
            )
            self._task = self._bar.add_task("training", total=1.0)
            # Earlier steps of a resumed training must not count for its speed.
            self._bar.tasks[0].completed = done(position, config.training)
            self._bar.start()

    def stepped(self, position: TrainPosition) -> None:
        if self._bar is not None:
            training = self._config.training
            steps = f"step {position.step:,} of {training.max_steps:,}"
            self._bar.update(self._task, description=steps, completed=done(position, training))

    def validating(self) -> None:
        if self._bar is not None:
            self._bar.update(self._task, description="validating")

    def logged(self, record: dict[str, Any]) -> None:
        self._print(describe_record(record, item=self._item))

    def sampled(self, step: int, samples: Sequence[Sample]) -> None:
        if self._bar is not None:
            self._console.print(sample_table(samples, self._config.names.sample), soft_wrap=False)

    def _print(self, text: str) -> None:
        if self._console.is_terminal:
            self._console.print(text)
        else:
            print(text, file=sys.stderr, flush=True)


def done(position: TrainPosition, training: TrainingConfig) -> float:
    """Return the fraction of the training that is done, 0 to 1."""
    seconds = 60 * training.max_minutes
    by_time = position.seconds / seconds if seconds else 0.0
    return min(1.0, max(position.step / training.max_steps, by_time))


def sample_table(samples: Sequence[Sample], names: tuple[str, str, str]) -> Table:
    """Return a table of samples with rows named `names`; correct samples are green, others yellow."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for sample in samples:
        style = "green" if sample.hypothesis == sample.reference else "yellow"
        for name, text in zip(names, sample, strict=True):
            cell_style = style if name == names[-1] else ""
            line = " ".join(text.split())
            shown = line if len(line) <= LONGEST else f"{line[: LONGEST - 1].rstrip()}…"
            printed = "".join(c if c.isprintable() else "\ufffd" for c in shown)  # none moves the cursor
            table.add_row(f"  {name}", Text(printed, style=cell_style))
    return table


def describe_record(record: dict[str, Any], *, item: str) -> str:
    """Format a record of history.jsonl as a log line; `item` is the unit that losses are averaged over."""
    if record["kind"] == "train":
        speed = record["tokens_per_second"]
        rounded = f"{speed / 1000:.1f}k" if speed >= 1000 else f"{speed:.0f}"
        mantissa, exponent = f"{record['lr']:.1e}".split("e")
        return " · ".join(
            [
                f"step {record['step']:,}",
                f"epoch {record['epoch'] + 1}",
                f"loss {record['train_loss']:.2f} nats/{item}",
                f"{rounded} tokens/s",
                f"lr {mantissa}e{int(exponent)}" if record["lr"] else "lr 0",
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


NOT_PLOTTED = {"kind", "step", "best", "n", "seconds"}


class TensorBoardListener(TrainingListener):
    """A listener that writes TensorBoard events to `folder`.

    Losses and scores are scalars; the samples of each validation are a table under "valid/samples".
    """

    def __init__(self, folder: Path) -> None:
        from tensorboard.summary import Writer
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._writer = Writer(str(folder))
        self._text_writer = EventFileWriter(str(folder), filename_suffix=".text")  # Writer has scalars only
        self._names: tuple[str, str, str] | None = None

    def started(self, position: TrainPosition, config: Config, n_parameters: int) -> None:
        self._names = config.names.sample

    def logged(self, record: dict[str, Any]) -> None:
        for name, value in scalars(record).items():
            self._writer.add_scalar(name, value, step=record["step"])
        self._writer.flush()

    def sampled(self, step: int, samples: Sequence[Sample]) -> None:
        from tensorboard.compat.proto import event_pb2
        from tensorboard.plugins.text.metadata import create_summary_metadata
        from tensorboard.util.tensor_util import make_tensor_proto

        assert self._names is not None
        tag, table = "valid/samples", make_tensor_proto([markdown_table(self._names, samples).encode()])
        event = event_pb2.Event(wall_time=time.time(), step=step)
        metadata = create_summary_metadata(display_name=tag, description="")
        event.summary.value.add(tag=tag, tensor=table, metadata=metadata)
        self._text_writer.add_event(event)
        self._text_writer.flush()


class WandbListener(TrainingListener):
    """A listener that logs to a project of Weights & Biases."""

    def __init__(self, project: str, run: Path) -> None:
        import wandb

        self._wandb, self._project, self._path = wandb, project, run

    def started(self, position: TrainPosition, config: Config, n_parameters: int) -> None:
        self._run = self._wandb.init(
            project=self._project,
            name=self._path.name,
            id=run_id(self._path),
            resume="allow",  # a training that is continued stays one run there
            dir=str(self._path),
            config={**config.model_dump(mode="json"), "n_parameters": n_parameters},
        )

    def logged(self, record: dict[str, Any]) -> None:
        self._run.log(scalars(record), step=record["step"])


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table for TensorBoard, with markup in cells escaped."""
    lines = [headings, ["---"] * len(headings), *([_literal(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def scalars(record: dict[str, Any]) -> dict[str, float]:
    """Return the numbers of a record of history.jsonl, by names such as "train/lr" and "valid/bleu"."""
    return {
        f"{record['kind']}/{name}": float(value)
        for name, value in record.items()
        if name not in NOT_PLOTTED and isinstance(value, (int, float))
    }


def run_id(path: Path) -> str:
    """Return an id for the run in `path` that stays the same when training is resumed."""
    from hashlib import blake2b

    return blake2b(str(path.resolve()).encode(), digest_size=8).hexdigest()


def _literal(text: str) -> str:
    """Return `text` on one line, with the characters of Markdown and HTML as character references."""
    return "".join(c if c.isalnum() or c == " " else f"&#{ord(c)};" for c in " ".join(text.split()))
