"""A file translated by a Ray cluster on this machine: two cores, little memory, reachable from here only."""

import os
import random
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from commands import error_of
from dragoman.bulk import cluster
from dragoman.bulk.input import Input
from dragoman.bulk.job import Job, ModelSpec
from dragoman.bulk.running import Status, translate_file
from dragoman.predict.flow import TranslationRequest
from tiny import WORDS, damaged_run

pytest.importorskip("ray", reason="Ray is not installed: pip install 'dragoman[ray]'")
pytestmark = pytest.mark.filterwarnings("ignore")  # what Ray says about itself is not ours


@pytest.fixture(autouse=True)
def not_nice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers have their part of the processor: Ray's own 15 would wait for all other tests to end."""
    monkeypatch.setenv("RAY_worker_niceness", "0")


GREEDY = TranslationRequest(settings={"beam_size": 1})


class StoppedError(Exception):
    """What stands for a kill."""


def write_lines(folder: Path, n_lines: int) -> Path:
    rng = random.Random(n_lines)
    lines = [" ".join(rng.choices(list(WORDS), k=rng.randint(0, 9))) for _ in range(n_lines)]
    (folder / "in.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder / "in.txt"


def job_of(run: Path, source: Path, name: str) -> Job:
    return Job(ModelSpec(run), Input.of(str(source)), source.with_name(name), request=GREEDY)


@pytest.mark.nightly
def test_ray_writes_what_one_process_writes_and_goes_on_where_it_was_stopped(
    tmp_path: Path, tiny_run: Path
) -> None:
    source = write_lines(tmp_path, 40)
    job = partial(job_of, tiny_run, source)
    translate_file(job("alone.zst"), chunk_lines=8)

    def stop(status: Status) -> None:
        raise StoppedError

    with pytest.raises(StoppedError):
        translate_file(job("together.zst"), chunk_lines=8, ray="local", watch=stop)
    summary = translate_file(job("together.zst"), chunk_lines=8, ray="local", n_workers=2)
    assert 40 - summary.n_new in (0, 8)
    assert (tmp_path / "together.zst").read_bytes() == (tmp_path / "alone.zst").read_bytes()


@pytest.mark.nightly
def test_complaints_come_through_the_cluster_as_one_line(tmp_path: Path, tiny_run: Path) -> None:
    (tmp_path / "in.txt").write_text("red cat\n", encoding="utf-8")
    damaged = damaged_run(tiny_run, tmp_path / "run")
    command = ["translate", damaged, tmp_path / "in.txt", "--out", tmp_path / "out.txt", "--ray"]
    assert "model.safetensors" in error_of(*command, "local", silent=False)
    assert "--ray 127.0.0.1:1: no cluster is there" in error_of(*command, "127.0.0.1:1", silent=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "run"]


LOOPBACK = "127.0.0.2"
"""Ray takes 127.0.0.1 for the machine's address in its network, which the cluster shall not use."""
SOON = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 1000,
    "health_check_failure_threshold": 2,
}
"""After how long a machine that says nothing counts as dead; Ray's own settings make half a minute of it."""


@contextmanager
def two_nodes() -> Iterator[tuple[str, int]]:
    """The address of a cluster of two nodes on this machine, and the process of the second one's raylet."""
    for variable, value in cluster.QUIET.items():
        os.environ.setdefault(variable, value)
    from ray.cluster_utils import Cluster

    common: dict[str, Any] = {"object_store_memory": 100 << 20, "node_ip_address": LOOPBACK}
    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": SOON, **common}
    nodes = Cluster(initialize_head=True, head_node_args=head)
    try:
        second = nodes.add_node(num_cpus=1, **common)
        yield nodes.address, second.all_processes["raylet"][0].process.pid
    finally:
        nodes.shutdown()


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
def test_a_machine_that_dies_costs_no_line_and_makes_none_twice(tmp_path: Path, tiny_run: Path) -> None:
    source = write_lines(tmp_path, 1200)
    translate_file(job_of(tiny_run, source, "alone.zst"), chunk_lines=8)
    killed: list[int] = []
    with two_nodes() as (address, pid):

        def kill(status: Status) -> None:
            if not killed and status.n_new >= 24:
                os.kill(pid, signal.SIGKILL)
                killed.append(status.n_read)

        job = job_of(tiny_run, source, "two.zst")
        translate_file(job, chunk_lines=8, ray=address, n_workers=2, watch=kill)
    assert killed[0] < 1200
    assert (tmp_path / "two.zst").read_bytes() == (tmp_path / "alone.zst").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone.zst", "in.txt", "two.zst"]
