"""A trained classifier as a function, and its evaluation beside the baseline."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman.data.labelled import open_labelled
from dragoman.data.named import open_labelled_split
from dragoman.data.records import Labelled
from dragoman.errors import DataError, RunError
from dragoman.metrics.classification import softmax
from dragoman.predict.classifier import CALIBRATION, LABELS, Classifier, classification_config
from dragoman.runs import Run
from dragoman.tasks.classification.baseline import NAME, Baseline
from dragoman.tasks.classification.evaluation import BaselineScorer, ClassificationScores, evaluate, split_of
from tiny import labelled_texts

EXAMPLES = [Labelled(text, label) for label, text in labelled_texts(40, seed=7)]


@pytest.fixture
def run(classifier_run: Path) -> Path:
    return classifier_run


# Classifier


def test_it_tells_what_it_was_trained_to_tell(classifier: Classifier) -> None:
    found = classifier.classify([example.text for example in EXAMPLES])
    n_right = sum(c.label == example.label for c, example in zip(found, EXAMPLES, strict=True))
    assert n_right >= 38


def test_probabilities_are_those_of_the_logits_over_the_temperature(classifier: Classifier) -> None:
    texts = [example.text for example in EXAMPLES]
    values = classifier.logits(texts).values
    expected = softmax(values, temperature=classifier.temperature)
    for found, row in zip(classifier.classify(texts), expected, strict=True):
        assert found.probabilities == pytest.approx(dict(zip(classifier.labels, row, strict=True)))
        assert sum(found.probabilities.values()) == pytest.approx(1.0)
        assert [*found.probabilities.values()] == sorted(found.probabilities.values(), reverse=True)
        assert next(iter(found.probabilities)) == found.label


def test_a_text_is_classified_as_it_is_alone(classifier: Classifier) -> None:
    texts = ["good", "a bad house " * 20, "tree", *(example.text for example in EXAMPLES)]
    together = classifier.classify(texts)
    for text, found in zip(texts, together, strict=True):
        assert classifier.classify([text])[0].probabilities == pytest.approx(found.probabilities, abs=1e-5)


def test_the_end_of_a_long_text_counts(classifier: Classifier) -> None:
    """The windows hold six words; the word that decides is the last of a hundred."""
    for word, label in (("awful", "blame"), ("great", "praise")):
        assert classifier.classify([f"{'tree ' * 100}{word} {word}"])[0].label == label


def test_an_empty_text_has_no_label(classifier: Classifier) -> None:
    assert classifier.classify([]) == []
    empty, full, blank = classifier.classify(["", "good tree", " \t"])
    assert (empty.label, empty.probabilities, blank.label) == ("", {}, "")
    assert full.label == "praise"


def test_a_single_string_is_not_taken_for_a_list(classifier: Classifier) -> None:
    with pytest.raises(DataError, match=r"takes a list of texts; for a single one write classify\(\[text"):
        classifier.classify("good")


def test_what_is_not_read_is_counted(run: Path) -> None:
    config = (run / "config.toml").read_text(encoding="utf-8")
    (run / "config.toml").write_text(config.replace("max_windows = 0", "max_windows = 2"), encoding="utf-8")
    short, long = Classifier.load(run).classify(["good " * 12, "good " * 12 + "bad " * 30])
    assert (short.n_cut, long.n_cut) == (0, 30)
    assert long.label == "praise"
    (run / CALIBRATION).unlink()
    assert Classifier.load(run).temperature == 1.0, "until training is finished"


def test_progress_counts_texts(classifier: Classifier) -> None:
    assert dragoman.Classifier is Classifier, "the package offers it by name"
    heard: list[int] = []
    classifier.classify([example.text for example in EXAMPLES], progress=heard.append)
    assert heard == sorted(heard)
    assert heard[-1] == 40


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (LABELS, '{"labels": ["one"]}', "labels.json: is damaged, for it holds no labels"),
        (LABELS, "{", "labels.json: is damaged, for it holds no JSON object"),
        (CALIBRATION, '{"temperature": "warm"}', "calibration.json: is damaged, for it holds no temperature"),
        (CALIBRATION, '{"temperature": 1.0, "threshold": 1.5}', "is damaged, for it holds no threshold"),
        (CALIBRATION, '{"temperature": 0.0}', "calibration.json: is damaged, for it holds no temperature"),
    ],
)
def test_a_damaged_file_is_named(run: Path, name: str, content: str, message: str) -> None:
    (run / name).write_text(content, encoding="utf-8")
    with pytest.raises(RunError, match=message):
        Classifier.load(run)


# Evaluation


@pytest.fixture(scope="module")
def evaluation(classifier: Classifier) -> ClassificationScores:
    return evaluate(classifier, "praise", EXAMPLES)


Scores = ClassificationScores


def test_an_evaluation_scores_what_classify_says(classifier: Classifier, evaluation: Scores) -> None:
    found = classifier.classify([example.text for example in EXAMPLES])
    assert [evaluation.labels[i] for i in evaluation.found] == [c.label for c in found]
    n_right = sum(c.label == example.label for c, example in zip(found, EXAMPLES, strict=True))
    assert evaluation.scores[0].value == pytest.approx(100 * n_right / 40)
    confidence = [max(c.probabilities.values()) for c in found]
    assert evaluation.probabilities().max(1).tolist() == pytest.approx(confidence)


def test_a_record_holds_every_score(evaluation: ClassificationScores) -> None:
    record = evaluation.record()
    assert [score["name"] for score in record["scores"]] == ["accuracy", "macro-F1"]
    assert record["scores"] == [vars(score) for score in evaluation.scores]
    assert record["n_texts"] == sum(map(sum, record["confusion"])) == 40
    assert set(record["per_class"]) == {"blame", "praise"}
    assert record["per_class"]["praise"]["support"] == 20
    assert {"ece", "ece_uncalibrated", "temperature", "loss", "loss_uncalibrated"} <= record.keys()


def test_an_unknown_label_is_named_with_its_text_and_an_empty_test_is_an_error(
    classifier: Classifier,
) -> None:
    with pytest.raises(DataError, match=r"new, text 41: the label 'neutral' is not in the training data"):
        evaluate(classifier, "new", [*EXAMPLES, Labelled("a tree", "neutral")])
    with pytest.raises(DataError, match="none: there is nothing to score"):
        evaluate(classifier, "none", [])


def test_without_a_named_valid_its_texts_are_the_held_out_ones(run: Path) -> None:
    config = classification_config(Run.open(run))
    data = config.data.model_copy(update={"valid": (), "n_held_out": 20})
    held_out = config.model_copy(update={"data": data})
    ((name, valid),) = split_of(held_out, "valid")
    train = {example.text for example in open_labelled_split(held_out)[0].examples()}
    assert name == "valid"
    assert train.isdisjoint(example.text for example in valid.examples())
    assert [name for name, _ in split_of(config, "test")] == ["tiny-test"]


# The baseline


def test_the_baseline_learns_what_a_bag_of_words_can_tell() -> None:
    pytest.importorskip("sklearn")
    baseline = Baseline.train([Labelled(text, label) for label, text in labelled_texts(200, seed=1)])
    found = baseline.predict([example.text for example in EXAMPLES])
    assert found == [(example.label,) for example in EXAMPLES]
    assert "words:1-2" in baseline.signature
    assert "scikit-learn:" in baseline.signature


def test_the_baseline_sees_pairs_of_words_and_chinese_characters() -> None:
    pytest.importorskip("sklearn")
    order = [("xy", "first then"), ("yx", "then first")] * 20
    baseline = Baseline.train([Labelled(text, label) for label, text in order])
    assert baseline.predict(["first then", "then first"]) == [("xy",), ("yx",)]
    chinese = [("good", "这个很好"), ("bad", "那个很坏")] * 20
    baseline = Baseline.train([Labelled(text, label) for label, text in chinese])
    assert baseline.predict(["好", "坏"]) == [("good",), ("bad",)]


def test_of_several_labels_the_baseline_tells_each_by_itself() -> None:
    pytest.importorskip("sklearn")
    rows = [("a|b", "red blue"), ("a", "red"), ("b", "blue"), ("", "green")] * 10
    baseline = Baseline.train([Labelled(text, label) for label, text in rows], separator="|")
    assert baseline.predict(["red", "blue red", "green"]) == [("a",), ("a", "b"), ()]
    assert "labels:one-vs-rest|threshold:0.5" in baseline.signature


def scorer(run: Path, *saved: dict[str, Any], said: list[str] | None = None) -> BaselineScorer:
    return BaselineScorer(Run.open(run), saved, [].append if said is None else said.append)


def test_the_baseline_is_trained_on_the_same_texts_and_scored_alike(run: Path, evaluation: Scores) -> None:
    pytest.importorskip("sklearn")
    said: list[str] = []
    result = scorer(run, said=said).beside(evaluation, EXAMPLES).baseline
    assert said == [f"training the baseline ({NAME}) on 200 texts"]
    assert result is not None
    train = open_labelled(classification_config(Run.open(run)).data.train)
    expected = Baseline.train(train.examples()).predict([example.text for example in EXAMPLES])
    n_right = sum(found == (example.label,) for found, example in zip(expected, EXAMPLES, strict=True))
    assert result.scores[0].value == pytest.approx(100 * n_right / 40)
    assert result.n_train == 200


def test_there_is_no_baseline_of_changed_text(run: Path, evaluation: Scores, tmp_path: Path) -> None:
    config = (run / "config.toml").read_text(encoding="utf-8")
    (train,) = classification_config(Run.open(run)).data.train
    more = tmp_path / "more.tsv"
    more.write_text(Path(train).read_text(encoding="utf-8") + "neither\tred\n", encoding="utf-8")
    (run / "config.toml").write_text(config.replace(str(train), str(more)), encoding="utf-8")
    found = scorer(run).beside(evaluation, EXAMPLES)
    assert found.baseline is None
    assert found.no_baseline == f"{more} changed since the run was trained"


def test_a_known_score_is_not_computed_again_and_a_damaged_one_is(run: Path, evaluation: Scores) -> None:
    pytest.importorskip("sklearn")
    said: list[str] = []
    first = scorer(run, said=said).beside(evaluation, EXAMPLES)
    again = scorer(run, first.record(), said=said).beside(evaluation, EXAMPLES)
    assert again.baseline == first.baseline
    assert len(said) == 1
    others = EXAMPLES[:30]
    few = replace(evaluation, expected=evaluation.expected[:30], logits=evaluation.logits[:30])
    scorer(run, first.record(), said=said).beside(few, others)
    assert len(said) == 2  # for another test it is
    record = first.record()
    del record["baseline"]["scores"]
    assert scorer(run, record).beside(evaluation, EXAMPLES).baseline == first.baseline


def test_without_training_texts_the_reason_or_the_known_score_is_there(run: Path, evaluation: Scores) -> None:
    pytest.importorskip("sklearn")
    first = scorer(run).beside(evaluation, EXAMPLES)
    config = (run / "config.toml").read_text(encoding="utf-8")
    (run / "config.toml").write_text(config.replace("train.tsv", "gone.tsv"), encoding="utf-8")
    beside = scorer(run).beside(evaluation, EXAMPLES)
    assert beside.baseline is None
    assert "gone.tsv: no such file" in beside.no_baseline
    assert scorer(run, first.record()).beside(evaluation, EXAMPLES).baseline == first.baseline
