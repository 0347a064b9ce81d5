"""Write rows of figures as JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence

from dragoman.evaluation.comparison import Record


def as_json(records: Sequence[Record]) -> str:
    """Return a list of objects that all have the same keys; null is an empty cell."""
    columns = _columns(records)
    rows = [{column: record.get(column) for column in columns} for record in records]
    return json.dumps(rows, ensure_ascii=False, indent=1) + "\n"


def as_csv(records: Sequence[Record]) -> str:
    """Return a line of names, then a line for each record; numbers in full."""
    written = io.StringIO()
    writer = csv.DictWriter(written, _columns(records), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return written.getvalue()


def _columns(records: Sequence[Record]) -> list[str]:
    """Return the names of all columns, in the order in which they come up."""
    return list(dict.fromkeys(column for record in records for column in record))
