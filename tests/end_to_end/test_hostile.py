"""A few of the cases of benchmarks/hostile.py: none ends in a traceback, hangs or gives a wrong result."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks, and makes devices")

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.mark.nightly
def test_hostile_cases_end_in_one_line_or_a_whole_result() -> None:
    command = [sys.executable, str(BENCHMARKS / "hostile.py"), "--seed", "7", "--cases", "5"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()[2:]]
    kinds = ("commands", "runs", "requests", "documents")
    assert [row[:5] for row in rows] == [[kind, "5", "0", "0", "0"] for kind in kinds]


def test_cases_are_the_same_each_time() -> None:
    from attacks.commands import CommandCase, command_tree
    from attacks.documents import make

    pairs = [("A man sleeps.", "Ein Mann schläft."), ("It rains.", "Es regnet.")] * 40
    tree = command_tree()
    first, again = ([CommandCase.make(seed, pairs, tree) for seed in range(50)] for _ in range(2))
    assert first == again
    assert len({case.command for case in first}) > 10
    documents = [[make(random.Random(seed), [en for en, _ in pairs]) for seed in range(20)] for _ in range(2)]
    assert documents[0] == documents[1]
