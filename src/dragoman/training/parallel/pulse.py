"""Pulse: the launcher notices a process that hangs before it joins the heartbeats, or after it has left them.

Heartbeats (heartbeats.py) need all processes of the group. Outside of them a process has a pulse: a thread,
started before anything slow is imported, that touches a file which the launcher looks at.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

from dragoman.training.parallel.heartbeats import BEATS, Member, cpu_ticks, longest_silence, start_time, stat

INTERVAL = "DRAGOMAN_PULSE_SECONDS"
"""Environment variable by which a launcher asks its processes for a pulse."""


def start_pulse() -> None:
    """Start the pulse of this process, which lasts as long as it, if its launcher asks for one."""
    interval, error_file = os.environ.get(INTERVAL), os.environ.get("TORCHELASTIC_ERROR_FILE")
    if interval and error_file:
        arguments = (_pulse_file(error_file), float(interval))
        threading.Thread(target=_beat, args=arguments, name="pulse", daemon=True).start()


def _beat(file: Path, interval: float) -> None:
    while True:
        with suppress(OSError):
            file.touch()
        time.sleep(interval)


def _pulse_file(error_file: str) -> Path:
    return Path(error_file).with_name("pulse")


class PulseWatch:
    """Thread of the launcher that names and kills those of its processes that hang.

    A process is alive if it has a pulse, or uses processor time, as when one long import keeps its thread
    from running. As long as all processes are in the group, the watch is left to their heartbeats. Silence is
    counted in rounds, as there.
    """

    def __init__(self, n_processes: int, *, silence: float) -> None:
        self._n_processes, self._silence = n_processes, silence
        self._interval = silence / BEATS
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="pulse", daemon=True)

    def __enter__(self) -> PulseWatch:
        os.environ[INTERVAL] = str(self._interval)  # for the processes that are started from now on
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        del os.environ[INTERVAL]
        self._stopped.set()
        self._thread.join(timeout=1.0)

    def _watch(self) -> None:
        signs: dict[int, tuple[float, float]] = {}
        silent: dict[int, int] = {}
        while not self._stopped.wait(self._interval):
            members = started_processes()
            in_group = [member for member in members if member.in_group]
            before, signs = signs, {member.pid: _signs_of_life(member) for member in members}
            n_rounds, silent = silent, {}
            for member in members:
                alive = len(in_group) == self._n_processes or signs[member.pid] != before.get(member.pid)
                silent[member.pid] = 0 if alive else n_rounds.get(member.pid, 0) + 1
                if silent[member.pid] >= BEATS and member.is_here:
                    reason = member.describe_silence(self._n_processes, self._silence)
                    print(f"{reason}; ending all processes", file=sys.stderr, flush=True)
                    member.end(reason)


def watch_pulses(n_processes: int) -> AbstractContextManager[object]:
    """Return a context in which a launcher watches its processes; without effect if there is no /proc.

    ConfigError: DRAGOMAN_SILENCE_SECONDS is not a number from 0.
    """
    silence = longest_silence()
    there = start_time(os.getpid())
    return PulseWatch(n_processes, silence=silence) if silence and there else nullcontext()


def started_processes() -> list[Member]:
    """Return the processes of the training that this launcher has started, and that have not ended."""
    found = []
    for pid in (int(path.name) for path in Path("/proc").glob("[0-9]*")):
        state, parent = (stat(pid) or ["Z", ""])[:2]
        if parent != str(os.getpid()) or state in "ZX":
            continue
        with suppress(OSError, KeyError):  # ended; not of the training
            lines = os.fsdecode(Path(f"/proc/{pid}/environ").read_bytes()).split("\0")
            variables = dict(line.partition("=")[::2] for line in lines)
            rank, error_file = int(variables["RANK"]), variables["TORCHELASTIC_ERROR_FILE"]
            found.append(Member(rank, socket.gethostname(), pid, start_time(pid), error_file))
    return found


def _signs_of_life(member: Member) -> tuple[float, float]:
    """Return processor time and last pulse of a process, of which either changes if it is alive."""
    try:
        pulse = _pulse_file(member.error_file).stat().st_mtime
    except OSError:  # none so far
        pulse = 0.0
    return cpu_ticks(member.pid), pulse
