"""A run between two others: its weights, how they are chosen, and what cannot be merged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from commands import error_of, succeed
from dragoman.evaluation.merging import WEIGHTS, merge
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from tiny import write_corpus


@pytest.fixture
def tuned(tiny_run: Path, tmp_path: Path) -> Path:
    """The tiny run with other weights, as fine-tuning leaves them."""
    path = shutil.copytree(tiny_run, tmp_path / "tuned")
    run = Run.open(path)
    torch.manual_seed(2)
    run.save_weights({name: w + 0.1 * torch.randn_like(w) for name, w in run.load_weights().items()})
    return Path(path)


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_a_merged_run_lies_between_both_and_translates(
    tiny_run: Path, tuned: Path, tmp_path: Path, weight: float
) -> None:
    assert merge(tiny_run, tuned, tmp_path / "out", weight=weight) == []
    first, second, found = (Run.open(path).load_weights() for path in (tiny_run, tuned, tmp_path / "out"))
    for name, tensor in found.items():
        assert torch.allclose(tensor, (1 - weight) * first[name] + weight * second[name], atol=1e-6), name
    if weight in (0.0, 1.0):
        same = Translator.load(tuned if weight else tiny_run, precision="fp32").translate(["red cat"])
        assert Translator.load(tmp_path / "out", precision="fp32").translate(["red cat"]) == same


def test_without_a_weight_the_best_on_the_validation_text_is_taken(
    tiny_run: Path, tuned: Path, tmp_path: Path
) -> None:
    result = succeed("merge", tiny_run, tuned, "--out", tmp_path / "out")
    assert result.stdout.strip() == str(tmp_path / "out")
    (record,) = [Run.open(tmp_path / "out").read_json("report.json")["merged"]]
    assert {one["weight"] for one in record["tried"]} == set(WEIGHTS)
    assert record["tried"][0]["mean"] == max(one["mean"] for one in record["tried"])
    assert record["weight"] == record["tried"][0]["weight"]
    assert f"chosen: weight {record['weight']:g}" in result.stderr
    assert "merged from" in succeed("show", tmp_path / "out").stdout


def test_each_direction_of_a_run_of_several_counts(tiny_many: Path, tmp_path: Path) -> None:
    other = shutil.copytree(tiny_many, tmp_path / "other")
    (first, *_) = merge(tiny_many, other, tmp_path / "out")
    assert set(first.scores) == {"run en-de", "run de-en", "run en-fr"}, "the same text counts once"


def test_what_cannot_be_merged_is_said(tiny_run: Path, tiny_many: Path, tuned: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "has not the vocabulary of" in error_of("merge", tiny_run, tiny_many, "--out", out)
    assert "is there already" in error_of("merge", tiny_run, tuned, "--out", tuned)
    assert not out.exists()
    config = tuned / "config.toml"
    config.write_text(
        config.read_text(encoding="utf-8").replace("n_heads = 2", "n_heads = 4"), encoding="utf-8"
    )
    assert "has not the shape of" in error_of("merge", tiny_run, tuned, "--out", out)


def test_runs_of_the_same_name_are_told_apart(tiny_run: Path, tuned: Path, tmp_path: Path) -> None:
    other = shutil.copytree(tuned, tmp_path / "other" / "run")
    write_corpus(tmp_path, "other", 20, seed=9)
    config = other / "config.toml"
    text = config.read_text(encoding="utf-8")
    (valid,) = Run.open(other).config.data.valid
    config.write_text(text.replace(str(valid), str(tmp_path / "other.tsv")), encoding="utf-8")
    (first, *_) = merge(tiny_run, other, tmp_path / "out")
    assert len(first.scores) == 2
