"""Heartbeats: notice a process that no longer responds, name it, and end it, so that all can restart.

A process that is stopped, frozen or swapped out keeps its connections open. Without heartbeats, the others
would wait for it in a collective operation.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from torch import distributed as dist

SILENCE = float(os.environ.get("DRAGOMAN_SILENCE_SECONDS", "40"))
"""Seconds without a heartbeat after which a process counts as hung; 0 = never."""

BEATS = 8
"""Heartbeats in these seconds."""

NOTICE = 15.0
"""Seconds that a process has to end by itself after another one was found hung."""

HUNG = 71
"""Exit code of a process that could not end by itself (EX_OSERR of sysexits.h). The launcher restarts all."""

STORE_TIMEOUT = timedelta(minutes=5)
"""Timeout of an exchange with the store."""


@dataclass(frozen=True)
class Member:
    """A process of the group, as the others have to know it to name it and to end it."""

    rank: int
    host: str
    pid: int
    started: str
    """Start time in the system's words: tells the process from a later one with the same number."""
    error_file: str
    """File in which the launcher looks for the cause of its end; "" = unknown."""

    @property
    def is_here(self) -> bool:
        """Whether it runs on this machine, and under this number here."""
        return self.host == socket.gethostname() and self.started == start_time(self.pid)

    def end(self, reason: str) -> None:
        """Kill the process, which may be stopped, and leave `reason` for the launcher."""
        with suppress(OSError):
            if self.error_file:
                message = {"message": reason, "extraInfo": {"timestamp": str(int(time.time()))}}
                Path(self.error_file).write_text(json.dumps({"message": message}), encoding="utf-8")
        with suppress(OSError):
            os.kill(self.pid, getattr(signal, "SIGKILL", signal.SIGTERM))  # on Windows both end it at once


class Heartbeat:
    """A thread that tells the other processes that this one is alive, and watches them.

    It exchanges counters through torch.distributed's store, which the launcher holds. Silence is counted in
    rounds of this thread: a pause of the machine, or of all processes together, is nobody's silence. A
    process on the same machine that computes counts as alive, even if no other thread of it gets a turn.
    All processes of the group give the same `name`, which no group before them has used.
    """

    def __init__(self, rank: int, size: int, name: str, *, silence: float = SILENCE) -> None:
        self._rank, self._size = rank, size
        self._silence = silence
        self._interval = silence / BEATS
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._store = _own_store(name)
        self._members: list[Member] = []
        self._cpu_seconds: dict[int, float] = {}

    def __enter__(self) -> Heartbeat:
        rank, pid = self._rank, os.getpid()
        error_file = os.environ.get("TORCHELASTIC_ERROR_FILE", "")
        me = Member(rank, socket.gethostname(), pid, start_time(pid), error_file)
        self._store.set(f"member/{rank}", json.dumps(asdict(me)))
        self._store.add(f"beats/{rank}", 1)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(timeout=1.0)
        if not self._thread.is_alive():
            with suppress(RuntimeError):  # the store has gone with its launcher
                self._store.set(f"left/{self._rank}", "")

    def _run(self) -> None:
        """Exchange heartbeats until this process leaves, or until another one hangs."""
        try:
            hung = self._watch()
        except RuntimeError:  # the store has gone with its launcher
            return
        if hung:
            self._on_hang(hung)

    def _watch(self) -> list[Member]:
        """Return the members that hang; none if this process leaves before."""
        ranks = range(self._size)
        keys = [f"beats/{rank}" for rank in ranks]
        self._members = [Member(**json.loads(self._store.get(f"member/{rank}"))) for rank in ranks]
        beats, silent, clock = self._store.multi_get(keys), [0.0 for _ in ranks], time.monotonic()
        while not self._stopped.wait(self._interval):
            self._store.add(keys[self._rank], 1)
            before, beats = beats, self._store.multi_get(keys)
            now = time.monotonic()
            passed, clock = min(now - clock, 2 * self._interval), now
            for rank in ranks:
                silent[rank] = 0.0 if beats[rank] != before[rank] else silent[rank] + passed
                if silent[rank] > self._silence / 2 and self._computes(self._members[rank]):
                    self._store.add(keys[rank], 1)  # tells the other machines, too
            hung = [self._members[rank] for rank in ranks if silent[rank] >= self._silence]
            if hung := [member for member in hung if not self._store.check([f"left/{member.rank}"])]:
                return hung
        return []

    def _computes(self, member: Member) -> bool:
        """Whether a process of this machine has used processor time since the last call."""
        if not member.is_here:
            return False
        before = self._cpu_seconds.get(member.rank)
        now = self._cpu_seconds[member.rank] = cpu_ticks(member.pid)
        return before is not None and now > before

    def _on_hang(self, hung: list[Member]) -> None:
        """Name the members that hang, kill those on this machine, and end this process.

        What this process waits for fails once they are dead; if it does not, as with a member on another
        machine, this process is ended from here.
        """
        alive = [member for member in self._members if member not in hung]
        for member in hung:
            reason = (
                f"process {member.rank} of {self._size} (pid {member.pid} on {member.host}) "
                f"has not responded for {self._silence:.0f} s"
            )
            if self._rank == alive[0].rank:
                print(f"{reason}; ending all processes", file=sys.stderr, flush=True)
            if member.is_here and self._rank == next(one.rank for one in alive if one.is_here):
                member.end(reason)
        if not self._stopped.wait(NOTICE):
            os._exit(HUNG)


def _own_store(name: str) -> Any:
    """Return a connection of its own to the store: the process group's may be in use for hours."""
    c10d: Any = dist  # exports its stores, but not by the rules of type checkers
    store = c10d.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), timeout=STORE_TIMEOUT)
    return c10d.PrefixStore(f"heartbeats/{name}", store)


def start_time(pid: int) -> str:
    """When a process was started, in ticks since the machine was; "" where the system does not say."""
    return _stat(pid)[19] if _stat(pid) else ""


def cpu_ticks(pid: int) -> float:
    """Return the processor time that a process has used so far; 0 where the system does not say."""
    return sum(map(float, _stat(pid)[11:13]))


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name; none without such a file."""
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
    except OSError:
        return []
