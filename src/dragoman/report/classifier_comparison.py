"""The comparison page of classifiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dragoman.evaluation.classifier_comparison import ClassifierComparison
from dragoman.report.comparison import curves_of_runs, p_text, seeds_section, settings_section, signed
from dragoman.report.page import Example, Group, Page, Paragraph, Part, Section, Table
from dragoman.report.run import footer
from dragoman.runs import Run

ABOUT_TEST = (
    "The p-value is that of McNemar's exact test (McNemar 1947; Dietterich 1998), each run against the "
    "first: of the texts that only one of the two labels rightly, is each one's share a half? It knows of "
    "the texts, not of the trainings: another seed may come out elsewhere."
)


def classifier_comparison_page(
    runs: Mapping[str, Run], comparisons: Sequence[ClassifierComparison], *, figures: Path, n_texts: int
) -> Page:
    """The page of classifiers side by side; errors as for `comparison_page`."""
    first, *others = runs
    sections = [
        Section("Scores", [*map(label_scores_table, comparisons), Paragraph(ABOUT_TEST)]),
        *seeds_section(comparisons),
        settings_section(runs),
        curves_of_runs(runs, figures, key="accuracy", title="Accuracy on validation texts, %"),
        Section("Texts that changed", _changed(comparisons[0], others, first, n_texts)),
    ]
    return Page(f"{first} and {', '.join(others)}", "Classifiers side by side", sections, footer(runs[first]))


def label_scores_table(comparison: ClassifierComparison) -> Table:
    """Accuracy with its p-value, and macro-F1, of each run."""
    rows = []
    first = comparison.first
    for system, evaluation in comparison.evaluations.items():
        for score, base in zip(evaluation.scores, first.scores, strict=True):
            tested = evaluation is not first and score.name == "accuracy"
            interval = f"{score.interval[0]:.1f} – {score.interval[1]:.1f}" if score.interval else "–"
            changed = "" if evaluation is first else signed(score.value - base.value)
            p_value = p_text(comparison.p_value(system)) if tested else ""
            rows.append((system, score.name, f"{score.value:.1f}", interval, changed, p_value))
    signatures = "; ".join(score.signature for score in first.scores)
    heading = ("run", "score", "value", "95 % interval", "difference", "p, McNemar")
    return Table(f"{comparison.provenance}; {signatures}", heading, rows, n_words=2)


def _changed(comparison: ClassifierComparison, systems: Sequence[str], first: str, n: int) -> list[Part]:
    parts: list[Part] = [Paragraph(f"Texts that only one of two labels rightly, of {comparison.provenance}.")]
    for system in systems:
        for title, indices in zip(("only", "not"), comparison.changed(system, n), strict=True):
            examples = [_example(comparison, first, system, i) for i in indices]
            parts.append(Group(f"{title} {system} is right", examples or [Paragraph("No text.")]))
    return parts


def _example(comparison: ClassifierComparison, first: str, system: str, i: int) -> Example:
    rows = [("text", comparison.texts[i], ""), ("label", comparison.expected[i], "")]
    for name in (first, system):
        evaluation = comparison.evaluations[name]
        share = evaluation.probabilities()[i].max()
        rows.append((name, f"{evaluation.labels[evaluation.found[i]]} ({share:.0%})", ""))
    return Example(f"Text {i + 1}", rows)
