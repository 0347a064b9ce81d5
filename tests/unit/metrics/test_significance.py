"""Tests of whether one system is better than another."""

import math
import os

import numpy as np
import pytest
from sacrebleu.metrics.ter import TER

from dragoman.errors import DataError
from dragoman.metrics.score import signature_differences
from dragoman.metrics.significance import Method, compare_groups, mcnemar, paired_test
from dragoman.metrics.translation import MeanMetric, SentenceScores, metrics_for, score_all

ENGLISH = metrics_for("en")
NUMBERS = [MeanMetric("given")]

REFERENCES = [
    f"the {colour} cat sat on the {place} mat" for colour in ("red", "old", "big") for place in "abcd"
]
WORSE = [" ".join(reversed(reference.split())) for reference in REFERENCES]
OTHER = [reference.replace("sat", "lay") for reference in REFERENCES]

methods = pytest.mark.parametrize("method", ["bootstrap", "randomisation"])


@methods
def test_a_system_that_is_better_in_every_sentence_has_the_smallest_p_value(method: Method) -> None:
    systems = {"worse": WORSE, "perfect": REFERENCES}
    tested = paired_test(systems, REFERENCES, metrics=ENGLISH, method=method, n_samples=200)
    by_name = {score.name: score for score in tested["perfect"]}
    p_value = by_name["BLEU"].p_value
    assert p_value is not None
    assert p_value == pytest.approx(1 / 201, abs=3 / 201)
    assert by_name["BLEU"].value == pytest.approx(100.0)
    assert by_name["TER"].value == 0.0


@methods
def test_the_scores_are_those_of_a_test_set_alone(method: Method) -> None:
    systems = {"a": WORSE, "b": OTHER, "same": list(WORSE)}
    tested = paired_test(systems, REFERENCES, metrics=ENGLISH, method=method, n_samples=50)
    assert [score.p_value for score in tested["a"]] == [None] * 3
    assert [score.p_value for score in tested["same"]] == [1.0] * 3, "it does not differ from itself"
    for hypotheses, name in ((WORSE, "a"), (OTHER, "b")):
        alone = score_all(hypotheses, REFERENCES, tgt_lang="en", n_bootstrap=0)
        assert [(s.name, s.value) for s in tested[name]] == [(s.name, pytest.approx(s.value)) for s in alone]


@methods
def test_the_same_seed_gives_the_same_p_values_and_the_signature_names_it(method: Method) -> None:
    half = [*OTHER[:6], *REFERENCES[6:]]

    def tested(seed: int) -> list[float | None]:
        scores = paired_test(
            {"a": half, "b": OTHER}, REFERENCES, metrics=ENGLISH, method=method, n_samples=100, seed=seed
        )["b"]
        assert all(f"seed:{seed}" in score.signature for score in scores)
        kind = {"bootstrap": "bs", "randomisation": "ar"}[method]
        assert all(f"{kind}:100" in score.signature for score in scores)
        return [score.p_value for score in scores]

    before = os.environ.get("SACREBLEU_SEED")
    assert tested(1) == tested(1)
    assert os.environ.get("SACREBLEU_SEED") == before


def edited(seed: int, share: float) -> list[str]:
    """REFERENCES with this share of their words replaced."""
    rng = np.random.default_rng(seed)
    return [
        " ".join("x" if replaced else word for word, replaced in zip(text.split(), row, strict=True))
        for text, row in zip(REFERENCES, rng.random((len(REFERENCES), 8)) < share, strict=True)
    ]


def sentence_ter(hypotheses: list[str]) -> SentenceScores:
    """TER of each sentence. All references have 8 words, so that their mean is the TER of the whole."""
    both = zip(hypotheses, REFERENCES, strict=True)
    return SentenceScores("given", tuple(TER().sentence_score(h, [r]).score for h, r in both))


@pytest.mark.slow
@methods
def test_given_numbers_have_the_tests_and_intervals_of_the_metric_that_they_are_from(method: Method) -> None:
    systems = {"a": edited(1, 0.5), "b": edited(2, 0.4), "same": edited(1, 0.5)}
    own = paired_test(systems, REFERENCES, metrics=ENGLISH, method=method)
    scores = {name: sentence_ter(texts) for name, texts in systems.items()}
    numbers = {name: score.texts for name, score in scores.items()}
    given = paired_test(numbers, [""] * len(REFERENCES), metrics=NUMBERS, method=method)
    for name in systems:
        (tested,), ter = given[name], own[name][2]
        assert (tested.name, tested.value) == ("given", pytest.approx(ter.value))
        assert tested.p_value == ter.p_value
    assert given["same"][0].p_value == 1.0
    assert 0 < (given["b"][0].p_value or 0) < 1
    alone = score_all(systems["a"], REFERENCES, tgt_lang="en")[2]
    assert scores["a"].score().interval == pytest.approx(alone.interval)
    first, second = [systems["a"], systems["b"]], [edited(3, 0.2), edited(4, 0.4)]
    expected = compare_groups(first, second, REFERENCES, metrics=ENGLISH, n_samples=200)[2]
    groups = ([sentence_ter(texts).texts for texts in group] for group in (first, second))
    (test,) = compare_groups(*groups, [""] * len(REFERENCES), metrics=NUMBERS, n_samples=200)
    assert test.difference == pytest.approx(expected.difference)
    assert test.interval == pytest.approx(expected.interval)
    assert test.p_value == expected.p_value


def test_two_systems_of_one_length_are_needed() -> None:
    with pytest.raises(DataError, match="needs two systems or more, and there are 1"):
        paired_test({"a": OTHER}, REFERENCES, metrics=ENGLISH, method="bootstrap")
    with pytest.raises(DataError, match="there are 1 translations and 12 references"):
        paired_test({"a": OTHER, "b": ["one"]}, REFERENCES, metrics=ENGLISH, method="bootstrap")
    with pytest.raises(DataError, match="answers to 3 and 2 texts"):
        mcnemar(np.ones(3, dtype=np.bool_), np.ones(2, dtype=np.bool_))


def test_mcnemar_is_the_two_sided_binomial_test_of_the_texts_that_one_has_right() -> None:
    for only_first, only_second in ((0, 0), (3, 0), (1, 5), (4, 4), (30, 12)):
        n = only_first + only_second
        first, second = np.ones((2, n + 7), dtype=np.bool_)
        second[:only_first] = False
        first[only_first:n] = False
        first[-2:] = second[-2:] = False  # both wrong: says nothing
        tail = sum(math.comb(n, k) for k in range(min(only_first, only_second) + 1)) / 2**n
        assert mcnemar(first, second) == pytest.approx(min(1.0, 2 * tail))
        assert mcnemar(second, first) == pytest.approx(mcnemar(first, second))


def test_signatures_differ_in_the_choices_that_differ() -> None:
    assert signature_differences("nrefs:1|tok:13a", "nrefs:1|tok:13a") == []
    assert signature_differences("tok:13a|case:mixed", "tok:zh|case:mixed|bs:1000") == [
        "tok is 13a in one and zh in the other", "bs is absent in one and 1000 in the other",
    ]  # fmt: skip
