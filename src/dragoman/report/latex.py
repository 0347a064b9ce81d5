"""Comparisons as a LaTeX table for a paper: a row for each run, a column for each score of each test set."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dragoman.evaluation.comparison import Comparison, Record

SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%",
    "_": r"\_", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"{\char34}", "−": "$-$",
    "→": r"$\rightarrow$", "×": r"$\times$",
}  # fmt: skip
"""What LaTeX reads as something else, or does not print in every font."""

LEVEL = 0.05
"""p-values below this one get a mark."""
ALLOW_BREAK = r"\allowbreak{}"
MARK = r"$^{\dagger}$"

Column = tuple[str, str]
"""The names of a test set and a score."""
Row = tuple[str, dict[Column, Record]]


def as_latex(comparisons: Sequence[Comparison]) -> str:
    """Return a table of booktabs with the scores of all runs, and below them those of groups of seeds.

    The best of each column is bold. A mark says that a difference from the first row is significant.
    """
    records = [record for comparison in comparisons for record in comparison.records()]
    columns = list(dict.fromkeys((str(r["test_set"]), str(r["score"])) for r in records))
    blocks = [rows for kind in ("run", "group of seeds") if (rows := _rows(records, kind))]
    body: list[str] = []
    for rows in blocks:
        body += [r"\midrule", *_lines(rows, columns)]
    return "\n".join(
        [
            r"% \usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            rf"\begin{{tabular}}{{l{'r' * len(columns)}}}",
            r"\toprule",
            *_heading(columns),
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            rf"\caption{{{_caption(comparisons, blocks)}}}",
            r"\label{tab:comparison}",
            r"\end{table}",
            *_comments(comparisons),
            "",
        ]
    )


def _rows(records: Sequence[Record], kind: str) -> list[Row]:
    """Return the records of a kind by their names, and by test set and score."""
    rows: dict[str, dict[Column, Record]] = {}
    for record in records:
        if record["kind"] == kind:
            rows.setdefault(str(record["name"]), {})[str(record["test_set"]), str(record["score"])] = record
    return list(rows.items())


def _heading(columns: Sequence[Column]) -> list[str]:
    """Return a line of test sets with a rule below each, and a line of scores."""
    tests = list(dict.fromkeys(test for test, _ in columns))
    names, rules, first = [""], [], 2
    for test in tests:
        n = sum(1 for other, _ in columns if other == test)
        names.append(rf"\multicolumn{{{n}}}{{c}}{{{escape_latex(test)}}}")
        rules.append(rf"\cmidrule(lr){{{first}-{first + n - 1}}}")
        first += n
    scores = ["", *(f"{escape_latex(score)} ${_direction(score)}$" for _, score in columns)]
    return [_line(names), " ".join(rules), _line(scores)]


def _direction(score: str) -> str:
    return r"\downarrow" if _is_lower_better(score) else r"\uparrow"


def _is_lower_better(score: str) -> bool:
    return score == "TER"


def _lines(rows: Sequence[Row], columns: Sequence[Column]) -> list[str]:
    """Return the lines of a block; the best of each column, as printed, is bold."""
    best = {}
    for column in columns:
        shown = [round(float(cells[column]["value"]), 1) for _, cells in rows if column in cells]
        if len(shown) > 1:
            best[column] = (min if _is_lower_better(column[1]) else max)(shown)
    return [
        _line([escape_latex(name), *(_cell(cells.get(column), best.get(column)) for column in columns)])
        for name, cells in rows
    ]


def _cell(record: Record | None, best: float | None) -> str:
    if record is None:
        return "--"
    value = round(float(record["value"]), 1) + 0.0
    shown = f"{value:.1f}".replace("-", "$-$")
    shown = rf"\textbf{{{shown}}}" if value == best else shown
    if (deviation := record.get("standard_deviation")) is not None:
        shown += rf" $\pm$ {deviation:.1f}"
    return shown + (MARK if _is_significant(record) else "")


def _is_significant(record: Record) -> bool:
    """Whether the test of a record's difference from the first row has a p-value below `LEVEL`."""
    values = (record.get(name) for name in ("p_bootstrap", "p_mcnemar", "p_seeds"))
    return any(p is not None and float(p) < LEVEL for p in values)


def _caption(comparisons: Sequence[Comparison], blocks: Sequence[Sequence[Row]]) -> str:
    """Say what is bold and what is marked, by which test, and give the signature of each score."""
    first = [escape_latex(rows[0][0]) for rows in blocks]
    parts = [f"Best in bold. {_marked(first[0], comparisons[0].test)}"]
    if len(blocks) > 1:
        parts.append("Below, mean $\\pm$ standard deviation over seeds")
        if len(blocks[1]) > 1:
            parts[-1] += f"; {_marked(first[1], 'hierarchical bootstrap over sentences and seeds')}"
    signatures: dict[str, dict[str, None]] = {}
    for comparison in comparisons:
        for name, signature in comparison.signatures.items():
            signatures.setdefault(name, {})[_breakable(signature)] = None
    parts += [f"{escape_latex(name)}: {', '.join(those)}" for name, those in signatures.items()]
    return ". ".join(parts) + "."


def _marked(first: str, test: str) -> str:
    return f"{MARK} differs from {first} with $p < {LEVEL}$ ({test})"


def _breakable(signature: str) -> str:
    """Return a signature that LaTeX may break after each part."""
    parts = map(escape_latex, re.split(r"(?<=\|)", signature))
    return rf"\texttt{{{ALLOW_BREAK.join(parts)}}}"


def _comments(comparisons: Sequence[Comparison]) -> list[str]:
    """Return what the figures of each test set were computed on, and how, as comments."""
    facts = ((c.signatures.values(), fact) for c in comparisons for fact in c.caption.split("; "))
    return [f"% {' '.join(fact.split())}" for signatures, fact in facts if fact not in signatures]


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def escape_latex(text: str) -> str:
    """Text that LaTeX prints as it is, on one line."""
    escaped = "".join(SPECIAL.get(character, character) for character in " ".join(text.split()))
    return re.sub("-(?=-)", "-{}", escaped)  # two of them would be a dash
