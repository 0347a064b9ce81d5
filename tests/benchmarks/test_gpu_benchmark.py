"""benchmarks/gpu_speed.py: runs where there is a device, and claims nothing where there is none."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch

import gpu_speed as benchmark
from dragoman.config import TrainingConfig, TranslationConfig


@pytest.mark.skipif(torch.cuda.is_available(), reason="here is a GPU")
def test_without_a_gpu_nothing_is_claimed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["gpu_speed.py"])
    benchmark.main()
    assert capsys.readouterr().out == "no GPU here: not measured\n"


def test_base_and_big_are_those_of_the_paper() -> None:
    """Table 3: 65 and 213 million parameters with a vocabulary of 37,000."""
    for name, n_parameters in (("base", 65e6), ("big", 213e6)):
        config = benchmark.settings("free", 64, 1, "cpu", model=name)
        weights = sum(benchmark.weights_per_token(config, 37_000))
        assert weights == pytest.approx(n_parameters, rel=0.04)


def test_both_kinds_of_steps_are_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured: list[TrainingConfig] = []
    kept: list[Path | None] = []

    def measure(config: TranslationConfig, *, keep: Path | None) -> tuple[float, float]:
        measured.append(config.training)
        kept.append(keep)
        assert config.data.train == ("phrasebook:train",)
        return 1000.0, 0.5

    monkeypatch.setattr(benchmark, "measure", measure)
    options = ["--device", "cpu", "--batch-tokens", "64", "128", "--corpus", "phrasebook", "--keep", "speed"]
    monkeypatch.setattr(sys, "argv", ["gpu_speed.py", *options])
    benchmark.main()
    assert kept == [Path("speed"), None, None, None]
    assert [(training.steps, training.batch_tokens) for training in measured] == [
        (steps, n) for steps in ("static", "free") for n in (64, 128)
    ]
    line = r"^small +(free|static) .* 1,000 +\d+\.\d% +0\.50$"
    assert len(re.findall(line, capsys.readouterr().out, re.MULTILINE)) == 4
