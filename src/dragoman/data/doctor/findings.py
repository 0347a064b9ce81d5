"""What the doctor can find, and what is said about it: kinds, findings, reports."""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, repeat
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import numpy as np

from dragoman.errors import ConfigError

Severity = Literal["error", "warning", "suspicion", "information"]
_ROUNDING = 1e-9


class Threshold(NamedTuple):
    """From which value on a pair has a fault: `usual`, or another one from `low` to `high`."""

    what: str
    usual: float
    low: float
    high: float
    is_upper: bool = False
    """Whether smaller values are faults, not larger ones."""

    def exceeded(self, values: np.ndarray, threshold: float) -> np.ndarray:
        """Return whether each value is a fault."""
        return values < threshold - _ROUNDING if self.is_upper else values >= threshold - _ROUNDING


class Kind(NamedTuple):
    """A kind of fault. `dropped`: a clean copy leaves such lines out unless told otherwise."""

    name: str
    severity: Severity
    dropped: bool
    title: str
    remedy: str
    threshold: Threshold | None = None


_KINDS = (
    Kind("unreadable", "error", False, "the corpus cannot be read to its end",
         "do what the message says; only what comes before was checked"),
    Kind("languages", "error", False, "a side is in another language than declared",
         "swap the two files, or correct --src-lang and --tgt-lang"),
    Kind("shifted", "error", True, "lines stand beside the wrong translation",
         "insert or delete the missing or surplus line where the stretch begins, and undo it where it ends"),
    Kind("unaligned", "error", False, "the sides do not belong together",
         "pairs are hardly more alike than any two lines: was one file sorted or shuffled?"),
    Kind("empty", "error", True, "a side without text", "drop the pair, or complete it"),
    Kind("identical", "error", True, "both sides are the same text",
         "drop or translate it: copies teach the model to copy"),
    Kind("swapped", "error", True, "the sides have changed places", "put them back, or drop the pair"),
    Kind("script", "error", True, "a side in another script", "drop the pair, or translate that side"),
    Kind("language", "error", True, "a side in another language", "drop the pair, or translate that side"),
    Kind("encoding", "error", True, "characters damaged by a wrong encoding",
         "export the text again as UTF-8; what is shown after the arrow can be recovered as it stands"),
    Kind("scripts", "error", True, "a word with letters of two scripts",
         "write it in one: a Cyrillic letter that looks like a Latin one makes another word"),
    Kind("overlap", "error", True, "a text of valid or test is in train",
         "drop it from train: a score on known text says nothing"),
    Kind("conflict", "error", True, "the same text with several labels",
         "decide for one label, or drop all of them"),
    Kind("duplicate", "warning", True, "a repetition of an earlier line", "keep the first one"),
    Kind("duplicate-near", "warning", False, "an earlier line but for case, punctuation and digits",
         "look at a sample; drop them where they add nothing (--drop duplicate-near)"),
    Kind("characters", "warning", False, "Chinese in the rarer kind of characters, simplified or traditional",
         "convert it (OpenCC does): a source does not say which of the two is wanted"),
    Kind("length", "warning", True, "a side is far too long for the other",
         "look for joined or cut sentences; drop what is no translation",
         Threshold("robust standard deviations from the usual ratio of lengths", 4.0, 2.0, 20.0)),
    Kind("markup", "warning", False, "HTML tags or entities",
         "unescape the entities and remove the tags, or drop the lines (--drop markup)"),
    Kind("overlap-near", "warning", False, "a text nearly like one of valid or test is in train",
         "drop it from train if the score shall be for unseen text (--drop overlap-near)",
         Threshold("Jaccard similarity of character sequences", 0.8, 0.8, 1.0)),
    Kind("unrelated", "suspicion", False, "the sides do not seem to be translations",
         "look at a sample; if most are wrong, drop them (--drop unrelated)",
         Threshold("probability that the sides are translations", 0.5, 0.0, 1.0, is_upper=True)),
    Kind("numbers", "suspicion", False, "the sides have different numbers", "correct the wrong side"),
    Kind("addresses", "suspicion", False, "the sides have different URLs or e-mail addresses", "correct it"),
    Kind("identical-short", "information", False, "the same one or two words on both sides",
         "usually names; nothing to do"),
    Kind("labels", "information", False, "examples of each label",
         "when one label is rare, weight the classes, and judge by macro-F1"),
)  # fmt: skip
WITHOUT_LINES = frozenset({"unreadable", "languages", "unaligned", "labels"})
"""Kinds of faults of the whole."""
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _KINDS}
"""By name, in the order in which they are reported."""
THRESHOLDS = {name: kind.threshold for name, kind in KINDS.items() if kind.threshold}


class FaultyLine(NamedTuple):
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
    examples: tuple[FaultyLine, ...] = ()

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
    notes: tuple[str, ...] = ()
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
        return sum(f.count for f in self.findings if f.kind.severity != "information")

    def lines(self, kinds: Collection[str]) -> np.ndarray:
        """Return the lines with a fault of these kinds, rising."""
        lines = [finding.lines for finding in self.findings if finding.kind.name in kinds]
        return np.unique(np.concatenate(lines)) if lines else np.zeros(0, dtype=np.int64)

    def reasons(self, kinds: Collection[str]) -> Iterator[tuple[int, list[str]]]:
        """Yield the lines with a fault of these kinds, rising, each with the names of its kinds."""
        numbered = [
            zip(one.lines.data, repeat(one.kind.name)) for one in self.findings if one.kind.name in kinds
        ]
        for line, reasons in groupby(heapq.merge(*numbered, key=itemgetter(0)), key=itemgetter(0)):
            yield line, [name for _, name in reasons]

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
            "findings": [finding.record() for finding in self.findings],
        }


def kinds_to_drop(*, drop: Collection[str] = (), keep: Collection[str] = ()) -> frozenset[str]:
    """Return the kinds that a clean copy leaves out: the usual ones, those in `drop`, but none in `keep`.

    ConfigError: a kind is unknown or has no lines.
    """
    for name in (*drop, *keep):
        if name not in KINDS or name in WITHOUT_LINES:
            names = ", ".join(kind for kind in KINDS if kind not in WITHOUT_LINES)
            raise ConfigError(f"{name}: no kind of finding that lines can be dropped for; there are {names}")
    usual = {kind.name for kind in KINDS.values() if kind.dropped}
    return frozenset((usual | set(drop)) - set(keep))


def thresholds_of(chosen: Iterable[str]) -> dict[str, float]:
    """Return the threshold of each kind that has one: its usual one, or that of `chosen`, as in "length=6".

    ConfigError: a kind has no threshold, or the value is out of its range.
    """
    values = {name: threshold.usual for name, threshold in THRESHOLDS.items()}
    for text in chosen:
        name, _, value = text.partition("=")
        if name not in THRESHOLDS:
            raise ConfigError(f"{text}: no threshold; give one of {', '.join(THRESHOLDS)}, as in length=6")
        what, _, low, high, _ = THRESHOLDS[name]
        try:
            values[name] = float(value)
        except ValueError:
            values[name] = math.nan
        if not low <= values[name] <= high:
            raise ConfigError(f"{text}: give a number from {low:g} to {high:g} ({what})")
    return values
