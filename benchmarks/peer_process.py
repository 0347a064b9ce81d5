"""A worker of a benchmark: a process that says it is ready, and answers each line with a line."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass


@dataclass
class PeerProcess:
    """The process of a peer, in a Python of its own."""

    name: str
    command: list[str]
    n_threads: int
    process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the process and wait until it is ready."""
        variables = {**os.environ, "OMP_NUM_THREADS": str(self.n_threads), "PYTHONWARNINGS": "ignore"}
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables
        )
        self._answer()

    def ask(self, line: str) -> str:
        """Send a line and return the answer. SystemExit: the process has ended."""
        assert self.process
        assert self.process.stdin
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self.process
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name}: {' '.join(self.command)} has ended; run it by hand to see why")
        return line

    def end(self) -> None:
        """Close its input, so that the process ends."""
        if self.process is not None:
            self.process.communicate(timeout=60)  # closes its input, and all else
            self.process = None
