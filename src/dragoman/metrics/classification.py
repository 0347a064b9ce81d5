"""Classification metrics: accuracy, F1 by class, and calibration.

Labels and predictions are class numbers from 0 on; logits and probabilities are (N, C), a row a text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dragoman.errors import DataError
from dragoman.metrics.score import SEED, Score

Ids = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

Z_95 = 1.959964
"""The normal distribution's two-sided 95 % quantile."""

N_BINS = 15
"""Bins of equal width that confidences are sorted into (Guo et al. 2017)."""

MIN_TEMPERATURE, MAX_TEMPERATURE = 0.05, 20.0
"""Temperatures beyond these say that the examples were too few or too easy to fit one."""


class ClassScore(NamedTuple):
    """How well one class is found, 0–100."""

    precision: float
    """Of the texts given this label, those that have it."""
    recall: float
    """Of the texts that have this label, those given it."""
    f1: float
    """The harmonic mean of the two."""
    support: int
    """Texts that have this label."""


class ClassIntervals(NamedTuple):
    """The 95 % intervals of a class's scores, 0–100; None where there is nothing to divide by."""

    precision: tuple[float, float] | None
    """Wilson's."""
    recall: tuple[float, float] | None
    """Wilson's."""
    f1: tuple[float, float] | None
    """The central 95 % of resamples of the texts."""


class Counts(NamedTuple):
    """How many texts have and are given each class (..., C): of one set of texts, or of resamples of it."""

    right: Ids
    """Given it, and have it."""
    found: Ids
    """Given it."""
    there: Ids
    """Have it."""


class ReliabilityBin(NamedTuple):
    """The texts whose label was given with a probability in one range, the upper border included."""

    low: float
    high: float
    n: int
    n_right: int
    confidence: float
    """The mean probability of the label given, 0–1; NaN without texts."""

    @property
    def accuracy(self) -> float:
        """The share that was right, 0–1; NaN without texts."""
        return self.n_right / self.n if self.n else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the accuracy; (0, 1) without texts."""
        return wilson_interval(self.n_right, self.n) if self.n else (0.0, 1.0)


def confusion_matrix(labels: Ids, predictions: Ids, *, n_classes: int) -> Ids:
    """(C, C) counts: texts of the row's class that were given the column's.

    DataError: no texts, or different numbers of labels and predictions.
    """
    if len(labels) != len(predictions):
        raise DataError(
            f"there are {len(labels)} labels and {len(predictions)} predictions; "
            "scoring needs one label for every prediction"
        )
    if not len(labels):
        raise DataError("there is nothing to score: 0 labels and 0 predictions")
    cells = np.bincount(labels * n_classes + predictions, minlength=n_classes**2)
    return cells.reshape(n_classes, n_classes)


def share_right(name: str, n_right: int, n: int) -> Score:
    """Return the share of texts that are right, with Wilson's interval (Wilson 1927), 0–100."""
    low, high = wilson_interval(n_right, n)
    return Score(name, 100 * n_right / n, f"n:{n}|interval:Wilson", (100 * low, 100 * high))


def wilson_interval(n_right: int, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a share, 0–1: the p for which n_right of n is within 1.96 deviations."""
    share, z2 = n_right / n, Z_95**2 / n
    centre = (share + z2 / 2) / (1 + z2)
    half = math.sqrt(z2 * (share * (1 - share) + z2 / 4)) / (1 + z2)
    return max(0.0, centre - half), min(1.0, centre + half)


def f1_score(name: str, mean: Callable[[Counts], Floats], counts: Counts, samples: Counts, n: int) -> Score:
    """Return the `mean` F1 of the classes of `n` texts, from their counts (C,) and those of resamples (R, C).

    The interval holds the central 95 % of the resamples. Without two of them the score has no interval.
    """
    n_samples, n_classes = samples.right.shape
    interval = None
    if n_samples > 1:
        low, high = np.percentile(mean(samples), [2.5, 97.5])
        interval = (float(low), float(high))
    return Score(name, float(mean(counts)), f"n:{n}|classes:{n_classes}|bs:{n_samples}|seed:{SEED}", interval)


def resampled_confusions(confusion: Ids, *, n_bootstrap: int) -> Ids:
    """Return the confusion matrices (R, C, C) of resamples of the texts."""
    n = int(confusion.sum())
    resamples = np.random.default_rng(SEED).multinomial(n, confusion.ravel() / n, size=n_bootstrap)
    return np.asarray(resamples.reshape(-1, *confusion.shape), dtype=np.int64)


def counts_of(confusions: Ids) -> Counts:
    """Return the counts (..., C) of confusion matrices (..., C, C)."""
    return Counts(np.diagonal(confusions, axis1=-2, axis2=-1), confusions.sum(-2), confusions.sum(-1))


def mean_f1(counts: Counts) -> Floats:
    """Return the macro-F1 (...), 0–100, of the classes that a text has or is given."""
    n_classes = ((counts.found + counts.there) > 0).sum(-1)
    return np.asarray(100 * _class_f1(counts).sum(-1) / np.maximum(n_classes, 1), dtype=np.float64)


def micro_f1(counts: Counts) -> Floats:
    """Return the F1 (...) of all classes counted together, 0–100."""
    found_and_there = (counts.found + counts.there).sum(-1)
    return np.asarray(200 * counts.right.sum(-1) / np.maximum(found_and_there, 1), dtype=np.float64)


def _class_f1(counts: Counts) -> Floats:
    """Return the F1 of each class (..., C), 0–1; 0 where there is no text."""
    found_and_there = counts.found + counts.there  # twice the denominator of F1's mean
    return np.asarray(2 * counts.right / np.maximum(found_and_there, 1), dtype=np.float64)


def per_class(counts: Counts) -> list[ClassScore]:
    """Precision, recall and F1 of each class; 0 where there is nothing to divide by."""
    return [
        ClassScore(
            precision=100 * r / max(f, 1), recall=100 * r / max(t, 1), f1=200 * r / max(f + t, 1), support=t
        )
        for r, f, t in zip(*(column.tolist() for column in counts), strict=True)
    ]


def class_intervals(counts: Counts, resampled: Counts) -> list[ClassIntervals]:
    """How far the scores of each class can be trusted; `resampled` (R, C) are those of resamples."""
    low, high = np.percentile(100 * _class_f1(resampled), [2.5, 97.5], axis=0)

    def share(n_right: int, of: int) -> tuple[float, float] | None:
        if not of:
            return None
        bounds = wilson_interval(n_right, of)
        return 100 * bounds[0], 100 * bounds[1]

    return [
        ClassIntervals(
            share(right, predicted),
            share(right, expected),
            (float(low[i]), float(high[i])) if predicted + expected else None,
        )
        for i, (right, predicted, expected) in enumerate(zip(*(c.tolist() for c in counts), strict=True))
    ]


def sigmoid(logits: Floats) -> Floats:
    """1 / (1 + exp(-logits)), without overflow."""
    return np.asarray(1 / (1 + np.exp(-np.clip(logits, -700, 700))), dtype=np.float64)


def softmax(logits: Floats, *, temperature: float = 1.0) -> Floats:
    """(N, C) probabilities of logits over `temperature`."""
    return np.asarray(np.exp(_log_softmax(logits / temperature)), dtype=np.float64)


def negative_log_likelihood(logits: Floats, labels: Ids, *, temperature: float = 1.0) -> float:
    """Return the mean of -log p(label), in nats a text."""
    return float(text_losses(logits / temperature, labels).mean())


def reliability(probabilities: Floats, labels: Ids, *, n_bins: int = N_BINS) -> list[ReliabilityBin]:
    """How often texts were right, by how sure of it the classifier was (DeGroot and Fienberg 1983).

    Confidence is the probability of the label given. Texts are sorted by it into `n_bins` bins of equal
    width over 0–1, the upper border of each included.
    """
    confidence = probabilities.max(1)
    right = probabilities.argmax(1) == labels
    bins = np.clip(np.ceil(confidence * n_bins).astype(np.int64) - 1, 0, n_bins - 1)
    n = np.bincount(bins, minlength=n_bins)
    n_right = np.bincount(bins[right], minlength=n_bins)
    sums = np.bincount(bins, weights=confidence, minlength=n_bins)
    means = np.divide(sums, n, out=np.full(n_bins, math.nan), where=n > 0)
    edges = [i / n_bins for i in range(n_bins + 1)]
    columns = (edges[:-1], edges[1:], n.tolist(), n_right.tolist(), means.tolist())
    return [ReliabilityBin(*values) for values in zip(*columns, strict=True)]


def expected_calibration_error(probabilities: Floats, labels: Ids, *, n_bins: int = N_BINS) -> float:
    """How far confidence and accuracy are apart, on average over texts, 0–100 (Guo et al. 2017, equation 3).

    The bins are those of `reliability`; each counts as much as it has texts.
    """
    filled = (each for each in reliability(probabilities, labels, n_bins=n_bins) if each.n)
    return 100 * sum(each.n * abs(each.accuracy - each.confidence) for each in filled) / len(labels)


def fit_temperature(logits: Floats, labels: Ids) -> float:
    """Return the temperature under which `labels` are most likely (Guo et al. 2017, section 4.2).

    Above 1 for a model that is too sure of itself. It changes no label, only how sure they are. The
    likelihood of `smoothed` labels is concave in 1/temperature, so halving an interval finds its one
    maximum. Between MIN_TEMPERATURE and MAX_TEMPERATURE.
    """
    low, high = 1 / MAX_TEMPERATURE, 1 / MIN_TEMPERATURE
    at_label = (smoothed(labels, logits.shape[1]) * logits).sum(1)
    for _ in range(60):
        middle = (low + high) / 2
        expected = (softmax(logits, temperature=1 / middle) * logits).sum(1)
        if (at_label - expected).mean() > 0:  # the slope of the log-likelihood
            low = middle
        else:
            high = middle
    return 2 / (low + high)


def smoothed(labels: Ids, n_classes: int) -> Floats:
    """Return the probabilities (N, C) to fit to: a little below 1 for the label (Platt 1999).

    One wrong text more than there are, of N + 2: so that logits which are right of all texts are not taken
    to be infinitely sure.
    """
    wrong = 1 / (len(labels) + 2)
    return (1 - wrong) * np.eye(n_classes)[labels] + wrong / n_classes


def fit_mixture(parts: Floats, labels: Ids) -> Floats:
    """Return the factors (K,), none below 0, that make `labels` most likely by the sum of `parts` (K, N, C).

    Parts are logits of the same texts by different models. The likelihood of `smoothed` labels is concave,
    so that Newton's steps, halved until they help, find its maximum; a part that would be subtracted is left
    out. No factor is above 1 / MIN_TEMPERATURE.
    """
    targets = smoothed(labels, parts.shape[2])
    factors, used = np.ones(len(parts)), np.arange(len(parts))
    while len(used):
        factors = np.zeros(len(parts))
        factors[used] = _newton(parts[used], targets)
        if (factors[used] > 0).all():
            break
        used = np.delete(used, factors[used].argmin())
    return factors.clip(0.0, 1 / MIN_TEMPERATURE)


def _newton(parts: Floats, targets: Floats) -> Floats:
    """Return the best factors of `parts`, of any sign, for probabilities (N, C)."""

    def loss_of(factors: Floats) -> float:
        return float(-(targets * _log_softmax(mixed(parts, factors))).sum(1).mean())

    factors = np.ones(len(parts))
    loss = loss_of(factors)
    for _ in range(50):
        p = softmax(mixed(parts, factors))
        means = (p * parts).sum(2)  # (K, N)
        gradient = (means - (targets * parts).sum(2)).mean(1)
        centred = parts - means[:, :, None]
        hessian = np.einsum("knc,lnc,nc->kl", centred, centred, p) / len(targets)
        step = np.linalg.solve(hessian + 1e-9 * np.eye(len(parts)), gradient)
        for _ in range(30):
            new = loss_of(factors - step)
            if new <= loss:
                break
            step = step / 2
        if loss - new < 1e-9 or np.abs(factors).max() > 1 / MIN_TEMPERATURE:
            break
        factors, loss = factors - step, new
    return factors


def mixed(parts: Floats, factors: Floats) -> Floats:
    """Return the sum (N, C) of `parts` (K, N, C), each times its factor (K,)."""
    return np.asarray(np.einsum("knc,k->nc", parts, factors), dtype=np.float64)


def simplest_mixture(parts: Floats, labels: Ids, together: Floats, *, n_each: int = 1) -> Floats:
    """Return the factors `together` of the parts (K, N, C), or of the first alone if not clearly worse.

    Clearly: by more than the standard error of the mean difference of the losses of the texts, of which
    each has `n_each` rows, one after the other.
    """
    alone = np.zeros(len(parts))
    alone[0] = fit_mixture(parts[:1], labels)[0]
    worse = text_losses(mixed(parts, alone), labels) - text_losses(mixed(parts, together), labels)
    worse = worse.reshape(-1, n_each).mean(1)
    return alone if worse.mean() <= worse.std() / len(worse) ** 0.5 else together


def text_losses(logits: Floats, labels: Ids) -> Floats:
    """Return -log p(label) of each text (N,), in nats."""
    return np.asarray(-_log_softmax(logits)[np.arange(len(labels)), labels], dtype=np.float64)


def balanced_weights(counts: Sequence[int]) -> list[float]:
    """Return the weight per example of each class that balances the classes; their mean over examples is 1.

    N / (C n) for n of N examples and C classes that have any; 0 for a class that has none.
    """
    n_present = sum(n > 0 for n in counts)
    return [sum(counts) / (n_present * n) if n else 0.0 for n in counts]


def _log_softmax(logits: Floats) -> Floats:
    shifted = logits - logits.max(1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(1, keepdims=True)), dtype=np.float64)
