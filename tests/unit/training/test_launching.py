"""Restarts of a training with several processes, and the time left for each."""

import time
from pathlib import Path

import pytest
import typer
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

from dragoman import cli
from dragoman.cli.app import CRASHED, errors_as_exit_codes
from dragoman.errors import LostProcessError
from dragoman.runs import Run
from dragoman.training.parallel.launching import EXPECTED, describe, hours_left
from recording import tiny_config


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


def test_a_process_that_has_lost_another_one_is_started_again_after_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(typer.Exit) as left, errors_as_exit_codes():
        raise LostProcessError("process 0 of 2: another one has ended")
    assert left.value.exit_code == CRASHED
    assert capsys.readouterr().err == "error: process 0 of 2: another one has ended\n"


def test_a_process_that_died_is_named_with_its_cause_and_step(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", tiny_config())
    killed = ProcessFailure(local_rank=1, pid=7, exitcode=-9, error_file="")
    crashed = ProcessFailure(local_rank=0, pid=7, exitcode=70, error_file="")
    assert describe(killed, 2, run) == (
        "process 1 of 2 was killed by SIGKILL (out of memory?) before its first log line"
    )
    run.append_history({"kind": "train", "step": 5})
    assert describe(crashed, 2, run) == "process 0 of 2 ended with exit code 70 after step 5"
