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
from dragoman.training.listener import TrainingListener
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
