"""The comparison page of translators: settings, scores with p-values, curves, changed sentences."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from dragoman.evaluation.classifier_comparison import ClassifierComparison
from dragoman.evaluation.comparison import (
    Changed,
    Comparison,
    Spread,
    differing_settings,
)
from dragoman.evaluation.sentences import word_diff
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
    "Groups of runs that differ only in the seed. p-values and intervals of differences are those of a "
    "hierarchical (two-level) paired bootstrap against the first group: each of 1,000 resamples draws "
    "sentences (Koehn 2004) and, within each group, seeds (Efron & Tibshirani 1993; n − 1 of n, McCarthy & "
    "Snowden 1985). With two or three seeds a group, the variance over seeds is known only roughly."
)


def comparison_page(
    runs: Mapping[str, Run], comparisons: Sequence[Comparison], *, figures: Path, n_sentences: int
) -> Page:
    """The page of translators side by side; its figures are written into the folder `figures`.

    MissingExtraError: matplotlib is not installed. RunError: something cannot be written.
    """
    first = next(iter(runs))
    sections = [
        Section("Scores", [*map(scores_table, comparisons), Paragraph(ABOUT_TESTS)]),
        *seeds_section(comparisons),
        settings_section(runs),
        curves_of_runs(runs, figures, key="bleu", title="BLEU on validation pairs"),
        Section("Sentences that changed most", _changed(runs, comparisons[0], n_sentences)),
    ]
    others = ", ".join(list(runs)[1:])
    return Page(f"{first} and {others}", "Translators side by side", sections, footer(runs[first]))


def scores_table(comparison: Comparison) -> Table:
    """Each system's scores with intervals, differences from the first, and both p-values."""
    rows = []
    for system, kept in comparison.sets.items():
        for i, score in enumerate(kept.evaluation.scores[:3]):
            base = next(iter(comparison.sets.values())).evaluation.scores[i]
            tested = [p[system][i].p_value for p in (comparison.bootstrap, comparison.randomisation)]
            interval = f"{score.interval[0]:.1f} – {score.interval[1]:.1f}" if score.interval else "–"
            changed = "" if tested[0] is None else signed(score.value - base.value)
            rows.append((system, score.name, f"{score.value:.1f}", interval, changed, *map(p_text, tested)))
    first = next(iter(comparison.sets.values()))
    tests = (next(iter(p.values()))[0].signature for p in (comparison.bootstrap, comparison.randomisation))
    signatures = [score.signature for score in first.evaluation.scores[:3]]
    caption = f"{first.provenance}; {'; '.join(signatures)}; p of BLEU: {'; p of BLEU: '.join(tests)}"
    heading = ("run", "score", "value", "95 % interval", "difference", "p, bootstrap", "p, randomisation")
    return Table(caption, heading, rows, n_words=2)


def seeds_section(comparisons: Sequence[Comparison] | Sequence[ClassifierComparison]) -> list[Section]:
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
        facts.append("p: hierarchical bootstrap over sentences and seeds, against the first group")
    heading = ("group", "score", "mean ± s.d.", "each", "difference", "95 % interval", "p, seeds")
    return Table("; ".join(facts), heading, rows, n_words=2)


def settings_section(runs: Mapping[str, Run]) -> Section:
    """The settings that differ."""
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
    """The validations of all runs in one figure."""
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


def _changed(runs: Mapping[str, Run], comparison: Comparison, n: int) -> list[Part]:
    """Gains and losses of each system against the first."""
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
    runs: Mapping[str, Run], comparison: Comparison, first: str, system: str, change: Changed
) -> Example:
    """A sentence with its reference and both translations."""
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


def signed(points: float) -> str:
    """A difference in points: +0.7, −1.6."""
    shown = f"{points:+.1f}"
    return "0.0" if float(shown) == 0 else shown.replace("-", "−")


def p_text(p_value: float | None) -> str:
    """A p-value in three digits; nothing for the first system."""
    if p_value is None:
        return ""
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"
