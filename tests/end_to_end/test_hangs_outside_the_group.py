"""A process hangs before it joins the others or after it has left them: its launcher names and kills it."""

from __future__ import annotations

import re
import socket
import sys
from pathlib import Path

import pytest

from ranks import Training, losses, write_corpus, write_recipe

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc"),
]

STEPS = 4
SILENCE = 4.0
"""Seconds without a sign of life, instead of 40."""

STOP = """
import os, signal, sys
from pathlib import Path

def stop():
    "Stop this process, once in a test."
    if not Path("stopped").exists():
        Path("stopped").write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)

def before(module, name, act):
    "Call `act` before each call of a function of a module."
    wrapped = getattr(module, name)
    def call(*arguments, **options):
        act()
        return wrapped(*arguments, **options)
    setattr(module, name, call)

RANK = os.environ.get("RANK")
"""

INSTANTS = {
    "before-python-runs-dragoman": """
if RANK == "1":
    stop()
""",
    "while-it-imports-torch": """
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            stop()
if RANK == "0":
    sys.meta_path.insert(0, Finder())
""",
    "before-it-joins": """
if RANK == "1":
    from dragoman.training.parallel import processes
    before(processes, "meet", stop)
""",
    "between-joining-and-the-first-heartbeat": """
if RANK == "0":
    from dragoman.training.parallel import processes
    before(processes, "heartbeat", stop)
""",
    "after-the-last-heartbeat": """
if RANK == "1":
    from torch import distributed
    before(distributed, "destroy_process_group", stop)
""",
    "when-python-ends": """
if RANK == "0":
    import atexit
    atexit.register(stop)
""",
}


def train(folder: Path, program: str, *, silence: float = SILENCE) -> tuple[int, str]:
    write_corpus(folder)
    write_recipe(folder, steps=STEPS, valid_every=STEPS)
    with Training(folder, "run", "--processes", "2", silence=silence, program=STOP + program) as training:
        return training.end()


@pytest.mark.parametrize("instant", INSTANTS)
def test_a_process_that_is_stopped_outside_the_group_is_named_and_all_restart(
    tmp_path: Path, instant: str
) -> None:
    code, said = train(tmp_path, INSTANTS[instant])
    assert code == 0, said
    pid, here = (tmp_path / "stopped").read_text(), re.escape(socket.gethostname())
    named = rf"^process ([01]) of 2 \(pid {pid} on {here}\) has not responded for 4 s; ending all processes$"
    (rank,) = re.findall(named, said, re.MULTILINE)
    restart = rf"process {rank} of 2 did not respond and was killed .*; restarting all processes"
    assert len(re.findall(restart, said)) == 1, said
    assert said.count("has not responded") == 1, said
    assert "Traceback" not in said
    assert len(losses(tmp_path / "run")) == STEPS


SLOW_START = """
if RANK == "0":
    import time
    from dragoman.training.parallel import processes
    before(processes, "meet", lambda: time.sleep(3))
"""


def test_a_process_that_waits_and_others_that_wait_for_it_do_not_hang(tmp_path: Path) -> None:
    """As for a slow disk: neither uses its processor, both are alive."""
    code, said = train(tmp_path, SLOW_START, silence=1.0)
    assert code == 0, said
    assert "respond" not in said
