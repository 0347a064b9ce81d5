"""Scores of a run: stored in its scores.json, and as text."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from dragoman.errors import RunError
from dragoman.files import locked
from dragoman.metrics.score import Score, interval_text
from dragoman.runs import SCORES, Run, saved_scores

FOLDER = "report"
"""Where in a run the translations and the scores of single sentences are kept."""

Kept = TypeVar("Kept", bound="KeptRecord")


def keep_scores(run: Run, records: Sequence[dict[str, Any]]) -> None:
    """Add the scores to the run's scores.json, in place of older ones of the same test and search.

    Texts of other files, which may have the same name, are told apart by the field "text". Nothing is kept of
    a run of the hub.
    """
    if run.origin is not None:
        return
    with locked(run.path / ".scores.lock", what=run.path / SCORES, wait=60):
        kept = [old for old in saved_scores(run) if all(_key(old) != _key(record) for record in records)]
        run.write_json(SCORES, {"results": [*kept, *records]})


class KeptRecord(BaseModel):
    """What a file of a run's folder `report/` holds."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    fingerprint: str
    """A hash of all that the other fields depend on."""

    @classmethod
    def read(cls: type[Kept], run: Run, place: str, fingerprint: str) -> Kept | None:
        """Return what is kept in a file, if it is whole and of this fingerprint."""
        path = run.path / FOLDER / place
        try:
            kept = cls.model_validate_json(path.read_bytes()) if path.is_file() else None
        except (OSError, ValueError):
            return None
        return kept if kept and kept.fingerprint == fingerprint else None

    def write(self, run: Run, place: str, say: Callable[[str], Any]) -> None:
        """Write it into a file, unless the run is one of the hub. If it cannot be, say why."""
        if run.origin is not None:
            return
        folder = run.path / FOLDER
        try:
            folder.mkdir(exist_ok=True)
            run.write_json(f"{FOLDER}/{place}", self.model_dump(mode="json"))
        except OSError as error:
            say(f"not kept: {folder}: cannot be made ({error.strerror}); make room for a folder")
        except RunError as error:
            say(f"not kept: {error}")


def _key(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(record.get(name) for name in ("name", "text", "beam_size", "length_penalty", "search"))


def scores_table(scores: Sequence[Score]) -> str:
    """Return a line for each score: name, value, 95 % interval, signature."""
    rows = [("", "score", "95 % interval", "signature")]
    for score in scores:
        rows.append((score.name, f"{score.value:.1f}", interval_text(score.interval), score.signature))
    return "\n".join(f"  {line}" for line in aligned(rows, text_columns=(0, 3)))


def aligned(rows: Sequence[Sequence[str]], *, text_columns: Container[int] = (0,)) -> Iterator[str]:
    """Yield rows of cells as lines: `text_columns`, by number, to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if i in text_columns else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def describe_record(record: Mapping[str, Any]) -> str:
    """Return one line about an entry of scores.json. KeyError, TypeError: it is damaged."""
    parts = [record["name"], *(f"{score['name']} {score['value']:.1f}" for score in record["scores"])]
    if baseline := record.get("baseline"):
        parts.append(f"baseline {baseline['scores'][0]['value']:.1f}")
    if "ece" in record:
        parts.append(f"ECE {record['ece']:.1f}")
    if "beam_size" in record:
        parts.append(f"beam {record['beam_size']}{describe_settings(record.get('search', {}))}")
    unit = "texts" if "n_texts" in record else "sentences"
    return " · ".join([*parts, f"{record[f'n_{unit}']:,} {unit}"])


def describe_settings(settings: Mapping[str, Any]) -> str:
    """Return settings as the end of a heading."""
    values = {k: " + ".join(v) if isinstance(v, list) else str(v) for k, v in settings.items()}
    return "".join(f" · {key.replace('_', ' ')} {value}" for key, value in values.items())
