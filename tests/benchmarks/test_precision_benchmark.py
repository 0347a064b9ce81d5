"""benchmarks/precision.py trains each curve once, and measures how far they lie apart."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import precision as benchmark


def lines(curve: Any, losses: list[float], valid_loss: float) -> list[dict[str, Any]]:
    train = [{"step": 10 * i, "train_loss": loss} for i, loss in enumerate(losses, start=1)]
    records = [*train, {"step": curve.steps, "valid_loss": valid_loss}]
    return [{**curve._asdict(), **record} for record in records]


def test_bf16_has_a_partner_of_the_same_seed() -> None:
    curves = [tuple(curve) for curve in benchmark.wanted([3, 7], 50)]
    assert curves == [("fp32", 3, 50), ("bf16", 3, 50), ("fp32", 7, 50)]


def test_smoothing_averages_what_came_before() -> None:
    assert benchmark.N_SMOOTHED == 5
    assert benchmark.smoothed([6.0, 4.0, 2.0, 0.0, 3.0, 1.0, 9.0]) == [6.0, 5.0, 4.0, 3.0, 3.0, 2.0, 3.0]


def test_differences_count_by_their_size_and_with_their_sign() -> None:
    assert benchmark.difference([3.0, 1.0], [2.0, 4.0]) == (3.0, 2.0, -1.0)


def test_curves_of_other_lengths_do_not_count() -> None:
    short, long = benchmark.Curve("fp32", 1, 10), benchmark.Curve("fp32", 1, 20)
    records = [*lines(short, [3.0], 2.0), *lines(long, [5.0, 4.0], 1.0)]
    assert benchmark.losses(records, long) == ([10, 20], [5.0, 4.5])
    assert benchmark.valid_loss(records, short) == 2.0


def test_a_curve_that_is_there_is_not_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[str] = []

    def trained(curve: Any, out: Path) -> list[dict[str, Any]]:
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(str(curve))
        return lines(curve, [4.0, 3.0 + len(made)], 2.0 + len(made))

    monkeypatch.setattr(benchmark, "trained", trained)
    monkeypatch.setattr(sys, "argv", ["precision.py", "--steps", "20", "--results", str(tmp_path)])
    with pytest.raises(SystemExit, match="continues"):
        benchmark.main()
    made.clear()
    benchmark.main()
    assert made == ["fp32, seed 2"]
    assert (tmp_path / "precision.svg").exists()
    bf16, fp32 = capsys.readouterr().out.splitlines()[1:3]
    assert bf16.split() == ["bf16,", "seed", "1", "0.5000", "0.2500", "+0.2500", "+1.0000"]
    assert fp32.split() == ["fp32,", "seed", "2", "0.0000", "0.0000", "+0.0000", "+0.0000"]
