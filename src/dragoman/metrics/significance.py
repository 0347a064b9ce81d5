"""Significance tests: is one system better than another, or is the difference chance?

For two translations these are sacreBLEU's own tests; for two lists of labels, McNemar's; for groups of
trainings that differ only in their seeds, a permutation of trainings and a bootstrap of sentences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest

from dragoman.errors import DataError
from dragoman.metrics.score import SEED
from dragoman.metrics.translation import MeanMetric, bootstrap_seed, check_sentences

Method: TypeAlias = Literal["bootstrap", "randomisation"]

MOST_DEALS = 20_000
"""Ways to deal trainings to two groups that are all tried; of more, as many are drawn."""

_TEST_TYPES: dict[str, str] = {"bootstrap": "bs", "randomisation": "ar"}


class SystemScore(NamedTuple):
    """A system's score, and the p-value of its difference from the first system's."""

    name: str
    """BLEU, chrF2 or TER; or the name of given scores."""
    value: float
    """0–100."""
    p_value: float | None
    """How often a difference at least as large would come about by chance; None for the first system."""
    signature: str
    """sacreBLEU's, with the test (bs or ar), the number of its trials, and the seed."""


def paired_test(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[str],
    *,
    metrics: Sequence[Metric],
    method: Method,
    n_samples: int = 0,
    seed: int = SEED,
) -> dict[str, list[SystemScore]]:
    """Scores of each system by `metrics_for` or `MeanMetric`, and whether they differ from the first ones.

    "bootstrap" is paired bootstrap resampling (Koehn 2004) with 1,000 resamples, "randomisation" is
    approximate randomisation (Riezler & Maxwell 2005) with 10,000 trials; `n_samples` > 0 asks for others.
    Both are two-sided, and of one seed. They know of the sentences, not of the trainings: that another
    seed of a training would come out elsewhere is not in a p-value.

    sacreBLEU gives a system that differs in no sentence the smallest p-value there is; here it has 1.
    DataError: fewer than two systems, no sentences, or different numbers of them.
    """
    if len(systems) < 2:
        raise DataError(f"a comparison needs two systems or more, and there are {len(systems)}")
    for hypotheses in systems.values():
        check_sentences(hypotheses, references)
    with bootstrap_seed(seed):
        test = PairedTest(
            [(name, list(hypotheses)) for name, hypotheses in systems.items()],
            {str(i): metric for i, metric in enumerate(metrics)},
            [list(references)],
            test_type=_TEST_TYPES[method],
            n_samples=n_samples,
        )
        signatures, results = test()
    smallest = 1 / (test.n_samples + 1)
    tested: dict[str, list[SystemScore]] = {}
    for i, system in enumerate(systems):
        tested[system] = []
        for name, signature in signatures.items():
            first, result = results[name][0], results[name][i]
            assert not isinstance(first, str)
            assert not isinstance(result, str)
            same = result.score == first.score and result.p_value == smallest
            p_value = 1.0 if same else result.p_value
            tested[system].append(SystemScore(name, float(result.score), p_value, signature.format()))
    return tested


class GroupTest(NamedTuple):
    """The difference between two groups of seeds in one score, and what chance leaves of it."""

    name: str
    """BLEU, chrF2, TER or accuracy."""
    difference: float
    """The mean of the second group minus that of the first, in points."""
    interval: tuple[float, float]
    """The central 95 % of differences with other sentences and other seeds."""
    p_value: float
    """Never below what the number of seeds allows: 0.1 for three and three."""


def compare_groups(
    first: Sequence[Sequence[str]],
    second: Sequence[Sequence[str]],
    references: Sequence[str],
    *,
    metrics: Sequence[Metric],
    n_samples: int = 1000,
) -> list[GroupTest]:
    """Test whether the mean scores of two groups of seeds differ: see `compare_label_groups`.

    Each group holds the translations of its trainings, of the same sentences.

    Raises:
        DataError: a group has fewer than two trainings, no sentences, or different numbers of them.
    """
    for hypotheses in (*first, *second):
        check_sentences(hypotheses, references)
    tested = []
    for metric in metrics:
        groups = [
            np.array([metric._extract_corpus_statistics(h, [references]) for h in group], dtype=np.float64)
            for group in (first, second)
        ]
        tested.append(_hierarchical(metric, groups, n_samples, SEED))
    return tested


def compare_label_groups(
    first: npt.NDArray[np.bool_], second: npt.NDArray[np.bool_], *, n_samples: int = 1000, seed: int = SEED
) -> GroupTest:
    """Test whether the mean accuracy of two groups of seeds differs; a group says which texts are right.

    `first` is (R, N), `second` (R', N): a row for each training, a column for each text.

    The p-value is the larger one of two, for a difference has to outlast other seeds and other sentences:
    that of `permutation_test` on the trainings, which keeps its level with any number of seeds, and the share
    of resamples whose difference is at least as far from the measured one as that is from 0 (Efron &
    Tibshirani 1993, chapter 16). A resample draws sentences with replacement, the same ones for all trainings
    (Koehn 2004), and moves the mean of each group by its standard error over n seeds times Student's t with
    n - 1 degrees of freedom (Behrens 1929): wide where few seeds know little of their own variance.

    Raises:
        DataError: a group has fewer than two trainings, or there are no texts, or different numbers of them.
    """
    groups = [np.stack([100.0 * group, np.ones(group.shape)], axis=-1) for group in (first, second)]
    return _hierarchical(MeanMetric("accuracy"), groups, n_samples, seed)


def _hierarchical(
    metric: Metric, groups: Sequence[npt.NDArray[np.float64]], n_samples: int, seed: int
) -> GroupTest:
    """Return the test of `compare_label_groups`.

    `groups` hold the statistics (R, N, K) of R trainings and N sentences, of whose sum (K,) `metric` makes a
    score.
    """
    n_sentences = groups[0].shape[1] if groups[0].ndim == 3 else 0
    if not n_sentences or not all(len(g) > 1 and g.ndim == 3 and g.shape[1] == n_sentences for g in groups):
        raise DataError("two groups of runs need two runs or more each, and the same sentences")

    def score(total: npt.NDArray[np.float64]) -> float:
        return float(metric._compute_score_from_stats(total.tolist()).score)

    rng = np.random.default_rng(seed)
    drawn = rng.choice(n_sentences, size=(n_samples, n_sentences))
    weights = np.stack([np.bincount(row, minlength=n_sentences) for row in drawn]).astype(np.float64)
    values, resampled = [], []
    for group in groups:
        values.append(np.array([score(run.sum(0)) for run in group]))
        means = np.mean([[score(total) for total in weights @ run] for run in group], axis=0)  # (samples,)
        error = values[-1].std(ddof=1) / math.sqrt(len(group))
        resampled.append(means + error * rng.standard_t(len(group) - 1, n_samples))
    difference, differences = float(values[1].mean() - values[0].mean()), resampled[1] - resampled[0]
    far = np.abs(differences - difference) >= abs(difference) - 1e-9
    low, high = np.quantile(differences, (0.025, 0.975)).tolist()
    name = str(metric._compute_score_from_stats(groups[0][0].sum(0).tolist()).name)
    p_value = max(permutation_test(*values, rng=rng), (int(far.sum()) + 1) / (n_samples + 1))
    return GroupTest(name, difference, (low, high), p_value)


def permutation_test(
    first: npt.NDArray[np.float64], second: npt.NDArray[np.float64], *, rng: np.random.Generator
) -> float:
    """Return the share of the ways to deal scores to two groups in which their means differ as much or more.

    `first` (R,) and `second` (R',) hold the score of each training. Exact: trainings of equal settings are
    exchangeable, so that p <= a in at most a share a of comparisons, however scores are distributed (Fisher
    1935, chapter 3).
    """
    scores, n_first = np.concatenate([first, second]), len(first)
    if math.comb(len(scores), n_first) <= MOST_DEALS:
        dealt = np.array([*combinations(range(len(scores)), n_first)])
    else:
        dealt = rng.permuted(np.tile(np.arange(len(scores)), (MOST_DEALS, 1)), axis=1)[:, :n_first]
        dealt[0] = np.arange(n_first)
    sums = scores[dealt].sum(1)
    differences = np.abs(sums / n_first - (scores.sum() - sums) / len(second))  # the measured one first
    return float(np.mean(differences >= differences[0] - 1e-9))


def mcnemar(first: npt.NDArray[np.bool_], second: npt.NDArray[np.bool_]) -> float:
    """Return the p-value of McNemar's exact test: whether two classifiers are right equally often.

    `first` and `second` say of each text whether the one and the other are right about it. Of the n texts
    that only one of them is right about, the number which is the first one's has a binomial distribution
    with p = 1/2 if they are equally good (McNemar 1947; Dietterich 1998); two-sided, 1 where n = 0.
    DataError: they are of different numbers of texts.
    """
    if len(first) != len(second):
        raise DataError(f"answers to {len(first)} and {len(second)} texts: each needs both")
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    n, fewer = only_first + only_second, min(only_first, only_second)
    rest = math.lgamma(n + 1) - n * math.log(2)  # of the logarithm of n! / (k! (n - k)! 2^n)
    terms = (math.exp(rest - math.lgamma(k + 1) - math.lgamma(n - k + 1)) for k in range(fewer + 1))
    return min(1.0, 2 * math.fsum(terms))
