"""From raw text and a cold process to a validation BLEU: how long until Multi30k passes 36 and 38.

    python benchmarks/time_to_bleu.py
    python benchmarks/time_to_bleu.py --processes 2 --set training.batch_tokens=1024
    python benchmarks/time_to_bleu.py --keep runs/quick

Starts `dragoman train` on recipes/multi30k-en-de with a schedule of its own, reads the scores of its
validations (beam 5, cased sacreBLEU), and prints the seconds from the start of the process to the first that
passes each aim: imports, tokenizer and validations included. The training ends with the last aim, or with its
schedule.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dragoman.hardware import environment

ROOT = Path(__file__).parent.parent
RECIPE = ROOT / "recipes" / "multi30k-en-de" / "recipe.toml"

SETTINGS = (
    "training.max_steps=2400",
    "training.batch_tokens=2048",
    "training.warmup_steps=200",
    "training.optimizer=muon",
    "training.learning_rate=3e-3",
    "training.schedule=wsd",
    "training.valid_every=200",
    "training.valid_beam_size=5",
    "training.ema_decay=0.99",
    "training.average=none",
    "training.keep_checkpoints=1",
    "model.dropout=0.15",
)
"""A short schedule; the recipe's own goes further, and slower."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--aims", type=float, nargs="+", default=[36.0, 38.0])
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    parser.add_argument("--keep", type=Path, help="a folder for the run, which is removed otherwise")
    options = parser.parse_args()
    facts = environment()
    machine = ", ".join([*facts["gpus"], facts["cpu"], f"{facts['n_cores']} cores"])
    print(f"{machine}, {options.processes} processes, PyTorch {facts['torch']}")
    with tempfile.TemporaryDirectory() as folder:
        run = options.keep or Path(folder) / "run"
        sets = [part for setting in (*SETTINGS, *options.set) for part in ("--set", setting)]
        processes = ["--processes", str(options.processes)] if options.processes > 1 else []
        command = ["train", str(RECIPE), "--out", str(run), *sets, *processes]
        start = time.monotonic()
        log = (Path(folder) / "log").open("w")
        training = subprocess.Popen([sys.executable, "-m", "dragoman", *command], stdout=log, stderr=log)
        try:
            watch(training, run, sorted(options.aims), start)
            if training.poll():
                sys.exit((Path(folder) / "log").read_text(encoding="utf-8").strip().rpartition("\n")[2])
        finally:
            training.send_signal(signal.SIGTERM)
            training.wait(timeout=120)


def watch(training: subprocess.Popen[bytes], run: Path, aims: list[float], start: float) -> None:
    """Print every validation as it comes, and when an aim is passed."""
    seen = 0
    while aims:
        ended = training.poll() is not None
        records = validations(run)
        for record in records[seen:]:
            seconds = time.monotonic() - start
            print(f"{seconds:6.0f} s  step {record['step']:5}  BLEU {record['bleu']:.1f}", flush=True)
            while aims and record["bleu"] >= aims[0]:
                print(
                    f"BLEU {aims.pop(0):g} passed after {seconds:.0f} s ({seconds / 60:.1f} minutes)",
                    flush=True,
                )
        seen = len(records)
        if ended:
            break
        time.sleep(1)
    for aim in aims:
        print(f"BLEU {aim:g} was not passed")


def validations(run: Path) -> list[dict[str, float]]:
    """Return the validations that history.jsonl has so far."""
    path = run / "history.jsonl"
    if not path.exists():
        return []
    records = [
        json.loads(line)
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True)
        if "\n" in line
    ]
    return [record for record in records if record["kind"] == "valid"]


if __name__ == "__main__":
    main()
