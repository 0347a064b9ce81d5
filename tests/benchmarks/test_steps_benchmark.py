"""`benchmarks/steps.py`, on a model that takes no time."""

from __future__ import annotations

import sys

import pytest

import steps
from dragoman.native import native


@pytest.mark.slow
def test_a_line_for_each_type_and_shape(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if native().library is None:
        pytest.skip(native().reason)
    arguments = ["steps.py", "--d-model", "64", "--layers", "1", "--rounds", "1"]
    monkeypatch.setattr(sys, "argv", arguments)
    monkeypatch.setattr(steps, "SHAPES", ((1, 1), (2, 3)))
    steps.main()
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    measured = [line for line in lines if line[0] in {"int8", "bf16", "fp32"} and "processor" not in line]
    assert [line[1:3] for line in measured] == [["1", "1"], ["2", "6"]] * (len(measured) // 2)
    assert all(float(cell) > 0 for line in measured for cell in line[3:7])


def test_products_are_those_of_a_base_model() -> None:
    """Six layers of d 512: 22.0 M multiply-adds in the decoder's products, and 4.1 M for 8,000 tokens."""
    assert steps.products_of(512, 6) == 6 * (3 + 1 + 1 + 1 + 4 + 4) * 512 * 512 + 512 * 8000
