"""Figures of learning curves, and of schedules of the learning rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.config import TrainingConfig
from dragoman.errors import RunError
from dragoman.report.picture import BLUE, GREEN, GREY, ORANGE, finish_axes, picture
from dragoman.runs import Run
from dragoman.training.updates.schedule import learning_rates

CURVES = "curves.svg"
"""Where a run keeps its learning curves."""

OKABE_ITO = (BLUE, ORANGE, GREEN, "#CC79A7", "#000000", "#56B4E9", "#E69F00")
MARKERS = "os^Dvx*"
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
"""Several runs are told apart by colour, by marker and by dash."""
POINTS: dict[str, Any] = {"linewidth": 1.4, "marker": "o", "markersize": 3.5}
"""The look of a line of validations."""

N_POINTS = 1000
"""Points of the line of a schedule, at most."""


class Curves(NamedTuple):
    """The learning curves of another training, such as the reference run of a recipe."""

    name: str
    history: Sequence[dict[str, Any]]
    """The records of its history.jsonl."""
    max_steps: int
    """Its training.max_steps."""


def plot_learning_curves(run: Run, path: Path, *, reference: Curves | None = None) -> None:
    """Draw loss, score and learning rate over the steps of `run`; `path` ends in .svg, .png or .pdf.

    The score is BLEU or accuracy. The validations of `reference` stand beside it, dashed and grey; if its
    schedule has another length, at the same shares of the steps. Errors: those of `picture`. RunError: the
    run has no history yet.
    """
    names = run.config.names
    with picture(path, size=(10.5, 3.4), purpose="drawing learning curves") as figure:
        history = run.history()
        if not any(record["kind"] == "train" for record in history):
            raise RunError(f"{run.history_path}: holds no log line yet; train until training.log_every steps")
        loss, score, rate = figure.subplots(1, 3, sharex=True)
        # What is minimised is smoothed, and so does not fall as low as what is validated.
        train, valid = (_series(history, kind, f"{kind}_loss") for kind in ("train", "valid"))
        loss.plot(*train, color=BLUE, linewidth=1.4, label="train (smoothed)")
        loss.plot(*valid, **POINTS, color=ORANGE, label="valid", gid="valid_loss")
        _draw_each_text(loss, history, key="valid_loss")
        loss.set_title(f"Loss, nats/{names.unit}")
        loss.legend()
        title = f"{names.score_title} on validation {names.sample[0]}s{names.score_unit and ', %'}"
        _draw_score(score, history, key=names.score, title=title[0].upper() + title[1:])
        rate.plot(*_series(history, "train", "lr", factor=1000), color=GREY, linewidth=1.4)
        rate.set_title("Learning rate, 10⁻³")  # in thousandths, so that no exponent floats above the axis
        rate.set_ylim(bottom=0)
        if reference is not None:
            _draw_reference(loss, run, reference, key="valid_loss")
            _draw_reference(score, run, reference, key=names.score)
        for axes in (loss, score, rate):
            finish_axes(axes, label="step")
        figure.suptitle(f"{run.config.name} · {run.config.subject}", x=0.01, ha="left", size=11)


def plot_runs(runs: Sequence[Curves], path: Path, *, key: str, title: str) -> None:
    """Draw validation loss and the score `key` of several runs, each over its own steps.

    `path` and errors as for `plot_learning_curves`; a run without validations has no line.
    """
    with picture(path, size=(10.5, 3.8), purpose="drawing learning curves") as figure:
        loss, score = figure.subplots(1, 2, sharex=True)
        for i, run in enumerate(runs):
            look: dict[str, Any] = {
                "color": OKABE_ITO[i % len(OKABE_ITO)],
                "marker": MARKERS[i % len(MARKERS)],
                "linestyle": DASHES[i % len(DASHES)],
                "markersize": 4,
                "linewidth": 1.4,
                "label": run.name,
            }
            loss.plot(*_series(run.history, "valid", "valid_loss"), **look)
            score.plot(*_series(run.history, "valid", key), **look)
        loss.set_title("Validation loss, nats")
        score.set_title(title)
        figure.legend(handles=score.get_lines(), loc="outside lower left", ncols=4)
        for axes in (loss, score):
            finish_axes(axes, label="step")


def plot_schedules(trainings: Sequence[TrainingConfig], path: Path, *, title: str) -> None:
    """Draw the learning rate of every update, each schedule on axes of its own, all to one scale.

    Errors: those of `picture`.
    """
    n_columns = min(3, len(trainings))
    n_rows = -(-len(trainings) // n_columns)
    size = (6.4, 3.4) if len(trainings) == 1 else (3.5 * n_columns, 0.4 + 2.2 * n_rows)
    curves = [learning_rates(training) for training in trainings]
    with picture(path, size=size, purpose="drawing learning rates") as figure:
        grid = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False)
        for axes, training, rates in zip(grid.flat, trainings, curves, strict=False):
            n_steps, warmup = len(rates), min(training.warmup_steps, len(rates))
            steps = sorted({*range(1, n_steps + 1, max(1, n_steps // N_POINTS)), warmup, n_steps})
            axes.axvspan(0, warmup, color="#eeeeee", linewidth=0)
            axes.plot(steps, [1000 * rates[step - 1] for step in steps], color=BLUE, linewidth=1.8)
            axes.set_title(training.schedule)
            last = 1000 * rates[-1]
            beside = {"xytext": (4, 1), "textcoords": "offset points", "va": "bottom"}
            axes.annotate(f"{last:.2g}", (n_steps, last), color=BLUE, annotation_clip=False, **beside)
            if training.schedule == "plateau":
                note = f"if validation stalls\nfrom step {training.max_steps // 2:,} on"
                axes.text(0.13, 0.08, note, transform=axes.transAxes, ha="left", color=GREY, size=8)
        for axes in grid.flat[len(curves) :]:
            axes.set_visible(False)
        for i, axes in enumerate(grid.flat[: len(curves)]):
            finish_axes(axes, label="step" if i + n_columns >= len(curves) else "")
            axes.set_ylim(0, 1150 * max(map(max, curves)))
        for row in grid:
            row[0].set_ylabel("learning rate, 10⁻³", color=GREY)
        figure.suptitle(f"{title} · grey: warm-up", x=0.01, ha="left", size=11)


def _draw_reference(axes: Any, run: Run, reference: Curves, *, key: str) -> None:
    """Draw the validations of the reference, and extend the axes if it does not fit."""
    steps, values = _series(reference.history, "valid", key)
    if not steps:
        return
    max_steps = run.config.training.max_steps
    same = reference.max_steps == max_steps
    scaled = [step if same else step * max_steps / reference.max_steps for step in steps]
    label = reference.name if same else f"{reference.name}, {reference.max_steps:,} steps, scaled"
    line = {"color": "#777777", "linestyle": "--", "linewidth": 1.1, "marker": "x", "markersize": 3.5}
    axes.plot(scaled, values, label=label, gid="reference", **line)
    if key != "valid_loss":
        axes.set_ylim(0, min(100.0, max(axes.get_ylim()[1], 1.15 * max(values))))
    axes.legend()


def _draw_score(axes: Any, history: Sequence[dict[str, Any]], *, key: str, title: str) -> None:
    steps, scores = _series(history, "valid", key)
    axes.set_title(title)
    axes.set_ylim(0, 100)
    if not scores:
        axes.text(0.5, 0.5, "no validation yet", transform=axes.transAxes, ha="center", color=GREY)
        return
    axes.plot(steps, scores, **POINTS, color=GREEN, gid=key)
    highest = max(*scores, 5.0, *_draw_each_text(axes, history, key=key))
    axes.set_ylim(0, min(100.0, 1.15 * highest))
    best = max(range(len(scores)), key=scores.__getitem__)
    axes.annotate(
        f"{scores[best]:.1f}",
        (steps[best], scores[best]),
        xytext=(0, 6),
        textcoords="offset points",
        ha="right" if best == len(scores) - 1 else "center",
        color=GREEN,
    )


def _draw_each_text(axes: Any, history: Sequence[dict[str, Any]], *, key: str) -> list[float]:
    """Draw `key` on each of several validation texts, of directions or of corpora; return all values.

    The line that is there already is the mean of all, or that of the text that chooses the checkpoint.
    """
    names = dict.fromkeys(
        name.removeprefix(f"{key} ") for record in history for name in record if name.startswith(f"{key} ")
    )
    chosen_by = next((record["chosen_by"] for record in history if "chosen_by" in record), "")
    for line in axes.get_lines():
        if names and line.get_gid() == key:
            line.set_label(f"{chosen_by}, which chooses" if chosen_by else "mean")
    drawn: list[float] = []
    for i, name in enumerate(name for name in names if name != chosen_by):
        steps, values = _series(history, "valid", f"{key} {name}")
        look = {"color": OKABE_ITO[3 + i % 4], "linestyle": DASHES[1 + i % 6], "marker": MARKERS[1 + i % 6]}
        axes.plot(steps, values, **look, markersize=3, linewidth=1.0, label=name, gid=f"{key} {name}")
        drawn += [value for value in values if not math.isnan(value)]
    if names:
        axes.legend(fontsize="small")
    return drawn


def _series(
    history: Sequence[dict[str, Any]], kind: str, key: str, *, factor: int = 1
) -> tuple[list[int], list[float]]:
    """Return the steps and values of `key` in the records of a kind; a gap where it was not a number."""
    records = [record for record in history if record["kind"] == kind and key in record]
    values = [math.nan if record[key] is None else factor * record[key] for record in records]
    return [record["step"] for record in records], values
