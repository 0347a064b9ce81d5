"""A page of what each filter of `data check` would drop: thresholds to move, pairs near them, the command.

One file that loads nothing. Unlike other pages it computes: how many pairs any choice would drop is counted
from the combinations of faults that a `Survey` holds.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from dragoman.data.doctor.findings import KINDS, WITHOUT_LINES, Example, Kind, Report
from dragoman.errors import printable
from dragoman.report.page import source_hash, template_text

LONGEST = 400
"""Characters of a text that are shown at most."""


def survey_html(
    report: Report, *, dropped: Collection[str], thresholds: Mapping[str, float], command: str
) -> bytes:
    """Return the page of a report with a survey.

    `dropped` are the kinds that are dropped at first, `thresholds` those set at first; `command` checks the
    corpus, without options for either.
    """
    style, script = template_text("page.css") + template_text("survey.css"), template_text("survey.js")
    content = {
        "TITLE": html.escape(f"{printable(report.name)} · {report.n_lines:,} {report.unit}s"),
        "STYLE_HASH": source_hash(style),
        "SCRIPT_HASH": source_hash(script),
        "STYLE": style,
        "DATA": json.dumps(_data(report, dropped, thresholds, command)).replace("<", "\\u003c"),
        "SCRIPT": script,
    }
    page = re.sub("@([A-Z_]+)@", lambda found: content[found[1]], template_text("survey.html"))
    return page.encode(errors="replace")


def _data(
    report: Report, dropped: Collection[str], thresholds: Mapping[str, float], command: str
) -> dict[str, Any]:
    assert report.survey is not None
    samples: dict[str, list[dict[str, Any]]] = {found.kind.name: [] for found in report.findings}
    for one in report.survey.samples:
        shown = {**_shown(one.example), "value": one.value, "grade": one.grade}
        samples.setdefault(one.kind, []).append(shown)
    kinds = [
        _kind(kind, samples[name], name in dropped, thresholds)
        for name, kind in KINDS.items()
        if name in samples and name not in WITHOUT_LINES
    ]
    return {
        "unit": report.unit,
        "n": report.n_lines,
        "command": command,
        "kinds": kinds,
        "combinations": report.survey.combinations,
    }


def _kind(
    kind: Kind, samples: list[dict[str, Any]], drops: bool, thresholds: Mapping[str, float]
) -> dict[str, Any]:
    shown = {
        "name": kind.name,
        "severity": kind.severity,
        "title": kind.title,
        "remedy": kind.remedy,
        "usually_dropped": kind.dropped,
        "drops": drops,
        "samples": samples,
    }
    if kind.threshold is None:
        return shown
    threshold = kind.threshold
    n_steps, step = ((x - threshold.low) / threshold.step for x in (threshold.high, thresholds[kind.name]))
    return shown | {
        "threshold": threshold._asdict() | {"n_steps": round(n_steps), "step_now": round(step)},
    }


def _shown(example: Example) -> dict[str, Any]:
    texts = [text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…" for text in example.texts]
    return {"line": example.line, "texts": list(map(printable, texts)), "detail": printable(example.detail)}
