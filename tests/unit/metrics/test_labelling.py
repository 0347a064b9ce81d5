"""What the labels of a text are: laws of both kinds, against definitions and scikit-learn."""

from itertools import product

import numpy as np
import pytest
import torch

from dragoman.metrics.classification import (
    fit_temperature,
    micro_f1,
    negative_log_likelihood,
    per_class,
    softmax,
)
from dragoman.metrics.labelling import Exclusive, Labelling, Several, labelling_of

SEVERAL = Several("|")


def random_case(seed: int, n: int = 60, n_classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Labels (N, C), and logits that know of them."""
    rng = np.random.default_rng(seed)
    labels = (rng.random((n, n_classes)) < [0.1, 0.3, 0.5, 0.7][:n_classes]).astype(np.uint8)
    return labels, 2 * rng.normal(size=labels.shape) + 2.0 * labels - 1.0


@pytest.mark.parametrize(
    ("labelling", "numbers"), [(Exclusive(), [[2], [0], [2]]), (SEVERAL, [[0, 2], [], [1]])]
)
def test_labels_come_back_as_they_were(labelling: Labelling, numbers: list[list[int]]) -> None:
    labels = labelling.encode(numbers, 3)
    assert labelling.numbers(labels) == numbers
    targets = labelling.targets(labels, 3)
    assert [np.flatnonzero(row).tolist() for row in targets.numpy()] == numbers
    expected = [labelling.separator.join("abc"[i] for i in own) for own in numbers]
    assert labelling.names(labels, "abc") == expected
    assert labelling_of(labelling.separator).encode(numbers, 3).tolist() == labels.tolist()


def test_the_loss_of_several_labels_is_that_of_as_many_classifiers_of_two_classes() -> None:
    labels, logits = random_case(1)
    losses = SEVERAL.losses(torch.from_numpy(logits), torch.from_numpy(labels), smoothing=0.0)
    one_by_one = [
        negative_log_likelihood(np.stack([np.zeros(60), logits[:, c]], 1), labels[:, c].astype(int))
        for c in range(4)
    ]
    assert float(losses.mean()) == pytest.approx(sum(one_by_one))
    decisions, outcomes = SEVERAL.decisions(logits), SEVERAL.outcomes(labels)
    assert 4 * negative_log_likelihood(decisions, outcomes) == pytest.approx(sum(one_by_one))
    p, targets = torch.from_numpy(logits).sigmoid(), torch.from_numpy(0.9 * labels + 0.1 * (1 - labels))
    expected = -(targets * p.log() + (1 - targets) * (1 - p).log()).sum(1)
    smoothed = SEVERAL.losses(torch.from_numpy(logits), torch.from_numpy(labels), smoothing=0.2)
    assert smoothed.tolist() == pytest.approx(expected.tolist()), "it spreads over yes and no"


def test_probabilities_are_those_of_the_decisions() -> None:
    labels, logits = random_case(2)
    temperature = fit_temperature(SEVERAL.decisions(logits), SEVERAL.outcomes(labels))
    of_yes = softmax(SEVERAL.decisions(logits), temperature=temperature)[:, 1]
    found = SEVERAL.probabilities(logits, temperature=temperature)
    np.testing.assert_allclose(found.ravel(), of_yes)
    parts = np.stack([logits, -logits])
    assert SEVERAL.decisions(parts).shape == (2, 240, 2)
    assert Exclusive().decisions(parts) is parts
    great = SEVERAL.probabilities(np.array([[-1e4, 1e4]]))
    assert great[0, 0] > 0
    assert np.isfinite(great).all()


@pytest.mark.parametrize("labelling", [Exclusive(), SEVERAL])
def test_log_odds_are_those_of_the_probability(labelling: Labelling) -> None:
    _, logits = random_case(3)
    p = labelling.probabilities(logits)
    for number in range(4):
        expected = np.log(p[:, number] / (1 - p[:, number]))
        np.testing.assert_allclose(labelling.log_odds(logits, number), expected, atol=1e-8)


@pytest.mark.parametrize("seed", range(2))
def test_no_threshold_is_better_than_the_one_that_is_fitted(seed: int) -> None:
    nothing = np.zeros((3, 2), dtype=np.uint8)
    assert SEVERAL.fit_threshold(np.full((3, 2), 0.4), nothing) == 0.5, "without a label"
    labels, logits = random_case(seed)
    probabilities = SEVERAL.probabilities(np.round(logits))  # many are equal
    threshold = SEVERAL.fit_threshold(probabilities, labels)
    assert 0 < threshold < 1

    def score(at: float) -> float:
        return float(micro_f1(SEVERAL.counts(labels, SEVERAL.give(probabilities, at), 4)))

    assert score(threshold) == pytest.approx(max(map(score, np.linspace(0, 1, 2001))))


@pytest.mark.slow
def test_scores_of_several_labels_are_those_of_scikit_learn() -> None:
    reference = pytest.importorskip("sklearn.metrics")
    for seed in range(3):
        labels, logits = random_case(seed)
        given = SEVERAL.give(SEVERAL.probabilities(logits), 0.5)
        scores = SEVERAL.scores(labels, given, 4, n_bootstrap=50)
        assert scores["micro_f1"].value == pytest.approx(
            100 * reference.f1_score(labels, given, average="micro")
        )
        assert scores["macro_f1"].value == pytest.approx(
            100 * reference.f1_score(labels, given, average="macro")
        )
        assert scores["accuracy"].value == pytest.approx(100 * reference.accuracy_score(labels, given))
        for score in scores.values():
            assert score.interval is not None
            assert score.interval[0] < score.value < score.interval[1]
        columns = zip(*per_class(SEVERAL.counts(labels, given, 4)), strict=True)
        theirs = reference.precision_recall_fscore_support(labels, given)
        for column, expected in zip(columns, theirs, strict=True):
            factor = 1 if column == tuple(expected) else 100
            assert column == pytest.approx(tuple(factor * expected))


def test_resamples_scatter_round_the_counts() -> None:
    labels, logits = random_case(5, n=400)
    given = SEVERAL.give(SEVERAL.probabilities(logits), 0.5)
    counts, samples = SEVERAL.counts(labels, given, 4), SEVERAL.resampled(labels, given, 4)
    for count, sample in zip(counts, samples, strict=True):
        share = count / 400
        error = np.sqrt(400 * share * (1 - share) / len(sample))
        assert (np.abs(sample.mean(0) - count) < 5 * error).all()


def test_mistakes_of_several_labels_are_missed_or_wrongly_given() -> None:
    labels = np.array([[1, 0], [1, 0], [0, 1]], dtype=np.uint8)
    given = np.array([[0, 1], [0, 0], [0, 1]], dtype=np.uint8)
    assert SEVERAL.mistakes(labels, given, 2) == [(2, 0, None), (1, None, 1)]
    assert SEVERAL.confusion(labels, given, 2) is None
    one = Exclusive().mistakes(np.array([0, 0, 1, 2]), np.array([1, 1, 0, 2]), 3)
    assert one == [(2, 0, 1), (1, 1, 0)]


def test_the_confidence_in_all_labels_is_the_product_of_those_in_each() -> None:
    """Over all sets of labels it adds up to one."""
    p = np.array([[0.2, 0.9, 0.4]])
    total = sum(SEVERAL.confidence(p, np.array([given]))[0] for given in product((0, 1), repeat=3))
    assert total == pytest.approx(1.0)
    assert SEVERAL.confidence(p, np.array([[0, 1, 0]])) == pytest.approx([0.8 * 0.9 * 0.6])


def test_the_worst_mistake_is_the_surest_wrong_decision() -> None:
    p = np.array([[0.9, 0.7, 0.1], [0.9, 0.2, 0.1]])
    labels, given = np.array([[1, 0, 1], [1, 0, 0]]), np.array([[1, 1, 0], [1, 0, 0]])
    numbers, sure = SEVERAL.worst(p, labels, given)
    assert (numbers[0], sure[0]) == (2, pytest.approx(0.9))
    assert sure[1] < 0
    numbers, sure = Exclusive().worst(p, np.array([0, 1]), np.array([0, 0]))
    assert numbers[1] == 0
    assert sure.tolist() == [-1.0, 0.9]
