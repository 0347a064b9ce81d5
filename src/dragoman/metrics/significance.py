"""Whether one system is better than another, or only luckier with the sentences of a test set.

For translations these are sacreBLEU's own tests; for labels, McNemar's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from sacrebleu.significance import PairedTest

from dragoman.errors import DataError
from dragoman.metrics.translation import bootstrap_seed, check_sentences, metrics_for

Method: TypeAlias = Literal["bootstrap", "randomisation"]

SEED = 12345
_TEST_TYPES: dict[str, str] = {"bootstrap": "bs", "randomisation": "ar"}


class SystemScore(NamedTuple):
    """A system's score, and the p-value of its difference from the first system's."""

    name: str
    """BLEU, chrF2 or TER."""
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
    tgt_lang: str,
    method: Method,
    n_samples: int = 0,
    seed: int = SEED,
) -> dict[str, list[SystemScore]]:
    """BLEU, chrF2 and TER of each system, and whether they differ from those of the first one.

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
    metrics = metrics_for(tgt_lang)
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


def mcnemar(
    expected: npt.NDArray[np.int64], first: npt.NDArray[np.int64], second: npt.NDArray[np.int64]
) -> float:
    """The p-value of McNemar's exact test: whether two classifiers are right equally often.

    Of the n texts that only one of them labels as `expected`, the number which is the first one's has a
    binomial distribution with p = 1/2 if they are equally good (McNemar 1947; Dietterich 1998); two-sided,
    1 where n = 0. DataError: the numbers of labels differ.
    """
    if not len(expected) == len(first) == len(second):
        raise DataError(
            f"{len(expected)} labels, {len(first)} and {len(second)} predictions: each text needs all three"
        )
    only_first = int(((first == expected) & (second != expected)).sum())
    only_second = int(((first != expected) & (second == expected)).sum())
    n, fewer = only_first + only_second, min(only_first, only_second)
    tail = math.fsum(math.exp(_log_binomial(n, k) - n * math.log(2)) for k in range(fewer + 1))
    return min(1.0, 2 * tail)


def _log_binomial(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
