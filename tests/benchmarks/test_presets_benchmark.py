"""The trials of presets on other corpora."""

from __future__ import annotations

import gzip
import sys
from fractions import Fraction
from pathlib import Path

import pytest

import presets
from json_lines import read_lines

TINY = (
    "model.d_model=16", "model.d_ff=16", "model.n_heads=2", "tokenizer.vocab_size=300",
    "training.max_steps=2", "training.warmup_steps=1", "training.valid_every=2",
)  # fmt: skip


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sixteen pairs where Tatoeba is looked for."""
    folder = tmp_path / "data" / "tatoeba-en-de"
    folder.mkdir(parents=True)
    for split, n in {"train": 16, "val": 4}.items():
        for lang, word in {"en": "bird", "de": "Vogel"}.items():
            text = "".join(f"{word} {'a' * (i % 5 + 1)}\n" for i in range(n))
            (folder / f"{split}.{lang}.gz").write_bytes(gzip.compress(text.encode()))
    monkeypatch.chdir(tmp_path / "data")
    monkeypatch.setattr(presets, "RESULT_FILE", tmp_path / "results.jsonl")
    return tmp_path


def test_a_part_has_the_preset_of_its_size() -> None:
    small = presets.config_for("de-en", Fraction(1, 8), "default", n_pairs=5000)
    large = presets.config_for("de-en", Fraction(1, 8), "default", n_pairs=100_000)
    assert small.data.part == large.data.part == (0.0, 0.125)
    assert small.model.d_model < large.model.d_model


def test_a_trial_is_made_once_and_shown(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = [argument for one in TINY for argument in ("--set", one)]
    command = ["presets.py", "train", "de-en", "1/2", "fast", "--out", str(corpus / "runs"), *settings]
    monkeypatch.setattr(sys, "argv", command)
    presets.main()
    (line,) = read_lines(presets.RESULT_FILE)
    expected = {"direction": "de-en", "share": "1/2", "preset": "fast", "set": list(TINY), "seed": 1}
    assert expected.items() <= line.items()
    assert 0 < line["pairs"] < 16
    presets.main()
    assert len(read_lines(presets.RESULT_FILE)) == 1, "it is there already"
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", ["presets.py", "show"])
    presets.main()
    assert f"{line['bleu']:.1f}" in capsys.readouterr().out
