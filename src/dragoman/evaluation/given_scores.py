"""Scores of other tools: read from files with one number per line, and kept in a run's folder `report/`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

from dragoman.data.doctor.selection import read_scores
from dragoman.data.readers.files import find_file, hash_strings
from dragoman.errors import ConfigError, DataError, RunError, printable
from dragoman.evaluation.scores import KeptRecord
from dragoman.evaluation.translation import Evaluation
from dragoman.metrics.translation import SentenceScores
from dragoman.runs import Run

OWN_NAMES = ("bleu", "chrf", "chrf2", "ter")
NAME = re.compile(r"[\w.+@-]{1,40}")


def read_given_scores(options: Sequence[str], sizes: Mapping[str, int]) -> dict[str, list[SentenceScores]]:
    """Read the files of `options`, each NAME=FILE, and return their scores by test set.

    `sizes` has the number of sentences of each test set. A name is given once for each of them, in order.

    Raises:
        ConfigError: an option is malformed, its name is one of Dragoman's metrics, or files are missing.
        DataError: a file cannot be read, a line is not a number, or their count is not that of the sentences.
    """
    files: dict[str, list[str]] = {}
    for option in options:
        name, _, file = option.partition("=")
        if not NAME.fullmatch(name) or not file:
            raise ConfigError(
                f"--scores {option}: write NAME=FILE, as in comet=comet.txt; a name has up to 40 letters, "
                "digits and . _ + @ -"
            )
        if name.lower() in OWN_NAMES:
            raise ConfigError(f"--scores {option}: Dragoman computes {name} itself; choose another name")
        files.setdefault(name, []).append(file)
    for name, named in files.items():
        if len(named) != len(sizes):
            raise ConfigError(
                f"--scores {name}: number of files {len(named)}, of test sets {len(sizes)}; give {name}=FILE "
                f"once for each test set, in this order: {', '.join(sizes)}"
            )
    return {
        test: [_read(name, named[i], test, n_sentences) for name, named in files.items()]
        for i, (test, n_sentences) in enumerate(sizes.items())
    }


def _read(name: str, file: str, test: str, n_sentences: int) -> SentenceScores:
    values = tuple(read_scores(find_file(file)))
    if len(values) != n_sentences:
        raise DataError(
            f"{file} has {len(values):,} lines and {test} {n_sentences:,} sentences; "
            "give one number for each sentence, in order"
        )
    for number, value in enumerate(values, start=1):
        if math.isnan(value):
            raise DataError(f"{file} line {number}: has no number; every sentence needs one")
    return SentenceScores(name, values)


class _KeptScores(KeptRecord):
    scores: tuple[SentenceScores, ...]
    """In runs of version 0.2 also those of COMET and BERTScore that it computed itself, times 100."""


def with_given_scores(
    run: Run,
    sources: Sequence[str],
    evaluation: Evaluation,
    new_scores: Sequence[SentenceScores] = (),
    listen: Callable[[str], None] = lambda message: None,
) -> Evaluation:
    """Return the evaluation with `new_scores`, and those kept for the same translations before.

    New scores are kept in the run, in place of those of the same name; `listen` is told if they cannot be.
    """
    fingerprint = hash_strings(*sources, "\0", *evaluation.hypotheses, "\0", *evaluation.references)
    place = f"scores-{fingerprint[:16]}.json"
    record = _KeptScores.read(run, place, fingerprint)
    scores = {one.name: one for one in record.scores} if record else {}
    if not all(name == printable(name) and len(one.values) == len(sources) for name, one in scores.items()):
        scores = {}  # damaged
    scores |= {one.name: one for one in new_scores}
    if new_scores:
        try:
            _KeptScores(fingerprint=fingerprint, scores=tuple(scores.values())).write(run, place)
        except RunError as error:
            listen(f"not kept: {error}")
    return evaluation.with_given([scores[name] for name in sorted(scores)])
