"""The page of `data check --report`: what each filter and each threshold finds, with samples."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from dragoman.data.doctor.findings import KINDS, FaultyLine, Kind, Report
from dragoman.errors import printable
from dragoman.report.page import Notice, Page, Paragraph, Part, Section, Span, Table, Text

LONGEST = 400
"""Maximum characters shown of a text."""

MAX_EXAMPLES = 20
"""Maximum examples shown of a kind."""


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
