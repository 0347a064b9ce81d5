"""Kill and stop processes of a training, at random, and see whether it continues exactly.

    python benchmarks/rank_faults.py
    python benchmarks/rank_faults.py --kills 50 --processes 2 --hangs 2

Prints Markdown. A small model is trained by several processes (`dragoman train --processes`). In each run,
three processes are killed with `kill -9`: of a random rank, at a random instant. A run continues exactly if
its weights, its optimizer and its history are equal to the bit to those of a run that nothing happened to.
Then processes are stopped (SIGSTOP), and the seconds are measured until one is named.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from ranks import Training, facts, pids_by_rank, wait_for, write_corpus, write_recipe

KILLS = 3
"""Kills in a run: as often as `dragoman train --processes` starts it again."""

EVERY = 40
"""Updates from one checkpoint to the next."""


AT_START = 0.25
"""Share of the kills at an instant from the start of the processes on, and not of their updates."""


STARTS = "while it starts"


@dataclass(frozen=True)
class Kill:
    """A process that was killed."""

    rank: int
    when: str


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--hangs", type=int, default=2, help="processes to stop, each in a run of its own")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_corpus(folder)
        write_recipe(folder, dropout=0.1, steps=options.steps, valid_every=EVERY)
        begun = time.monotonic()
        with train(folder, "whole", options) as training:
            code, said = training.end()
        assert code == 0, said
        seconds = time.monotonic() - begun
        for line in chain(kills_table(folder, options, seconds), [""], hangs_table(folder, options)):
            print(line, flush=True)


def train(folder: Path, out: str, options: argparse.Namespace) -> Training:
    return Training(folder, out, "--processes", str(options.processes))


def kills_table(folder: Path, options: argparse.Namespace, seconds: float) -> Iterator[str]:
    """Kill `options.kills` processes; `seconds` is how long a run takes."""
    rng = random.Random(options.seed)
    yield "| kill | run | rank | killed | continued exactly |"
    yield "|---|---|---|---|---|"
    n_kills, n_exact, n_run = 0, 0, 0
    while n_kills < options.kills:
        n_run += 1
        out = f"run-{n_run}"
        n = min(KILLS, options.kills - n_kills)
        with train(folder, out, options) as training:
            kills = []
            for _ in range(n):
                training.pid_of(0)
                if rng.random() < AT_START:
                    time.sleep(rng.uniform(0.0, seconds / 3))
                else:
                    wait_for_updates(training, folder / out)
                    time.sleep(rng.uniform(0.0, seconds / 10))
                if (kill := kill_one(training, folder / out, rng.randrange(options.processes))) is None:
                    break  # it is over
                kills.append(kill)
            code, said = training.end()
        exact = code == 0 and is_equal(folder / out, folder / "whole", options.steps)
        if not exact:
            print(said, file=sys.stderr)
        for kill in kills:
            n_kills += 1
            n_exact += exact
            yield f"| {n_kills} | {n_run} | {kill.rank} | {kill.when} | {'yes' if exact else 'no'} |"
    yield ""
    yield f"{n_exact} of {n_kills} kills continued exactly, of {options.processes} processes."


def kill_one(training: Training, run: Path, rank: int) -> Kill | None:
    """Kill the process of this rank and wait until it is gone; None: the training is over."""
    pids = pids_by_rank(training.pid)
    if rank not in pids:
        return None
    when = instant(run, pids[rank])
    os.kill(pids[rank], signal.SIGKILL)
    training.wait_until_gone(pids[rank])
    return Kill(rank, when)


def wait_for_updates(training: Training, run: Path) -> None:
    """Wait until the processes that run now have logged an update, or are gone."""
    while (pids := pids_by_rank(training.pid)) and instant(run, min(pids.values())) == STARTS:
        time.sleep(0.05)


def instant(run: Path, pid: int) -> str:
    """Return what a training is doing."""
    history = run / "history.jsonl"
    try:
        started = Path(f"/proc/{pid}").stat().st_mtime
    except FileNotFoundError:
        return "while it ends"
    if not history.exists() or history.stat().st_mtime < started:
        return STARTS
    lines = history.read_text(encoding="utf-8").split("\n")[:-1]  # the last one may be half written
    if not lines:
        return STARTS
    last = json.loads(lines[-1])
    if list((run / "checkpoints").glob(".*.partial")):
        return f"while it saves step {last['step']}"
    if last["kind"] == "train" and last["step"] % EVERY == 0:
        return f"while it validates step {last['step']}"
    return f"after step {last['step']}"


def is_equal(run: Path, whole: Path, steps: int) -> bool:
    """Whether a run has the bytes of another one, except for seconds."""
    names = ("model.safetensors", f"checkpoints/step-{steps:06d}/optimizer.safetensors")
    equal = all((run / name).read_bytes() == (whole / name).read_bytes() for name in names)
    return equal and facts(run) == facts(whole)


def hangs_table(folder: Path, options: argparse.Namespace) -> Iterator[str]:
    """Stop a process of one rank after the other."""
    yield "| rank stopped (SIGSTOP) | named after | continued exactly |"
    yield "|---|---|---|"
    for number in range(options.hangs):
        rank, out = number % options.processes, f"hang-{number}"
        with train(folder, out, options) as training:
            wait_for(folder / out / "checkpoints" / f"step-{EVERY:06d}")
            os.kill(pids_by_rank(training.pid)[rank], signal.SIGSTOP)
            begun = time.monotonic()
            while f"process {rank} of {options.processes} (pid" not in training.said():
                time.sleep(0.1)
            seconds = time.monotonic() - begun
            code, _ = training.end()
        exact = code == 0 and is_equal(folder / out, folder / "whole", options.steps)
        yield f"| {rank} | {seconds:.0f} s | {'yes' if exact else 'no'} |"


if __name__ == "__main__":
    main()
