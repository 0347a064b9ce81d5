"""Extrapolated scores: a planted law is found, and intervals hold what they promise."""

from __future__ import annotations

import numpy as np
import pytest

from dragoman.errors import DataError
from dragoman.metrics.extrapolation import extrapolate

PARTS = np.array([1000.0, 1000.0, 2000.0, 4000.0])
WANTED = np.array([8000.0, 16000.0, 32000.0])


def law(n: np.ndarray, *, b: float, gain: float) -> np.ndarray:
    """Return scores of 20 at 4,000 examples; `gain` a unit of log n there."""
    x = n / 4000.0
    return np.asarray(20 + gain * (np.log(x) if b == 0 else (1 - x**-b) / b))


@pytest.mark.parametrize("b", [0.0, 0.2, 0.5, 1.0])
def test_a_planted_power_law_is_found_where_there_is_no_noise(b: float) -> None:
    found = extrapolate(PARTS.tolist(), law(PARTS, b=b, gain=5).tolist(), WANTED.tolist(), noise=1e-4)
    assert [one.value for one in found] == pytest.approx(law(WANTED, b=b, gain=5).tolist(), abs=0.3)


@pytest.mark.parametrize(("b", "gain"), [(0.0, 3.0), (0.3, 3.0), (0.8, 6.0)])
def test_intervals_hold_the_truth_in_most_draws_of_noise(b: float, gain: float) -> None:
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(30):
        scores = law(PARTS, b=b, gain=gain) + 0.5 * rng.standard_normal(4)
        truth = law(WANTED, b=b, gain=gain) + 0.5 * rng.standard_normal(3)
        found = extrapolate(PARTS.tolist(), scores.tolist(), WANTED.tolist(), noise=0.5)
        held += sum(low <= y <= high for (_, (low, high)), y in zip(found, truth, strict=True))
    assert held >= 0.85 * 90


def test_intervals_widen_with_the_distance_and_with_the_scatter_of_equal_parts() -> None:
    def widths(first: float, second: float) -> list[float]:
        found = extrapolate(PARTS.tolist(), [first, second, 15.0, 18.0], WANTED.tolist(), noise=0.3)
        return [high - low for _, (low, high) in found]

    calm, scattered = widths(12.0, 12.1), widths(10.0, 14.1)
    assert calm == sorted(calm)
    assert all(a < b for a, b in zip(calm, scattered, strict=True))


def test_more_text_is_not_forecast_to_make_a_score_worse() -> None:
    near, _, far = extrapolate(PARTS.tolist(), [20.0, 20.0, 18.0, 16.0], WANTED.tolist(), noise=0.5)
    assert near.value <= far.value + 0.2


@pytest.mark.parametrize(
    ("sizes", "scores"),
    [
        ([1.0, 1.0, 2.0], [1.0, 1.0, 2.0]),
        ([1.0, 2.0, 4.0], [1.0, float("nan"), 2.0]),
        ([0.0, 1.0, 2.0], [1.0, 1.0, 1.0]),
    ],
)
def test_too_few_amounts_and_scores_that_are_no_numbers_are_refused(
    sizes: list[float], scores: list[float]
) -> None:
    with pytest.raises(DataError, match="three different amounts of text"):
        extrapolate(sizes, scores, [8.0], noise=0.5)
