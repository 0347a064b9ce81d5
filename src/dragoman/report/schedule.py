"""Learning-rate schedules, as a figure and as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.report.picture import BLUE, GREY, finish_axes, picture

BLOCKS = " ▁▂▃▄▅▆▇█"
N_POINTS = 1000
"""Points of a drawn line, at most."""


class ScheduleCurve(NamedTuple):
    """The learning rate of every update, the first one first."""

    name: str
    rates: Sequence[float]
    warmup_steps: int
    note: str = ""
    """What the curve takes for granted."""

    @property
    def peak(self) -> float:
        return max(self.rates)


def plot_schedules(curves: Sequence[ScheduleCurve], path: Path, *, title: str) -> None:
    """Draw each curve on axes of its own, all to one scale; `path` ends in .svg, .png or .pdf.

    MissingExtraError: matplotlib is not installed. RunError: `path` has another ending or cannot be written.
    """
    n_columns = min(3, len(curves))
    n_rows = -(-len(curves) // n_columns)
    size = (6.4, 3.4) if len(curves) == 1 else (3.5 * n_columns, 0.4 + 2.2 * n_rows)
    with picture(path, size=size, purpose="drawing learning rates") as figure:
        grid = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False)
        for axes, curve in zip(grid.flat, curves, strict=False):
            _draw(axes, curve)
        for axes in grid.flat[len(curves) :]:
            axes.set_visible(False)
        for i, axes in enumerate(grid.flat[: len(curves)]):
            finish_axes(axes, label="step" if i + n_columns >= len(curves) else "")
            axes.set_ylim(0, 1150 * max(curve.peak for curve in curves))
        for row in grid:
            row[0].set_ylabel("learning rate, 10⁻³", color=GREY)
        figure.suptitle(f"{title} · grey: warm-up", x=0.01, ha="left", size=11)


def _draw(axes: Any, curve: ScheduleCurve) -> None:
    """One line, its warm-up shaded, its last value named."""
    n_steps = len(curve.rates)
    stride = max(1, n_steps // N_POINTS)
    steps = sorted({*range(1, n_steps + 1, stride), min(curve.warmup_steps, n_steps), n_steps})
    axes.axvspan(0, min(curve.warmup_steps, n_steps), color="#eeeeee", linewidth=0)
    axes.plot(steps, [1000 * curve.rates[step - 1] for step in steps], color=BLUE, linewidth=1.8)
    axes.set_title(curve.name)
    last = 1000 * curve.rates[-1]
    beside = {"xytext": (4, 1), "textcoords": "offset points", "va": "bottom"}
    axes.annotate(f"{last:.2g}", (n_steps, last), color=BLUE, annotation_clip=False, **beside)
    if curve.note:
        axes.text(0.13, 0.08, curve.note, transform=axes.transAxes, ha="left", color=GREY, size=8)


def text_chart(curve: ScheduleCurve, *, width: int = 60, height: int = 8) -> Iterator[str]:
    """Yield the curve in `height` lines of `width` characters, with its scales; no matplotlib needed."""
    columns = [value * 8 * height for value in _columns(curve, width)]
    top = rate_in_words(curve.peak)
    for row in reversed(range(height)):
        label = top if row == height - 1 else ""
        cells = (BLOCKS[round(min(8.0, max(0.0, value - 8 * row)))] for value in columns)
        yield f"{label:>{len(top)}} ┤{''.join(cells)}".rstrip()
    last = f"{len(curve.rates):,}"
    yield f"{0:>{len(top)}} └{'─' * width}"
    yield f"{'':>{len(top)}}  1{last:>{width - 1}}"


def text_line(curve: ScheduleCurve, *, width: int = 40) -> str:
    """Return the curve as one line of `width` characters."""
    return "".join(BLOCKS[max(1, round(8 * value))] for value in _columns(curve, width))


def rate_in_words(rate: float) -> str:
    """Two digits of a learning rate: 2.0e-3, or 0."""
    mantissa, exponent = f"{rate:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}" if rate else "0"


def _columns(curve: ScheduleCurve, width: int) -> list[float]:
    """Return the mean rate in each of `width` equal parts of the training, as a share of the peak."""
    n_steps = len(curve.rates)
    means = []
    for i in range(width):
        start = i * n_steps // width
        part = curve.rates[start : max(start + 1, (i + 1) * n_steps // width)]
        means.append(sum(part) / len(part) / curve.peak)
    return means
