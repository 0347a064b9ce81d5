"""A run whose process is killed continues to the bit."""

import json
import random
import signal
from pathlib import Path

import pytest

from killing import train_and_kill, write_killed

DATA = {"src_lang": "en", "tgt_lang": "de", "train": ["train.tsv"], "valid": ["valid.tsv"]}
SMALL = ("model.n_decoder_layers=1", "training.batch_tokens=200")


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A folder with a corpus of a few epochs and a recipe."""
    lines = [f"{a} {b} cats sleep.\t{a} {b} Katzen schlafen." for a in range(20) for b in range(20)]
    (tmp_path / "train.tsv").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "valid.tsv").write_text("\n".join(lines[::40]), encoding="utf-8")
    return tmp_path


def facts(run: Path) -> list[tuple[object, ...]]:
    """Everything in the history that does not depend on the clock."""
    records = [json.loads(line) for line in (run / "history.jsonl").read_text(encoding="utf-8").splitlines()]
    keys = (
        "kind", "step", "epoch", "train_loss", "lr", "gradient_norm", "valid_loss", "bleu", "chrf", "best",
    )  # fmt: skip
    return [tuple(record.get(key) for key in keys) for record in records]


def check_that_both_are_equal(folder: Path) -> None:
    assert facts(folder / "cut") == facts(folder / "whole")
    (best,) = (folder / "whole" / "checkpoints").iterdir()
    for name in ("model.safetensors", f"checkpoints/{best.name}/optimizer.safetensors"):
        assert (folder / "cut" / name).read_bytes() == (folder / "whole" / name).read_bytes(), name


@pytest.mark.nightly
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_resumed_training_equals_uninterrupted_training(workplace: Path, precision: str) -> None:
    write_killed(workplace, {"data": DATA}, *SMALL, f"training.precision={precision}")
    kills: list[dict[str, float]] = [
        {"step": 7},  # before there is any checkpoint
        {"step": 13},  # after the first one, in the middle of an epoch
        {"validation": 1},
        {"step": 27},
    ]
    assert train_and_kill(workplace, *kills) == [*[-signal.SIGKILL] * 4, 0]
    check_that_both_are_equal(workplace)


def test_a_mix_of_corpora_continues_to_the_bit(workplace: Path) -> None:
    lines = [f"{a} {b} psy śpią.\t{a} {b} dogs sleep." for a in range(9) for b in range(9)]
    (workplace / "few.tsv").write_text("\n".join(lines), encoding="utf-8")
    many = {"name": "many", "files": ["train.tsv"], "langs": ["en", "de"], "both_ways": True}
    few = {"name": "few", "files": ["few.tsv"], "langs": ["pl", "en"], "origin": "natural"}
    data = {
        "temperature": 3.0, "n_held_out": 8, "corpora": [many | {"valid": ["valid.tsv"]}, few],
        "stages": [{"mix": {"many": 1.0, "few": 2.0}, "until": "2 epochs of few"}, {"mix": {"many": 1.0}}],
    }  # fmt: skip
    settings = {"data": data, "modifiers": {"upper": 0.2, "merge": 0.1}}
    write_killed(workplace, settings, *SMALL, "training.precision=fp32")
    kills: list[dict[str, float]] = [{"step": 7}, {"step": 13}, {"validation": 1}, {"step": 27}]
    assert train_and_kill(workplace, *kills) == [*[-signal.SIGKILL] * 4, 0]
    check_that_both_are_equal(workplace)


@pytest.mark.nightly
def test_a_training_killed_at_ten_instants_equals_one_that_was_not(workplace: Path) -> None:
    write_killed(workplace, {"data": DATA}, *SMALL, "training.precision=fp32", "training.max_steps=400")
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
