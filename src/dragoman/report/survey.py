"""What the doctor finds: the page of `data check --report`, and the picture of the scores of a corpus."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from dragoman.data.doctor.findings import KINDS, FaultyLine, Kind, Report
from dragoman.data.doctor.selection import TAIL, Distribution
from dragoman.errors import DataError, printable
from dragoman.report.page import Notice, Page, Paragraph, Part, Section, Span, Table, Text
from dragoman.report.picture import BLUE, ORANGE, finish_axes, picture

LONGEST = 400
"""Maximum characters shown of a text."""

MAX_EXAMPLES = 20
"""Maximum examples shown of a kind."""

N_BARS = 80
"""Of the histogram of scores."""


def survey_page(report: Report, *, dropped: Collection[str], thresholds: Mapping[str, float]) -> Page:
    """Return the page of a report on parallel text, checked with a survey.

    `dropped` are the kinds that a clean copy would leave out, `thresholds` those of the check.
    """
    names = {one.kind.name for one in report.findings}
    kinds = [kind for name, kind in KINDS.items() if name in names or report.survey.get(name)]
    n_dropped = len(report.lines(dropped))
    parts: list[Part] = [Notice(printable(note)) for note in report.notes]
    parts += [
        Paragraph(
            f"{n_dropped:,} of {report.n_lines:,} {report.unit}s would be dropped "
            f"({100 * n_dropped / report.n_lines:.1f} %), {report.n_lines - n_dropped:,} kept. "
            "--drop KIND, --keep KIND and --threshold KIND=VALUE change that."
        ),
        Table(
            f"A {report.unit} may have several faults",
            ("kind", "fault", "severity", "dropped", f"{report.unit}s"),
            [
                (
                    kind.name,
                    kind.title,
                    kind.severity,
                    "yes" if kind.name in dropped else "no",
                    f"{_count(report, kind):,}",
                )
                for kind in kinds
            ],
            n_words=4,
        ),
    ]
    return Page(
        "What each filter would drop",
        f"{printable(report.name)} · {report.n_lines:,} {report.unit}s",
        [Section("Filters", parts), *(_section(report, kind, thresholds) for kind in kinds)],
        footer="Nothing has been dropped. --write-clean DIR writes a clean copy.",
    )


def _section(report: Report, kind: Kind, thresholds: Mapping[str, float]) -> Section:
    """Return a kind's count, facts about the whole, and samples: of each threshold, or of what was found."""
    finding, steps = report.finding(kind.name), report.survey.get(kind.name)
    title = f"{kind.title[0].upper()}{kind.title[1:]}"
    parts: list[Part] = [
        Paragraph(f"{title}: {_count(report, kind):,} found ({kind.severity}). What to do: {kind.remedy}.")
    ]
    if finding is not None:
        parts += [Paragraph(printable(fact)) for fact in finding.summary]
    if steps and kind.threshold is not None:
        rows: list[Sequence[Text]] = []
        for step in steps:
            name = f"{'below' if kind.threshold.is_upper else 'from'} {step.threshold:g}"
            is_set = step.threshold == thresholds[kind.name]
            first: Text = [Span("strong", f"{name} (set)")] if is_set else name
            sample = step.example
            counts = f"{step.n_found:,}", f"{sample.line:,}", f"{step.value:.3g}"
            rows.append((first, *counts, *_texts(sample)))
        about = f"{kind.threshold.what}; each row has a pair that the next stricter threshold does not find"
        heading = ("threshold", f"{report.unit}s found", report.unit, "value", "source", "target")
        parts.append(Table(about, heading, rows, n_figures=3))
    elif finding is not None and finding.examples:
        rows = [
            (f"{one.line:,}", printable(one.detail), *_texts(one)) for one in finding.examples[:MAX_EXAMPLES]
        ]
        parts.append(Table("Examples", (report.unit, "fault", "source", "target"), rows, n_words=4))
    return Section(kind.name, parts)


def _count(report: Report, kind: Kind) -> int:
    finding = report.finding(kind.name)
    return finding.count if finding else 0


def _texts(example: FaultyLine) -> list[str]:
    """Return both sides, each LONGEST characters at most."""
    texts = map(printable, example.texts)
    return [text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…" for text in texts]


def draw_scores(distribution: Distribution, path: Path, *, threshold: float | None) -> None:
    """Draw the histogram of scores between the outliers, and the share that each threshold keeps.

    Errors: those of `picture`. DataError: no pair has a score.
    """
    scores = distribution.known
    if not len(scores):
        raise DataError(f"{path}: no pair has a score; there is nothing to draw")
    low, high = (float(scores[round(share * (len(scores) - 1))]) for share in (TAIL, 1 - TAIL))
    edges = np.linspace(low, high if high > low else low + 1, N_BARS + 1)
    starts = np.searchsorted(scores, edges)
    kept = 100 * (len(scores) - starts) / distribution.n_pairs
    with picture(path, size=(7.0, 3.4), purpose="drawing scores") as figure:
        bars = figure.subplots()
        bars.stairs(np.diff(starts), edges, fill=True, color=BLUE, alpha=0.7)
        bars.set_ylabel("pairs")
        shares = bars.twinx()
        shares.plot(edges, kept, color=ORANGE)
        shares.set_ylabel("kept, %", color=ORANGE)
        shares.set_ylim(0, 100)
        if threshold is not None:
            bars.axvline(threshold, color="black", linewidth=1, linestyle="--")
        bars.set_title(f"{len(scores):,} scores; the line: the share of pairs that a threshold keeps")
        finish_axes(bars, label="score")
        bars.set_xlim(float(edges[0]), float(edges[-1]))
