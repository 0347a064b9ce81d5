"""Processes that train together: one hangs, is killed or has a full disk; machines join and leave."""

import os
import re
import signal
import socket
import sys
from pathlib import Path

import pytest

from ranks import Training, command, is_equal, losses, pids_by_rank, wait_for, write_corpus, write_recipe

pytestmark = [
    pytest.mark.nightly,  # by day one of two processes is killed in test_processes.py
    pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc"),
]

STEPS, EVERY = 160, 40


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
