"""Learning curves of a run, as a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman.errors import RunError
from dragoman.report.picture import BLUE, GREEN, GREY, ORANGE, finish_axes, picture
from dragoman.runs import Run

CURVES = "curves.svg"
"""Where a run keeps its learning curves."""


def plot_learning_curves(run: Run, path: Path) -> None:
    """Draws loss, score and learning rate over the steps of `run`; `path` ends in .svg, .png or .pdf.

    The score is BLEU or accuracy. MissingExtraError: matplotlib is not installed. RunError: the run has no
    history yet, or `path` has another ending or cannot be written.
    """
    translates = run.config.task == "translation"
    with picture(path, size=(10.5, 3.4), purpose="drawing learning curves") as figure:
        history = run.history()
        if not any(record["kind"] == "train" for record in history):
            raise RunError(f"{run.history_path}: holds no log line yet; train until training.log_every steps")
        loss, score, rate = figure.subplots(1, 3, sharex=True)
        _draw_loss(loss, history, item="token" if translates else "text")
        if translates:
            _draw_score(score, history, key="bleu", title="BLEU on validation pairs")
        else:
            _draw_score(score, history, key="accuracy", title="Accuracy on validation texts, %")
        _draw_rate(rate, history)
        for axes in (loss, score, rate):
            finish_axes(axes, label="step")
        figure.suptitle(f"{run.config.name} · {run.config.subject}", x=0.01, ha="left", size=11)


def _draw_loss(axes: Any, history: Sequence[dict[str, Any]], *, item: str) -> None:
    """Both losses. What is minimised is smoothed, and so does not fall as low as what is validated."""
    smoothing = "train (smoothed)"
    axes.plot(*_series(history, "train", "train_loss"), color=BLUE, linewidth=1.4, label=smoothing)
    axes.plot(
        *_series(history, "valid", "valid_loss"),
        color=ORANGE,
        linewidth=1.4,
        marker="o",
        markersize=3.5,
        label="valid",
    )
    axes.set_title(f"Loss, nats/{item}")
    axes.legend(frameon=False)


def _draw_score(axes: Any, history: Sequence[dict[str, Any]], *, key: str, title: str) -> None:
    """The score of the validations, the best one named."""
    steps, scores = _series(history, "valid", key)
    axes.set_title(title)
    axes.set_ylim(0, 100)
    if not scores:
        axes.text(0.5, 0.5, "no validation yet", transform=axes.transAxes, ha="center", color=GREY)
        return
    axes.plot(steps, scores, color=GREEN, linewidth=1.4, marker="o", markersize=3.5, gid=key)
    axes.set_ylim(0, min(100.0, 1.15 * max(*scores, 5.0)))
    best = max(range(len(scores)), key=scores.__getitem__)
    axes.annotate(
        f"{scores[best]:.1f}",
        (steps[best], scores[best]),
        xytext=(0, 6),
        textcoords="offset points",
        ha="right" if best == len(scores) - 1 else "center",
        color=GREEN,
    )


def _draw_rate(axes: Any, history: Sequence[dict[str, Any]]) -> None:
    """The learning rate, in thousandths, so that no exponent floats above the axis."""
    steps, rates = _series(history, "train", "lr")
    axes.plot(steps, [1000 * rate for rate in rates], color=GREY, linewidth=1.4)
    axes.set_title("Learning rate, 10⁻³")
    axes.set_ylim(bottom=0)


def _series(history: Sequence[dict[str, Any]], kind: str, key: str) -> tuple[list[int], list[float]]:
    """The steps and values of `key` in the records of a kind; a gap where it was not a number."""
    records = [record for record in history if record["kind"] == kind and key in record]
    values = [math.nan if record[key] is None else record[key] for record in records]
    return [record["step"] for record in records], values
