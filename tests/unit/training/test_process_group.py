"""What processes that train together do with a batch, and in which order they do things."""

import os
import subprocess
import sys
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from torch import distributed as dist

from dragoman.errors import TrainingError
from dragoman.training.parallel.processes import Processes, meet
from dragoman.training.state import TrainPosition
from dragoman.training.trainer import Trainer
from waiting import LONGEST


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The launcher's store, and the variables that say where it is."""
    c10d: Any = dist
    store = c10d.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(store.port))
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    return store


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_shares_are_all_of_a_batch_and_alike_in_size(size: int, n: int) -> None:
    indices = np.arange(100, 100 + n)
    shares = [Processes(rank, size).share(indices) for rank in range(size)]
    assert sorted(np.concatenate(shares).tolist()) == indices.tolist()
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(("rank", "expected"), [(0, ["work", "wait", "wait"]), (1, ["wait", "work", "wait"])])
def test_the_first_goes_ahead_and_the_others_wait(
    rank: int, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(Processes, "wait", lambda self: done.append("wait"))
    with Processes(rank, 2).first_ahead():
        done.append("work")
    assert done == expected


@pytest.mark.parametrize(("rank", "expected"), [(0, ["score", "wait", "share"]), (1, ["wait", "share"])])
def test_the_others_wait_for_a_validation_before_its_result_is_shared(
    rank: int, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(Processes, "wait", lambda self: done.append("wait"))
    monkeypatch.setattr(Processes, "from_first", lambda self, text: done.append("share") or text)
    monkeypatch.setattr(Trainer, "score", lambda self, weights: done.append("score"))
    state: Any = SimpleNamespace(position=TrainPosition(), weights=dict)
    given: Any = [Mock(), Mock(), Mock(), state, Mock(), Mock(), Processes(rank, 2), Mock()]
    Trainer(*given).validate()
    assert done == expected


WAITS = """
import sys, time
from dragoman.errors import LostProcessError
from dragoman.training.parallel import processes as module
module.GRACE = 0.0
try:
    with module.joined("cpu", timeout_minutes=0.05) as processes:
        if processes.first:
            time.sleep(4)
        processes.wait()
        assert processes.total(1.0) == [2.0]
        if processes.first:
            processes.total(1.0)
        sys.stdin.read()
except LostProcessError as error:
    print(error)
"""


@pytest.mark.slow
def test_an_operation_times_out_and_waiting_for_the_first_process_does_not(store: Any) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WAITS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"},
        )
        for rank in range(2)
    ]  # fmt: skip
    said = processes[0].communicate(timeout=LONGEST)[0]
    assert said.startswith("process 0 of 2: another one has ended, or has not responded for 0.05 minutes")
    processes[1].communicate(timeout=LONGEST)
    assert [process.returncode for process in processes] == [0, 0]


def test_a_process_that_does_not_start_is_named(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(TrainingError, match=r"^process 1 of 2 has not started within 1 s; see what"):
        meet(2, timeout=timedelta(seconds=1))
