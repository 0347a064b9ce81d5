"""Comparison pages: scores with p-values, groups of seeds, settings, curves, changed examples."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

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


def translator_comparison_page(
    runs: Mapping[str, Run], comparisons: Sequence[TranslatorComparison], *, figures: Path, n_sentences: int
) -> Page:
    """Return the page of translators side by side; its figures are written into the folder `figures`.

    Raises:
        MissingExtraError: matplotlib is not installed.
        RunError: a file cannot be written.
    """
    changed = Section("Sentences that changed most", _changed_sentences(runs, comparisons[0], n_sentences))
    curves = curves_of_runs(runs, figures, key="bleu", title="BLEU on validation pairs")
    return _page("Translators side by side", runs, comparisons, Paragraph(ABOUT_TESTS), curves, changed)


def classifier_comparison_page(
    runs: Mapping[str, Run], comparisons: Sequence[ClassifierComparison], *, figures: Path, n_texts: int
) -> Page:
    """Return the page of classifiers side by side; errors as for `translator_comparison_page`."""
    changed = Section("Texts that changed", _changed_texts(runs, comparisons[0], n_texts))
    names = next(iter(runs.values())).config.names
    title = f"{names.score_title[0].upper()}{names.score_title[1:]} on validation texts, %"
    curves = curves_of_runs(runs, figures, key=names.score, title=title)
    return _page("Classifiers side by side", runs, comparisons, Paragraph(ABOUT_LABEL_TEST), curves, changed)


def _page(
    subtitle: str,
    runs: Mapping[str, Run],
    comparisons: Sequence[Comparison],
    about: Paragraph,
    curves: Section,
    changed: Section,
) -> Page:
    first, *other_runs = runs
    sections = [
        Section("Scores", [*map(scores_table, comparisons), about]),
        *seeds_section(comparisons),
        settings_section(runs),
        curves,
        changed,
    ]
    return Page(f"{first} and {', '.join(other_runs)}", subtitle, sections, footer(runs[first]))


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


def seeds_section(comparisons: Sequence[Comparison]) -> list[Section]:
    """Means over the seeds of runs that differ in nothing else, and tests between groups; or nothing."""
    tables = [seeds_table(c.name, c.spreads) for c in comparisons if c.spreads]
    return [Section("Over seeds", [*tables, Paragraph(ABOUT_SEEDS)])] if tables else []


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


def _changed_sentences(runs: Mapping[str, Run], comparison: TranslatorComparison, n: int) -> list[Part]:
    """Return the largest gains and losses of each system against the first."""
    first = next(iter(runs))
    provenance = comparison.sets[first].provenance
    about = f"By chrF2 of the sentence, of {provenance}. Marked in a translation: "
    parts: list[Part] = [
        Paragraph((Span("same", about), Span("extra", "what the reference does not have"), Span("same", ".")))
    ]
    for system in list(runs)[1:]:
        for title, changes in zip(("better", "worse"), comparison.changed(system, n), strict=True):
            examples = [_change(runs, comparison, first, system, change) for change in changes]
            none = Paragraph("No sentence.")
            parts.append(Group(f"{system}: {title} than {first}", examples or [none]))
    return parts


def _change(
    runs: Mapping[str, Run], comparison: TranslatorComparison, first: str, system: str, change: Changed
) -> Example:
    """Return a sentence with its reference and both translations."""
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


def _changed_texts(runs: Mapping[str, Run], comparison: ClassifierComparison, n: int) -> list[Part]:
    """Return the texts of which only one of two runs finds the label."""
    first, *other_runs = runs
    parts: list[Part] = [Paragraph(f"Texts that only one of two labels rightly, of {comparison.provenance}.")]
    for system in other_runs:
        for title, indices in zip(("only", "not"), comparison.changed(system, n), strict=True):
            examples = [_changed_text(comparison, first, system, i) for i in indices]
            parts.append(Group(f"{title} {system} is right", examples or [Paragraph("No text.")]))
    return parts


def _changed_text(comparison: ClassifierComparison, first: str, system: str, i: int) -> Example:
    rows = [("text", comparison.texts[i], ""), ("label", comparison.expected[i] or NONE, "")]
    for name in (first, system):
        evaluation = comparison.evaluations[name]
        rows.append((name, f"{evaluation.found_names[i] or NONE} ({evaluation.confidence[i]:.0%})", ""))
    return Example(f"Text {i + 1}", rows)


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
