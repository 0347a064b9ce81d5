"""Kill processes of a training at random, and see whether it continues exactly.

    python benchmarks/rank_faults.py
    python benchmarks/rank_faults.py --kills 50 --processes 2

A small model is trained by several processes (`dragoman train --processes`). In each run,
three processes are killed with `kill -9`: of a random rank, at a random instant of the time that a run takes.
A run continues exactly if its weights, its optimizer and its history are equal to the bit to those of a run
that nothing happened to.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from measuring import Result, parser_of
from ranks import Training, is_equal, pids_by_rank, write_corpus, write_recipe

KILLS = 3
"""Kills in a run: as often as `dragoman train --processes` starts it again."""


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng, n_kills, n_exact, n_run = random.Random(options.seed), 0, 0, 0
    with tempfile.TemporaryDirectory() as name, Result("rank_faults", options) as result:
        folder = Path(name)
        write_corpus(folder)
        write_recipe(folder, dropout=0.1, steps=options.steps, valid_every=options.steps // 4)
        begun = time.monotonic()
        train(folder, "whole", options, [])
        seconds = time.monotonic() - begun
        table = result.table({"run": "d", "ranks killed": "", "continued exactly": ""})
        while n_kills < options.kills:
            n_run += 1
            pauses = [rng.uniform(0.0, seconds / 2) for _ in range(min(KILLS, options.kills - n_kills))]
            victims = [(pause, rng.randrange(options.processes)) for pause in pauses]
            ranks = train(folder, f"run-{n_run}", options, victims)
            exact = is_equal(folder / f"run-{n_run}", folder / "whole")
            n_kills, n_exact = n_kills + len(ranks), n_exact + len(ranks) * exact
            table.add(n_run, ", ".join(map(str, ranks)), "yes" if exact else "no")
    print(f"\n{n_exact} of {n_kills} kills continued exactly, of {options.processes} processes.")


def train(folder: Path, out: str, options: argparse.Namespace, victims: list[tuple[float, int]]) -> list[int]:
    """Train to the end; after each pause in seconds kill the process of a rank. Return the ranks killed."""
    killed = []
    with Training(folder, out, "--processes", str(options.processes)) as training:
        for pause, rank in victims:
            training.pid_of(rank)
            time.sleep(pause)
            if (pid := pids_by_rank(training.pid).get(rank)) is None:
                break  # it is over
            os.kill(pid, signal.SIGKILL)
            training.wait_until_gone(pid)
            killed.append(rank)
        code, said = training.end()
    if code:
        sys.exit(said)
    return killed


if __name__ == "__main__":
    main()
