"""--metric of evaluate, compare and report, with a stand-in for bert-score: kept, shown and tested."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_report_command import retrained

from commands import error_of, succeed
from dragoman.runs import SCORES
from scorers import stand_in

__all__ = ["stand_in"]

pytestmark = pytest.mark.slow
METRIC = ("--metric", "bertscore", "--metric-python", sys.executable)


@pytest.fixture
def runs(tiny_run: Path, tmp_path: Path) -> tuple[Path, Path]:
    return retrained(tiny_run, tmp_path / "a"), retrained(tiny_run, tmp_path / "b", -1.0)


def test_a_score_is_kept_with_the_run_s_others_and_not_computed_again(
    runs: tuple[Path, Path], stand_in: Path
) -> None:
    run, _ = runs
    result = succeed("evaluate", run, *METRIC)
    assert "scoring tiny-test by BERTScore, 15 sentences" in result.stderr
    line = next(line for line in result.stdout.splitlines() if "BERTScore" in line)
    assert "|model:german|layer:4|idf:no|" in line
    assert line.endswith("|times:100|package:bert-score|version:0.3.13")
    (record,) = json.loads((run / SCORES).read_text(encoding="utf-8"))["results"]
    assert [score["name"] for score in record["scores"]][-1] == "BERTScore"
    again = succeed("evaluate", run)  # without --metric
    assert "scoring" not in again.stderr
    assert line in again.stdout.splitlines()
    assert "scoring" not in succeed("evaluate", run, *METRIC).stderr


HARMS: list[Callable[[dict[str, Any]], Any]] = [
    lambda one: one.update(name="\x1b[2J"),
    lambda one: one["values"].pop(),
    lambda one: one.update(values=["much"] * 15),
    lambda one: one.update(facts=None),
]


def test_kept_scores_that_are_damaged_are_not_shown(runs: tuple[Path, Path], stand_in: Path) -> None:
    run, _ = runs
    assert "BERTScore" in succeed("evaluate", run, *METRIC).stdout
    (kept,) = (run / "report").glob("scores-*.json")
    whole = kept.read_text(encoding="utf-8")
    for number, harm in enumerate(HARMS):
        record = json.loads(whole)
        harm(record["scores"][0])
        kept.write_text(json.dumps(record), encoding="utf-8")
        shown = succeed("evaluate", run).stdout
        assert "BERTScore" not in shown, number
        assert "\x1b" not in shown
    kept.write_text(whole, encoding="utf-8")
    assert "BERTScore" in succeed("evaluate", run).stdout, "of what is not damaged"


def test_runs_are_compared_by_it_where_all_have_it(runs: tuple[Path, Path], stand_in: Path) -> None:
    first, second = runs
    succeed("evaluate", first, *METRIC)
    alone = succeed("compare", first, second).stdout
    assert "BERTScore: left out, for not every run has it with one signature (add --metric)" in alone
    rows = json.loads(succeed("compare", first, second, *METRIC, "--json").stdout)
    names = [row["score"] for row in rows if row["kind"] == "run"]
    assert names == ["BLEU", "chrF2", "TER", "BERTScore"] * 2
    assert 0 < rows[-1]["p_bootstrap"] <= 1
    assert 0 < rows[-1]["p_randomisation"] <= 1
    table = succeed("compare", first, second, "--latex").stdout
    assert r"BERTScore $\uparrow$ \\" in table
    assert table.startswith("% \\usepackage{booktabs}\n\\begin{table}\n")
    succeed("report", first)
    assert "BERTScore" in (first / "report.html").read_text(encoding="utf-8")


def test_a_metric_that_cannot_be_had_is_refused_before_anything_is_translated(
    runs: tuple[Path, Path], stand_in: Path, tiny_classifier_run: Path
) -> None:
    run, other = runs
    bad = ("--metric", "bertscore:missing@2", "--metric-python", sys.executable)
    for command in (("evaluate", run), ("compare", run, other), ("report", run)):
        assert "--metric bertscore:missing@2: cannot be used (OSError: no such model" in error_of(
            *command, *bad
        )
    assert not (run / "report").exists()
    assert "--metric-python: is for --metric comet or" in error_of("evaluate", run, "--metric-python", "x")
    for command in ("evaluate", "report"):
        message = error_of(command, tiny_classifier_run, "--metric", "comet")
        assert "--metric: not for a classifier; leave it away" in message
    message = error_of(
        "compare", tiny_classifier_run, retrained(tiny_classifier_run, run.parent / "c"), *METRIC
    )
    assert "--metric, --metric-python: not for a classifier" in message


def test_a_table_without_a_file_name_goes_to_stdout(runs: tuple[Path, Path]) -> None:
    first, second = runs
    named = succeed("compare", first, second, "--json", "-").stdout
    assert json.loads(named)
    assert succeed("compare", first, second, "--json").stdout == named
    assert succeed("compare", "--json", "--split", "test", first, second).stdout == named
