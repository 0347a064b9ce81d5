"""benchmarks/kernels.py runs, on shapes that take no time."""

from __future__ import annotations

import re
import sys
from types import ModuleType

import pytest

import kernels
from dragoman.model.kernels import FAST, PLAIN


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for name, value in {"TOKENS": 6, "D": 8, "H": 2, "V": 11, "B": 3, "T": 4}.items():
        monkeypatch.setattr(kernels, name, value)
    return kernels


def test_every_comparison_prints_both_times_and_their_ratio(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kernels.py", "--rounds", "1"])
    benchmark.main()
    table = capsys.readouterr().out
    assert len(re.findall(r"\d+\.\d\d \(\d+\.\d\d\) .* \d+\.\d$", table, re.MULTILINE)) == 5
    assert "float32, 6 x 8 x 32" in table


def test_plain_and_fast_kernels_take_turns(benchmark: ModuleType) -> None:
    calls: list[object] = []
    plain, fast = benchmark.in_turn([lambda: calls.append(PLAIN), lambda: calls.append(FAST)], rounds=3)
    assert calls == [PLAIN, FAST] * 5  # two rounds to warm up
    assert len(plain) == len(fast) == 3
