"""A translation or scoring of a file that is killed goes on without losing or repeating a line."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.bulk.input import Input
from dragoman.bulk.job import Job, ModelSpec
from dragoman.bulk.running import translate_file
from dragoman.bulk.scoring import PairsInput, ScoringJob
from dragoman.data.readers.files import open_lines
from dragoman.predict.flow import TranslationRequest
from tiny import WORDS

pytestmark = pytest.mark.nightly  # by day test_workers.py kills one
CHUNK_LINES = 10
GREEDY = {"beam_size": 1}

PROGRAM = """
import os, signal, sys, threading
from multiprocessing import active_children
from pathlib import Path
from dragoman.bulk.input import Input
from dragoman.bulk.job import Job, ModelSpec
from dragoman.bulk.running import translate_file
from dragoman.bulk.scoring import PairsInput, ScoringJob
from dragoman.errors import DragomanError
from dragoman.predict.flow import TranslationRequest

run, source, out, work, victim, delay, chunk_lines = sys.argv[1:]
if work == "translating":
    request = TranslationRequest(settings={"beam_size": 1})
    job = Job(ModelSpec(Path(run)), Input.of(source), Path(out), request=request)
else:
    files = Path(source), Path(source).with_name("in.de")
    pairs = PairsInput.of_files(*map(str, files), languages=("en", "de"))
    job = ScoringJob(ModelSpec(Path(run)), pairs, Path(out))

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
    for file, words in ((path, list(WORDS)), (path.with_name("in.de"), list(WORDS.values()))):
        lines = [" ".join(rng.choices(words, k=rng.randint(0, 9))) for _ in range(1500)]
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def uninterrupted(corpus: Path, tiny_run: Path) -> dict[str, list[str]]:
    outs = {work: corpus.with_name(work) for work in ("translating", "scoring")}
    model = ModelSpec(tiny_run)
    pairs = PairsInput.of_files(str(corpus), str(corpus.with_name("in.de")), languages=("en", "de"))
    jobs = (
        Job(model, Input.of(str(corpus)), outs["translating"], request=TranslationRequest(settings=GREEDY)),
        ScoringJob(model, pairs, outs["scoring"]),
    )
    for job in jobs:
        translate_file(job, chunk_lines=CHUNK_LINES)
    return {work: list(open_lines(out)) for work, out in outs.items()}


@pytest.mark.parametrize(
    ("work", "victim", "n_kills"),
    [("translating", "parent", 2), ("scoring", "worker", 1), ("translating", "worker", 2),
     ("scoring", "parent", 1)],
)  # fmt: skip
def test_kills_at_random_instants_leave_what_continues_to_the_byte(
    work: str, victim: str, n_kills: int, corpus: Path, uninterrupted: dict[str, list[str]], tiny_run: Path,
    tmp_path: Path,
) -> None:  # fmt: skip
    rng = random.Random(victim)
    out = tmp_path / "out.zst"
    codes = []
    for delay in (*(rng.uniform(0, 0.25) for _ in range(n_kills)), 1000):
        command = [sys.executable, "-c", PROGRAM, tiny_run, corpus, out, work, victim, delay, CHUNK_LINES]
        done = subprocess.run(
            list(map(str, command)), capture_output=True, text=True, check=False,
            timeout=300,  # it does not wait for the dead
        )  # fmt: skip
        codes.append(done.returncode)
        if done.returncode == 1:
            assert done.stderr.startswith("error: worker ")
            assert "died, killed by SIGKILL" in done.stderr
            assert "what was finished is kept, and the same command continues" in done.stderr
        if done.returncode != 0:
            assert not out.exists()
    assert codes[-1] == 0
    assert codes[0] == {"parent": -9, "worker": 1}[victim]
    assert list(open_lines(out)) == uninterrupted[work]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.zst"]
