"""A training on a failing machine: one clear line, a checkpoint is kept, and the same command continues."""

import resource
import sys
from pathlib import Path

import pytest

from commands import dragoman, error_of, succeed
from tiny import TINY, write_corpus

SETTINGS = (*TINY, "training.max_steps=9", "training.ema_decay=0.9", "training.keep_checkpoints=1")


FILES = [f"--{prefix}{side}={name}.{lang}"
         for prefix, name in (("", "train"), ("valid-", "valid"))
         for side, lang in (("src", "en"), ("tgt", "de"))]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_corpus(tmp_path, "train", 150, seed=1)
    write_corpus(tmp_path, "valid", 20, seed=2)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def train(out: str, *options: str) -> list[str]:
    sets = [part for setting in SETTINGS for part in ("--set", setting)]
    return ["train", *FILES, "--out", out, *sets, *options]


PAUSE = ("--max-hours", "1e-9")


def error_with_little_room(command: list[str], *, largest_file: int) -> str:
    """Return the error of a command that may not write files of more than `largest_file` bytes."""
    unlimited, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, most))  # Python ignores the signal
    try:
        return error_of(*command, silent=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (unlimited, most))


def checkpoints(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "checkpoints").iterdir())


def test_a_checkpoint_that_cannot_be_written_leaves_the_last_one_and_the_run_goes_on(folder: Path) -> None:
    succeed(*train("whole"))
    (best,) = (folder / "whole" / "checkpoints").iterdir()
    sizes = [p.stat().st_size for p in best.iterdir()]
    assert dragoman(*train("run", *PAUSE)).exit_code == 75
    assert checkpoints(folder / "run") == ["step-000001"]
    error = error_with_little_room(train("run"), largest_file=max(sizes) - 1)
    assert "the checkpoint cannot be written" in error
    assert "the last one is kept; put that right and run the same command again" in error
    assert checkpoints(folder / "run") == ["step-000001"]
    succeed(*train("run"))
    for name in ("model.safetensors", f"checkpoints/{best.name}/optimizer.safetensors"):
        assert (folder / "run" / name).read_bytes() == (folder / "whole" / name).read_bytes()


def test_a_disk_that_is_full_from_the_start_is_said(folder: Path) -> None:
    assert "error: " in error_with_little_room(train("run"), largest_file=2000)
    assert dragoman(*train("run", *PAUSE)).exit_code == 75, "nothing half-written is in the way"


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is a folder in which nobody may write")
def test_a_folder_that_cannot_be_written_is_named(folder: Path) -> None:
    assert "/proc/dragoman" in error_of(*train("/proc/dragoman"))


def test_a_vanished_corpus_is_named_and_the_run_goes_on_when_it_is_back(folder: Path) -> None:
    assert dragoman(*train("run", *PAUSE)).exit_code == 75
    for file in ("train.de", "valid.en"):
        (folder / file).rename(folder / "elsewhere")
        assert f"{file}: " in error_of(*train("run"))
        assert checkpoints(folder / "run") == ["step-000001"]
        (folder / "elsewhere").rename(folder / file)
    assert "continuing from step 1" in succeed(*train("run")).stderr
