"""Hostile cases of two kinds, made from a seed: commands, with their documents, and damaged runs.

    python benchmarks/hostile.py [--seed 1] [--cases N] [--only KIND] [--minutes M] [--processes P]
    python benchmarks/hostile.py --case KIND:SEED

Trains tiny runs first. Then each case is a call of `dragoman` in a fork of this process, in a folder of its
own, with a limit of time and memory. (serve_faults.py sends hostile requests.) Counted are

    tracebacks  also a death by a signal, a warning of Python, an unknown exit code
    hangs       a case over its limit of time
    wrong       exit code 0 without the whole result, control characters in it, changed input, files left
                behind, an error that is not one line; of a damaged run, another result than before the damage

A flipped bit or an edited number in a run can give another run that is as whole as the first one; where no
checksum tells the two apart, the result is counted as "undetectable", which is no failure. The exit code is 1
if any other count is not zero. `--case` shows all about one case; each failure prints its name.
"""

from __future__ import annotations

import argparse
import itertools
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
from attacks.runs import Runs
from measuring import Result, parser_of

KINDS: dict[str, tuple[int, Callable[[Stage], Any]]] = {"commands": (3000, Commands), "runs": (1000, Runs)}
"""How many cases, and what makes them."""
SORTS = ("traceback", "hang", "wrong", "undetectable")


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, help="of each kind, instead of 3,000 and 1,000")
    parser.add_argument("--only", choices=list(KINDS), action="append")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after these")
    parser.add_argument("--processes", type=int, default=1, help="that share the cases")
    parser.add_argument("--case", metavar="KIND:SEED", help="show one case")
    options = parser.parse_args()
    preload()
    folder = Path(tempfile.mkdtemp(prefix="hostile-"))  # not TemporaryDirectory: forks would remove it
    try:
        (folder / "stage").mkdir()  # what calls leave beside their folder is removed with it
        stage = Stage(folder / "stage")
        failed = show(stage, options.case) if options.case else attack(stage, options)
    finally:
        shutil.rmtree(folder)
    sys.exit(failed)


def show(stage: Stage, case: str) -> bool:
    """Show one case; whether it failed."""
    kind, _, seed = case.partition(":")
    found: list[Fault] = KINDS[kind][1](stage).faults(int(seed), print)
    print("\n".join(f"{sort}: {what}" for sort, what in found) or "nothing is wrong")
    return bool(found)


def attack(stage: Stage, options: argparse.Namespace) -> bool:
    """Make all cases and print the table; whether any failed."""
    end, failed = time.monotonic() + 60 * options.minutes, False
    stages = [stage.part(number) for number in range(options.processes)]
    with Result("hostile", options) as result:
        columns = dict.fromkeys(("cases", "tracebacks", "hangs", "wrong silent results", "undetectable"), ",")
        table = result.table({"kind": "", **columns, "seconds": ".0f"})
        for kind in options.only or KINDS:
            first, begun = 1_000_000 * options.seed, time.monotonic()
            seeds = range(first, first + (options.cases or KINDS[kind][0]))
            parts = [seeds[i :: options.processes] for i in range(options.processes)]
            with ProcessPoolExecutor(options.processes, mp_context=get_context("fork")) as pool:
                results = pool.map(partial(measure, kind, end=end), stages, parts)
                counts = sum(results, Counter[str]())
            numbers = [counts[sort] for sort in ("case", *SORTS)]
            table.add(kind, *numbers, time.monotonic() - begun)
            failed |= any(numbers[1:4])
    return failed


def measure(kind: str, stage: Stage, seeds: Iterable[int], *, end: float) -> Counter[str]:
    """Count cases and faults by sort. Each fault is printed with the command that shows it."""
    attack = KINDS[kind][1](stage)
    counts: Counter[str] = Counter()
    for seed in itertools.takewhile(lambda _: time.monotonic() < end, seeds):
        found = attack.faults(seed, lambda line: None)
        counts.update({"case", *(sort for sort, _ in found)})
        for sort, what in found:
            if sort != "undetectable":
                print(f"--case {kind}:{seed}  {sort}: {what}", file=sys.stderr, flush=True)
    return counts


if __name__ == "__main__":
    main()
