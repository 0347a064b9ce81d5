"""Figures of a classifier: confusion matrix, scores by class, reliability diagram."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dragoman.metrics.classification import ClassIntervals, ClassScore, ReliabilityBin
from dragoman.report.picture import BLUE, GREEN, GREY, ORANGE, pale_grid, picture
from dragoman.tasks.classification.evaluation import ClassificationScores

MAX_CLASSES = 25
"""Classes in a figure, at most: of more, those that are part of most mistakes."""

PURPOSE = "drawing a report"


class ClassRow(NamedTuple):
    """The scores of one class."""

    label: str
    score: ClassScore
    intervals: ClassIntervals


def class_rows(evaluation: ClassificationScores) -> tuple[ClassRow, ...]:
    """Return the scores of every class with their intervals, in the order of the labels."""
    rows = zip(evaluation.per_class.items(), evaluation.class_intervals, strict=True)
    return tuple(ClassRow(label, score, interval) for (label, score), interval in rows)


def plot_confusion(evaluation: ClassificationScores, path: Path) -> None:
    """Draw the confusion matrix: counts, on a shade that is the share of the row's texts.

    Only of an `evaluation` that has one: of texts with one label.
    `path` ends in .svg, .png or .pdf. MissingExtraError: matplotlib is not installed. RunError: `path` has
    another ending or cannot be written.
    """
    confusion = evaluation.confusion
    assert confusion is not None
    chosen = _chosen_classes(evaluation)
    labels = [evaluation.labels[i] for i in chosen]
    counts = confusion[np.ix_(chosen, chosen)]
    shares = counts / np.maximum(confusion.sum(1)[chosen], 1)[:, None]
    side = 0.55 * len(labels)
    size = (max(3.4, side + 2.4), max(2.8, side + 1.7))
    with picture(path, size=size, purpose=PURPOSE) as figure:
        axes = figure.add_subplot()
        image = axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0, interpolation="nearest")
        axes.set_xticks(range(len(labels)), labels, rotation=45, ha="right", rotation_mode="anchor")
        axes.set_yticks(range(len(labels)), labels)
        axes.set(xlabel="label given", ylabel="label")
        axes.tick_params(length=0)
        for (row, column), n in np.ndenumerate(counts):
            if n:
                dark = shares[row, column] > 0.55
                axes.text(column, row, f"{n:,}", ha="center", va="center", color="white" if dark else "black")
        for spine in axes.spines.values():
            spine.set_visible(False)
        figure.colorbar(image, ax=axes, shrink=0.8, aspect=16, label="share of the label's texts")
        figure.suptitle(_title("Confusion", evaluation, len(labels)), x=0.01, ha="left", size=10)


def plot_classes(evaluation: ClassificationScores, path: Path) -> None:
    """Draw precision, recall and F1 of each class with their 95 % intervals. Errors: as above."""
    chosen = _chosen_classes(evaluation)
    every = class_rows(evaluation)
    rows = [every[i] for i in chosen]
    size = (6.4, 0.62 * len(rows) + 1.5)
    with picture(path, size=size, purpose=PURPOSE) as figure:
        axes = figure.add_subplot()
        styles = {"precision": ("o", BLUE, -0.22), "recall": ("s", ORANGE, 0.0), "f1": ("D", GREEN, 0.22)}
        for name, (marker, colour, shift) in styles.items():
            title = "F1" if name == "f1" else name
            for y, row in enumerate(rows):
                value, interval = getattr(row.score, name), getattr(row.intervals, name)
                if interval is not None:
                    axes.plot(interval, [y + shift] * 2, color=colour, linewidth=1.4, solid_capstyle="butt")
                    axes.plot(
                        value, y + shift, marker, color=colour, markersize=5, label=title, gid=f"{name}-{y}"
                    )
                title = "_nolegend_"
        axes.set_yticks(range(len(rows)), [f"{row.label}\n{row.score.support:,} texts" for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlim(right=100.5)
        axes.set_xlabel("%, with 95 % intervals")
        pale_grid(axes, "x")
        figure.legend(loc="outside lower left", ncols=3)
        figure.suptitle(_title("Scores by class", evaluation, len(rows)), x=0.01, ha="left", size=10)


def plot_reliability(evaluation: ClassificationScores, path: Path) -> None:
    """Draw accuracy by confidence, before and after the temperature, and how many texts each bin has.

    A classifier that is as sure as it should be lies on the diagonal. Errors: as above.
    """
    with picture(path, size=(5.4, 5.2), purpose=PURPOSE) as figure:
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        above.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, label="as sure as right")
        before, after = (evaluation.reliability(calibrated=calibrated) for calibrated in (False, True))
        errors = [evaluation.calibration_error(calibrated=calibrated) for calibrated in (False, True)]
        _draw_bins(above, before, "s--", ORANGE, f"before the temperature, ECE {errors[0]:.1f}")
        temperature = f"temperature {evaluation.temperature:.2f}, ECE {errors[1]:.1f}"
        _draw_bins(above, after, "o-", BLUE, temperature, intervals=True)
        above.set(ylabel="accuracy, with 95 % intervals", ylim=(0, 1.02))
        figure.legend(loc="outside lower left")
        highest = max(each.n for each in after)
        for each in after:
            middle = (each.low + each.high) / 2
            below.bar(middle, each.n, width=0.9 * (each.high - each.low), color=BLUE, hatch="//", alpha=0.55)
            if each.n:
                below.text(middle, each.n + 0.03 * highest, f"{each.n:,}", ha="center", size=7)
        # The least confidence that a label can be given with, to the border of a bin below it.
        n_classes = evaluation.labelling.decisions(evaluation.logits).shape[-1]
        lowest = int(len(after) / n_classes) / len(after)
        below.set(ylabel="texts", ylim=(0, 1.2 * highest), xlim=(lowest, 1.0))
        below.set_xlabel("confidence: probability of the label given")
        for axes in (above, below):
            pale_grid(axes)
        figure.suptitle(_title("Reliability", evaluation, None), x=0.01, ha="left", size=10)


def _draw_bins(
    axes: Any, bins: Sequence[ReliabilityBin], style: str, colour: str, label: str, *, intervals: bool = False
) -> None:
    filled = [each for each in bins if each.n]
    x = [each.confidence for each in filled]
    axes.plot(x, [each.accuracy for each in filled], style, color=colour, markersize=4.5, label=label)
    if intervals:
        low, high = zip(*(each.interval for each in filled), strict=True)
        axes.vlines(x, low, high, color=colour, linewidth=1.2)


def _chosen_classes(evaluation: ClassificationScores) -> list[int]:
    """Return the numbers of the classes to draw, in their order."""
    counts = evaluation.counts
    mistakes = counts.found + counts.there - 2 * counts.right
    ranked = np.argsort(-mistakes, kind="stable")[:MAX_CLASSES]
    chosen: list[int] = np.sort(ranked).tolist()
    return chosen


def _title(what: str, evaluation: ClassificationScores, n_classes: int | None) -> str:
    title = f"{what} · {evaluation.name}, {len(evaluation.expected):,} texts"
    if n_classes is not None and n_classes < len(evaluation.labels):
        title += f"\nthe {n_classes} of {len(evaluation.labels)} labels with most mistakes"
    return title
