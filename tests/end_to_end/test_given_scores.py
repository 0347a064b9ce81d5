"""--scores of evaluate and score: numbers of other tools are kept, shown, compared or refused in one line."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from test_report_command import retrained

from commands import error_of, succeed
from dragoman.runs import SCORES
from dragoman.tasks.translation.kept import read_given_scores

N_SENTENCES = 15
"""Of the test set of `tiny_run`."""


@pytest.fixture
def runs(tiny_run: Path, tmp_path: Path) -> tuple[Path, Path]:
    return retrained(tiny_run, tmp_path / "a"), retrained(tiny_run, tmp_path / "b", -0.5)


def numbers(path: Path, values: Sequence[object]) -> Path:
    path.write_text("".join(f"{value}\n" for value in values), encoding="utf-8")
    return path


@pytest.mark.slow
def test_given_scores_are_kept_shown_and_compared_as_ours(runs: tuple[Path, Path], tmp_path: Path) -> None:
    first, second = runs
    given = f"comet={numbers(tmp_path / 'a.txt', range(N_SENTENCES))}"
    shown = succeed("evaluate", first, "--scores", given).stdout.splitlines()
    line = next(line for line in shown if "comet" in line)
    assert line.split()[:2] == ["comet", "7.0"]
    assert "bs:1000|seed:12345|numbers:given|version:" in line
    (record,) = json.loads((first / SCORES).read_text(encoding="utf-8"))["results"]
    assert record["scores"][-1]["name"] == "comet"
    alone = succeed("compare", first, second).stdout
    assert "comet: omitted, since not every run has it (add it with dragoman evaluate --scores)" in alone
    better = numbers(tmp_path / "b.txt", [i + 9 + i % 2 for i in range(N_SENTENCES)])
    succeed("evaluate", second, "--scores", f"comet={better}")
    rows = json.loads(succeed("compare", first, second, "--json").stdout)
    assert [row["score"] for row in rows if row["kind"] == "run"] == ["BLEU", "chrF2", "TER", "comet"] * 2
    assert rows[-1]["p_bootstrap"] == pytest.approx(1 / 1001)
    assert 0 < rows[-1]["p_randomisation"] < 0.01


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        (["1", "2"], ["comet=FILE"], "FILE has 2 lines and hyp 3 sentences; give one number for each"),
        (["1", "x", "3"], ["comet=FILE"], "FILE line 2: 'x' is not a finite number; write one number per"),
        (["1", "", "3"], ["comet=FILE"], "FILE line 2: has no number; every sentence needs one"),
        (["1", "2", "3"], ["FILE"], "--scores FILE: write NAME=FILE, as in comet=comet.txt"),
        (["1", "2", "3"], ["\x1b=FILE"], r"--scores \x1b=FILE: write NAME=FILE"),
        (["1", "2", "3"], ["Bleu=FILE"], "Dragoman computes Bleu itself; choose another name"),
        (["1", "2", "3"], ["c=FILE", "c=FILE"], "--scores c: number of files 2, of test sets 1; give c=FILE"),
        (["1", "2", "3"], ["comet=missing.txt"], "missing.txt"),
    ],
)
def test_scores_that_cannot_be_of_these_translations_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], options: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("hyp", "ref"):
        numbers(tmp_path / name, ["one house", "a red cat", "two dogs"])
    numbers(tmp_path / "FILE", lines)
    named = [part for option in options for part in ("--scores", option)]
    assert message in error_of("score", "hyp", "ref", "--tgt-lang", "en", *named)


def test_evaluate_refuses_scores_before_it_translates(runs: tuple[Path, Path], tmp_path: Path) -> None:
    run, _ = runs
    given = numbers(tmp_path / "a.txt", range(N_SENTENCES - 1))
    message = error_of("evaluate", run, "--scores", f"comet={given}")
    assert f"a.txt has {N_SENTENCES - 1} lines and tiny-test {N_SENTENCES} sentences" in message


def test_each_test_set_has_a_file_of_its_own_in_their_order(tmp_path: Path) -> None:
    short, long = numbers(tmp_path / "short", [1]), numbers(tmp_path / "long", [2, 3])
    options = [f"qe={short}", f"human={short}", f"qe={long}", f"human={long}"]
    found = read_given_scores(options, {"news": 1, "talks": 2})
    assert {test: {one.name: one.values for one in scores} for test, scores in found.items()} == {
        "news": {"qe": (1.0,), "human": (1.0,)},
        "talks": {"qe": (2.0, 3.0), "human": (2.0, 3.0)},
    }
