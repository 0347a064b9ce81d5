"""Extrapolate a score from a few amounts of text to more: a power law, with an interval for its prediction.

Scores follow c + g (1 - (n / n0)^-b) / b over n examples (Hestness et al. 2017; Kaplan et al. 2020). Each
doubling of the text changes the score by 2^-b times what the doubling before it did; for b = 0, by the same
amount. Few points tell little about b, so no single value is chosen: each counts as much as the points make
it likely, and the interval covers what they leave open.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dragoman.errors import DataError
from dragoman.metrics.score import SEED

Floats = npt.NDArray[np.float64]

EXPONENTS = np.linspace(-0.1, 1.25, 28)
"""Values of b. 2^-b is 1.07 to 0.42: a doubling may change a score much less than the one before it did, or a
little more, so that equal gains (b = 0) are not at the edge."""

N_DRAWS = 40_000
"""Curves that are drawn; a curve on which more text makes the score worse is left out."""

CREDIBILITY = 0.9
"""Share of the predictions that an interval holds: the central 90 %."""

PRIOR_DEGREES = 4.0
"""Measurements that the noise assumed beforehand is worth, beside those made."""


class Prediction(NamedTuple):
    """A score that was not measured."""

    value: float
    """The median of what is predicted."""
    interval: tuple[float, float]
    """The central 90 %."""


def extrapolate(
    sizes: Sequence[float],
    scores: Sequence[float],
    wanted: Sequence[float],
    *,
    noise: float,
) -> list[Prediction]:
    """Predict the score of one more training on each of the `wanted` amounts of text.

    `scores` were measured on texts of `sizes`; a higher score is better, so give a loss with a minus.
    `noise` is the standard deviation between trainings that is usual; the scatter of the points corrects it.

    Raises:
        DataError: fewer than three different sizes, or a score is not a finite number.
    """
    x, y = np.asarray(sizes, dtype=np.float64), np.asarray(scores, dtype=np.float64)
    if len(np.unique(x)) < 3 or len(x) != len(y) or not np.isfinite(y).all() or (x <= 0).any():
        raise DataError("a forecast needs finite scores of three different amounts of text")
    rng, n0 = np.random.default_rng(SEED), x.max()
    fits = [_fit(_curve(x / n0, b), y, noise) for b in EXPONENTS]
    evidence = np.array([fit.log_evidence for fit in fits])
    shares = np.exp(evidence - evidence.max())
    drawn: list[Floats] = []
    for b, fit, n in zip(EXPONENTS, fits, rng.multinomial(N_DRAWS, shares / shares.sum()), strict=True):
        variances = fit.squares / rng.chisquare(fit.degrees, n)
        errors = rng.standard_normal((n, 2)) @ np.linalg.cholesky(fit.covariance).T
        weights = fit.weights + np.sqrt(variances)[:, None] * errors  # c and g of each curve
        curves = weights @ _curve(np.asarray(wanted) / n0, b).T
        own = np.sqrt(variances)[:, None] * rng.standard_normal(curves.shape)
        drawn.append((curves + own)[weights[:, 1] >= 0])
    found = np.concatenate(drawn)
    if not len(found):  # the points fall steeply: more text does nothing for the score
        found = y.mean() + max(noise, y.std()) * rng.standard_normal((N_DRAWS, len(wanted)))
    tail = (1 - CREDIBILITY) / 2
    low, middle, high = np.quantile(found, (tail, 0.5, 1 - tail), axis=0)
    return [Prediction(float(m), (float(a), float(z))) for a, m, z in zip(low, middle, high, strict=True)]


class _Fit(NamedTuple):
    """The posterior of c, g and the noise for one b, from a flat prior of c and g."""

    weights: Floats
    covariance: Floats
    """Of the weights, for noise of variance 1."""
    degrees: float
    squares: float
    """Sum of squares; squares / chi² of `degrees` is the noise's variance."""
    log_evidence: float
    """Log-probability of the points, up to a constant."""


def _curve(x: Floats, b: float) -> Floats:
    """Return the columns that c and g are multiplied by, (points, 2), for amounts relative to n0."""
    grown = np.log(x) if abs(b) < 1e-9 else (1 - x**-b) / b
    return np.stack([np.ones_like(x), grown], axis=1)


def _fit(columns: Floats, y: Floats, noise: float) -> _Fit:
    """Fit by least squares, with an inverse chi² prior of the noise (Gelman et al. 2013, chapter 14)."""
    covariance: Floats = np.linalg.inv(columns.T @ columns).astype(np.float64)
    weights = covariance @ columns.T @ y
    degrees = PRIOR_DEGREES + len(y) - 2
    squares = PRIOR_DEGREES * noise**2 + float(((y - columns @ weights) ** 2).sum())
    evidence = 0.5 * np.linalg.slogdet(covariance)[1] - 0.5 * degrees * np.log(squares)
    return _Fit(weights, covariance, degrees, squares, float(evidence))
