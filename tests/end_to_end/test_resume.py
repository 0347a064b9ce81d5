"""A run whose process is killed continues to the bit."""

import json
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from killing import train_and_kill, write_killed
from tiny import write_labelled

PAIRS = {"src_lang": "en", "tgt_lang": "de", "train": ["train.tsv"], "valid": ["valid.tsv"]}
SMALL = ("model.n_decoder_layers=1", "training.batch_tokens=200", "training.precision=fp32")
MANY: dict[str, Any] = {
    "data": {
        "temperature": 3.0, "n_held_out": 8,
        "corpora": [
            {"name": "many", "files": ["train.tsv"], "langs": ["en", "de"], "both_ways": True,
             "valid": ["valid.tsv"]},
            {"name": "few", "files": ["few.tsv"], "langs": ["pl", "en"], "origin": "natural"},
        ],
        "stages": [{"mix": {"many": 1.0, "few": 2.0}, "until": "2 epochs of few"}, {"mix": {"many": 1.0}}],
    },
    "modifiers": {"upper": 0.2, "merge": 0.1},
}  # fmt: skip
CLASSIFIER = {
    "task": "classification",
    "data": {"train": ["reviews.tsv"], "n_held_out": 6, "max_length": 4},
    "model": {"word_dropout": 0.2, "ngrams": 2, "ngram_bits": 8},
}
TRAININGS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    (MANY, SMALL),
    ({"data": PAIRS}, (*SMALL, "training.precision=bf16")),
    (CLASSIFIER, ("training.batch_tokens=100", 'training.class_weights="balanced"')),
]
TIMING = {"seconds", "tokens_per_second", "peak_memory_gb"}


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A folder with corpora of a few epochs."""
    lines = [f"{a} {b} cats sleep.\t{a} {b} Katzen schlafen." for a in range(20) for b in range(20)]
    others = [f"{a} {b} psy śpią.\t{a} {b} dogs sleep." for a in range(9) for b in range(9)]
    for name, some in {"train": lines, "valid": lines[::40], "few": others}.items():
        (tmp_path / f"{name}.tsv").write_text("\n".join(some), encoding="utf-8")
    write_labelled(tmp_path, "reviews", 60, seed=3)
    return tmp_path


def check_that_both_are_equal(folder: Path) -> None:
    """Files of what is learnt to the byte, the history but for what depends on the clock."""
    histories = []
    for run in ("cut", "whole"):
        lines = (folder / run / "history.jsonl").read_text(encoding="utf-8").splitlines()
        histories.append([{k: v for k, v in json.loads(line).items() if k not in TIMING} for line in lines])
    assert histories[0] == histories[1]
    whole = folder / "whole"
    learnt = [*whole.glob("*.safetensors"), *whole.glob("checkpoints/*/optimizer.safetensors")]
    assert len(learnt) >= 2
    for file in (*learnt, *whole.glob("labels.json"), *whole.glob("calibration.json")):
        assert (folder / "cut" / file.relative_to(whole)).read_bytes() == file.read_bytes(), file.name


@pytest.mark.parametrize(
    ("settings", "overrides"),
    [TRAININGS[0], *(pytest.param(*one, marks=pytest.mark.nightly) for one in TRAININGS[1:])],
    ids=["many corpora", "half precision", "classifier"],
)
def test_a_killed_training_continues_to_the_bit(
    workplace: Path, settings: dict[str, Any], overrides: tuple[str, ...]
) -> None:
    """Killed before there is any checkpoint, after the first one in the middle of an epoch, and so on."""
    write_killed(workplace, settings, *overrides)
    ends = train_and_kill(workplace, {"step": 7}, {"step": 13}, {"validation": 1}, {"step": 27})
    assert ends == [*[-signal.SIGKILL] * 4, 0]
    check_that_both_are_equal(workplace)


@pytest.mark.nightly
def test_a_training_killed_at_ten_instants_equals_one_that_was_not(workplace: Path) -> None:
    write_killed(workplace, {"data": PAIRS}, *SMALL, "training.max_steps=400")
    rng = random.Random(7)
    kills: list[dict[str, float]] = [
        {"writing": rng.randint(1, 8)} if i % 4 == 3 else {"seconds": rng.uniform(0.05, 1.0)}
        for i in range(10)
    ]
    ends = train_and_kill(workplace, *kills)
    assert ends[-1] == 0
    assert ends.count(-signal.SIGALRM) >= 3
    assert ends.count(-signal.SIGKILL) >= 1  # in the middle of a checkpoint
    check_that_both_are_equal(workplace)
