"""Scores of a run, stored in its scores.json."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dragoman.files import locked
from dragoman.metrics.score import Score
from dragoman.runs import SCORES, Run, saved_scores

__all__ = ["SCORES", "keep_scores", "read_score", "saved_scores", "score_record"]


def score_record(score: Score) -> dict[str, Any]:
    """A score as JSON has it."""
    return {
        "name": score.name,
        "value": score.value,
        "interval": None if score.interval is None else list(score.interval),
        "signature": score.signature,
    }


def read_score(record: dict[str, Any]) -> Score:
    """Return the score in a record of `score_record`. KeyError, TypeError: the record is malformed."""
    interval = record["interval"]
    low_high = None if interval is None else (float(interval[0]), float(interval[1]))
    return Score(record["name"], float(record["value"]), record["signature"], low_high)


def keep_scores(run: Run, records: Sequence[dict[str, Any]]) -> None:
    """Adds the scores to the run's scores.json, in place of older ones of the same test and search."""
    with locked(run.path / ".scores.lock", what=run.path / SCORES, wait=60):
        kept = [old for old in saved_scores(run) if all(_key(old) != _key(record) for record in records)]
        run.write_json(SCORES, {"results": [*kept, *records]})


def _key(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(record.get(name) for name in ("name", "beam_size", "length_penalty", "search"))
