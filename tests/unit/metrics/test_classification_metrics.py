"""Scores of classifications against scikit-learn, SciPy-free formulas and hand computations."""

import math

import numpy as np
import pytest

from dragoman.errors import DataError
from dragoman.metrics.classification import (
    MAX_TEMPERATURE,
    MIN_TEMPERATURE,
    balanced_weights,
    confusion_matrix,
    counts_of,
    expected_calibration_error,
    fit_mixture,
    fit_temperature,
    mixed,
    negative_log_likelihood,
    per_class,
    simplest_mixture,
    softmax,
    wilson_interval,
)
from dragoman.metrics.labelling import labelling_of
from dragoman.metrics.score import Score


def ids(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def scores_of(
    labels: np.ndarray, found: np.ndarray, n_classes: int = 3, *, n_bootstrap: int = 1000
) -> dict[str, Score]:
    return labelling_of("").scores(labels, found, n_classes, n_bootstrap=n_bootstrap)


def random_case(seed: int, n: int = 200, n_classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, n_classes, n), rng.normal(0, 2, (n, n_classes))


@pytest.mark.slow
def test_scores_are_those_of_scikit_learn() -> None:
    reference = pytest.importorskip("sklearn.metrics")
    for seed in range(5):
        labels, logits = random_case(seed)
        found = logits.argmax(1)
        confusion = confusion_matrix(labels, found, n_classes=4)
        assert (confusion == reference.confusion_matrix(labels, found)).all()
        scores = scores_of(labels, found, 4)
        assert scores["accuracy"].value == pytest.approx(100 * reference.accuracy_score(labels, found))
        expected = 100 * reference.f1_score(labels, found, average="macro")
        assert scores["macro_f1"].value == pytest.approx(expected)
        columns = zip(*per_class(counts_of(confusion)), strict=True)
        for ours, theirs in zip(
            columns, reference.precision_recall_fscore_support(labels, found), strict=True
        ):
            scale = 1 if theirs.dtype == np.int64 else 100
            np.testing.assert_allclose(ours, scale * theirs)
        assert negative_log_likelihood(logits, labels) == pytest.approx(
            reference.log_loss(labels, softmax(logits))
        )


def test_wilson_s_interval_holds_the_shares_within_its_deviations() -> None:
    """The borders are the two shares p at which (share - p)² = z² p (1 - p) / n."""
    for right, n in ((0, 5), (3, 5), (5, 5), (880, 1000)):
        for p in wilson_interval(right, n):
            assert (right / n - p) ** 2 == pytest.approx(1.959964**2 * p * (1 - p) / n, abs=1e-12)


def test_the_bootstrap_of_counts_is_the_bootstrap_of_texts() -> None:
    labels, logits = random_case(0, n=150, n_classes=3)
    found = logits.argmax(1)
    rng = np.random.default_rng(1)
    scores = []
    for _ in range(1000):
        chosen = rng.integers(0, 150, 150)
        scores.append(scores_of(labels[chosen], found[chosen], n_bootstrap=0)["macro_f1"].value)
    interval = scores_of(labels, found)["macro_f1"].interval
    assert interval == pytest.approx(np.percentile(scores, [2.5, 97.5]), abs=1.0)
    assert scores_of(labels, found, n_bootstrap=0)["macro_f1"].interval is None
    two, three = (scores_of(ids(0, 1, 1), ids(0, 1, 0), n)["macro_f1"] for n in (2, 3))
    assert two.value == three.value, "a class that neither occurs nor is given"


def test_nothing_to_score_and_unequal_numbers_are_errors() -> None:
    with pytest.raises(DataError, match="nothing to score: 0 labels and 0 predictions"):
        confusion_matrix(ids(), ids(), n_classes=2)
    with pytest.raises(DataError, match="there are 1 labels and 2 predictions; scoring needs one label"):
        confusion_matrix(ids(0), ids(0, 1), n_classes=2)


def test_a_bin_includes_its_upper_border() -> None:
    """1.0 belongs to the last of ten bins and 0.9 to the one before, so their gaps do not cancel."""
    probabilities = np.array([[1.0, 0.0], [0.9, 0.1]])
    assert expected_calibration_error(probabilities, ids(1, 0), n_bins=10) == pytest.approx(100 * 1.1 / 2)


def test_probabilities_that_are_true_are_calibrated() -> None:
    rng = np.random.default_rng(3)
    logits = rng.normal(0, 2, (20000, 3))
    probabilities = softmax(logits)
    labels = (rng.random((20000, 1)) > probabilities.cumsum(1)).sum(1)
    assert expected_calibration_error(probabilities, labels) < 1.0
    assert fit_temperature(logits, labels) == pytest.approx(1.0, abs=0.03)
    assert fit_temperature(3 * logits, labels) == pytest.approx(3.0, abs=0.09)


def test_the_temperature_stays_within_its_borders() -> None:
    labels, logits = ids(0, 1), np.array([[0.01, 0.0], [0.0, 0.01]])
    assert fit_temperature(logits, labels) == pytest.approx(MIN_TEMPERATURE)
    assert fit_temperature(logits, 1 - labels) == pytest.approx(MAX_TEMPERATURE)
    huge = np.array([[1e4, -1e4]])
    assert softmax(huge).tolist() == [[1.0, 0.0]]
    assert negative_log_likelihood(huge, ids(1)) == pytest.approx(2e4)


def test_balanced_weights_make_classes_count_the_same() -> None:
    counts = [90, 9, 1, 0]
    weights = balanced_weights(counts)
    shares = [w * n for w, n in zip(weights, counts, strict=True)]
    assert shares[:3] == pytest.approx([100 / 3] * 3)
    assert weights[3] == 0.0
    assert math.isclose(sum(shares), sum(counts))


# Mixtures


def two_parts(*, n: int, shares: tuple[float, float], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Logits of two parts, and labels that are drawn by their sum times these shares."""
    rng = np.random.default_rng(seed)
    parts = rng.normal(size=(2, n, 3))
    probabilities = softmax(mixed(parts, np.array(shares)))
    return parts, np.array([rng.choice(3, p=p) for p in probabilities])


def test_a_mixture_finds_the_factors_that_labels_were_drawn_by_and_leaves_out_the_opposite() -> None:
    parts, labels = two_parts(n=20_000, shares=(2.0, 0.5))
    assert fit_mixture(parts, labels) == pytest.approx([2.0, 0.5], abs=0.1)
    parts, labels = two_parts(n=2_000, shares=(2.0, -0.5))
    factors = fit_mixture(parts, labels)
    assert factors[1] == 0.0
    assert factors[0] == pytest.approx(1 / fit_temperature(parts[0], labels), rel=1e-3)
    for shares, others_help in (((2.0, 2.0), True), ((2.0, 0.0), False), ((0.0, 2.0), True)):
        parts, labels = two_parts(n=2_000, shares=shares)
        assert (simplest_mixture(parts, labels, fit_mixture(parts, labels))[1] > 0) == others_help


def test_logits_that_are_always_right_are_not_infinitely_sure() -> None:
    """Of 30 texts, about one of 32 is taken to be wrong."""
    labels = np.array([0, 1, 2] * 10)
    logits = np.eye(3)[labels]
    mixture = mixed(np.stack([logits, logits]), fit_mixture(np.stack([logits, logits]), labels))
    cooled = logits / fit_temperature(logits, labels)
    for sure in (softmax(mixture)[np.arange(30), labels], softmax(cooled)[np.arange(30), labels]):
        assert sure == pytest.approx(1 - (1 / 32) * (2 / 3), abs=1e-3)
