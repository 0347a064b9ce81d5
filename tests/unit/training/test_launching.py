"""Restarts of a training with several processes, and the time left for each."""

from __future__ import annotations

import time

import pytest

from dragoman import cli
from dragoman.cli.app import CRASHED
from dragoman.training.parallel.launching import EXPECTED, hours_left


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
