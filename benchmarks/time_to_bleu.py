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

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measuring import Result, parser_of

RECIPE = Path(__file__).parent.parent / "recipes" / "multi30k-en-de" / "recipe.toml"
SETTINGS = (
    "training.max_steps=2400", "training.batch_tokens=2048", "training.warmup_steps=200",
    "training.optimizer=muon", "training.learning_rate=3e-3", "training.schedule=wsd",
    "training.valid_every=200", "training.valid_beam_size=5", "training.ema_decay=0.99",
    "training.average=none", "training.keep_checkpoints=1", "model.dropout=0.15",
)  # fmt: skip
"""A short schedule; the recipe's own goes further, and slower."""


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--aims", type=float, nargs="+", default=[36.0, 38.0])
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    parser.add_argument("--keep", type=Path, help="a folder for the run, which is removed otherwise")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Result("time_to_bleu", options) as result:
        run, log = options.keep or Path(folder) / "run", Path(folder) / "log"
        sets = [part for setting in (*SETTINGS, *options.set) for part in ("--set", setting)]
        processes = ["--processes", str(options.processes)] if options.processes > 1 else []
        command = ["train", str(RECIPE), "--out", str(run), *sets, *processes]
        begun = time.monotonic()
        with log.open("w") as file:
            training = subprocess.Popen(
                [sys.executable, "-m", "dragoman", *command], stdout=file, stderr=file
            )
        try:
            watch(result, training, run, sorted(options.aims), begun)
            if training.poll():
                sys.exit(log.read_text(encoding="utf-8").strip().rpartition("\n")[2])
        finally:
            training.terminate()
            training.wait(timeout=120)


def watch(
    result: Result, training: subprocess.Popen[bytes], run: Path, aims: list[float], begun: float
) -> None:
    """Add every validation to the table as it comes, until the last aim is passed or the training ends."""
    table = result.table({"s": ".0f", "step": "", "BLEU": ".1f", "passes": ""})
    seen, ended = 0, False
    while aims and not ended:
        time.sleep(1)
        ended = training.poll() is not None
        records = validations(run)
        for record in records[seen:]:
            passed = [aim for aim in aims if record["bleu"] >= aim]
            del aims[: len(passed)]
            words = ", ".join(f"{aim:g}" for aim in passed)
            table.add(time.monotonic() - begun, record["step"], record["bleu"], words)
        seen = len(records)
    for aim in aims:
        print(f"BLEU {aim:g} was not passed")


def validations(run: Path) -> list[dict[str, float]]:
    """Return the validations that history.jsonl has so far, but for a line that is being written."""
    path = run / "history.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    records = [json.loads(line) for line in lines if line.endswith("\n")]
    return [record for record in records if record["kind"] == "valid"]


if __name__ == "__main__":
    main()
