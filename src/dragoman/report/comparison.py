"""Comparison pages: scores with p-values, groups of seeds, settings, curves, changed examples."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import singledispatch
from pathlib import Path
from typing import NamedTuple

from dragoman.evaluation.analysis import word_diff
from dragoman.evaluation.classification import NONE
from dragoman.evaluation.classifier_comparison import ClassifierComparison
from dragoman.evaluation.comparison import (
    Changed,
    Comparison,
    Spread,
    TranslatorComparison,
    differing_settings,
)
from dragoman.report.curves import Curves, plot_runs
from dragoman.report.page import Example, Figure, Group, Page, Paragraph, Part, Section, Span, Table
from dragoman.report.run import footer
from dragoman.runs import Run

ABOUT_TESTS = (
    "p-values are sacreBLEU's, two-sided, each system against the first: paired bootstrap resampling (Koehn "
    "2004) and approximate randomisation (Riezler & Maxwell 2005). They ask whether the difference is one of "
    "the systems or of the sentences that happen to be in the test set. They do not know how far another "
    "seed of a training would come out, and are not corrected for the number of comparisons."
)

ABOUT_SEEDS = (
    "Groups of runs that differ only in the seed, each against the first. A p-value is that of a permutation "
    "test over the runs, which cannot be small with few seeds (0.33 at best for two and two, 0.1 for three "
    "and three, 0.03 for four and four), or of resampled sentences and Student's t over seeds, if larger. "
    "The interval is the latter's."
)

ABOUT_LABEL_TEST = (
    "The p-value is that of McNemar's exact test (McNemar 1947; Dietterich 1998), each run against the "
    "first: of the texts that only one of the two labels rightly, is each one's share a half? It knows of "
    "the texts, not of the trainings: another seed may come out elsewhere."
)

P_VALUES = {
    "p_bootstrap": "p, bootstrap",
    "p_randomisation": "p, randomisation",
    "p_mcnemar": "p, McNemar",
}
"""Headings of the p-values in the records of a comparison."""


class TaskParts(NamedTuple):
    """The parts of a page that depend on what the runs have learnt."""

    subtitle: str
    about_tests: str
    curve: str
    """The score of a validation, as history.jsonl has it ..."""
    curve_title: str
    """... and what it is called."""
    changed: Section
    """The examples that changed most."""


@singledispatch
def task_parts(comparison: Comparison, runs: Mapping[str, Run], n_examples: int) -> TaskParts:
    """Return the parts for a kind of comparison; each kind registers its own."""
    raise NotImplementedError(type(comparison))


def comparison_page(
    runs: Mapping[str, Run], comparisons: Sequence[Comparison], *, figures: Path, n_examples: int
) -> Page:
    """Return the page of runs side by side; its figures are written into the folder `figures`.

    Raises:
        MissingExtraError: matplotlib is not installed.
        RunError: a file cannot be written.
    """
    first, *other_runs = runs
    parts = task_parts(comparisons[0], runs, n_examples)
    # Means over the seeds of runs that differ in nothing else, and tests between groups.
    seeds = [seeds_table(c.name, c.spreads) for c in comparisons if c.spreads]
    sections = [
        Section("Scores", [*map(scores_table, comparisons), Paragraph(parts.about_tests)]),
        *([Section("Over seeds", [*seeds, Paragraph(ABOUT_SEEDS)])] if seeds else []),
        settings_section(runs),
        curves_of_runs(runs, figures, key=parts.curve, title=parts.curve_title),
        parts.changed,
    ]
    return Page(f"{first} and {', '.join(other_runs)}", parts.subtitle, sections, footer(runs[first]))


def scores_table(comparison: Comparison) -> Table:
    """Return each run's scores with intervals, differences from the first run, and p-values."""
    records = [record for record in comparison.records() if record["kind"] == "run"]
    tests = [name for name in P_VALUES if name in records[0]]
    rows = [
        (
            str(record["name"]),
            str(record["score"]),
            f"{record['value']:.1f}",
            "–" if record["low"] is None else f"{record['low']:.1f} – {record['high']:.1f}",
            "" if record["difference"] is None else signed(record["difference"]),
            *(p_text(record[test]) for test in tests),
        )
        for record in records
    ]
    heading = ("run", "score", "value", "95 % interval", "difference", *(P_VALUES[test] for test in tests))
    return Table(comparison.caption, heading, rows, n_words=2)


def seeds_table(test_set: str, spreads: Sequence[Spread]) -> Table:
    """Mean, standard deviation, and the difference from the first group, of each group of seeds."""
    rows = []
    for spread in spreads:
        tested = ("", "", "")
        if spread.test is not None:
            low, high = map(signed, spread.test.interval)
            tested = (signed(spread.test.difference), f"{low} – {high}", p_text(spread.test.p_value))
        mean = f"{spread.mean:.2f} ± {spread.deviation:.2f}"
        values = " ".join(f"{value:.1f}" for value in spread.values)
        rows.append((spread.group, spread.name, mean, values, *tested))
    members = {spread.group: f"{spread.group}: {', '.join(spread.systems)}" for spread in spreads}
    facts = [f"{test_set}, over seeds", *members.values()]
    if len(members) > 1:
        facts.append("p: permutation of runs and bootstrap of sentences, against the first group")
    heading = ("group", "score", "mean ± s.d.", "each", "difference", "95 % interval", "p, seeds")
    return Table("; ".join(facts), heading, rows, n_words=2)


def settings_section(runs: Mapping[str, Run]) -> Section:
    """Return the settings that differ."""
    differing = differing_settings({name: run.config for name, run in runs.items()})
    if not differing:
        return Section("Settings", [Paragraph("All settings are the same.")])
    rows = [
        (name, *("not set" if v is None else json.dumps(v, ensure_ascii=False) for v in values))
        for name, values in differing.items()
    ]
    return Section(
        "Settings", [Table("Settings that differ", ("setting", *runs), rows, n_words=1 + len(runs))]
    )


def curves_of_runs(runs: Mapping[str, Run], figures: Path, *, key: str, title: str) -> Section:
    """Return the validations of all runs in one figure."""
    path = figures / "curves.svg"
    curves = [Curves(name, run.history(), run.config.training.max_steps) for name, run in runs.items()]
    plot_runs(curves, path, key=key, title=title)
    last = [
        f"{curve.name}: {valid[-1][key]:.1f}"
        for curve in curves
        if (valid := [r for r in curve.history if r.get("kind") == "valid" and isinstance(r.get(key), float)])
    ]
    alt = f"Validation loss and {title} over the steps of each run; at the end {', '.join(last) or 'nothing'}"
    return Section("Learning curves", [Figure(path, alt, "From the history.jsonl of each run.")])


@task_parts.register
def _of_translators(comparison: TranslatorComparison, runs: Mapping[str, Run], n_examples: int) -> TaskParts:
    """Show the largest gains and losses of each system against the first."""
    first = next(iter(runs))
    provenance = comparison.sets[first].provenance
    about = f"By chrF2 of the sentence, of {provenance}. Marked in a translation: "
    parts: list[Part] = [
        Paragraph((Span("same", about), Span("extra", "what the reference does not have"), Span("same", ".")))
    ]
    for system in list(runs)[1:]:
        for title, changes in zip(("better", "worse"), comparison.changed(system, n_examples), strict=True):
            examples = [_change(runs, comparison, first, system, change) for change in changes]
            none = Paragraph("No sentence.")
            parts.append(Group(f"{system}: {title} than {first}", examples or [none]))
    changed = Section("Sentences that changed most", parts)
    return TaskParts("Translators side by side", ABOUT_TESTS, "bleu", "BLEU on validation pairs", changed)


def _change(
    runs: Mapping[str, Run], comparison: TranslatorComparison, first: str, system: str, change: Changed
) -> Example:
    data = runs[first].config.data
    src_lang, tgt_lang = getattr(data, "src_lang", ""), getattr(data, "tgt_lang", "")
    source, evaluation = comparison.sets[first].sources[change.sentence], comparison.sets[first].evaluation
    reference = evaluation.references[change.sentence]

    def marked(name: str) -> list[Span]:
        hypothesis = comparison.sets[name].evaluation.hypotheses[change.sentence]
        return [Span(*d) for d in word_diff(reference, hypothesis) if d.kind != "missing"]

    return Example(
        f"Sentence {change.sentence + 1} · chrF2 {signed(change.difference)}",
        [
            ("source", source, src_lang),
            ("reference", reference, tgt_lang),
            (first, marked(first), tgt_lang),
            (system, marked(system), tgt_lang),
        ],
    )


@task_parts.register
def _of_classifiers(comparison: ClassifierComparison, runs: Mapping[str, Run], n_examples: int) -> TaskParts:
    """Show the texts of which only one of two runs finds the label."""
    first, *other_runs = runs
    parts: list[Part] = [Paragraph(f"Texts that only one of two labels rightly, of {comparison.provenance}.")]
    for system in other_runs:
        for title, indices in zip(("only", "not"), comparison.changed(system, n_examples), strict=True):
            examples = []
            for i in indices:
                rows = [("text", comparison.texts[i], ""), ("label", comparison.expected[i] or NONE, "")]
                for name in (first, system):
                    evaluation = comparison.evaluations[name]
                    label = f"{evaluation.found_names[i] or NONE} ({evaluation.confidence[i]:.0%})"
                    rows.append((name, label, ""))
                examples.append(Example(f"Text {i + 1}", rows))
            parts.append(Group(f"{title} {system} is right", examples or [Paragraph("No text.")]))
    changed, names = Section("Texts that changed", parts), runs[first].config.names
    title = f"{names.score_title[0].upper()}{names.score_title[1:]} on validation texts, %"
    return TaskParts("Classifiers side by side", ABOUT_LABEL_TEST, names.score, title, changed)


def signed(points: float) -> str:
    """Return a difference in points: +0.7, −1.6."""
    shown = f"{points:+.1f}"
    return "0.0" if float(shown) == 0 else shown.replace("-", "−")


def p_text(p_value: float | None) -> str:
    """Return a p-value in three digits; nothing for the first system."""
    if p_value is None:
        return ""
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def as_json(comparisons: Sequence[Comparison]) -> str:
    """Return the figures of comparisons as a list of objects that all have the same keys."""
    records = [record for comparison in comparisons for record in comparison.records()]
    keys = dict.fromkeys(key for record in records for key in record)
    rows = [{key: record.get(key) for key in keys} for record in records]
    return json.dumps(rows, ensure_ascii=False, indent=1) + "\n"
