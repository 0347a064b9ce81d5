"""Trainings that are killed, in processes of their own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from dragoman.config import parse_config, to_toml

KILLED = (
    "tokenizer.vocab_size=400", "model.d_model=16", "model.n_heads=2", "model.d_ff=32",
    "model.n_encoder_layers=1", "model.dropout=0.2", "training.max_steps=30", "training.update_freq=2",
    "training.warmup_steps=10", "training.log_every=4", "training.valid_every=10",
    "training.keep_checkpoints=2", "training.ema_decay=0.9", "training.n_threads=1",
)  # fmt: skip
"""Settings of a training that is killed."""

PROGRAM = """
# Trains once for every way to be killed, and then to the end. Forked from a process that has everything
# imported and has trained nothing: twenty starts cost little.
import json, os, signal, sys
import dragoman.runs
from dragoman.config import load_recipe
from dragoman.tasks import training
from dragoman.tasks.translation import objective
from dragoman.text.languages import detect
from dragoman.training import state
from dragoman.training.trainer import TrainingListener

detect("a first sentence")  # reads the model of languages, in half a second

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

class Assassin(TrainingListener):
    def __init__(self, step=0, validation=0):
        self.step, self.validation = step, validation

    def stepped(self, position):
        if position.step == self.step:
            kill()

    def validating(self):
        self.validation -= 1
        if self.validation == 0:
            kill()

def train(out, seconds=0, writing=0, **instant):
    pid = os.fork()
    if pid == 0:
        # The alarm's default action ends the process wherever it is, in Python or not.
        signal.setitimer(signal.ITIMER_REAL, seconds)
        original, calls = state.write_rows, iter(range(1, 1000))
        def write_half(path, tensors):
            if next(calls) == writing:
                path.write_bytes(b"half")
                kill()
            original(path, tensors)
        state.write_rows = write_half
        training.train(load_recipe("recipe.toml"), out, listener=Assassin(**instant))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

for out, kills in json.loads(sys.argv[1]).items():
    print(*[train(out, **kill) for kill in kills], train(out))
"""


def write_killed(folder: Path, settings: dict[str, Any], *overrides: str) -> None:
    """Write `recipe.toml` of a training with these settings, those of KILLED and then `overrides`."""
    config = parse_config({"name": "killed", **settings}, overrides=[*KILLED, *overrides])
    (folder / "recipe.toml").write_text(to_toml(config), encoding="utf-8")


def train_and_kill(folder: Path, *kills: dict[str, float]) -> list[int]:
    """Train `recipe.toml` to its end: as "whole", and as "cut" after being killed in each of these ways.

    Returns the exit codes of the latter. A way is {"step": n}, {"validation": n}, {"writing": n} (half-way
    through the n-th file of tensors) or {"seconds": s}.
    """
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps({"whole": [], "cut": kills})],
        cwd=folder, timeout=600, capture_output=True, text=True, check=True,
    )  # fmt: skip
    whole, cut = done.stdout.splitlines()
    assert whole == "0"
    return [int(end) for end in cut.split()]
