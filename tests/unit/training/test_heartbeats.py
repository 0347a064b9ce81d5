"""A process that is silent is named and ended; one that computes, or that is merely slow, is not."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from torch import distributed as dist

from dragoman.errors import ConfigError, TrainingError
from dragoman.training.parallel import heartbeats
from dragoman.training.parallel.heartbeats import HUNG, Heartbeat, Member, longest_silence, start_time
from dragoman.training.parallel.processes import meet
from waiting import LONGEST

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

SILENCE = 0.4
COMPUTES = """
import time
while True:  # a fifth of the time, so that other tests have the rest
    end = time.process_time() + 0.02
    while time.process_time() < end:
        pass
    time.sleep(0.08)
"""


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The launcher's store, and the variables that say where it is."""
    c10d: Any = dist
    store = c10d.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(store.port))
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    return store


@pytest.fixture
def end(monkeypatch: pytest.MonkeyPatch) -> Any:
    """An event that is set when this process would be ended, with the exit code as `code`."""
    event: Any = threading.Event()

    def leave(code: int) -> None:
        event.code = code
        event.set()

    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr(heartbeats, "NOTICE", 0.0)
    return event


def join(store: Any, member: Member) -> None:
    """Add a member that has sent one heartbeat."""
    c10d: Any = dist
    group = c10d.PrefixStore("heartbeats/group", store)
    group.set(f"member/{member.rank}", json.dumps(asdict(member)))
    group.add(f"beats/{member.rank}", 1)


def process(program: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", program])


def test_a_silent_process_of_this_machine_is_killed_and_the_launcher_told_why(
    store: Any, end: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other = process("import time; time.sleep(600)")
    os.kill(other.pid, signal.SIGSTOP)
    here = socket.gethostname()
    join(store, Member(1, here, other.pid, start_time(other.pid), str(tmp_path / "error.json")))
    with Heartbeat(0, 2, "group", silence=SILENCE):
        assert end.wait(LONGEST)
    assert end.code == HUNG
    assert other.wait(LONGEST) == -signal.SIGKILL
    reason = f"process 1 of 2 (pid {other.pid} on {here}) has not responded for 0 s"
    assert capfd.readouterr().err == f"{reason}; ending all processes\n"
    assert json.loads((tmp_path / "error.json").read_text())["message"]["message"] == reason


def test_a_silent_process_of_another_machine_is_named_and_nothing_here_is_killed(
    store: Any, end: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    other = process("import time; time.sleep(600)")
    os.kill(other.pid, signal.SIGSTOP)
    join(store, Member(1, "elsewhere", other.pid, start_time(other.pid), ""))
    with Heartbeat(0, 2, "group", silence=SILENCE):
        assert end.wait(LONGEST)
    assert f"process 1 of 2 (pid {other.pid} on elsewhere) has not" in capfd.readouterr().err
    assert other.poll() is None
    other.kill()
    other.wait()


def test_a_later_process_with_the_number_of_a_silent_one_is_not_killed(store: Any, end: Any) -> None:
    other = process("import time; time.sleep(600)")
    join(store, Member(1, socket.gethostname(), other.pid, "1", ""))
    with Heartbeat(0, 2, "group", silence=SILENCE):
        assert end.wait(LONGEST)
    assert other.poll() is None
    other.kill()
    other.wait()


def test_a_process_that_computes_without_a_turn_for_its_heartbeat_is_alive(store: Any, end: Any) -> None:
    other = process(COMPUTES)
    join(store, Member(1, socket.gethostname(), other.pid, start_time(other.pid), ""))
    with Heartbeat(0, 2, "group", silence=2.0):
        assert not end.wait(5)
    other.kill()
    other.wait()


def test_a_process_that_hangs_before_its_first_round_has_a_counter(store: Any, end: Any) -> None:
    """The store makes those that read a missing counter wait for it."""
    pid = os.getpid()
    join(store, Member(1, "elsewhere", pid, start_time(pid), ""))
    with Heartbeat(0, 2, "group", silence=600.0):
        assert store.check(["heartbeats/group/beats/0"])


def test_threads_end_with_the_block(store: Any, end: Any) -> None:
    pid = os.getpid()
    join(store, Member(1, "elsewhere", pid, start_time(pid), ""))
    with Heartbeat(0, 2, "group", silence=60.0):
        assert "heartbeat" in [thread.name for thread in threading.enumerate()]
    assert "heartbeat" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize("value", ["soon", "-1", "nan", "inf"])
def test_the_limit_is_a_number_of_seconds(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert longest_silence() == heartbeats.SILENCE
    monkeypatch.setenv("DRAGOMAN_SILENCE_SECONDS", "90")
    assert longest_silence() == 90
    monkeypatch.setenv("DRAGOMAN_SILENCE_SECONDS", value)
    with pytest.raises(ConfigError, match=f"DRAGOMAN_SILENCE_SECONDS={value}: give a number of seconds"):
        longest_silence()


def test_a_process_that_does_not_start_is_named(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(TrainingError, match=r"^process 1 of 2 has not started within 1 s; see what"):
        meet(2, timeout=timedelta(seconds=1))
