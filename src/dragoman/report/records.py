"""Write rows of figures as JSON, CSV or a LaTeX table."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence

from dragoman.evaluation.comparison import Record
from dragoman.report.comparison import p_text

LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%",
    "_": r"\_", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"{\char34}", "−": "$-$",
}  # fmt: skip
"""What LaTeX reads as something else, or does not print in every font."""


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


def as_latex(records: Sequence[Record]) -> str:
    """Return a tabular that needs no package: numbers with two digits, p-values with three."""
    columns = _columns(records)
    words = {c for c in columns if any(isinstance(record.get(c), str) for record in records)}
    lines = [
        f"\\begin{{tabular}}{{{''.join('l' if c in words else 'r' for c in columns)}}}",
        r"\hline",
        _line([column.replace("_", " ") for column in columns]),
        r"\hline",
        *(_line([_cell(column, record.get(column)) for column in columns]) for record in records),
        r"\hline",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _columns(records: Sequence[Record]) -> list[str]:
    """Return the names of all columns, in the order in which they come up."""
    return list(dict.fromkeys(column for record in records for column in record))


def _line(cells: Sequence[str]) -> str:
    return " & ".join(escape_latex(cell) for cell in cells) + r" \\"


def _cell(column: str, value: str | float | None) -> str:
    if isinstance(value, float):
        return p_text(value) if column.startswith("p_") else f"{round(value, 2) + 0.0:.2f}".replace("-", "−")
    return "" if value is None else str(value)


def escape_latex(text: str) -> str:
    """Text that LaTeX prints as it is, on one line."""
    escaped = "".join(LATEX.get(character, character) for character in " ".join(text.split()))
    return re.sub("-(?=-)", "-{}", escaped)  # two of them would be a dash
