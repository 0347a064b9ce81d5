"""A comparison as a LaTeX table: what is bold, what is marked, what is escaped; and that it compiles."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from dragoman.evaluation.comparison import Spread
from dragoman.report.comparison import Record, as_latex, escape_latex


def record(test_set: str, name: str, score: str, value: float, **others: float | str | None) -> Record:
    return {"test_set": test_set, "kind": "run", "name": name, "score": score, "value": value, **others}


@dataclass
class Compared:
    """A `Comparison` of figures that are given."""

    name: str
    figures: list[Record]
    spreads: tuple[Spread, ...] = ()
    test: str = "paired bootstrap resampling"

    @property
    def caption(self) -> str:
        return f"{self.name}: 9 lines; nrefs:1|tok:13a"

    def records(self) -> list[Record]:
        return self.figures


NEWS = Compared(
    "news_1",
    [
        record("news_1", "a_1", "BLEU", 36.04, p_bootstrap=None),
        record("news_1", "a_1", "TER", 50.0, p_bootstrap=None),
        record("news_1", "b & c", "BLEU", 36.16, p_bootstrap=0.049),
        record("news_1", "b & c", "TER", 50.04, p_bootstrap=0.05),
    ],
)
TALKS = Compared(
    "talks",
    [record("talks", "a_1", "BLEU", -0.04), record("talks", "b & c", "BLEU", -1.5, p_bootstrap=0.2)],
)


def test_a_run_has_a_line_and_a_score_of_a_test_set_a_column() -> None:
    lines = as_latex([NEWS, TALKS]).splitlines()
    assert lines[3] == r"\begin{tabular}{lrrr}"
    assert lines[5] == r" & news\_1 & news\_1 & talks \\"
    assert lines[6] == r" & BLEU $\uparrow$ & TER $\downarrow$ & BLEU $\uparrow$ \\"
    assert lines[8] == r"a\_1 & $36.0$ & $\mathbf{50.0}$ & $\mathbf{0.0}$ \\"
    assert lines[9] == r"b \& c & $\mathbf{36.2}^\dagger$ & $\mathbf{50.0}$ & $-1.5$ \\"
    assert r"$^\dagger$ differs from the first row with $p < 0.05$ (paired bootstrap resampling)" in lines[12]
    assert lines[-2:] == ["% news_1: 9 lines; nrefs:1|tok:13a", "% talks: 9 lines; nrefs:1|tok:13a"]


def test_groups_of_seeds_are_a_block_of_their_own() -> None:
    groups = [
        record("news_1", "x = 1", "BLEU", 36.0, standard_deviation=0.25, p_seeds=None),
        record("news_1", "x = 2", "BLEU", 37.0, standard_deviation=0.5, p_seeds=0.01),
    ]
    figures = [*NEWS.figures, *({**group, "kind": "group of seeds"} for group in groups)]
    first, second = as_latex([Compared("news_1", figures)]).partition("x = 1 & ")[::2]
    assert first.endswith("\\midrule\n")
    assert second.startswith(r"$36.0$ $\pm$ 0.2 & -- \\")
    assert r"x = 2 & $\mathbf{37.0}^\dagger$ $\pm$ 0.5 & -- \\" in second


def test_what_latex_reads_as_something_else_is_escaped() -> None:
    assert escape_latex("\\{$}#^~<a>|\n") == (
        r"\textbackslash{}\{\$\}\#\textasciicircum{}\textasciitilde{}\textless{}a\textgreater{}\textbar{}"
    )
    assert escape_latex('say "ü"  & 5 %') == r"say {\char34}ü{\char34} \& 5 \%"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_the_table_compiles(tmp_path: Path) -> None:
    names = {"a_1": r"a\_{$}#^~<a>| %", "b & c": 'say "ü" & 5 %'}
    figures = [{**one, "name": names[str(one["name"])]} for one in NEWS.figures]
    text = as_latex([Compared("news_1", figures), Compared("talks", [])])
    head = r"\documentclass{article}\usepackage[utf8]{inputenc}\usepackage{booktabs}\begin{document}"
    (tmp_path / "table.tex").write_text(f"{head}\n{text}\\end{{document}}\n", encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-draftmode", "table.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
