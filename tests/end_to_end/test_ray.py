"""A file translated by a Ray cluster on this machine: two cores, little memory, reachable from here only."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

from commands import dragoman, succeed
from dragoman.bulk.job import Job
from dragoman.bulk.output import Lines, as_line
from dragoman.bulk.running import Status, translate_file
from dragoman.bulk.scoring import ScoringJob
from tiny import WORDS, damaged_run

pytest.importorskip("ray", reason="Ray is not installed: pip install 'dragoman[ray]'")
pytestmark = pytest.mark.filterwarnings("ignore")  # what Ray says about itself is not ours


class StoppedError(Exception):
    """What stands for a kill."""


def test_ray_writes_what_one_process_writes_and_goes_on_where_it_was_stopped(
    tmp_path: Path, tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is left when its own threads have ended: one that outlives the cluster ends this process."""
    import ray

    threads: list[str] = []
    leave = ray.shutdown

    def record() -> None:
        threads.extend(thread.name for thread in threading.enumerate())
        leave()

    monkeypatch.setattr(ray, "shutdown", record)
    rng = random.Random(5)
    source = tmp_path / "in.txt"
    lines = [" ".join(rng.choices(list(WORDS), k=rng.randint(0, 9))) for _ in range(40)]
    source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def job(name: str) -> Job:
        return Job(tiny_run, source, tmp_path / name, Lines(as_line), {"beam_size": 1})

    translate_file(job("alone.zst"), chunk_lines=8)

    def stop(status: Status) -> None:
        raise StoppedError

    with pytest.raises(StoppedError):
        translate_file(job("together.zst"), chunk_lines=8, ray="local", watch=stop)
    assert threads
    assert not [name for name in threads if name.startswith("StreamingExecutor")]
    summary = translate_file(job("together.zst"), chunk_lines=8, ray="local", n_workers=2)
    assert 40 - summary.n_new in (0, 8)
    assert (tmp_path / "together.zst").read_bytes() == (tmp_path / "alone.zst").read_bytes()
    scores = [ScoringJob(tiny_run, source, tmp_path / name, target=source) for name in ("a.gz", "b.gz")]
    translate_file(scores[0], chunk_lines=8)
    translate_file(scores[1], chunk_lines=8, ray="local", n_workers=2)
    assert scores[1].out.read_bytes() == scores[0].out.read_bytes()


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
