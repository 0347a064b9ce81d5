"""Groups of runs that differ only in the seed: their titles, the test between them, and tables of figures."""

from itertools import combinations

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


@pytest.mark.parametrize(("n", "smallest"), [((2, 2), 1 / 3), ((2, 3), 0.1), ((5, 5), 2 / 252)])
def test_no_p_value_is_below_what_the_seeds_allow(n: tuple[int, int], smallest: float) -> None:
    """Better in every sentence and seed: one way to deal the runs of all, and its mirror for equal sizes."""
    tests = compare_groups([WORSE] * n[0], [REFERENCES] * n[1], REFERENCES, metrics=ENGLISH, n_samples=200)
    assert [test.name for test in tests] == ["BLEU", "chrF2", "TER"]
    assert [test.p_value for test in tests] == pytest.approx([smallest] * 3)
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
    assert tested.p_value == pytest.approx(max(1 / 10, (n_far + 1) / 51))
    assert tested.interval == pytest.approx(tuple(np.quantile(differences, (0.025, 0.975))))


def test_the_seeds_of_a_group_count_by_all_ways_to_deal_them_and_by_student_s_t() -> None:
    """Where all texts of a training are alike, all variance is that of the seeds."""
    accuracies = ([0, 1, 1, 1], [0, 0, 0, 1, 0])
    first, second = (np.repeat(np.array(a, dtype=bool)[:, None], 5, axis=1) for a in accuracies)
    tested = compare_label_groups(first, second, n_samples=20_000)
    assert tested.difference == pytest.approx(-55.0)
    dealt = [set(ways) for ways in combinations(range(9), 4)]
    right = {1, 2, 3, 7}
    n_far = sum(abs(len(ways & right) / 4 - len(right - ways) / 5) >= 0.55 - 1e-9 for ways in dealt)
    assert tested.p_value == pytest.approx(n_far / len(dealt))
    rng = np.random.default_rng(1)
    errors = [
        100 * np.std(a, ddof=1) / len(a) ** 0.5 * rng.standard_t(len(a) - 1, 20_000) for a in accuracies
    ]
    low, high = np.quantile(errors[1] - errors[0] - 55, (0.025, 0.975))
    assert tested.interval == (pytest.approx(low, rel=0.05), pytest.approx(high, rel=0.25))


def test_groups_need_runs_and_the_same_sentences() -> None:
    message = "two groups of runs need two runs or more each, and the same sentences"
    for shape in ((1, 4), (2, 3)):
        with pytest.raises(DataError, match=message):
            compare_label_groups(np.ones((2, 4), dtype=bool), np.ones(shape, dtype=bool))


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
    named = {run: config(i, name=run[0]) for i, run in enumerate(("s1", "s2", "o1", "o2"))}
    assert list(seed_groups(named)) == ['name = "s"', 'name = "o"']
