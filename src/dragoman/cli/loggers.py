"""Listeners that send what a training logs to TensorBoard or to Weights & Biases."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman.config import Config
from dragoman.training.state import Position
from dragoman.training.task import Sample
from dragoman.training.trainer import TrainingListener

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

    def started(self, position: Position, config: Config, n_parameters: int) -> None:
        self._names = config.names.sample

    def logged(self, record: dict[str, Any]) -> None:
        for name, value in scalars(record).items():
            self._writer.add_scalar(name, value, step=record["step"])
        self._writer.flush()

    def sampled(self, step: int, samples: Sequence[Sample]) -> None:
        assert self._names is not None
        table = markdown_table(self._names, samples)
        self._text_writer.add_event(text_event("valid/samples", table, step=step))
        self._text_writer.flush()


class WandbListener(TrainingListener):
    """A listener that logs to a project of Weights & Biases."""

    def __init__(self, project: str, run: Path) -> None:
        import wandb

        self._wandb, self._project, self._path = wandb, project, run

    def started(self, position: Position, config: Config, n_parameters: int) -> None:
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


def text_event(tag: str, text: str, *, step: int) -> Any:
    """Return an event with `text` for TensorBoard's text dashboard."""
    from tensorboard.compat.proto import event_pb2
    from tensorboard.plugins.text.metadata import create_summary_metadata
    from tensorboard.util.tensor_util import make_tensor_proto

    event = event_pb2.Event(wall_time=time.time(), step=step)
    metadata = create_summary_metadata(display_name=tag, description="")
    event.summary.value.add(tag=tag, tensor=make_tensor_proto([text.encode()]), metadata=metadata)
    return event


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
