"""A run whose process is killed continues to the bit."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, signal, sys
from dragoman.config import load_recipe
from dragoman.training.trainer import TrainingListener
from dragoman.training.loop import train

class Assassin(TrainingListener):
    def stepped(self, position):
        if position.step == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)

    def validating(self):
        if sys.argv[3] == "while-validating" and os.path.exists("second-validation"):
            os.kill(os.getpid(), signal.SIGKILL)
        open("second-validation", "w").close()

train(load_recipe("recipe.toml"), sys.argv[1], listener=Assassin())
"""

RECIPE = """
name = "killed"
[data]
src_lang = "en"
tgt_lang = "de"
train = ["train.tsv"]
valid = ["valid.tsv"]
[tokenizer]
vocab_size = 400
[model]
d_model = 16
n_heads = 2
d_ff = 32
n_encoder_layers = 1
n_decoder_layers = 1
dropout = 0.2
[training]
max_steps = 30
batch_tokens = 200
update_freq = 2
warmup_steps = 10
log_every = 4
valid_every = 10
keep_checkpoints = 2
ema_decay = 0.9
n_threads = 1
precision = "{precision}"
"""


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A folder with a corpus of a few epochs and a recipe."""
    lines = [f"{a} {b} cats sleep.\t{a} {b} Katzen schlafen." for a in range(20) for b in range(20)]
    (tmp_path / "train.tsv").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "valid.tsv").write_text("\n".join(lines[::40]), encoding="utf-8")
    return tmp_path


def train(folder: Path, out: str, *, kill_at: int = 0, when: str = "never") -> int:
    command = [sys.executable, "-c", PROGRAM, out, str(kill_at), when]
    return subprocess.run(command, cwd=folder, timeout=300, capture_output=True, check=False).returncode


def facts(run: Path) -> list[tuple[object, ...]]:
    """Everything in the history that does not depend on the clock."""
    records = [json.loads(line) for line in (run / "history.jsonl").read_text(encoding="utf-8").splitlines()]
    keys = (
        "kind",
        "step",
        "epoch",
        "train_loss",
        "lr",
        "gradient_norm",
        "valid_loss",
        "bleu",
        "chrf",
        "best",
    )
    return [tuple(record.get(key) for key in keys) for record in records]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_resumed_training_equals_uninterrupted_training(workplace: Path, precision: str) -> None:
    recipe = RECIPE.format(precision=precision)
    (workplace / "recipe.toml").write_text(recipe, encoding="utf-8")
    assert train(workplace, "whole") == 0
    killed = -signal.SIGKILL
    assert train(workplace, "cut", kill_at=7) == killed  # before there is any checkpoint
    assert train(workplace, "cut", kill_at=13) == killed  # after the first one, in the middle of an epoch
    assert train(workplace, "cut", when="while-validating") == killed
    assert train(workplace, "cut", kill_at=27) == killed
    assert train(workplace, "cut") == 0
    assert facts(workplace / "cut") == facts(workplace / "whole")
    for name in ("model.safetensors", "checkpoints/step-000030/optimizer.safetensors"):
        assert (workplace / "cut" / name).read_bytes() == (workplace / "whole" / name).read_bytes(), name


NURSERY = """
# Trains again and again in a process of its own, each killed at an instant of its own, and then to the end.
# Forked from one that has everything imported and has computed nothing: 20 starts cost little.
import os, random, signal, sys
import dragoman.runs
from dragoman.config import load_recipe
from dragoman.training import loop, state
from dragoman.training.tasks import translation
from dragoman.training.trainer import TrainingListener

def train(prepare):
    pid = os.fork()
    if pid == 0:
        prepare()
        loop.train(load_recipe("recipe.toml"), sys.argv[1], listener=TrainingListener())
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def after(seconds):
    # The alarm's default action ends the process wherever it is, in Python or not.
    return lambda: signal.setitimer(signal.ITIMER_REAL, seconds)

def while_writing(nth):
    def prepare():
        original, calls = state.save_tensors, iter(range(1, 1000))
        def save_half(path, tensors):
            if next(calls) == nth:
                path.write_bytes(b"half")
                os.kill(os.getpid(), signal.SIGKILL)
            original(path, tensors)
        state.save_tensors = save_half
    return prepare

rng, ends = random.Random(int(sys.argv[2])), []
for i in range(int(sys.argv[3])):
    ends.append(train(while_writing(rng.randint(1, 8)) if i % 4 == 3 else after(rng.uniform(0.05, 1.0))))
ends.append(train(lambda: None))
print(*ends)
"""


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_training_killed_at_twenty_instants_equals_one_that_was_not(
    workplace: Path, precision: str
) -> None:
    recipe = RECIPE.format(precision=precision).replace("max_steps = 30", "max_steps = 120")
    (workplace / "recipe.toml").write_text(recipe, encoding="utf-8")
    ends = {}
    for out, n_kills in (("whole", 0), ("cut", 20)):
        done = subprocess.run(
            [sys.executable, "-c", NURSERY, out, "7", str(n_kills)],
            cwd=workplace, timeout=300, capture_output=True, text=True, check=True,
        )  # fmt: skip
        ends[out] = [int(end) for end in done.stdout.split()]
    assert ends["whole"] == [0]
    assert ends["cut"][-1] == 0
    assert ends["cut"].count(-signal.SIGALRM) >= 5
    assert ends["cut"].count(-signal.SIGKILL) >= 3  # in the middle of a checkpoint
    assert facts(workplace / "cut") == facts(workplace / "whole")
    for name in ("model.safetensors", "checkpoints/step-000120/optimizer.safetensors"):
        assert (workplace / "cut" / name).read_bytes() == (workplace / "whole" / name).read_bytes(), name
