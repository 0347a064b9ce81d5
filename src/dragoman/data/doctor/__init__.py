"""The doctor: looks over a corpus before anybody learns from it.

`check_corpus` returns a `Report` of findings, each with its count, examples by line,
severity and remedy. Nothing is changed; `write_clean` writes a copy without the faulty lines, and
`write_best` a copy of the pairs with the best scores.
"""

from dragoman.data.doctor.checkup import check_corpus
from dragoman.data.doctor.clean import DROPPED, write_clean
from dragoman.data.doctor.findings import (
    KINDS,
    Finding,
    Report,
    Severity,
    kinds_to_drop,
    thresholds_of,
)
from dragoman.data.doctor.selection import Distribution, Scores, write_best

__all__ = [
    "DROPPED",
    "KINDS",
    "Distribution",
    "Finding",
    "Report",
    "Scores",
    "Severity",
    "check_corpus",
    "kinds_to_drop",
    "thresholds_of",
    "write_best",
    "write_clean",
]
