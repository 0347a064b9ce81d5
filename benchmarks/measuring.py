"""What all benchmarks share: options, printed tables kept as JSON, measuring in turn, workers."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

RESULTS = Path(__file__).parent / "results"
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node")
K = TypeVar("K")
T = TypeVar("T")


def parser_of(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser of options that is described by the script's docstring."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON that is written")
    return parser


class Result:
    """A measurement, kept as `NAME.json` in the folder of the results when its block ends.

    The file is a list with a record for each measurement: machine, date, commit, command and rows. A record
    replaces an earlier one of the same command on the same machine.
    """

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self.path: Path = options.results / f"{name}.json"
        self.rows: list[dict[str, Any]] = []

    def __enter__(self) -> Result:
        return self

    def table(self, columns: Mapping[str, str], name: str = "") -> Table:
        """Begin a table: the format of the values by the name of each column, "" for text."""
        return Table(self.rows, columns, name)

    def figure(self, name: str, value: float, form: str = "") -> None:
        """Print and keep a single value."""
        print(f"{name}: {value:{form}}", flush=True)
        self.rows.append({"figure": name, "value": value})

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        if kind is not None or not self.rows:
            return
        # It imports PyTorch, which a process that measures others does without.
        from dragoman.hardware import environment

        facts = environment()
        machine = ", ".join([*facts["gpus"], facts["cpu"], f"{facts['n_cores']} cores"])
        print(f"\n{machine}, {facts['n_threads']} threads, PyTorch {facts['torch']}")
        record = {
            "machine": machine,
            "torch": facts["torch"],
            "date": date.today().isoformat(),
            "commit": facts["commit"],
            "command": " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]]),
            "rows": self.rows,
        }
        others = json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else []
        same = (record["machine"], record["command"])
        others = [each for each in others if (each["machine"], each["command"]) != same]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps([*others, record], indent=1, ensure_ascii=False) + "\n", "utf-8")


class Table:
    """Rows that are printed in Markdown as they come, and kept."""

    def __init__(self, rows: list[dict[str, Any]], columns: Mapping[str, str], name: str) -> None:
        self.rows, self.columns, self.name = rows, columns, name
        rules = ("--:" if form else "---" for form in columns.values())
        print(f"\n| {' | '.join(columns)} |\n|{'|'.join(rules)}|")

    def add(self, *values: Any) -> None:
        """Add a row: a value for each column, None where there is none."""
        row = dict(zip(self.columns, values, strict=True))
        self.rows.append({"table": self.name, **row} if self.name else row)
        cells = (
            "–" if value is None else f"{value:{form}}"
            for value, form in zip(values, self.columns.values(), strict=True)
        )
        print(f"| {' | '.join(cells)} |", flush=True)


def in_turn(measures: Mapping[K, Callable[[], T]], rounds: int, *, warm_up: int = 1) -> dict[K, list[T]]:
    """Return what each function returns, round by round; those of the `warm_up` are left out.

    All take turns, in an order that changes from round to round, so that a noisy machine slows them alike.
    """
    found: dict[K, list[T]] = {name: [] for name in measures}
    for number in range(rounds + warm_up):
        for name in list(measures)[:: -1 if number % 2 else 1]:
            value = measures[name]()
            if number >= warm_up:
                found[name].append(value)
    return found


def seconds_of(work: Callable[[], object]) -> float:
    """Return the seconds that a function takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def python(*arguments: object, **options: Any) -> str:
    """Run a Python of its own with these arguments; return its output. SystemExit: it failed."""
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, **options)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}")
    return done.stdout


@dataclass
class PeerProcess:
    """A worker, in a Python of its own, that says it is ready and answers each line with a line."""

    name: str
    command: list[str]
    n_threads: int
    process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the process and wait until it is ready."""
        variables = {**os.environ, "OMP_NUM_THREADS": str(self.n_threads), "PYTHONWARNINGS": "ignore"}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(self.command, stdin=pipe, stdout=pipe, text=True, env=variables)
        self.ask("")

    def ask(self, line: str) -> str:
        """Send a line, unless it is empty, and return the answer. SystemExit: the process has ended."""
        assert self.process
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(line and f"{line}\n")
        self.process.stdin.flush()
        if answer := self.process.stdout.readline():
            return answer
        raise SystemExit(f"{self.name}: {' '.join(self.command)} has ended; run it by hand to see why")

    def end(self) -> None:
        """Close its input, so that the process ends."""
        if self.process is not None:
            self.process.communicate(timeout=60)  # closes its input, and all else
            self.process = None
