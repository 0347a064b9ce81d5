"""Make the runs of tests/compatibility, which every later version must load, translate with and continue.

    python tools/make_golden_run.py 0.1

Trains a tiny translator and a tiny classifier on the embedded phrasebook, and kills the trainings after a
checkpoint. `expected.json` in each folder holds the outputs of the run as it was left, and the history of a
copy that was continued to its end. Run this once for each released version, never again for an old one.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "tests" / "compatibility"
STOP_AT = 400  # the step of the checkpoint that is kept
TRAINING = """
[training]
precision = "fp32"
batch_tokens = 512
max_steps = 440
warmup_steps = 50
learning_rate = 1e-2
keep_checkpoints = 1
average = "none"
valid_every = 400
log_every = 10
n_threads = 1
"""
RECIPES = {
    "translation": """
name = "golden"

[data]
src_lang = "en"
tgt_lang = "de"
train = ["phrasebook:train"]
valid = ["phrasebook:valid"]

[tokenizer]
vocab_size = 400

[model]
d_model = 16
n_heads = 2
n_encoder_layers = 1
n_decoder_layers = 1
d_ff = 32
dropout = 0.1
"""
    + TRAINING,
    "classification": """
task = "classification"
name = "golden"

[data]
train = ["phrasebook:reviews-train"]
valid = ["phrasebook:reviews-valid"]

[tokenizer]
vocab_size = 300

[model]
d_model = 16
n_heads = 2
n_encoder_layers = 1
d_ff = 32
dropout = 0.1
ngrams = 1
ngram_bits = 8
"""
    + TRAINING,
}
SENTENCES = [
    "They have three dogs at home.",
    "Maria did not eat an apple the day before yesterday.",
    "My son has nine brown scarves.",
    "",
    "The post office is closed on Wednesdays.",
]
SEARCHES = {
    "greedy": ["--beam-size", "1"],
    "beam": ["--beam-size", "4", "--n-best", "3"],
    "sampling": ["--method", "sampling", "--seed", "7", "--top-k", "5"],
}


def main() -> None:
    """Make the runs of the version named on the command line."""
    if len(sys.argv) != 2:
        sys.exit(f"usage: python {sys.argv[0]} VERSION")
    for task, recipe in RECIPES.items():
        folder = FOLDER / sys.argv[1] / task
        if folder.exists():
            sys.exit(f"{folder}: is there already; a version's run is made once")
        with tempfile.TemporaryDirectory() as scratch:
            Path(scratch, "recipe.toml").write_text(recipe, encoding="utf-8")
            out = Path(scratch, "run")
            train(Path(scratch, "recipe.toml"), out, kill=True)
            shutil.copytree(out, folder, ignore=shutil.ignore_patterns("*.svg", "report.*", "cache", ".*"))
            expected: dict[str, Any] = {"outputs": outputs(task, folder)}
            train(Path(scratch, "recipe.toml"), out)
            expected["history"] = later_history(out)
        (folder / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")


def train(recipe: Path, out: Path, *, kill: bool = False) -> None:
    """Train, or continue; with `kill`, only until the checkpoint of STOP_AT is complete."""
    command = [sys.executable, "-m", "dragoman", "train", str(recipe), "--out", str(out)]
    training = subprocess.Popen(command)
    checkpoint = out / "checkpoints" / f"step-{STOP_AT:06d}"
    while kill and training.poll() is None:
        if checkpoint.exists() and any(row.get("step", 0) > STOP_AT for row in history(out)):
            training.kill()
        time.sleep(0.01)
    if training.wait() != 0 and not kill:
        sys.exit("the training failed")


def history(run: Path) -> list[dict[str, Any]]:
    """Return the whole lines of a run's history."""
    lines = (run / "history.jsonl").read_text().splitlines() if (run / "history.jsonl").exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def later_history(run: Path) -> list[dict[str, Any]]:
    """Return the steps and losses after the checkpoint, which depend on no clock and no machine."""
    keys = ("step", "train_loss", "valid_loss")
    rows = [{key: row[key] for key in keys if key in row} for row in history(run)]
    return [row for row in rows if row["step"] > STOP_AT]


def outputs(task: str, run: Path) -> dict[str, list[Any]]:
    """Return the output of the commands for SENTENCES, by search."""
    verb = "translate" if task == "translation" else "classify"
    command = [sys.executable, "-m", "dragoman", verb, str(run), "--json", "--precision", "fp32"]
    searches = SEARCHES if task == "translation" else {"classify": []}
    return {
        name: [
            json.loads(line)
            for line in subprocess.run(
                [*command, *options], input="\n".join(SENTENCES) + "\n", stdout=-1, text=True, check=True
            ).stdout.splitlines()
        ]
        for name, options in searches.items()
    }


if __name__ == "__main__":
    main()
