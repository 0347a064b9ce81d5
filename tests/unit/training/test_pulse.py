"""The launcher kills processes of its own that have no pulse, and no others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from test_heartbeats import COMPUTES

from dragoman.training.parallel import pulse
from dragoman.training.parallel.pulse import INTERVAL, PulseWatch, started_processes, watch_pulses

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

SILENCE = 2.0
WAITS = "import time; time.sleep(600)"
BEATS = "from dragoman.training.parallel.pulse import start_pulse; start_pulse(); " + WAITS

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a program as a launcher does, with a folder of its own; it is killed after the test."""
    started = []

    def process(program: str, *, rank: int) -> subprocess.Popen[bytes]:
        folder = tmp_path / str(rank)
        folder.mkdir()
        variables = {"RANK": str(rank), "TORCHELASTIC_ERROR_FILE": str(folder / "error.json")}
        interval = {INTERVAL: str(SILENCE / 8)}
        started.append(
            subprocess.Popen([sys.executable, "-c", program], env={**os.environ, **interval, **variables})
        )
        return started[-1]

    yield process
    for one in started:
        one.kill()
        one.wait()


def test_a_process_that_is_silent_is_killed_and_those_with_a_pulse_or_at_work_are_not(
    start: Start, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    silent, *alive = (start(program, rank=rank) for rank, program in enumerate([WAITS, COMPUTES, BEATS]))
    stranger = subprocess.Popen([sys.executable, "-c", WAITS])
    with PulseWatch(3, silence=SILENCE):
        assert silent.wait(60) == -signal.SIGKILL
        time.sleep(2 * SILENCE)  # for the others to be killed
    assert [one.poll() for one in (*alive, stranger)] == [None, None, None]
    said = capfd.readouterr().err
    assert said.startswith(f"process 0 of 3 (pid {silent.pid} on ")
    assert said.endswith(" has not responded for 2 s; ending all processes\n")
    assert said.count("\n") == 1
    message = json.loads((tmp_path / "0" / "error.json").read_text())["message"]["message"]
    assert f"{message}; ending all processes\n" == said
    stranger.kill()
    stranger.wait()


def test_processes_in_their_group_are_left_to_their_heartbeats_until_one_has_left(
    start: Start, tmp_path: Path
) -> None:
    first, second = (start(WAITS, rank=rank) for rank in range(2))
    for rank in range(2):
        (tmp_path / str(rank) / "in-group").touch()
    with PulseWatch(2, silence=SILENCE):
        time.sleep(2 * SILENCE)
        assert [first.poll(), second.poll()] == [None, None]
        (tmp_path / "0" / "in-group").unlink()
        assert second.wait(60) == first.wait(60) == -signal.SIGKILL


def test_a_process_that_has_ended_is_not_silent(start: Start) -> None:
    process = start("", rank=0)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert started_processes() == []


def test_there_is_no_watch_without_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_SILENCE_SECONDS", "0")
    with watch_pulses(2):
        assert INTERVAL not in os.environ
    monkeypatch.setenv("DRAGOMAN_SILENCE_SECONDS", "40")
    with watch_pulses(2):
        assert os.environ[INTERVAL] == "5.0"
    assert INTERVAL not in os.environ
    monkeypatch.setattr(pulse, "start_time", lambda pid: "")  # as where there is no /proc
    with watch_pulses(2):
        assert INTERVAL not in os.environ
