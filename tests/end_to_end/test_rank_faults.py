"""Processes that train together: one hangs, is killed or has a full disk; machines join and leave."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from ranks import (
    Training,
    command,
    facts,
    launch_of,
    losses,
    pids_by_rank,
    wait_for,
    write_corpus,
    write_recipe,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")

STEPS, EVERY = 160, 40
LAST = f"checkpoints/step-{STEPS:06d}/optimizer.safetensors"
SILENCE = 4.0
"""Seconds without a heartbeat, instead of 40."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of two processes that nothing happens to."""
    folder = workplace(tmp_path_factory.mktemp("whole"))
    with Training(folder, "whole", "--processes", "2") as training:
        code, said = training.end()
    assert code == 0, said
    assert "respond" not in said
    return folder / "whole"


def workplace(folder: Path) -> Path:
    write_corpus(folder)
    write_recipe(folder, dropout=0.1, steps=STEPS, valid_every=EVERY)
    return folder


def check_that_both_are_equal(run: Path, whole: Path) -> None:
    assert facts(run) == facts(whole)
    for name in ("model.safetensors", LAST):
        assert (run / name).read_bytes() == (whole / name).read_bytes(), name


def test_a_process_that_hangs_is_named_and_the_run_continues_to_the_bit(tmp_path: Path, whole: Path) -> None:
    victims = {}
    with Training(workplace(tmp_path), "run", "--processes", "2", silence=SILENCE) as training:
        for rank in (0, 1):
            wait_for(tmp_path / "run" / "checkpoints" / f"step-{(1 + rank) * EVERY:06d}")
            victims[rank] = pids_by_rank(training.pid)[rank]
            os.kill(victims[rank], signal.SIGSTOP)
            training.wait_until_gone(victims[rank])
        code, said = training.end()
    assert code == 0, said
    for rank, victim in victims.items():
        assert (
            f"process {rank} of 2 (pid {victim} on {socket.gethostname()}) has not responded for 4 s; "
            "ending all processes\n" in said
        )
        killed = (
            rf"process {rank} of 2 did not respond and was killed after step \d+; restarting all processes"
        )
        assert len(re.findall(killed, said)) == 1, said
    assert "Traceback" not in said
    check_that_both_are_equal(tmp_path / "run", whole)


STOPS = """
import os, signal
from pathlib import Path
if os.environ.get("RANK") == "1":
    n_stops = len(list(Path().glob("stop-*")))
    def stop(*_):
        Path(f"stop-{n_stops}").touch()
        os.kill(os.getpid(), signal.SIGSTOP)
    if n_stops == 0:
        stop()
    from dragoman.training.parallel.heartbeats import Heartbeat
    if n_stops == 1:
        Heartbeat.__enter__ = stop
    if n_stops == 2:
        leave = Heartbeat.__exit__
        Heartbeat.__exit__ = lambda *arguments: stop(leave(*arguments))
"""


@pytest.mark.nightly
def test_a_process_that_hangs_outside_of_the_group_is_named_by_the_launcher(
    tmp_path: Path, whole: Path
) -> None:
    """Before it has imported anything, before it joins the heartbeats, and when it has left them."""
    with Training(workplace(tmp_path), "run", "--processes", "2", silence=SILENCE, program=STOPS) as training:
        code, said = training.end()
    assert code == 0, said
    assert len(list(tmp_path.glob("stop-*"))) == 3
    named = rf"^process 1 of 2 \(pid \d+ on {re.escape(socket.gethostname())}\) has not responded for 4 s; "
    assert len(re.findall(named, said, re.MULTILINE)) == 3, said
    assert said.count("process 1 of 2 did not respond and was killed") == 3, said
    assert "Traceback" not in said
    check_that_both_are_equal(tmp_path / "run", whole)


@pytest.mark.nightly
def test_the_process_that_holds_the_store_hangs_and_torchrun_restarts_all(
    tmp_path: Path, whole: Path
) -> None:
    """As for trainings that machines may join and leave (docs/distributed.md)."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "1"]
    arguments = [sys.executable, *launcher, *command("run")[1:]]
    environment = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    folder = workplace(tmp_path)
    with Training(folder, "run", arguments=arguments, environment=environment, silence=SILENCE) as training:
        wait_for(tmp_path / "run" / "checkpoints" / f"step-{EVERY:06d}")
        os.kill(training.pid_of(0), signal.SIGSTOP)
        code, said = training.end()
    assert code == 0, said
    assert re.search(
        r"^process 0 of 2 \(pid \d+ on .*\) has not responded for 4 s; ending all", said, re.MULTILINE
    )
    check_that_both_are_equal(tmp_path / "run", whole)


SLOW = """
import os, time
if os.environ.get("RANK") == "0":
    from dragoman.training.tasks.translation import TranslationTask
    validate = TranslationTask.validate
    def slowly(task, weights):
        time.sleep(3)
        TranslationTask.validate = validate
        return validate(task, weights)
    TranslationTask.validate = slowly
"""


def test_a_long_validation_and_a_pause_of_all_processes_together_are_no_hang(
    tmp_path: Path, whole: Path
) -> None:
    """The pause is as if the machine had slept."""
    with Training(workplace(tmp_path), "run", "--processes", "2", silence=1.0, program=SLOW) as training:
        wait_for(tmp_path / "run" / "checkpoints" / f"step-{2 * EVERY:06d}")
        pids = pids_by_rank(training.pid).values()
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in pids:
                os.kill(pid, number)
            time.sleep(3.0)
        code, said = training.end()
    assert code == 0, said
    assert "respond" not in said
    check_that_both_are_equal(tmp_path / "run", whole)


@pytest.mark.parametrize("n_kills", [2, pytest.param(3, marks=pytest.mark.nightly)])
def test_any_process_is_killed_at_any_instant_and_the_run_continues_to_the_bit(
    tmp_path: Path, whole: Path, n_kills: int
) -> None:
    """Also one whose launcher is about to end it, as another has been killed: they are named once."""
    rng = random.Random(5)
    launches = set()
    with Training(workplace(tmp_path), "run", "--processes", "2") as training:
        wait_for(tmp_path / "run" / "history.jsonl")
        for _ in range(n_kills):
            time.sleep(rng.uniform(0.0, 2.0))
            victim = training.pid_of(rng.randrange(2))
            launches.add(launch_of(victim))
            os.kill(victim, signal.SIGKILL)
            training.wait_until_gone(victim)
        code, said = training.end()
    assert code == 0, said
    launches.discard("")  # of a process that its launcher had just ended, because of the kill before
    named = re.findall(r"process [01] of 2 was killed by SIGKILL", said)
    assert len(named) == len(launches), said
    check_that_both_are_equal(tmp_path / "run", whole)


FULL = """
import os, resource, signal
if os.environ.get("RANK") == "{rank}":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
"""


@pytest.mark.nightly
def test_a_full_disk_of_the_first_process_is_one_line_and_the_run_goes_on_when_there_is_room(
    tmp_path: Path, whole: Path
) -> None:
    """The other process has none at any time, and needs none."""
    folder, other = workplace(tmp_path), FULL.format(rank=1, limit=1000)
    with Training(folder, "run", "--processes", "2", "--max-hours", "1e-9", program=other) as training:
        assert training.end()[0] == 75
    full = FULL.format(rank=0, limit=(whole / LAST).stat().st_size - 1)
    with Training(folder, "run", "--processes", "2", program=full) as training:
        code, said = training.end()
    assert code == 1
    last = said.splitlines()[-1]
    assert last.startswith(f"error: run/checkpoints/step-{EVERY:06d}: the checkpoint cannot be written (")
    assert "the last one stands; put that right and run the same command again" in last
    assert said.count("error: ") == 1
    assert "Traceback" not in said
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-000001"]
    with Training(folder, "run", "--processes", "2", program=other) as training:
        code, said = training.end()
    assert code == 0, said
    check_that_both_are_equal(tmp_path / "run", whole)


@pytest.mark.nightly
def test_a_machine_joins_a_training_and_leaves_it_and_no_update_is_lost(tmp_path: Path) -> None:
    """Two launchers on this machine stand for two machines."""
    write_corpus(tmp_path)
    write_recipe(tmp_path, steps=20_000, valid_every=50)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launcher = [
        sys.executable, "-m", "torch.distributed.run", "--nnodes", "1:2", "--nproc-per-node", "1",
        "--max-restarts", "3", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id",
        "elastic", "--rdzv-conf", "last_call_timeout=2", "--local-addr", "127.0.0.1",
    ]  # fmt: skip
    arguments = [*launcher, *command("run")[1:]]
    environment = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    with Training(tmp_path, "run", arguments=arguments, environment=environment) as first:
        wait_for(tmp_path / "run" / "checkpoints" / "step-000050")
        with Training(tmp_path, "run", arguments=arguments, environment=environment) as second:
            first.wait_for(r"continuing from step \d+\n(.*\n)*step")
            second.stop()
            second.end()
        first.wait_for(r"continuing from step \d+\n(.*\n)*continuing from step \d+\n(.*\n)*step")
        first.stop()
        _, said = first.end()
    stops = re.findall(r"asked to end \(SIGTERM\) at step ([\d,]+); the same command continues", said)
    stops = [stop.replace(",", "") for stop in stops]
    assert re.findall(r"continuing from step (\d+)", said) == stops[:2], said
    assert len(stops) == 3
    assert len(losses(tmp_path / "run")) == int(stops[-1])
