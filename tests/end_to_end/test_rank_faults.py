"""Processes that train together: one hangs, is killed or has a full disk; machines join and leave."""

import os
import random
import re
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from ranks import Training, command, is_equal, losses, pids_by_rank, wait_for, write_corpus, write_recipe

pytestmark = [
    pytest.mark.nightly,  # by day one of two processes is killed in test_processes.py
    pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc"),
]

STEPS, EVERY = 160, 40
KILLED = r"process [01] of 2 was killed by SIGKILL[^\n]*; restarting all processes"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of two processes that nothing happens to."""
    folder = workplace(tmp_path_factory.mktemp("whole"))
    with Training(folder, "whole", "--processes", "2") as training:
        code, said = training.end()
    assert code == 0, said
    return folder / "whole"


def workplace(folder: Path, *, timeout_minutes: float = 10.0) -> Path:
    write_corpus(folder)
    write_recipe(folder, dropout=0.1, steps=STEPS, valid_every=EVERY, timeout_minutes=timeout_minutes)
    return folder


SLOW = """
import os, time
if os.environ.get("RANK") == "0":
    from dragoman.tasks.translation.objective import TranslationObjective
    validate = TranslationObjective.validate
    def slowly(task, weights):
        time.sleep(15)
        TranslationObjective.validate = validate
        return validate(task, weights)
    TranslationObjective.validate = slowly
"""


def test_a_process_that_hangs_times_out_and_the_run_goes_on_to_the_bit(tmp_path: Path, whole: Path) -> None:
    """PyTorch's launcher asks the one that hangs to end, and kills it after half a minute."""
    folder = workplace(tmp_path, timeout_minutes=0.2)
    with Training(folder, "run", "--processes", "2", program=SLOW) as training:
        wait_for(tmp_path / "run" / "checkpoints" / f"step-{EVERY:06d}")
        os.kill(pids_by_rank(training.pid)[1], signal.SIGSTOP)
        code, said = training.end()
    assert code == 0, said
    assert said.count("error: ") == 1, said
    assert "error: process 0 of 2: another one has ended, or has not responded for 0.2 minutes (" in said
    restarted = r"process 0 of 2 ended with exit code 70 after step \d+; restarting all processes"
    assert len(re.findall(restarted, said)) == 1, said
    assert "Traceback" not in said
    assert is_equal(tmp_path / "run", whole)


def test_any_process_is_killed_at_any_time_and_the_run_ends_to_the_bit(tmp_path: Path, whole: Path) -> None:
    rng = random.Random(5)
    with Training(workplace(tmp_path), "run", "--processes", "2") as training:
        wait_for(tmp_path / "run" / "history.jsonl")
        for n_kills, rank in enumerate(rng.sample(range(2), 2), start=1):
            time.sleep(rng.uniform(0.0, 2.0))
            os.kill(training.pid_of(rank), signal.SIGKILL)
            training.wait_for(rf"(?s)({KILLED}.*){{{n_kills}}}")
        code, said = training.end()
    assert code == 0, said
    assert len(re.findall(KILLED, said)) == 2, said
    assert said.count("error: ") == len(re.findall("error: process [01] of 2: another one has ended", said))
    assert is_equal(tmp_path / "run", whole)


FULL = """
import os, resource, signal
if os.environ.get("RANK") == "{rank}":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
"""


def test_a_full_disk_of_the_first_process_is_a_line_and_the_run_goes_on(tmp_path: Path, whole: Path) -> None:
    """The other process has none at any time, and needs none."""
    folder, other = workplace(tmp_path), FULL.format(rank=1, limit=1000)
    with Training(folder, "run", "--processes", "2", "--max-hours", "1e-9", program=other) as training:
        assert training.end()[0] == 75
    (size,) = (file.stat().st_size for file in whole.glob("checkpoints/*/optimizer.safetensors"))
    full = FULL.format(rank=0, limit=size - 1)
    with Training(folder, "run", "--processes", "2", program=full) as training:
        code, said = training.end()
    assert code == 1
    last = said.splitlines()[-1]
    assert last.startswith(f"error: run/checkpoints/step-{EVERY:06d}: the checkpoint cannot be written (")
    assert "the last one is kept; put that right and run the same command again" in last
    assert said.count("error: ") == 1
    assert "Traceback" not in said
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-000001"]
    with Training(folder, "run", "--processes", "2", program=other) as training:
        code, said = training.end()
    assert code == 0, said
    assert is_equal(tmp_path / "run", whole)


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
