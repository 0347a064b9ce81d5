"""Trainings in several processes, to which something happens."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

RECIPE = """
name = "together"
[data]
src_lang = "en"
tgt_lang = "de"
train = ["train.tsv"]
valid = ["valid.tsv"]
[tokenizer]
vocab_size = 400
[model]
d_model = 16
n_heads = 2
d_ff = 32
n_encoder_layers = 1
n_decoder_layers = 1
dropout = {dropout}
[training]
max_steps = {steps}
timeout_minutes = {timeout_minutes}
batch_tokens = 200
update_freq = 2
warmup_steps = 10
log_every = 1
valid_every = {valid_every}
keep_checkpoints = 2
ema_decay = 0.9
precision = "fp32"
device = "cpu"
"""

FACTS = ("kind", "step", "epoch", "train_loss", "lr", "gradient_norm", "valid_loss", "bleu", "chrf", "best")


class Training:
    """A training in its own processes; whatever is left of it is killed at the end of the block.

    `program` is run at the start of each of its Python processes.
    """

    def __init__(
        self,
        folder: Path,
        out: str,
        *options: str,
        program: str = "",
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._files = tempfile.TemporaryDirectory()
        (Path(self._files.name) / "sitecustomize.py").write_text(program, encoding="utf-8")
        self._output = (Path(self._files.name) / "stderr").open("w", encoding="utf-8")
        path = os.pathsep.join([self._files.name, *sys.path])
        self._process = subprocess.Popen(
            [*arguments] or command(out, *options), cwd=folder,
            stderr=self._output, stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path, "NO_COLOR": "1", **(environment or {})},
        )  # fmt: skip
        self.pid = self._process.pid

    def __enter__(self) -> Training:
        return self

    def __exit__(self, *_: object) -> None:
        left = pids_by_rank(self.pid).values()
        self._process.kill()
        self._process.wait()
        for pid in left:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self._output.close()
        self._files.cleanup()

    def end(self, timeout: float = 600.0) -> tuple[int, str]:
        """Wait for the end; return the exit code, and what was written to stderr."""
        return self._process.wait(timeout), self.said()

    def said(self) -> str:
        """Return what was written to stderr so far."""
        return Path(self._output.name).read_text(encoding="utf-8")

    def stop(self) -> None:
        """Ask the launcher to end."""
        self._process.terminate()

    def wait_for(self, pattern: str) -> None:
        """Wait until this regular expression matches a part of what is written to stderr."""
        until(lambda: re.search(pattern, self.said()), f"{pattern} is not said")

    def pid_of(self, *ranks: int) -> int:
        """Wait for a process of one of these ranks, and return its number."""

        def find() -> list[int]:
            pids = pids_by_rank(self.pid)
            return [pids[rank] for rank in ranks if rank in pids]

        return until(find, f"there is no process of rank {ranks}")[0]

    def wait_until_gone(self, pid: int) -> None:
        """Wait until the launcher has noticed the end of a process."""
        until(lambda: not Path(f"/proc/{pid}").exists(), f"process {pid} is still there")


def until(find: Callable[[], T], problem: str) -> T:
    """Return what `find` finds as soon as that is something. AssertionError: it is not within ten minutes."""
    end = time.monotonic() + 600
    while time.monotonic() < end:
        if found := find():
            return found
        time.sleep(0.02)
    raise AssertionError(problem)


def write_corpus(folder: Path) -> None:
    """Write a corpus of a few epochs, whose lines are of many lengths."""
    lines = [
        f"{a} {b} cats sleep{' and sleep' * (a % 7)}.\t{a} {b} Katzen schlafen{' und schlafen' * (a % 7)}."
        for a in range(20)
        for b in range(20)
    ]
    (folder / "train.tsv").write_text("\n".join(lines), encoding="utf-8")
    (folder / "valid.tsv").write_text("\n".join(lines[::40]), encoding="utf-8")


def write_recipe(folder: Path, **settings: float) -> None:
    text = RECIPE.format(
        **{"dropout": 0.0, "steps": 12, "valid_every": 6, "timeout_minutes": 10.0, **settings}
    )
    (folder / "recipe.toml").write_text(text, encoding="utf-8")


def command(out: str, *options: str) -> list[str]:
    return [sys.executable, "-m", "dragoman", "train", "recipe.toml", "--out", out, *options]


def records(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "history.jsonl").read_text(encoding="utf-8").splitlines()]


def losses(run: Path) -> list[float]:
    return [record["train_loss"] for record in records(run) if record["kind"] == "train"]


def facts(run: Path) -> list[tuple[object, ...]]:
    """Everything in the history that does not depend on the clock."""
    return [tuple(record.get(key) for key in FACTS) for record in records(run)]


def wait_for(path: Path) -> None:
    until(path.exists, f"{path} does not appear")


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started, by their numbers."""
    return sorted(
        int(status.parent.name)
        for status in Path("/proc").glob("[0-9]*/status")
        if f"PPid:\t{pid}\n" in _read(status)
    )


def pids_by_rank(launcher: int) -> dict[int, int]:
    """Return the processes of a training that a launcher has started, by rank."""
    environments = {pid: _read(Path(f"/proc/{pid}/environ")) for pid in children_of(launcher)}
    ranks = {pid: re.search(r"(?:^|\0)RANK=(\d+)", text) for pid, text in environments.items()}
    return {int(rank[1]): pid for pid, rank in ranks.items() if rank}


def is_equal(run: Path, whole: Path) -> bool:
    """Return whether weights, optimizer and history equal those of `whole`, seconds excepted."""
    optimizers = [path.relative_to(whole) for path in whole.glob("checkpoints/*/optimizer.safetensors")]
    assert optimizers, f"{whole} has no checkpoint"
    return facts(run) == facts(whole) and all(
        (run / name).read_bytes() == (whole / name).read_bytes()
        for name in (Path("model.safetensors"), *optimizers)
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
