"""Runs of earlier versions load, answer and continue as they did then (tools/make_golden_run.py).

Another kept run answers as it did when its outputs were recorded, however the code between is arranged.
"""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from commands import succeed
from dragoman.errors import RunError
from dragoman.runs import Run
from dragoman.tasks.training import train
from golden.outputs import EXPECTED, KINDS

RUNS = sorted(Path(__file__).parents[1].glob("compatibility/*/*"))
NEWEST = max(run.parts[-2] for run in RUNS)
sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from make_golden_run import SEARCHES, SENTENCES, later_history  # noqa: E402 (a script, beside the tests)


@pytest.mark.parametrize("golden", RUNS, ids=lambda run: "-".join(run.parts[-2:]))
def test_a_run_of_an_earlier_version_answers_as_it_did(golden: Path) -> None:
    command = "translate" if Run.open(golden).config.task == "translation" else "classify"
    expected = json.loads((golden / "expected.json").read_text())["outputs"]
    for search, rows in expected.items():
        options = SEARCHES.get(search, [])
        stdin = "\n".join(SENTENCES) + "\n"
        result = succeed(command, golden, "--json", "--precision", "fp32", *options, stdin=stdin)
        for line, row in zip(result.stdout.splitlines(), rows, strict=True):
            assert_close(json.loads(line), row)


@pytest.mark.parametrize(
    "golden",
    [pytest.param(run, marks=() if run.parts[-2] == NEWEST else pytest.mark.nightly) for run in RUNS],
    ids=lambda run: "-".join(run.parts[-2:]),
)
def test_a_run_of_an_earlier_version_continues_as_it_did(golden: Path, tmp_path: Path) -> None:
    """But for a classifier of 0.1 with n-grams, whose votes were learnt in another way."""
    run = shutil.copytree(golden, tmp_path / "run")
    if golden.parts[-2:] == ("0.1", "classification"):
        with pytest.raises(RunError, match=r"begun by Dragoman 0.1.* in another folder"):
            train(Run.open(run).config, run)
        return
    train(Run.open(run).config, run)
    assert_close(later_history(run), json.loads((golden / "expected.json").read_text())["history"])


def cell(text: str) -> float | str:
    return float(text) if re.fullmatch(r"-?\d+\.\d+", text) else text


def assert_close(value: Any, expected: Any) -> None:
    """Equal, numbers within what another processor's rounding changes; keys may have been added."""
    if isinstance(expected, dict):
        assert expected.keys() <= value.keys()
        for key in expected:
            assert_close(value[key], expected[key])
    elif isinstance(expected, list):
        assert len(value) == len(expected)
        for one, other in zip(value, expected, strict=True):
            assert_close(one, other)
    elif isinstance(expected, float):
        assert value == pytest.approx(expected, abs=2e-3)
    elif isinstance(expected, str) and "\t" in expected:  # a line of numbers
        assert_close([*map(cell, value.split("\t"))], [*map(cell, expected.split("\t"))])
    else:
        assert value == expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_kept_run_answers_as_recorded(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outputs = json.loads(json.dumps(KINDS[kind]()))
    assert_close(outputs, json.loads(EXPECTED.read_text(encoding="utf-8"))[kind])
