"""Heartbeats: notice a process that no longer responds, name it, and end it, so that all can restart.

A process that is stopped, frozen or swapped out keeps its connections open. Without heartbeats, the others
would wait for it in a collective operation.
"""

from __future__ import annotations

import json
import math
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

from dragoman.errors import ConfigError

SILENCE = 40.0
"""Seconds without a heartbeat after which a process counts as hung."""

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

    @property
    def in_group(self) -> bool:
        """Whether it has told its launcher (pulse.py) that it takes part in heartbeats."""
        return bool(self.error_file) and self._mark.exists()

    def tell_launcher(self, *, in_group: bool) -> None:
        """Tell the launcher, if there is one, whether this process takes part in heartbeats."""
        with suppress(OSError):
            if self.error_file and in_group:
                self._mark.touch()
            elif self.error_file:
                self._mark.unlink(missing_ok=True)

    @property
    def _mark(self) -> Path:
        return Path(self.error_file).with_name("in-group")

    def describe_silence(self, size: int, silence: float) -> str:
        """Say that this process, of a group of `size`, has been silent for `silence` seconds."""
        return (
            f"process {self.rank} of {size} (pid {self.pid} on {self.host}) has not responded for "
            f"{silence:.0f} s"
        )

    def end(self, reason: str) -> None:
        """Kill the process, which may be stopped, and leave `reason` for the launcher."""
        with suppress(OSError):
            if self.error_file:
                message = {"message": reason, "extraInfo": {"timestamp": str(int(time.time()))}}
                Path(self.error_file).write_text(json.dumps({"message": message}), encoding="utf-8")
        with suppress(OSError):
            os.kill(self.pid, getattr(signal, "SIGKILL", signal.SIGTERM))  # on Windows both end it at once


class Heartbeat:
    """Threads that tell the other processes that this one is alive, and watch them.

    Counters are exchanged through torch.distributed's store. Silence is counted in rounds of the watching
    thread: a pause of the machine, or of all processes together, is nobody's silence. A process on the same
    machine that computes counts as alive, even if no other thread of it gets a turn.

    All processes of the group give the same `name`, which no group before them has used.
    """

    def __init__(self, rank: int, size: int, name: str, *, silence: float) -> None:
        self._rank, self._size = rank, size
        self._silence = silence
        self._interval = silence / BEATS
        self._store = _own_store(name)
        self._members: list[Member] = []
        self._cpu_ticks: dict[int, float] = {}
        self._n_rounds = 0
        self._stopped = threading.Event()
        watches = [self._watch_members] + [self._watch_store] * (rank > 0 and not launcher_holds_store())
        self._threads = [threading.Thread(target=watch, name="heartbeat", daemon=True) for watch in watches]

    def __enter__(self) -> Heartbeat:
        """Join the watch; returns once all processes have."""
        pid, errors = os.getpid(), os.environ.get("TORCHELASTIC_ERROR_FILE", "")
        me = Member(self._rank, socket.gethostname(), pid, start_time(pid), errors)
        self._store.add(f"beats/{self._rank}", 1)  # the others wait for a counter that is not there
        self._store.set(f"member/{self._rank}", json.dumps(asdict(me)))
        ranks = range(self._size)
        self._members = [Member(**json.loads(self._store.get(f"member/{rank}"))) for rank in ranks]
        for thread in self._threads:
            thread.start()
        me.tell_launcher(in_group=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._members[self._rank].tell_launcher(in_group=False)
        self._stopped.set()
        for thread in self._threads:
            thread.join(timeout=1.0)

    def _watch_members(self) -> None:
        """Exchange heartbeats until this process leaves, or until another one hangs."""
        keys = [f"beats/{member.rank}" for member in self._members]
        beats, silent = [b"" for _ in keys], [0 for _ in keys]
        with suppress(RuntimeError):  # the store has gone with its holder
            while not self._stopped.wait(self._interval):
                self._store.add(keys[self._rank], 1)
                before, beats = beats, self._store.multi_get(keys)
                self._n_rounds += 1
                for rank, member in enumerate(self._members):
                    silent[rank] = 0 if beats[rank] != before[rank] else silent[rank] + 1
                    if silent[rank] > BEATS / 2 and self._computes(member):
                        self._store.add(keys[rank], 1)  # for the other machines, too
                if hung := [member for member in self._members if silent[member.rank] >= BEATS]:
                    self._on_hang(hung)
                    break

    def _watch_store(self) -> None:
        """Count the first process as hung if the store that it holds no longer answers."""
        before, silent = 0, 0
        while silent < BEATS:
            if self._stopped.wait(self._interval):
                return
            silent = silent + 1 if self._n_rounds == before else 0
            before = self._n_rounds
        self._on_hang(self._members[:1])

    def _computes(self, member: Member) -> bool:
        """Whether a process of this machine has used processor time since the last call."""
        if not member.is_here:
            return False
        before = self._cpu_ticks.get(member.rank)
        now = self._cpu_ticks[member.rank] = cpu_ticks(member.pid)
        return before is not None and now > before

    def _on_hang(self, hung: list[Member]) -> None:
        """Name the members that hang, kill those on this machine, and end this process.

        Collective operations fail once the members are dead. This process is ended from here if they do not,
        because a member is on another machine, or because this process is not waiting for one.
        """
        alive = [member for member in self._members if member not in hung]
        for member in hung:
            reason = member.describe_silence(self._size, self._silence)
            if self._rank == alive[0].rank:
                print(f"{reason}; ending all processes", file=sys.stderr, flush=True)
            if member.is_here and self._rank == next(one.rank for one in alive if one.is_here):
                member.end(reason)
        if not self._stopped.wait(NOTICE):
            os._exit(HUNG)


def longest_silence() -> float:
    """Return `SILENCE`, or what DRAGOMAN_SILENCE_SECONDS says instead; 0 = no limit.

    ConfigError: not a number from 0.
    """
    value = os.environ.get("DRAGOMAN_SILENCE_SECONDS", str(SILENCE))
    with suppress(ValueError):
        if 0 <= float(value) < math.inf:
            return float(value)
    raise ConfigError(f"DRAGOMAN_SILENCE_SECONDS={value}: give a number of seconds, 0 for no limit")


def launcher_holds_store() -> bool:
    """Whether the store is in the launcher's process; otherwise it is in that of rank 0."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def _own_store(name: str) -> Any:
    """Return a connection of its own to the store: the process group's may be in use for hours."""
    from torch import distributed as dist  # slow to import, and this module is used before it is

    c10d: Any = dist  # exports its stores, but not by the rules of type checkers
    store = c10d.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), timeout=STORE_TIMEOUT)
    return c10d.PrefixStore(f"heartbeats/{name}", store)


def start_time(pid: int) -> str:
    """When a process was started, in ticks since the machine was; "" where the system does not say."""
    return stat(pid)[19] if stat(pid) else ""


def cpu_ticks(pid: int) -> float:
    """Return the processor time that a process has used so far; 0 where the system does not say."""
    return sum(map(float, stat(pid)[11:13]))


def stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name; none without such a file."""
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
    except OSError:
        return []
