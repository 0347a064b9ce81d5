"""A training on a failing machine: one clear line, a checkpoint is kept, and the same command continues."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tiny import TINY, write_corpus

PROGRAM = """
import resource, signal, sys
from dragoman.cli import main

if limit := int(sys.argv.pop(1)):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
sys.argv[0] = "dragoman"
main()
"""
"""The command under a limit on the size of files in bytes; 0 = no limit."""

SETTINGS = (*TINY, "training.max_steps=9", "training.ema_decay=0.9", "training.keep_checkpoints=1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_corpus(tmp_path, "train", 150, seed=1)
    write_corpus(tmp_path, "valid", 20, seed=2)
    return tmp_path


def train(
    folder: Path, out: str, *options: str, largest_file: int = 0, settings: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    sets = [part for setting in (*SETTINGS, *settings) for part in ("--set", setting)]
    files = [f"--{prefix}{side}={name}.{lang}"
             for prefix, name in (("", "train"), ("valid-", "valid"))
             for side, lang in (("src", "en"), ("tgt", "de"))]  # fmt: skip
    command = [
        sys.executable,
        "-c",
        PROGRAM,
        str(largest_file),
        "train",
        *files,
        "--out",
        out,
        *sets,
        *options,
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "NO_COLOR": "1"}
    return subprocess.run(
        command, cwd=folder, env=environment, timeout=300, capture_output=True, text=True, check=False
    )


def error_of(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert lines == done.stderr.splitlines()[-1:]
    return lines[0]


def losses(run: Path) -> list[tuple[int, float]]:
    records = [json.loads(line) for line in (run / "history.jsonl").read_text(encoding="utf-8").splitlines()]
    return [(r["step"], r["train_loss"]) for r in records if r["kind"] == "train"]


def checkpoints(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "checkpoints").iterdir())


def test_a_checkpoint_that_cannot_be_written_leaves_the_last_one_and_the_run_goes_on(folder: Path) -> None:
    whole = train(folder, "whole")
    assert whole.returncode == 0, whole.stderr
    sizes = [p.stat().st_size for p in (folder / "whole" / "checkpoints" / "step-000009").iterdir()]
    stopped = train(folder, "run", "--max-hours", "1e-9")
    assert stopped.returncode == 75
    assert checkpoints(folder / "run") == ["step-000001"]
    full = train(folder, "run", largest_file=max(sizes) - 1)
    assert "the checkpoint cannot be written" in error_of(full)
    assert "the last one stands; put that right and run the same command again" in error_of(full)
    assert checkpoints(folder / "run") == ["step-000001"]
    assert train(folder, "run").returncode == 0
    assert losses(folder / "run")[-3:] == losses(folder / "whole")[-3:]
    for name in ("model.safetensors", "checkpoints/step-000009/optimizer.safetensors"):
        assert (folder / "run" / name).read_bytes() == (folder / "whole" / name).read_bytes()


def test_a_disk_that_is_full_from_the_start_is_said(folder: Path) -> None:
    assert "error: " in error_of(train(folder, "run", largest_file=2000))
    assert train(folder, "run").returncode == 0  # nothing half-written is in the way


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is a folder in which nobody may write")
def test_a_folder_that_cannot_be_written_is_named(folder: Path) -> None:
    assert "/proc/dragoman" in error_of(train(folder, "/proc/dragoman"))


@pytest.mark.parametrize("file", ["train.de", "valid.en"])
def test_a_corpus_that_has_vanished_is_named_and_the_run_goes_on_when_it_is_back(
    folder: Path, file: str
) -> None:
    assert train(folder, "whole").returncode == 0
    assert train(folder, "run", "--max-hours", "1e-9").returncode == 75
    (folder / file).rename(folder / "elsewhere")
    assert f"{file}: " in error_of(train(folder, "run"))
    assert checkpoints(folder / "run") == ["step-000001"]
    (folder / "elsewhere").rename(folder / file)
    assert train(folder, "run").returncode == 0
    assert losses(folder / "run")[-3:] == losses(folder / "whole")[-3:]


def test_a_corpus_that_has_changed_is_another_one(folder: Path) -> None:
    assert train(folder, "run", "--max-hours", "1e-9").returncode == 75
    with (folder / "train.en").open("a", encoding="utf-8") as file:
        file.write("one line more\n")
    said = error_of(train(folder, "run"))
    assert "train.en" in said
    assert "train.de" in said
