"""Figures of an analysis: scores by length, words by frequency, confidence against quality."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman.evaluation.analysis import Correlation, FrequencyBucket, LengthBucket
from dragoman.evaluation.kept import TranslatedSet
from dragoman.metrics.score import Score
from dragoman.report.picture import BLUE, GREEN, GREY, ORANGE, pale_grid, picture

FEW = 20
"""Sentences below which a bucket's score says little; its bar is hatched."""


def plot_scores_by_length(buckets: Sequence[LengthBucket], path: Path) -> None:
    """Draw BLEU and chrF2 of each bucket with their intervals, and how many sentences are in it.

    `path` ends in .svg, .png or .pdf. MissingExtraError: matplotlib is not installed. RunError: `path` has
    another ending or cannot be written.
    """
    names = [interval_name(bucket.shortest, bucket.longest) for bucket in buckets]
    few = [len(bucket.indices) < FEW for bucket in buckets]
    with picture(path, size=(9.0, 3.2), purpose="drawing scores") as figure:
        bleu_axes, chrf_axes = figure.subplots(1, 2, sharex=True)
        _score_bars(bleu_axes, [b.bleu for b in buckets], few, color=BLUE, title="BLEU")
        _score_bars(chrf_axes, [b.chrf for b in buckets], few, color=GREEN, title="chrF2")
        for axes in (bleu_axes, chrf_axes):
            labels = [f"{name}\nn = {len(b.indices)}" for name, b in zip(names, buckets, strict=True)]
            axes.set_xticks(range(len(buckets)), labels)
            axes.set_xlabel("words in the source, and sentences")


def _score_bars(axes: Any, scores: Sequence[Score], few: Sequence[bool], *, color: str, title: str) -> None:
    """Draw a bar for each score, with its interval as a line and its value above."""
    values = [score.value for score in scores]
    lows, highs = zip(*(score.interval or (score.value, score.value) for score in scores), strict=True)
    errors = [
        [max(0.0, value - low) for value, low in zip(values, lows, strict=True)],
        [max(0.0, high - value) for value, high in zip(values, highs, strict=True)],
    ]
    bars = axes.bar(range(len(values)), values, color=color, width=0.66, edgecolor="white")
    for bar, hatched in zip(bars, few, strict=True):
        if hatched:
            bar.set(hatch="///", facecolor="white", edgecolor=color)
    axes.errorbar(
        range(len(values)), values, yerr=errors, fmt="none", ecolor="black", elinewidth=1.1, capsize=3
    )
    for i, (value, high) in enumerate(zip(values, highs, strict=True)):
        axes.annotate(
            f"{value:.1f}", (i, max(value, high)), xytext=(0, 3), textcoords="offset points", ha="center"
        )
    axes.set_title(title)
    axes.set_ylim(0, 1.15 * max(*highs, *values, 5.0))
    _finish(axes)


def plot_f1_by_frequency(buckets: Sequence[FrequencyBucket], path: Path) -> None:
    """Draw precision, recall and F1 of the words in each bucket. `path` and errors as above."""
    shown = [bucket for bucket in buckets if bucket.words.n_reference or bucket.words.n_hypothesis]
    lines = (
        ("recall", [b.words.recall for b in shown], ORANGE, "s", "--"),
        ("precision", [b.words.precision for b in shown], BLUE, "^", ":"),
        ("F1", [b.words.f1 for b in shown], "black", "o", "-"),
    )
    with picture(path, size=(7.0, 3.4), purpose="drawing scores") as figure:
        axes = figure.subplots()
        for name, values, color, marker, dash in lines:
            axes.plot(range(len(shown)), values, color=color, marker=marker, linestyle=dash, label=name)
        labels = [f"{interval_name(b.least, b.most)}\nn = {b.words.n_reference:,}" for b in shown]
        axes.set_xticks(range(len(shown)), labels)
        axes.set_xlabel("times in the training text, and words in the references")
        axes.set_title("Words found, %")
        axes.set_ylim(0, 100)
        figure.legend(loc="outside lower left", ncols=3)
        _finish(axes)


def plot_confidence(kept: TranslatedSet, check: Correlation, path: Path) -> None:
    """Draw a point for each sentence: its confidence, and its chrF2. `path` and errors as above."""
    pairs = [(c, q) for c, q in zip(kept.confidences, kept.qualities, strict=True) if c is not None]
    with picture(path, size=(5.2, 3.6), purpose="drawing confidence") as figure:
        axes = figure.subplots()
        axes.scatter(*zip(*pairs, strict=True), s=9, color=BLUE, alpha=0.45, linewidths=0)
        axes.set_xlabel("mean log-probability of a token, nats")
        axes.set_title("chrF2 of the sentence")
        axes.set_ylim(0, 107)
        text = f"Spearman {check.spearman:.2f}, Pearson {check.pearson:.2f}"
        axes.text(0.02, 0.97, text, transform=axes.transAxes, va="top")
        _finish(axes)


def interval_name(least: int, most: int | None) -> str:
    """Return a bucket in words: 0, 1–4, or 1000+."""
    if most is None:
        return f"{least}+"
    return str(least) if least == most else f"{least}–{most}"


def _finish(axes: Any) -> None:
    pale_grid(axes)
    axes.tick_params(colors=GREY, length=3)
