"""A translation of a file that is killed goes on without losing or repeating a line."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dragoman.bulk.job import Job
from dragoman.bulk.output import Lines, as_line
from dragoman.bulk.running import translate_file
from dragoman.data.readers.files import open_lines
from tiny import WORDS

CHUNK_LINES = 10
GREEDY = {"beam_size": 1}

PROGRAM = """
import os, signal, sys, threading
from multiprocessing import active_children
from pathlib import Path
from dragoman.bulk.job import Job
from dragoman.bulk.output import Lines
from dragoman.bulk.running import translate_file
from dragoman.bulk.output import as_line
from dragoman.errors import DragomanError

run, source, out, victim, delay, chunk_lines = sys.argv[1:]
job = Job(Path(run), Path(source), Path(out), Lines(as_line), {"beam_size": 1})

def kill():
    pid = os.getpid() if victim == "parent" else active_children()[0].pid
    os.kill(pid, signal.SIGKILL)

assassin = threading.Timer(float(delay), kill)
assassin.daemon = True

def watch(status):
    if assassin.ident is None:
        assassin.start()

try:
    translate_file(job, n_workers=2, chunk_lines=int(chunk_lines), watch=watch)
except DragomanError as error:
    sys.exit(f"error: {error}")
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = random.Random(3)
    path = tmp_path_factory.mktemp("corpus") / "in.txt"
    lines = [" ".join(rng.choices(list(WORDS), k=rng.randint(0, 9))) for _ in range(3000)]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def uninterrupted(corpus: Path, tiny_run: Path) -> list[str]:
    out = corpus.with_name("whole.txt")
    translate_file(Job(tiny_run, corpus, out, Lines(as_line), GREEDY), chunk_lines=CHUNK_LINES)
    return list(open_lines(out))


@pytest.mark.parametrize("victim", ["parent", "worker"])
def test_kills_at_random_instants_leave_what_continues_to_the_byte(
    victim: str, corpus: Path, uninterrupted: list[str], tiny_run: Path, tmp_path: Path
) -> None:
    rng = random.Random(victim)
    out = tmp_path / "out.zst"
    codes = []
    for delay in (rng.uniform(0, 0.5), rng.uniform(0, 0.5), 1000):
        command = [sys.executable, "-c", PROGRAM, tiny_run, corpus, out, victim, delay, CHUNK_LINES]
        start = time.monotonic()
        done = subprocess.run(
            list(map(str, command)), capture_output=True, text=True, check=False, timeout=120
        )
        codes.append(done.returncode)
        if done.returncode == 1:
            assert done.stderr.startswith("error: worker ")
            assert "died, killed by SIGKILL" in done.stderr
            assert "what was finished is kept, and the same command continues" in done.stderr
            assert time.monotonic() - start < 60, "it does not wait for the dead"
        if done.returncode != 0:
            assert not out.exists()
    assert codes[-1] == 0
    assert codes[0] == {"parent": -9, "worker": 1}[victim]
    assert list(open_lines(out)) == uninterrupted
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.zst"]
