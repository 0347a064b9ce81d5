"""Learning curves of a run, as a picture."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman.errors import MissingExtraError, RunError
from dragoman.runs import Run, write_atomically

CURVES = "curves.svg"
"""Where a run keeps its learning curves."""

# Colours that stay apart for colour-blind readers (Okabe and Ito 2008).
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#555555"


def plot_learning_curves(run: Run, path: Path) -> None:
    """Draws loss, BLEU and learning rate over the steps of `run`; `path` ends in .svg, .png or .pdf.

    MissingExtraError: matplotlib is not installed. RunError: the run has no history yet, or `path` has
    another ending or cannot be written.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", extra="plots", purpose="drawing learning curves") from None
    kind = path.suffix.removeprefix(".")
    if kind not in ("svg", "png", "pdf"):
        raise RunError(f"{path}: is no kind of picture; give a name that ends in .svg, .png or .pdf")
    history = run.history()
    if not any(record["kind"] == "train" for record in history):
        raise RunError(f"{run.history_path}: holds no log line yet; train until training.log_every steps")
    style: Any = {
        "font.family": ["DejaVu Sans"],
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": GREY,
        "axes.titlelocation": "left",
        "axes.titlesize": 10,
        "xtick.color": GREY,
        "ytick.color": GREY,
        "svg.hashsalt": "dragoman",  # the same history gives the same file
    }
    with rc_context(style):
        figure = Figure(figsize=(10.5, 3.4), layout="constrained")
        loss, bleu, rate = figure.subplots(1, 3, sharex=True)
        _draw_loss(loss, history)
        _draw_bleu(bleu, history)
        _draw_rate(rate, history)
        for axes in (loss, bleu, rate):
            axes.set_xlabel("step")
            axes.grid(axis="y", color="#e4e4e4", linewidth=0.7)
            axes.set_axisbelow(True)
            axes.set_xlim(left=0)
        figure.suptitle(f"{run.config.name} · {run.config.subject}", x=0.01, ha="left", size=11)
        picture = io.BytesIO()
        figure.savefig(picture, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    write_atomically(path, picture.getvalue())


def _draw_loss(axes: Any, history: Sequence[dict[str, Any]]) -> None:
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
    axes.set_title("Loss, nats/token")
    axes.legend(frameon=False)


def _draw_bleu(axes: Any, history: Sequence[dict[str, Any]]) -> None:
    """BLEU of the validations, the best one named."""
    steps, scores = _series(history, "valid", "bleu")
    axes.set_title("BLEU on validation pairs")
    axes.set_ylim(0, 100)
    if not scores:
        axes.text(0.5, 0.5, "no validation yet", transform=axes.transAxes, ha="center", color=GREY)
        return
    axes.plot(steps, scores, color=GREEN, linewidth=1.4, marker="o", markersize=3.5, gid="bleu")
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
