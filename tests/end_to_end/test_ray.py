"""A file translated by a Ray cluster on this machine: two cores, little memory, reachable from here only."""

import os
import random
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from commands import dragoman, succeed
from dragoman.bulk import cluster
from dragoman.bulk.input import Input
from dragoman.bulk.job import Job, ModelSpec
from dragoman.bulk.running import Status, translate_file
from dragoman.bulk.scoring import PairsInput, ScoringJob
from dragoman.errors import RunError
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


def test_ray_writes_what_one_process_writes_and_goes_on_where_it_was_stopped(
    tmp_path: Path, tiny_run: Path
) -> None:
    rng = random.Random(5)
    source = tmp_path / "in.txt"
    lines = [" ".join(rng.choices(list(WORDS), k=rng.randint(0, 9))) for _ in range(40)]
    source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def job(name: str) -> Job:
        return Job(ModelSpec(tiny_run), Input.of(str(source)), tmp_path / name, request=GREEDY)

    translate_file(job("alone.zst"), chunk_lines=8)

    def stop(status: Status) -> None:
        raise StoppedError

    with pytest.raises(StoppedError):
        translate_file(job("together.zst"), chunk_lines=8, ray="local", watch=stop)
    summary = translate_file(job("together.zst"), chunk_lines=8, ray="local", n_workers=2)
    assert 40 - summary.n_new in (0, 8)
    assert (tmp_path / "together.zst").read_bytes() == (tmp_path / "alone.zst").read_bytes()


@pytest.mark.nightly
def test_ray_scores_what_one_process_scores(tmp_path: Path, tiny_run: Path) -> None:
    source, scores = tmp_path / "in.txt", tmp_path / "scores.gz"
    source.write_text("red cat\n\nbig old house\n" * 10, encoding="utf-8")
    succeed("score-model", tiny_run, source, source, "--mean", "--ray", "local", "--out", scores)
    pairs = PairsInput.of_files(str(source), str(source), languages=("en", "de"))
    translate_file(ScoringJob(ModelSpec(tiny_run), pairs, tmp_path / "alone.gz"))
    assert scores.read_bytes() == (tmp_path / "alone.gz").read_bytes()


@pytest.mark.nightly
def test_complaints_come_through_the_cluster_as_one_line(tmp_path: Path, tiny_run: Path) -> None:
    (tmp_path / "in.txt").write_text("red cat\n", encoding="utf-8")
    damaged = damaged_run(tiny_run, tmp_path / "run")
    arguments = ["translate", damaged, tmp_path / "in.txt", "--out", tmp_path / "out.txt", "--ray"]
    result = dragoman(*arguments, "local")
    assert result.exit_code == 1
    assert "error: " in result.stderr.splitlines()[-1]
    assert "model.safetensors" in result.stderr.splitlines()[-1]
    nowhere = dragoman(*arguments, "127.0.0.1:1")
    assert nowhere.exit_code == 1
    assert "--ray 127.0.0.1:1: no cluster is there" in nowhere.stderr.splitlines()[-1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "run"]
    assert succeed("translate", tiny_run, stdin="red cat\n").stdout.count("\n") == 1


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
def two_nodes(*, head_cores: int) -> Iterator[tuple[str, int]]:
    """The address of a cluster of two nodes on this machine, and the process of the second one's raylet."""
    for variable, value in cluster.QUIET.items():
        os.environ.setdefault(variable, value)
    from ray.cluster_utils import Cluster

    common: dict[str, Any] = {"object_store_memory": 100 << 20, "node_ip_address": LOOPBACK}
    head = {"num_cpus": head_cores, "include_dashboard": False, "_system_config": SOON, **common}
    nodes = Cluster(initialize_head=True, head_node_args=head)
    try:
        second = nodes.add_node(num_cpus=1, **common)
        yield nodes.address, second.all_processes["raylet"][0].process.pid
    finally:
        nodes.shutdown()


class Text:
    """A file of 1,200 lines, translated by one process as `alone.zst`."""

    def __init__(self, folder: Path, run: Path) -> None:
        rng = random.Random(6)
        self.folder, self.run, self.source = folder, run, folder / "in.txt"
        lines = [" ".join(rng.choices(list(WORDS), k=rng.randint(0, 9))) for _ in range(1200)]
        self.source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        translate_file(self.job("alone.zst"), chunk_lines=8)

    def job(self, name: str) -> Job:
        return Job(ModelSpec(self.run), Input.of(str(self.source)), self.folder / name, request=GREEDY)

    def is_the_same(self, name: str) -> bool:
        return (self.folder / name).read_bytes() == (self.folder / "alone.zst").read_bytes()


def killer(pid: int) -> Any:
    """A callback that kills the process when a little is done."""
    killed: list[int] = []

    def watch(status: Status) -> None:
        if not killed and status.n_new >= 24:
            os.kill(pid, signal.SIGKILL)
            killed.append(status.n_read)

    watch.killed = killed  # type: ignore[attr-defined]
    return watch


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
@pytest.mark.nightly
def test_a_machine_that_dies_costs_no_line_and_makes_none_twice(tmp_path: Path, tiny_run: Path) -> None:
    text = Text(tmp_path, tiny_run)
    with two_nodes(head_cores=1) as (address, pid):
        watch = killer(pid)
        translate_file(text.job("two.zst"), chunk_lines=8, ray=address, n_workers=2, watch=watch)
    assert watch.killed
    assert watch.killed[0] < 1200
    assert text.is_the_same("two.zst")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone.zst", "in.txt", "two.zst"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
@pytest.mark.nightly
def test_without_a_machine_for_workers_one_line_says_so_and_the_same_call_continues(
    tmp_path: Path, tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 3.0)
    text = Text(tmp_path, tiny_run)
    with two_nodes(head_cores=0) as (address, pid), pytest.raises(RunError) as caught:
        translate_file(text.job("two.zst"), chunk_lines=8, ray=address, n_workers=1, watch=killer(pid))
    assert str(caught.value) == (
        "the Ray cluster has had no machine with 1 CPU for 3 seconds (machines that are left: 1); what was "
        "finished is kept, and the same command continues"
    )
    summary = translate_file(text.job("two.zst"), chunk_lines=8)
    assert summary.n_new <= 1200 - 24
    assert text.is_the_same("two.zst")
