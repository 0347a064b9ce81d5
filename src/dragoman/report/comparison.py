"""Comparisons of runs: as a page, as JSON, and as a LaTeX table for a paper."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from dragoman.evaluation.comparison import Spread, differing_settings
from dragoman.metrics.score import Score
from dragoman.report.curves import Curves, plot_runs
from dragoman.report.page import Figure, Page, Paragraph, Section, Table
from dragoman.report.run import footer
from dragoman.runs import Run

Record: TypeAlias = dict[str, Any]
"""A row of figures by the names of its columns; a column that is left out, or None, is empty."""

ABOUT_SEEDS = (
    "Groups of runs that differ only in the seed, each against the first. A p-value is that of a permutation "
    "test over the runs, which cannot be small with few seeds (0.33 at best for two and two, 0.1 for three "
    "and three, 0.03 for four and four), or of resampled sentences and Student's t over seeds, if larger. "
    "The interval is the latter's."
)

P_VALUES = {"p_bootstrap": "p, bootstrap", "p_randomisation": "p, randomisation", "p_mcnemar": "p, McNemar"}
"""Headings of the p-values in the records of a comparison."""


ESCAPED = str.maketrans({
    **{character: f"\\{character}" for character in "{}$&#%_"},
    "\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", '"': r"{\char34}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
})  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Comparison(ABC):
    """One test set with the scores of every run; the others are compared with the first one."""

    subtitle: ClassVar[str]
    about_test: ClassVar[str]
    """What the p-values say, in sentences."""
    example: ClassVar[str]
    """What a validation text consists of: "pair" or "text"."""

    name: str
    """The name of the test set."""
    provenance: str
    """The test set, its size and files, in words."""
    scores: Mapping[str, Sequence[Score]]
    """By the names of the runs."""
    test: str
    """The test that compares a run with the first one, in words."""
    p_values: Mapping[str, Mapping[str, Sequence[float | None]]]
    """By test, as `records` names it, and by run: one for each score; None for the first run."""
    spreads: Sequence[Spread]
    """The scores of each group of runs that differ only in their seeds."""
    remarks: Sequence[str] = ()
    """More facts for the caption."""

    @abstractmethod
    def changed_examples(self, runs: Mapping[str, Run], n: int) -> Section:
        """Return the examples that changed most from the first run to each other one, `n` of each kind."""

    @property
    def caption(self) -> str:
        """The test set, its size and files, and the signatures of scores and tests, separated by "; "."""
        signatures = [score.signature for score in next(iter(self.scores.values()))]
        return "; ".join([self.provenance, *signatures, *self.remarks])

    def records(self) -> list[Record]:
        """Return each score of each run, then each score of each group of seeds, as numbers."""
        records: list[Record] = []
        first = next(iter(self.scores))
        for system, scores in self.scores.items():
            for i, score in enumerate(scores):
                low, high = score.interval or (None, None)
                difference = None if system == first else score.value - self.scores[first][i].value
                records.append(
                    {
                        "test_set": self.name,
                        "kind": "run",
                        "name": system,
                        "score": score.name,
                        "value": score.value,
                        "low": low,
                        "high": high,
                        "difference": difference,
                        **{test: by_run[system][i] for test, by_run in self.p_values.items()},
                    }
                )
        for spread in self.spreads:
            test = spread.test
            records.append(
                {
                    "test_set": self.name,
                    "kind": "group of seeds",
                    "name": spread.group,
                    "score": spread.name,
                    "value": spread.mean,
                    "standard_deviation": spread.deviation,
                    "seeds": len(spread.values),
                    "difference": test and test.difference,
                    "difference_low": test and test.interval[0],
                    "difference_high": test and test.interval[1],
                    "p_seeds": test and test.p_value,
                }
            )
        return records


def comparison_page(
    runs: Mapping[str, Run], comparisons: Sequence[Comparison], *, figures: Path, n_examples: int
) -> Page:
    """Return the page of runs side by side; its figures are written into the folder `figures`.

    Errors: those of `picture`.
    """
    first, *other_runs = runs
    main = comparisons[0]
    # Means over the seeds of runs that differ in nothing else, and tests between groups.
    seeds = [seeds_table(c.name, c.spreads) for c in comparisons if c.spreads]
    sections = [
        Section("Scores", [*map(scores_table, comparisons), Paragraph(main.about_test)]),
        *([Section("Over seeds", [*seeds, Paragraph(ABOUT_SEEDS)])] if seeds else []),
        settings_section(runs),
        curves_of_runs(runs, figures, example=main.example),
        main.changed_examples(runs, n_examples),
    ]
    return Page(f"{first} and {', '.join(other_runs)}", main.subtitle, sections, footer(runs[first]))


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


def curves_of_runs(runs: Mapping[str, Run], figures: Path, *, example: str) -> Section:
    """Return the validations of all runs in one figure; `example` is what they validate on, as "pair"."""
    names = next(iter(runs.values())).config.names
    key, title = names.score, f"{names.score_title} on validation {example}s{names.score_unit and ', %'}"
    title = title[0].upper() + title[1:]
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


def as_latex(comparisons: Sequence[Comparison]) -> str:
    """Return a table of booktabs: a row a run, a column a score of a test set; below, groups of seeds.

    The best of each column, as printed, is bold. A dagger marks a significant difference from the first row.
    """
    records = [record for comparison in comparisons for record in comparison.records()]
    columns = list(dict.fromkeys((record["test_set"], record["score"]) for record in records))
    scores = [rf"{escape_latex(s)} $\{'down' if s == 'TER' else 'up'}arrow$" for _, s in columns]
    blocks = [[["", *(escape_latex(test_set) for test_set, _ in columns)], ["", *scores]]]
    for kind in dict.fromkeys(record["kind"] for record in records):
        rows: dict[str, dict[tuple[str, str], Record]] = {}
        for record in (record for record in records if record["kind"] == kind):
            printed = round(float(record["value"]), 1) + 0.0  # no negative zero
            cell = record | {"value": printed}
            rows.setdefault(record["name"], {})[record["test_set"], record["score"]] = cell
        blocks.append([])
        for name, row in rows.items():
            cells = [escape_latex(name)]
            for column in columns:
                values = [other[column]["value"] for other in rows.values() if column in other]
                best = (min if column[1] == "TER" else max)(values, default=None)
                cells.append(_cell(row[column], best) if column in row else "--")
            blocks[-1].append(cells)
    body = "\n\\midrule\n".join("\n".join(" & ".join(row) + r" \\" for row in block) for block in blocks)
    tests = comparisons[0].test + "; groups of seeds: permutation of runs" * bool(comparisons[0].spreads)
    caption = rf"Best in bold. $^\dagger$ differs from the first row with $p < 0.05$ ({tests})."
    return "\n".join([
        r"% \usepackage{booktabs}", r"\begin{table}", r"\centering",
        rf"\begin{{tabular}}{{l{'r' * len(columns)}}}", r"\toprule", body, r"\bottomrule", r"\end{tabular}",
        rf"\caption{{{caption}}}", r"\label{tab:comparison}", r"\end{table}",
        *(f"% {' '.join(comparison.caption.split())}" for comparison in comparisons), "",
    ])  # fmt: skip


def _cell(record: Record, best: float | None) -> str:
    value, deviation = record["value"], record.get("standard_deviation")
    shown = rf"\mathbf{{{value:.1f}}}" if value == best else f"{value:.1f}"
    p_values = [record.get(name) for name in ("p_bootstrap", "p_mcnemar", "p_seeds")]
    mark = r"^\dagger" if any(p is not None and p < 0.05 for p in p_values) else ""
    return f"${shown}{mark}$" + ("" if deviation is None else rf" $\pm$ {deviation:.1f}")


def escape_latex(text: str) -> str:
    """Text that LaTeX prints as it is, on one line."""
    return " ".join(text.split()).translate(ESCAPED)
