"""The benchmark of large corpora, on a small one: it plants what it says, and counts what is found of it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

import doctor
import scale
from dragoman.data.corpora import Pair
from faulty import phrases

pytestmark = pytest.mark.slow


def read(source: doctor.Source, part: str) -> list[Pair]:
    pairs = [Pair(*pair) for pair in phrases(2000, src_lang=source.src_lang, tgt_lang=source.tgt_lang)]
    return pairs[:1600] if part.startswith("train") else pairs[1600:]


def test_planted_faults_are_where_it_says_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor.Source, "read", read)
    monkeypatch.setattr(scale, "BLOCK", 1000)
    monkeypatch.setattr(sys, "argv", ["scale.py", "doctor", "--pairs", "2000", "--folder", str(tmp_path)])
    scale.main()
    sides = [(tmp_path / f"train.{lang}").read_text("utf-8").split("\n")[:-1] for lang in ("en", "de")]
    pairs = list(zip(*sides, strict=True))
    assert len(pairs) == 2000
    planted: dict[str, list[int]] = {}
    for line in (tmp_path / scale.PLANTED).read_text("utf-8").splitlines():
        record = json.loads(line)
        planted.setdefault(record["fault"], []).extend(record["lines"])
    assert [i for i, (src, tgt) in enumerate(pairs, start=1) if not (src and tgt)] == planted["empty"]
    assert all(pairs[i - 1] in pairs[:1000] for i in planted["duplicate (of an earlier block)"])
    table = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    rows = {cells[0].removeprefix("| "): cells[1:] for cells in table}
    assert rows["2,000"][1:]
    for fault, numbers in planted.items():
        n, n_found, n_missed = (int(cell) for cell in rows[fault][:3])
        assert n == len(numbers) == n_found + n_missed
    for fault in ("empty", "identical", "duplicate (of an earlier block)", "duplicate-near", "addresses"):
        assert rows[fault][2] == "0", fault


@pytest.mark.nightly
@pytest.mark.parametrize("work", ["translating", "scoring"])
def test_a_bulk_job_that_was_killed_half_way_writes_what_one_without_a_kill_does(
    work: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["scale.py", work, "--lines", "600", "2000", "--workers", "2", "--folder", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", arguments)
    scale.main()
    printed = capsys.readouterr().out.splitlines()
    rows = [line.strip("| ").split(" | ") for line in printed if line.startswith("| ")]
    assert [row[:2] for row in rows[1:3]] == [["600", "2"], ["2,000", "2"]]
    assert all(float(row[i].replace(",", "")) > 0 for row in rows[1:3] for i in (3, 4, 5))
    (said,) = [line for line in printed if line.startswith("Killed when ")]
    assert 0 < int(said.split()[2].replace(",", "")) <= 2000
    assert said.endswith("and the output equals that without a kill.")
    if work == "scoring":
        assert rows[-1][0] == "data filter --keep 0.8"


def test_false_alarms_are_on_pairs_with_nothing_planted(capsys: pytest.CaptureFixture[str]) -> None:
    planted = {"length (cut)": [1, 2], "length (joined)": [3], "empty": [4]}
    scale.print_faults(planted, {"length": {1, 3, 4, 9, 10}, "empty": {4}})
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| length (cut) | 2 | 1 | 1 | 50.0 % | 2 |",
        "| length (joined) | 1 | 1 | 0 | 100.0 % | ″ |",
        "| empty | 1 | 1 | 0 | 100.0 % | 0 |",
    ]


@pytest.mark.nightly
def test_a_preparation_is_killed_goes_on_and_is_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor.Source, "read", read)
    options = ["--pairs", "2000", "--folder", str(tmp_path), "--kills", "0.2", "20"]
    monkeypatch.setattr(sys, "argv", ["scale.py", "training", *options])
    scale.main()
    killed, steps = capsys.readouterr().out.split("\n\n")[:2]
    assert re.search(r"^\| 0.2 \| no vocabulary yet \| [0-9.]+ \|$", killed, re.MULTILINE)
    assert re.search(r"^\| 20 \| all \| – \|$", killed, re.MULTILINE)
    assert [line.split(" | ")[0] for line in steps.splitlines()[2:]] == [
        "| the rest, and an update", "| a warm start, and an update", "| planning an epoch",
    ]  # fmt: skip
    assert re.search(r"[1-9]\d* batches in [0-9.]+ s, \d+ MiB more", steps)


def test_how_far_a_preparation_is(tmp_path: Path) -> None:
    assert scale.prepared(tmp_path) == scale.Prepared(has_vocabulary=False, n_pairs=0)
    finished, partial = (tmp_path / "cache" / "train" / name for name in ("a", "b.partial"))
    for folder in (finished, partial, tmp_path / "tokenizer"):
        folder.mkdir(parents=True)
    (finished / "meta.json").write_text('{"n_pairs": 5, "skipped": {"empty": 1, "too_long": 2}}')
    (partial / "progress.json").write_text('{"n_read": 10}')
    (partial / "progress.json.new").write_text("{")
    assert scale.prepared(tmp_path) == scale.Prepared(has_vocabulary=True, n_pairs=18)
