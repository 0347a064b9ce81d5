"""Groups of runs that differ only in the seed: their titles, the test between them, and tables of figures."""

import numpy as np
import pytest

from dragoman.config import Config, parse_config
from dragoman.errors import DataError
from dragoman.evaluation.comparison import seed_groups
from dragoman.metrics.significance import SEED, compare_groups, compare_label_groups
from dragoman.metrics.translation import bleu, metrics_for

ENGLISH = metrics_for("en")
REFERENCES = [f"the {colour} cat sat on the {place} mat" for colour in ("red", "old") for place in "abcd"]
WORSE = [" ".join(reversed(reference.split())) for reference in REFERENCES]
MIXED = [*WORSE[:3], *REFERENCES[3:]]
OTHER = [*REFERENCES[:6], *WORSE[6:]]


def test_groups_of_the_same_translations_do_not_differ() -> None:
    for test in compare_groups([MIXED, OTHER], [MIXED, OTHER], REFERENCES, metrics=ENGLISH, n_samples=100):
        assert test.difference == 0.0
        assert test.p_value == 1.0
        assert test.interval[0] <= 0 <= test.interval[1]


def test_a_group_that_is_better_in_every_sentence_and_seed_has_the_smallest_p_value() -> None:
    tests = compare_groups([WORSE] * 3, [REFERENCES] * 3, REFERENCES, metrics=ENGLISH, n_samples=200)
    assert [test.name for test in tests] == ["BLEU", "chrF2", "TER"]
    assert tests[0].p_value == pytest.approx(1 / 201)
    assert tests[0].interval[0] > 0
    assert tests[2].difference < 0


def test_groups_of_equal_seeds_collapse_to_the_paired_bootstrap_over_sentences() -> None:
    def score(hypotheses: list[str], indices: list[int]) -> float:
        lines, references = ([texts[i] for i in indices] for texts in (hypotheses, REFERENCES))
        return bleu(lines, references, tgt_lang="en", n_bootstrap=0).value

    tested = compare_groups([MIXED] * 3, [OTHER] * 2, REFERENCES, metrics=ENGLISH, n_samples=50)[0]
    samples = np.random.default_rng(SEED).choice(8, size=(50, 8)).tolist()
    differences = np.array([score(OTHER, indices) - score(MIXED, indices) for indices in samples])
    measured = score(OTHER, [*range(8)]) - score(MIXED, [*range(8)])
    n_far = (abs(differences - measured) >= abs(measured)).sum()
    assert tested.difference == pytest.approx(measured)
    assert tested.p_value == pytest.approx((n_far + 1) / 51)
    assert tested.interval == pytest.approx(tuple(np.quantile(differences, (0.025, 0.975))))


def test_the_seeds_of_a_group_are_resampled_too() -> None:
    """Where all texts of a training are alike, all variance is that of the seeds: (s² / n) of each group."""
    accuracies = ([0, 1, 1, 1], [0, 0, 0, 1])
    first, second = (np.repeat(np.array(a, dtype=bool)[:, None], 5, axis=1) for a in accuracies)
    tested = compare_label_groups(first, second, n_samples=4000)
    assert tested.difference == pytest.approx(-50.0)
    # Three draws of four: P(|d* - d| >= 50) by the binomial distributions of both groups' means.
    shares = {k: [1, 3, 3, 1][k] * 0.75**k * 0.25 ** (3 - k) for k in range(4)}
    expected = sum(
        shares[a] * shares[b] for a in range(4) for b in range(4) if abs((3 - b - a) / 3 + 0.5) >= 0.5 - 1e-9
    )
    assert tested.p_value == pytest.approx(expected, abs=0.03)
    sure = compare_label_groups(first[1:], second[:3], n_samples=100)
    assert sure.interval == (-100.0, -100.0)
    assert sure.p_value == pytest.approx(1 / 101)


def test_the_same_seed_gives_the_same_test() -> None:
    rng = np.random.default_rng(1)
    first, second = (rng.random((3, 40)) < share for share in (0.5, 0.7))
    assert compare_label_groups(first, second, seed=3) == compare_label_groups(first, second, seed=3)
    assert compare_label_groups(first, second, seed=3) != compare_label_groups(first, second, seed=4)


def test_groups_need_runs_and_the_same_sentences() -> None:
    message = "two groups of runs need a run or more each, and the same sentences"
    for shape in ((0, 4), (2, 3)):
        with pytest.raises(DataError, match=message):
            compare_label_groups(np.ones((2, 4), dtype=bool), np.ones(shape, dtype=bool))
    with pytest.raises(DataError, match=message):
        compare_groups([], [WORSE], REFERENCES, metrics=ENGLISH)


def config(seed: int, *overrides: str, name: str = "x") -> Config:
    data = {"src_lang": "en", "tgt_lang": "de", "train": ["a.en", "a.de"]}
    return parse_config({"name": name, "seed": seed, "data": data}, overrides=overrides)


def test_groups_are_titled_by_the_settings_that_differ() -> None:
    small, large = "model.d_model=128", "model.d_model=256"
    configs = {"a": config(1, small), "b": config(1, large), "c": config(2, small), "d": config(2, large)}
    assert seed_groups(configs) == {"model.d_model = 128": ["a", "c"], "model.d_model = 256": ["b", "d"]}
    configs |= {"e": config(3, large, "model.d_ff=64"), "f": config(4, large, "model.d_ff=64")}
    assert list(seed_groups(configs))[2] == "model.d_ff = 64, model.d_model = 256"
    assert seed_groups({"a": config(1), "b": config(7)}) == {"seed = 1, 7": ["a", "b"]}
    assert seed_groups({"a": config(1), "b": config(2, small)}) == {}


def test_a_recipe_s_name_is_in_a_title_only_where_nothing_else_differs() -> None:
    small = {n: config(i, "model.d_model=128", name="s") for i, n in enumerate("ab")}
    other = {n: config(i, name="o") for i, n in enumerate("cd")}
    assert [title.count("name") for title in seed_groups(small | other)] == [0, 0]
    same = {n: config(i, name="t") for i, n in enumerate("ef")}
    assert list(seed_groups(other | same)) == ['name = "o"', 'name = "t"']
