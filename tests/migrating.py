"""The commands of a section of docs/migrating.md, run in a folder that holds the other side's model."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from commands import succeed
from tiny import write_corpus

PAGE = Path(__file__).parents[1] / "docs" / "migrating.md"
FENCE = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SMALL = (
    "training.max_steps=2", "training.valid_every=2", "training.batch_tokens=100", "training.warmup_steps=1",
    "training.precision=fp32",
)  # fmt: skip
OWN = ("model.d_model=16", "model.n_heads=2", "model.d_ff=16", "tokenizer.vocab_size=300")


def commands_of(section: str) -> list[str]:
    """The lines of the section's blocks of commands, ours and the other side's."""
    page = PAGE.read_text(encoding="utf-8")
    text = re.split(r"^## ", page.split(f"\n## {section}\n")[1], flags=re.MULTILINE)[0]
    return [line for block in FENCE.findall(text) for line in block.splitlines()]


def run_section(
    section: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *, theirs: str = "none of them"
) -> None:
    """Runs our commands of a section in `folder`, and the other side's that begin with `theirs`.

    Files such as train.en and your.tsv are written there; trainings are of two steps.
    """
    for name, n_pairs in {"train": 40, "your": 40, "input": 3, "test": 3}.items():
        write_corpus(folder, name, n_pairs, seed=n_pairs)
    monkeypatch.chdir(folder)
    lines = commands_of(section)
    assert sum(line.startswith("dragoman ") for line in lines) >= 3
    for line in lines:
        words = line.split()
        if words[0] == "dragoman" and words[1] == "train":
            settings = SMALL if "--from" in words else (*SMALL, *OWN)
            valid = ("--valid-tsv", "train.tsv")
            succeed(*words[1:], *valid, *(f"--set={setting}" for setting in settings))
        elif words[0] == "dragoman":
            succeed(*words[1:])
        elif line.startswith(theirs):
            command = line.replace("python", sys.executable, 1)
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            subprocess.run(["sh", "-ec", command], check=True, capture_output=True, env=environment)
