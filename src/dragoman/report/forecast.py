"""The figure of a forecast: score and loss over the amount of text, measured and forecast."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dragoman.metrics.extrapolation import Prediction
from dragoman.report.picture import BLUE, GREY, ORANGE, pale_grid, picture
from dragoman.training.forecasting import Forecast, Row


def plot_forecast(found: Forecast, path: Path) -> None:
    """Draw BLEU and loss over the pairs; `path` ends in .svg, .png or .pdf.

    Raises:
        MissingExtraError: matplotlib is not installed.
        RunError: `path` has another ending or cannot be written.
    """
    with picture(path, size=(9.0, 3.6), purpose="drawing a forecast") as figure:
        score, loss = figure.subplots(1, 2, sharex=True)
        _draw(score, found, lambda row: row.score, "BLEU on the validation pairs", digits=1)
        _draw(loss, found, lambda row: row.loss, "Loss, nats per character", digits=3)
        score.legend(loc="upper left")


def _draw(axes: Any, found: Forecast, value: Callable[[Row], Prediction], title: str, *, digits: int) -> None:
    """Draw one panel: a dot for each training, and a bar for each interval."""
    measured = [row for row in found.rows if row.measured]
    ahead = [row for row in found.rows if not row.measured]
    axes.plot(
        [row.n_pairs for row in measured],
        [value(row).value for row in measured],
        color=BLUE, marker="o", linestyle="", markersize=4.5, label="measured",
    )  # fmt: skip
    values = [value(row) for row in ahead]
    below = [one.value - one.interval[0] for one in values]
    above = [one.interval[1] - one.value for one in values]
    axes.errorbar(
        [row.n_pairs for row in ahead],
        [one.value for one in values],
        yerr=[below, above],
        color=ORANGE, marker="o", markerfacecolor="white", linestyle="", capsize=3, label="forecast, 90 %",
    )  # fmt: skip
    for row, one in zip(ahead, values, strict=True):
        axes.annotate(
            f"{one.value:.{digits}f}", (row.n_pairs, one.value), xytext=(6, -3), textcoords="offset points",
            color=ORANGE,
        )  # fmt: skip
    axes.set_title(title)
    axes.set_xscale("log", base=2)
    ticks = sorted({row.n_pairs for row in (*measured[1:], *ahead)})
    axes.set_xticks(ticks, [f"{n:,}" if n < 10_000 else f"{n / 1000:,.0f}k" for n in ticks])
    axes.set_xlim(ticks[0] / 1.4, ticks[-1] * 1.7)
    axes.set_xlabel("pairs")
    pale_grid(axes)
    axes.tick_params(axis="x", colors=GREY)
