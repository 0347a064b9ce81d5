"""The live panel below the log lines of a training: curves in characters, and a progress bar."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from dragoman.config import Config
from dragoman.report.braille import braille_curve
from dragoman.training.state import Position
from dragoman.training.task import Sample

N_ROWS = 4
"""Height of a curve, in terminal rows."""

MIN_LINES, MIN_COLUMNS = 16, 50
"""Minimum terminal size for curves."""

LONGEST = 240
"""Maximum characters shown of a sample."""


class Curve:
    """A value over training steps, drawn to fit the available width."""

    def __init__(self, name: str, unit: str, *, best: bool) -> None:
        """`best`: name the highest value in the heading."""
        self._name, self._unit, self._best = name, unit, best
        self.points: list[tuple[float, float]] = []

    def add(self, step: int, value: float | None) -> None:
        """Add the value at `step` and drop later ones; None = no value (NaN)."""
        self.points = [point for point in self.points if point[0] < step]
        self.points.append((step, math.nan if value is None else value))

    @property
    def heading(self) -> str:
        """The last value, and the step of the best one."""
        known = [point for point in self.points if not math.isnan(point[1])]
        if not known:
            return f"{self._name}: none yet"
        parts = [f"{self._name} {_figure(known[-1][1])}{self._unit}"]
        if self._best:
            step, value = max(known, key=lambda point: point[1])
            parts.append("the best" if step == known[-1][0] else f"best {_figure(value)} at step {step:,.0f}")
        return ", ".join(parts)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self.heading, no_wrap=True, overflow="ellipsis")
        values = [value for _, value in self.points if math.isfinite(value)]
        if len(values) < 2:
            yield Text("\n" * (N_ROWS - 1))
            return
        low, high = min(values), max(values)
        labels = [_figure(high), *[""] * (N_ROWS - 2), _figure(low)]
        width = max(map(len, labels))
        room = max(4, options.max_width - width - 2)
        rows = braille_curve(self.points, width=room, height=N_ROWS, low=low, high=high)
        for label, row in zip(labels, rows, strict=True):
            yield Text.assemble((f"{label:>{width}} ", "dim"), (row, "cyan"), no_wrap=True, overflow="crop")


class LivePanel:
    """Curves of loss and score, and a progress bar with the time left."""

    def __init__(self, console: Console, config: Config, position: Position) -> None:
        self._console, self._config = console, config
        names = config.names
        self.loss = Curve("loss", f" nats/{names.unit}", best=False)
        self.score_key = names.score
        self.score = Curve(names.score_title, names.score_unit, best=True)
        if config.training.metric == self.score_key:  # scores from before a resume
            for step, value in position.scores.items():
                self.score.add(int(step), value)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=console,
            expand=True,
        )
        # Earlier steps of a resumed training must not count for its speed.
        self._task = self._progress.add_task("training", total=1.0)
        self._progress.tasks[0].completed = self._share(position)

    def stepped(self, position: Position) -> None:
        """Advance the bar after an update."""
        steps = f"step {position.step:,} of {self._config.training.max_steps:,}"
        self._progress.update(self._task, description=steps, completed=self._share(position))

    def validating(self) -> None:
        """Label the bar "validating"."""
        self._progress.update(self._task, description="validating")

    def logged(self, record: dict[str, Any]) -> None:
        """Add the loss or the score of a record of history.jsonl to its curve."""
        if record["kind"] == "train":
            self.loss.add(record["step"], record["train_loss"])
        elif record["kind"] == "valid":
            self.score.add(record["step"], record[self.score_key])

    def __rich__(self) -> RenderableType:
        size = self._console.size
        if size.height < MIN_LINES or size.width < MIN_COLUMNS or self._console.options.ascii_only:
            return self._progress
        curves = Table.grid(expand=True, padding=(0, 2))
        for _ in range(2):
            curves.add_column(ratio=1)
        curves.add_row(self.loss, self.score)
        return Group(Text(""), curves, self._progress)

    def _share(self, position: Position) -> float:
        """Fraction of the training that is done, 0 to 1."""
        training = self._config.training
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
            own = style if name == names[-1] else ""
            table.add_row(f"  {name}", Text(_on_a_line(text), style=own))
    return table


def _on_a_line(text: str) -> str:
    """Return `text` on one line: at most LONGEST characters, none of which moves the cursor."""
    text = " ".join(text.split())
    shown = text if len(text) <= LONGEST else f"{text[: LONGEST - 1].rstrip()}…"
    return "".join(c if c.isprintable() else "\ufffd" for c in shown)


def _figure(value: float) -> str:
    """Format a number with one decimal, or two if it is below 10."""
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
