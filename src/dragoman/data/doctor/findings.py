"""What the doctor can find, and what it says about it: kinds, findings, reports."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from dragoman.errors import ConfigError

Severity = Literal["error", "warning", "suspicion", "information"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "suspicion", "information")


class Kind(NamedTuple):
    """A kind of fault. `dropped`: a clean copy leaves such lines out unless told otherwise."""

    name: str
    severity: Severity
    dropped: bool
    title: str
    remedy: str


_KINDS = (
    Kind(
        "unreadable", "error", False, "the corpus cannot be read to its end",
        "do what the message says; only what comes before was checked",
    ),
    Kind(
        "languages", "error", False, "a side is in another language than declared",
        "swap the two files, or correct --src-lang and --tgt-lang",
    ),
    Kind(
        "shifted", "error", True, "lines stand beside the wrong translation",
        "insert or delete the missing or surplus line where the stretch begins, and undo it where it ends",
    ),
    Kind(
        "unaligned", "error", False, "the sides do not belong together",
        "pairs are hardly more alike than any two lines: was one file sorted or shuffled?",
    ),
    Kind("empty", "error", True, "a side without text", "drop the pair, or complete it"),
    Kind(
        "identical", "error", True, "both sides are the same text",
        "drop or translate it: copies teach the model to copy",
    ),
    Kind("swapped", "error", True, "the sides have changed places", "put them back, or drop the pair"),
    Kind("script", "error", True, "a side in another script", "drop the pair, or translate that side"),
    Kind("language", "error", True, "a side in another language", "drop the pair, or translate that side"),
    Kind(
        "encoding", "error", True, "characters damaged by a wrong encoding",
        "export the text again as UTF-8; what is shown after the arrow can be recovered as it stands",
    ),
    Kind(
        "overlap", "error", True, "a text of valid or test is in train",
        "drop it from train: a score on known text says nothing",
    ),
    Kind(
        "conflict", "error", True, "the same text with several labels",
        "decide for one label, or drop all of them",
    ),
    Kind("duplicate", "warning", True, "a repetition of an earlier line", "keep the first one"),
    Kind(
        "duplicate-across", "warning", False, "a pair that another corpus of the recipe has as well",
        "drop it from one of them, or leave it if it is to count twice (--drop duplicate-across)",
    ),
    Kind(
        "length", "warning", True, "a side is far too long for the other",
        "look for joined or cut sentences; drop what is no translation",
    ),
    Kind(
        "markup", "warning", False, "HTML tags or entities",
        "unescape the entities and remove the tags, or drop the lines (--drop markup)",
    ),
    Kind(
        "overlap-near", "warning", False, "a text nearly like one of valid or test is in train",
        "drop it from train if the score shall be for unseen text (--drop overlap-near)",
    ),
    Kind(
        "unrelated", "suspicion", False, "the sides do not seem to be translations",
        "look at a sample; if most are wrong, drop them (--drop unrelated)",
    ),
    Kind("numbers", "suspicion", False, "the sides have different numbers", "correct the wrong side"),
    Kind("addresses", "suspicion", False, "the sides have different URLs or e-mail addresses", "correct it"),
    Kind(
        "identical-short", "information", False, "the same one or two words on both sides",
        "usually names; nothing to do",
    ),
    Kind(
        "several-targets", "information", False, "a source with several translations",
        "nothing to do; keep them on one side when splitting",
    ),
    Kind(
        "labels", "information", False, "examples of each label",
        "when one label is rare, weight the classes, and judge by macro-F1",
    ),
)  # fmt: skip
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _KINDS}
"""By name, in the order in which they are reported."""


class Example(NamedTuple):
    """A line with a fault: its number from 1, its text on each side, and what is wrong about it."""

    line: int
    texts: tuple[str, ...]
    detail: str


@dataclass(frozen=True)
class Finding:
    """What was found of one kind: how often, where, and some examples."""

    kind: Kind
    lines: np.ndarray
    """The numbers of the lines, from 1, rising; empty where a fault has no line."""
    count: int
    summary: tuple[str, ...] = ()
    """Facts about the whole, such as where a shift begins and ends."""
    examples: tuple[Example, ...] = ()

    def record(self) -> dict[str, Any]:
        """Return the finding for JSON."""
        return {
            "kind": self.kind.name,
            "severity": self.kind.severity,
            "title": self.kind.title,
            "count": self.count,
            "dropped_by_write_clean": self.kind.dropped,
            "remedy": self.kind.remedy,
            "summary": list(self.summary),
            "examples": [{"line": e.line, "texts": list(e.texts), "detail": e.detail} for e in self.examples],
        }


@dataclass(frozen=True)
class Report:
    """All findings about one corpus, errors first."""

    name: str
    n_lines: int
    unit: str
    """What is counted: "line" where lines are numbered as in the file, else "pair" or "example"."""
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = field(default=())
    """What could not be checked, and why."""

    def finding(self, kind: str) -> Finding | None:
        """Return the finding of that kind, if there is one."""
        return next((f for f in self.findings if f.kind.name == kind), None)

    def n_found(self, severity: Severity) -> int:
        """How often something of that severity was found."""
        return sum(f.count for f in self.findings if f.kind.severity == severity)

    @property
    def n_problems(self) -> int:
        """Everything found but information."""
        return sum(self.n_found(severity) for severity in SEVERITIES if severity != "information")

    def reasons(self, kinds: Collection[str]) -> dict[int, list[str]]:
        """Return the lines with a fault of these kinds, in order, each with the names of its kinds."""
        reasons: dict[int, list[str]] = {}
        for found in self.findings:
            if found.kind.name in kinds:
                for line in found.lines.tolist():
                    reasons.setdefault(line, []).append(found.kind.name)
        return dict(sorted(reasons.items()))

    def record(self) -> dict[str, Any]:
        """Return the report for JSON."""
        return {
            "corpus": self.name,
            "unit": self.unit,
            "n_checked": self.n_lines,
            "n_errors": self.n_found("error"),
            "n_warnings": self.n_found("warning"),
            "n_suspicions": self.n_found("suspicion"),
            "notes": list(self.notes),
            "findings": [found.record() for found in self.findings],
        }


def kinds_to_drop(*, drop: Collection[str] = (), keep: Collection[str] = ()) -> frozenset[str]:
    """Return the kinds that a clean copy leaves out: the usual ones, those in `drop`, but none in `keep`.

    ConfigError: a kind is unknown or has no lines.
    """
    without_lines = {"unreadable", "languages", "unaligned", "labels"}
    for name in (*drop, *keep):
        if name not in KINDS or name in without_lines:
            known = ", ".join(kind for kind in KINDS if kind not in without_lines)
            raise ConfigError(f"{name}: no kind of finding that lines can be dropped for; there are {known}")
    usual = {kind.name for kind in KINDS.values() if kind.dropped}
    return frozenset((usual | set(drop)) - set(keep))
