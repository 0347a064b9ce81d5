"""COMET and BERTScore: names, signatures, errors and resampling; and the packages' own numbers."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from dragoman.errors import ConfigError
from dragoman.metrics.learned import LearnedMetric, SentenceScores
from dragoman.metrics.score import signature_differences
from dragoman.metrics.significance import compare_mean_groups, paired_mean_test
from scorers import PYTHONS, require_package, run_python, stand_in, tiny_bert, tiny_comet

__all__ = ["stand_in"]

SOURCES = ["red house", "blue dog", "old cat", "tree"]
HYPOTHESES = ["rot Haus", "blau Hund Hund", "Katze", "Baum"]
REFERENCES = ["rot Haus", "blau Hund", "alt Katze", "Baum rot"]
FACTS = {"nrefs": "1", "model": "m", "package": "p", "version": "9"}


def scores(*values: float, facts: Mapping[str, str] = FACTS) -> SentenceScores:
    return SentenceScores("COMET", values, facts)


def test_a_score_is_the_mean_of_its_sentences_with_a_bootstrap_interval() -> None:
    values = [-30.0, -10.0, 5.0, 25.0, -50.0]
    score = scores(*values).score()
    drawn = np.random.default_rng(12345).choice(5, size=(1000, 5))
    means = np.sort(np.array(values)[drawn].mean(1))
    half = (means[1000 - 25 - 1] - means[25]) / 2
    assert score.value == pytest.approx(np.mean(values))
    assert score.interval == pytest.approx((means.mean() - half, means.mean() + half), abs=1e-4)


def test_the_signature_says_what_a_score_depends_on_and_the_version_of_its_package() -> None:
    score = scores(1.0, 2.0).score()
    assert score.signature == "nrefs:1|bs:1000|seed:12345|model:m|package:p|version:9"
    other = scores(1.0, 2.0, facts={**FACTS, "version": "10"}).score()
    assert signature_differences(score.signature, other.signature) == [
        "version is 9 in one and 10 in the other"
    ]


def test_equal_scores_have_p_1_and_scores_that_are_better_everywhere_the_smallest() -> None:
    rng = np.random.default_rng(3)
    first = scores(*rng.normal(50, 5, size=40).tolist())
    better = scores(*(value + 10 for value in first.values))
    for method, smallest in (("bootstrap", 1 / 1001), ("randomisation", 1 / 10001)):
        tested = paired_mean_test({"a": first, "same": first, "b": better}, method=method)  # type: ignore[arg-type]
        assert tested["a"].p_value is None
        assert tested["same"].p_value == 1.0
        assert tested["b"].p_value == pytest.approx(smallest)
        assert tested["b"].value == pytest.approx(np.mean(better.values))


def test_groups_of_seeds_are_compared_by_their_means() -> None:
    first, second = [scores(0.0, 10.0), scores(2.0, 12.0)], [scores(30.0, 40.0)]
    tested = compare_mean_groups(first, second, n_samples=50)
    assert (tested.name, tested.difference) == ("COMET", pytest.approx(35.0 - 6.0))
    assert tested.p_value == pytest.approx(1 / 51)


def test_a_part_has_the_scores_of_its_sentences() -> None:
    assert scores(1.0, 2.0, 3.0).part([2, 0]).values == (3.0, 1.0)


@pytest.mark.parametrize("spec", ["bleurt", "comet:", "comet@3", "bertscore@3", "comet:a@3", ""])
def test_an_unknown_metric_is_refused(spec: str) -> None:
    with pytest.raises(ConfigError, match=r"there are comet, comet:MODEL, bertscore, bertscore:MODEL and"):
        LearnedMetric(spec)


def test_a_python_that_cannot_be_started_or_has_no_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=r"--metric-python /no/python: cannot be started .*; name a Python"):
        LearnedMetric("comet", python="/no/python").facts("de")
    bare = tmp_path / "python"
    bare.symlink_to(Path(sys.executable).resolve())  # that which a virtual environment was made from
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with (
        closing(LearnedMetric("comet", python=str(bare))) as metric,
        pytest.raises(ConfigError, match=r"has no package unbabel-comet; .* -m pip install unbabel-comet"),
    ):
        metric.facts("de")


@pytest.fixture
def counted(stand_in: Path) -> Iterator[LearnedMetric]:
    with closing(LearnedMetric("bertscore", python=sys.executable)) as metric:
        yield metric


@pytest.mark.slow
def test_the_default_model_and_its_layer_are_those_of_the_language(counted: LearnedMetric) -> None:
    english, german = counted.facts("en"), counted.facts("de")
    assert (german["model"], german["layer"], english["model"]) == ("german", "4", "english")
    assert german["weights"] != english["weights"]
    found = counted.score(SOURCES, HYPOTHESES, REFERENCES, language="de")
    assert (found.name, found.facts) == ("BERTScore", german)
    assert found.values == pytest.approx((100, 100, 50, 50))


@pytest.mark.slow
def test_errors_of_a_package_are_one_line_and_the_process_answers_on(counted: LearnedMetric) -> None:
    with closing(LearnedMetric("bertscore:missing@3", python=sys.executable)) as metric:
        with pytest.raises(
            ConfigError, match=r"bertscore:missing@3: cannot be used \(OSError: no such model: "
        ):
            metric.facts("de")
        with pytest.raises(ConfigError, match=r"without network, name a folder with the model$"):
            metric.facts("de")
    with (
        closing(LearnedMetric("bertscore:other", python=sys.executable)) as metric,
        pytest.raises(
            ConfigError, match=r"recommends no layer for this model; name one, as in bertscore:MODEL@9"
        ),
    ):
        metric.facts("de")


@pytest.mark.slow
def test_a_process_that_ends_is_reported(counted: LearnedMetric) -> None:
    with pytest.raises(ConfigError, match=r"its process ended with exit code 3"):
        counted.score(["a"], ["end"], ["b"], language="de")


DIRECT_BERTSCORE = """
import json, sys
from bert_score import BERTScorer
model, found, expected = json.loads(sys.argv[1])
scorer = BERTScorer(model_type=model, num_layers=2, device="cpu")
scorer._tokenizer.model_max_length = 62
print(json.dumps(scorer.score(found, expected)[2].tolist()))
"""
DIRECT_COMET = """
import json, sys, comet
model, samples = json.loads(sys.argv[1])
found = comet.load_from_checkpoint(model).predict(samples, gpus=0, progress_bar=False)
print(json.dumps([found.scores, found.system_score]))
"""


@pytest.mark.slow
def test_bertscore_is_what_its_package_computes(tmp_path: Path) -> None:
    require_package("bert_score")
    model = tiny_bert(tmp_path / "with t5" / "tiny bert", "bert_score")
    with closing(LearnedMetric(f"bertscore:{model}@2", python=PYTHONS["bert_score"])) as metric:
        found = metric.score(SOURCES, HYPOTHESES, REFERENCES, language="de")
        long = metric.score(["a"] * 2, ["Haus " * 200, ""], ["Haus", "Hund"], language="de")
    plain = model.rename(tmp_path / "tiny")
    expected = run_python("bert_score", DIRECT_BERTSCORE, json.dumps([str(plain), HYPOTHESES, REFERENCES]))
    assert found.values == pytest.approx([100 * value for value in expected], abs=1e-4)
    assert found.values[0] == pytest.approx(100, abs=1e-3)
    assert (found.name, found.facts["layer"], found.facts["idf"]) == ("BERTScore (tiny_bert)", "2", "no")
    assert long.values[1] == 0


@pytest.mark.slow
def test_comet_is_what_its_package_computes(tmp_path: Path) -> None:
    require_package("comet")
    model = tiny_comet(tmp_path / "tiny")
    checkpoint = model / "checkpoints" / "model.ckpt"
    for named in (model, checkpoint):
        with closing(LearnedMetric(f"comet:{named}", python=PYTHONS["comet"])) as metric:
            found = metric.score(SOURCES, HYPOTHESES, REFERENCES, language="de")
        rows = zip(SOURCES, HYPOTHESES, REFERENCES, strict=True)
        samples = [dict(zip(("src", "mt", "ref"), row, strict=True)) for row in rows]
        expected, mean = run_python("comet", DIRECT_COMET, json.dumps([str(checkpoint), samples]))
        assert found.values == pytest.approx([100 * value for value in expected], abs=1e-4)
        assert found.score().value == pytest.approx(100 * mean, abs=1e-4)
        assert found.name == "COMET (tiny)"
        assert found.facts["package"] == "unbabel-comet"


CODE_IN_A_CHECKPOINT = """
import os, sys, torch
class Code:
    def __reduce__(self): return (os.mkdir, (sys.argv[2],))
torch.save({"state_dict": {}, "code": Code()}, sys.argv[1])
"""


@pytest.mark.slow
def test_a_checkpoint_of_comet_runs_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_package("comet")
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    model = tiny_comet(tmp_path / "tiny")
    run_python("comet", CODE_IN_A_CHECKPOINT, model / "checkpoints" / "model.ckpt", tmp_path / "ran")
    with (
        closing(LearnedMetric(f"comet:{model}", python=PYTHONS["comet"])) as metric,
        pytest.raises(ConfigError, match=r"Weights only load failed"),
    ):
        metric.facts("de")
    assert not (tmp_path / "ran").exists()
