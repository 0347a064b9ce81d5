"""Hostile cases of four kinds, made from a seed: commands, damaged runs, requests and documents.

    python benchmarks/hostile.py [--seed 1] [--cases N] [--only KIND] [--minutes M] [--processes P]
    python benchmarks/hostile.py --case KIND:SEED

Trains tiny runs first. Then each case is a call of `dragoman` in a fork of this process, in a folder of its
own, with a limit of time and memory; requests go to a service in processes of their own. Counted are

    tracebacks  also a death by a signal, a warning of Python, an unknown exit code, a status 500
    hangs       a case over its limit of time
    wrong       exit code 0 without the whole result, control characters in it, changed input, files left
                behind, an error that is not one line; of a damaged run, another result than before the damage

A flipped bit or an edited number in a run can give another run that is as whole as the first one; where no
checksum tells the two apart, the result is counted as "undetectable", which is no failure. The exit code is 1
if any other count is not zero. `--case` shows all about one case; each failure prints its name.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from attacks.calls import Fault, Stage, preload
from attacks.commands import Commands
from attacks.documents import Documents
from attacks.requests import Requests
from attacks.runs import Runs

CASES = {"commands": 3000, "runs": 1000, "requests": 2000, "documents": 200}
KINDS: dict[str, Callable[[Stage], Any]] = {
    "commands": Commands,
    "runs": Runs,
    "requests": Requests,
    "documents": Documents,
}
SORTS = ("traceback", "hang", "wrong", "undetectable")


def measure(kind: str, stage: Stage, seeds: Iterable[int], *, end: float) -> Counter[str]:
    """Count cases and faults by sort. Each fault is printed with the command that shows it."""
    attack = KINDS[kind](stage)
    counts: Counter[str] = Counter()
    try:
        for seed in seeds:
            if time.monotonic() > end:
                break
            found: list[Fault] = attack.faults(seed, lambda line: None)
            counts.update({"case", *(sort for sort, _ in found)})
            for sort, what in found:
                if sort != "undetectable":
                    print(f"--case {kind}:{seed}  {sort}: {what}", file=sys.stderr, flush=True)
    finally:
        attack.close()
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description="Hostile commands, runs, requests and documents.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, help="of each kind, instead of 3,000, 1,000, 2,000 and 200")
    parser.add_argument("--only", choices=list(KINDS), action="append")
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="stop after this number of minutes"
    )
    parser.add_argument("--processes", type=int, default=1, help="that share the cases")
    parser.add_argument("--case", metavar="KIND:SEED", help="show one case")
    given = parser.parse_args()
    preload()
    folder = Path(tempfile.mkdtemp(prefix="hostile-"))  # not TemporaryDirectory: forks would remove it
    try:
        (folder / "stage").mkdir()  # what calls leave beside their folder is removed with it
        stage = Stage(folder / "stage")
        failed = show(stage, given.case) if given.case else attack(stage, given)
    finally:
        shutil.rmtree(folder)
    sys.exit(failed)


def show(stage: Stage, case: str) -> bool:
    """Show one case; whether it failed."""
    kind, _, seed = case.partition(":")
    attack = KINDS[kind](stage)
    found: list[Fault] = attack.faults(int(seed), print)
    attack.close()
    print("\n".join(f"{sort}: {what}" for sort, what in found) or "nothing is wrong")
    return bool(found)


def attack(stage: Stage, given: argparse.Namespace) -> bool:
    """Make all cases and print the table; whether any failed."""
    end = time.monotonic() + 60 * given.minutes
    failed = False
    stages = [stage.part(number) for number in range(given.processes)]
    print("| kind | cases | tracebacks | hangs | wrong silent results | undetectable | time |")
    print("|---|--:|--:|--:|--:|--:|--:|", flush=True)
    for kind in given.only or KINDS:
        first, begun = 1_000_000 * given.seed, time.monotonic()
        seeds = range(first, first + (given.cases or CASES[kind]))
        parts = [seeds[i :: given.processes] for i in range(given.processes)]
        with ProcessPoolExecutor(given.processes, mp_context=get_context("fork")) as pool:
            results = pool.map(partial(measure, kind, end=end), stages, parts)
            counts = sum(results, Counter[str]())
        cells = " | ".join(f"{counts[sort]:,}" for sort in ("case", *SORTS))
        print(f"| {kind} | {cells} | {time.monotonic() - begun:.0f} s |", flush=True)
        failed |= any(counts[sort] for sort in SORTS[:3])
    return failed


if __name__ == "__main__":
    main()
