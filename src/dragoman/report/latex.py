"""Comparisons as a LaTeX table for a paper: a row for each run, a column for each score of each test set."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.report.comparison import Comparison, Record

ESCAPED = str.maketrans({
    **{character: f"\\{character}" for character in "{}$&#%_"},
    "\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", '"': r"{\char34}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
})  # fmt: skip


def as_latex(comparisons: Sequence[Comparison]) -> str:
    """Return a table of booktabs with the scores of all runs, and below them those of groups of seeds.

    The best of each column, as printed, is bold. A dagger marks a significant difference from the first row.
    """
    records = [record for comparison in comparisons for record in comparison.records()]
    columns = list(dict.fromkeys((record["test_set"], record["score"]) for record in records))
    scores = [rf"{escape_latex(s)} $\{'down' if s == 'TER' else 'up'}arrow$" for _, s in columns]
    blocks = [[["", *(escape_latex(test_set) for test_set, _ in columns)], ["", *scores]]]
    for kind in dict.fromkeys(record["kind"] for record in records):
        rows: dict[str, dict[tuple[str, str], Record]] = {}
        for record in (record for record in records if record["kind"] == kind):
            printed = round(float(record["value"]), 1) + 0.0  # no negative zero
            cell = record | {"value": printed}
            rows.setdefault(record["name"], {})[record["test_set"], record["score"]] = cell
        blocks.append([])
        for name, row in rows.items():
            cells = [escape_latex(name)]
            for column in columns:
                values = [other[column]["value"] for other in rows.values() if column in other]
                best = (min if column[1] == "TER" else max)(values, default=None)
                cells.append(_cell(row[column], best) if column in row else "--")
            blocks[-1].append(cells)
    body = "\n\\midrule\n".join("\n".join(" & ".join(row) + r" \\" for row in block) for block in blocks)
    tests = comparisons[0].test + "; groups of seeds: permutation of runs" * bool(comparisons[0].spreads)
    caption = rf"Best in bold. $^\dagger$ differs from the first row with $p < 0.05$ ({tests})."
    return "\n".join([
        r"% \usepackage{booktabs}", r"\begin{table}", r"\centering",
        rf"\begin{{tabular}}{{l{'r' * len(columns)}}}", r"\toprule", body, r"\bottomrule", r"\end{tabular}",
        rf"\caption{{{caption}}}", r"\label{tab:comparison}", r"\end{table}",
        *(f"% {' '.join(comparison.caption.split())}" for comparison in comparisons), "",
    ])  # fmt: skip


def _cell(record: Record, best: float | None) -> str:
    value, deviation = record["value"], record.get("standard_deviation")
    shown = rf"\mathbf{{{value:.1f}}}" if value == best else f"{value:.1f}"
    p_values = [record.get(name) for name in ("p_bootstrap", "p_mcnemar", "p_seeds")]
    mark = r"^\dagger" if any(p is not None and p < 0.05 for p in p_values) else ""
    return f"${shown}{mark}$" + ("" if deviation is None else rf" $\pm$ {deviation:.1f}")


def escape_latex(text: str) -> str:
    """Text that LaTeX prints as it is, on one line."""
    return " ".join(text.split()).translate(ESCAPED)
