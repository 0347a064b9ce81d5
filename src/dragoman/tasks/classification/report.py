"""The report page of a classifier."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.metrics.classification import ReliabilityBin
from dragoman.metrics.score import Score, interval_text, value_text
from dragoman.predict.classifier import Classifier
from dragoman.predict.occlusion import Explanation, word_importance
from dragoman.report.curves import Curves
from dragoman.report.page import (
    Example,
    Facts,
    Figure,
    Notice,
    Page,
    Paragraph,
    Part,
    Section,
    Span,
    SpanKind,
    Table,
    Text,
)
from dragoman.report.picture import BLUE, GREEN, GREY, ORANGE, pale_grid, picture
from dragoman.report.run import card_section, curves_section, footer, summary_facts
from dragoman.runs import Run
from dragoman.tasks.classification.baseline import NAME
from dragoman.tasks.classification.evaluation import NONE, ClassificationScores
from dragoman.tasks.request import EvaluationRequest

MAX_CLASSES = 25
"""Classes in a figure, at most: of more, those that are part of most mistakes."""

PURPOSE = "drawing a report"

FAINT, STRONG = 0.2, 0.6
"""Shares of the greatest effect in a text from which on a word is marked, and marked strongly."""

LONGEST = 1200
"""Characters of a mistake that are shown, at most: of longer ones, those round the word that counts most."""


def classification_page(
    run: Run,
    classifier: Classifier | None,
    sets: Sequence[ClassificationScores],
    problems: Sequence[str],
    request: EvaluationRequest,
    *,
    figures: Path,
    reference: Curves | None,
) -> Page:
    """Return the page; its figures are written into the folder `figures`. The first of `sets` is analysed.

    Without a set, or without a classifier, there is a page about the training alone. `problems` say what
    could not be had. Errors: those of `Task.report`.
    """
    config, facts = run.config, list(summary_facts(run))
    parts: list[Section] = []
    if sets:
        evaluation = sets[0]
        scores = " · ".join(f"{score.name} {score.value:.1f}" for score in evaluation.scores)
        if evaluation.baseline is not None:
            scores += f" · {NAME} {evaluation.baseline.scores[0].value:.1f}"
        facts.insert(1, (evaluation.name, f"{scores} ({len(evaluation.texts):,} texts)"))
        facts.insert(2, ("labels", f"{len(evaluation.labels)}: {', '.join(evaluation.labels[:20])}"))
        parts = [_scores(sets)]
    summary = Section("Summary", [Facts(facts), *map(Notice, problems)])
    sections = [summary, *parts, curves_section(run, figures, reference)]
    if sets and classifier is not None:
        sections += [_classes(evaluation, figures), _confidence(evaluation, figures)]
        request.say(f"{run.path}: leaving out words of {evaluation.name}, one at a time")
        sections.append(_mistakes(classifier, evaluation, 2 * request.n_examples))
    sections.append(card_section(run))
    title = f"{config.name} · {config.subject}"
    return Page(title, f"A report on the classifier in {run.path.name}", sections, footer(run))


def marked(explanation: Explanation) -> list[Span]:
    """Return the text of an explanation in pieces that make it up again, marked by what each word speaks for.

    Marks are relative to the greatest effect in the text.
    """
    greatest = max((abs(each.effect) for each in explanation.effects), default=0.0)
    pieces: list[Span] = []
    position = 0
    for start, end, effect in explanation.effects:
        if start > position:
            pieces.append(Span("same", explanation.text[position:start]))
        share = effect / greatest if greatest else 0.0
        kind: SpanKind = "for" if share > 0 else "against"
        if abs(share) >= STRONG:
            kind = "for-strong" if share > 0 else "against-strong"
        pieces.append(Span("same" if abs(share) < FAINT else kind, explanation.text[start:end]))
        position = end
    if position < len(explanation.text):
        pieces.append(Span("same", explanation.text[position:]))
    return pieces


def shortened(pieces: Sequence[Span], n_characters: int = LONGEST) -> list[Span]:
    """As many pieces as `n_characters` hold, round the one that is marked most; dots stand for the others."""
    ends = [0, *accumulate(len(piece.text) for piece in pieces)]
    if ends[-1] <= n_characters:
        return list(pieces)
    ranks = {"same": 0, "against": 1, "for": 1, "against-strong": 2, "for-strong": 2}
    strongest = max(range(len(pieces)), key=lambda i: ranks.get(pieces[i].kind, 0))
    start = min(max(0, ends[strongest] - n_characters // 2), ends[-1] - n_characters)
    shown = [i for i in range(len(pieces)) if ends[i + 1] > start and ends[i] < start + n_characters]
    first, last = shown[0], shown[-1]
    before = [Span("same", "… ")] if first else []
    after = [Span("same", " …")] if last < len(pieces) - 1 else []
    return [*before, *pieces[first : last + 1], *after]


def _scores(sets: Sequence[ClassificationScores]) -> Section:
    """Every score with its interval and its signature, and what it has to beat."""
    parts: list[Part] = []
    for evaluation in sets:
        baseline = evaluation.baseline
        rows = [_score_row(score, "") for score in evaluation.scores]
        if baseline is not None:
            rows += [_score_row(score, "baseline: ", baseline.signature) for score in baseline.scores]
        caption = f"{evaluation.provenance}; {evaluation.seconds:.1f} s of classifying"
        parts.append(Table(caption, ("", "signature", "score", "95 % interval"), rows, n_words=2))
        if baseline is None:
            parts.append(Paragraph(f"No baseline: {evaluation.no_baseline or 'none was asked for'}."))
        else:
            parts.append(
                Paragraph(f"The baseline, {NAME}, was trained on the same {baseline.n_train:,} texts.")
            )
        if n_cut := int((evaluation.n_cut > 0).sum()):
            parts.append(Notice(f"The ends of {n_cut:,} texts were not read (data.max_windows)."))
    parts.append(
        Paragraph(
            "From 0 to 100. The interval of accuracy or exact match is Wilson's, that of F1 comes from "
            "resampling the texts: they do not say how far another seed of the training would come out."
        )
    )
    return Section("Scores", parts)


def _score_row(score: Score, prefix: str, signature: str = "") -> tuple[str, ...]:
    how = f"{score.signature}|{signature}" if signature else score.signature
    return f"{prefix}{score.name}", how, f"{score.value:.1f}", interval_text(score.interval, missing="–")


def _classes(evaluation: ClassificationScores, figures: Path) -> Section:
    """Scores by class, and which are taken for which."""
    by_class = figures / "classes.svg"
    plot_classes(evaluation, by_class)
    rows = [
        (label, *map(value_text, score[:3], intervals), f"{score.support:,}")
        for label, score, intervals in evaluation.by_class
    ]
    pairs = evaluation.mistakes()
    n_wrong = int((~evaluation.right).sum())
    caption = f"The {len(pairs)} most frequent mistakes, in {n_wrong:,} texts; {evaluation.provenance}"
    parts: list[Part] = [
        Figure(
            by_class,
            "Dots with lines: precision, recall and F1 of each label and their intervals, as in the table",
            f"{evaluation.provenance}. Lines: 95 % intervals.",
        ),
        Table(
            f"{evaluation.provenance}; in brackets 95 % intervals, of F1 from resampling",
            ("label", "precision (95 %)", "recall (95 %)", "F1 (95 %)", "texts"),
            rows,
        ),
    ]
    if evaluation.confusion is not None:
        confusion = figures / "confusion.svg"
        plot_confusion(evaluation, confusion)
        drawn = "; ".join(f"{label} given as {predicted}: {n:,}" for label, predicted, n in pairs)
        alt = f"Matrix of labels (rows) and labels given (columns). Mistakes: {drawn or 'none'}"
        note = f"{evaluation.provenance}. Darker: a larger share of the row's texts."
        parts.append(Figure(confusion, alt, note))
    if pairs:
        cells = [(label, predicted, f"{n:,}") for label, predicted, n in pairs]
        parts.append(Table(caption, ("label", "label given", "texts"), cells, n_words=2))
    return Section("Labels", parts)


def _confidence(evaluation: ClassificationScores, figures: Path) -> Section:
    """How often it is right, by how sure it is."""
    path = figures / "reliability.svg"
    plot_reliability(evaluation, path)
    bins = [b for b in evaluation.reliability() if b.n]
    rows = [
        (
            f"{100 * b.low:.0f} – {100 * b.high:.0f}",
            f"{b.n:,}",
            f"{100 * b.confidence:.1f}",
            value_text(100 * b.accuracy, [100 * end for end in b.interval]),
        )
        for b in bins
    ]
    before, after = (evaluation.calibration_error(calibrated=c) for c in (False, True))
    n = sum(b.n for b in bins)
    inside = sum(b.n for b in bins if b.interval[0] <= b.confidence <= b.interval[1])
    return Section(
        "Can its confidence be believed?",
        [
            Paragraph(
                f"Confidence is the probability of {evaluation.labelling.decided}. All are sorted by it "
                "into bins of one width; in each, the share that is right should be the mean confidence. The "
                "calibration error (ECE, Guo et al. 2017) is how far the two are apart, on average. The "
                "temperature was chosen on validation texts."
            ),
            Figure(
                path,
                "Accuracy by confidence, before and after the temperature, beside the diagonal, and the "
                "number of texts in each bin, as in the table",
                f"{evaluation.provenance}; {len(bins)} bins that hold texts.",
            ),
            Table(
                f"After temperature {evaluation.temperature:.2f}; {evaluation.provenance}",
                ("confidence, %", "number", "mean confidence", "accuracy (95 %)"),
                rows,
            ),
            Paragraph(
                f"ECE {before:.1f} before and {after:.1f} after the temperature. {inside:,} of "
                f"{n:,} are in bins whose mean confidence lies inside the 95 % interval "
                "of their accuracy."
            ),
        ],
    )


def _mistakes(classifier: Classifier, evaluation: ClassificationScores, n_mistakes: int) -> Section:
    """Return the mistakes it is surest of, with the words that speak for them."""
    title = "Most confident mistakes"
    chosen = evaluation.confident_mistakes(n_mistakes)
    if not chosen:
        return Section(title, [Paragraph(f"None: every label is right. {evaluation.provenance}.")])
    texts, labels = [evaluation.texts[each.text] for each in chosen], [each.label for each in chosen]
    explanations = word_importance(classifier, texts, labels=labels)
    n_wrong = int((~evaluation.right).sum())
    legend: Text = [
        Span("same", "Marked: "), Span("for", "speaks for"), Span("same", " and "),
        Span("for-strong", "speaks strongly for"), Span("same", " the label given; "),
        Span("against", "speaks against"), Span("same", " and "),
        Span("against-strong", "speaks strongly against"), Span("same", " it."),
    ]  # fmt: skip
    parts: list[Part] = [
        Paragraph(
            f"{len(chosen)} of {n_wrong:,} mistakes; {evaluation.provenance}. Each word is left out in turn; "
            "it counts for what the log-odds of the label given lose by that, in nats (Robnik-Šikonja and "
            "Kononenko 2008; Li, Monroe and Jurafsky 2016). Where either of two words would do, neither "
            "counts for much."
        ),
        Paragraph(legend),
    ]
    expected, predicted = evaluation.expected_names, evaluation.found_names
    for (i, label, sure), explanation in zip(chosen, explanations, strict=True):
        of = "" if predicted[i] == label else f"of {label} "
        ranked = sorted(explanation.effects, key=lambda each: -abs(each.effect))[:5]
        words = [f"{explanation.text[each.start : each.end]} {each.effect:+.1f}" for each in ranked]
        several = f" ({explanation.n_words_each} words at a time)" if explanation.n_words_each > 1 else ""
        rows: list[tuple[str, Text, str]] = [
            ("label", expected[i] or NONE, ""),
            ("given", f"{predicted[i] or NONE}, log-odds {of}{explanation.log_odds:.1f}", ""),
            ("text", shortened(marked(explanation)), ""),
            ("strongest", (" · ".join(words) or "no word") + several, ""),
        ]
        parts.append(Example(f"Text {i + 1} · {sure:.1%} sure", rows))
    return Section(title, parts)


def plot_confusion(evaluation: ClassificationScores, path: Path) -> None:
    """Draw the confusion matrix: counts, on a shade that is the share of the row's texts.

    Only of texts with one label. Errors: those of `picture`.
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
    """Draw precision, recall and F1 of each class with their 95 % intervals. Errors: those of `picture`."""
    chosen = _chosen_classes(evaluation)
    rows = [evaluation.by_class[i] for i in chosen]
    size = (6.4, 0.62 * len(rows) + 1.5)
    with picture(path, size=size, purpose=PURPOSE) as figure:
        axes = figure.add_subplot()
        styles = {"precision": ("o", BLUE, -0.22), "recall": ("s", ORANGE, 0.0), "f1": ("D", GREEN, 0.22)}
        for name, (marker, colour, shift) in styles.items():
            title = "F1" if name == "f1" else name
            for y, (_, score, intervals) in enumerate(rows):
                value, interval = getattr(score, name), getattr(intervals, name)
                if interval is not None:
                    axes.plot(interval, [y + shift] * 2, color=colour, linewidth=1.4, solid_capstyle="butt")
                    axes.plot(
                        value, y + shift, marker, color=colour, markersize=5, label=title, gid=f"{name}-{y}"
                    )
                title = "_nolegend_"
        names = [f"{label}\n{score.support:,} texts" for label, score, _ in rows]
        axes.set_yticks(range(len(rows)), names)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlim(right=100.5)
        axes.set_xlabel("%, with 95 % intervals")
        pale_grid(axes, "x")
        figure.legend(loc="outside lower left", ncols=3)
        figure.suptitle(_title("Scores by class", evaluation, len(rows)), x=0.01, ha="left", size=10)


def plot_reliability(evaluation: ClassificationScores, path: Path) -> None:
    """Draw accuracy by confidence, before and after the temperature, and how many texts each bin has.

    A classifier that is as sure as it should be lies on the diagonal. Errors: those of `picture`.
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
