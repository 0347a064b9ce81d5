"""Restarts of a training with several processes, and the time left for each."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

from dragoman import cli
from dragoman.cli.app import CRASHED
from dragoman.training.parallel.launching import EXPECTED, describe, hours_left


def test_new_starts_share_the_hours() -> None:
    option, left = hours_left(2.0, since=time.monotonic() - 1800)
    assert option == "--max-hours"
    assert float(left) == pytest.approx(1.5, abs=1e-3)
    assert 0 < float(hours_left(2.0, since=time.monotonic() - 9000)[1]) < 1e-6
    assert hours_left(0.0, since=time.monotonic() - 1800) == []


def test_a_crash_of_one_of_several_processes_is_told_from_a_mistake(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def crash(**_: object) -> None:
        raise RuntimeError("unspecified launch failure")

    monkeypatch.setattr(cli, "app", crash)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(RuntimeError, match="unspecified"):
        cli.main()
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == CRASHED
    assert CRASHED not in EXPECTED
    assert "RuntimeError: unspecified launch failure" in capsys.readouterr().err


def test_a_process_that_was_killed_for_its_silence_is_told_from_one_out_of_memory(tmp_path: Path) -> None:
    file = tmp_path / "error.json"
    failure = ProcessFailure(local_rank=1, pid=7, exitcode=-9, error_file=str(file))
    assert describe(failure, 2) == "process 1 of 2 was killed by SIGKILL (out of memory?)"
    message = {"message": "silent", "extraInfo": {"timestamp": "1"}}
    file.write_text(json.dumps({"message": message}), encoding="utf-8")
    failure = ProcessFailure(local_rank=1, pid=7, exitcode=-9, error_file=str(file))
    assert describe(failure, 2) == "process 1 of 2 did not respond and was killed"
