"""What a report says about a classifier: figures, tables, mistakes."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import error_of, succeed
from dragoman.metrics.classification import (
    class_intervals,
    counts_of,
    expected_calibration_error,
    reliability,
    resampled_confusions,
    wilson_interval,
)
from dragoman.predict.classifier import Classifier
from dragoman.report.page import Example, Span, page_html
from dragoman.runs import Run
from dragoman.tasks.classification.evaluation import ClassificationScores
from dragoman.tasks.classification.report import (
    MAX_CLASSES,
    classification_page,
    plot_classes,
    plot_confusion,
    plot_reliability,
    shortened,
)
from dragoman.tasks.request import EvaluationRequest
from tiny import BLAME, PRAISE, labelled_texts


def evaluation(
    n_texts: int = 200, n_classes: int = 3, *, seed: int = 1, **changes: Any
) -> ClassificationScores:
    """Logits that are right more often than not, of classes c0, c1 ..."""
    rng = np.random.default_rng(seed)
    expected = rng.integers(0, n_classes, n_texts)
    logits = rng.normal(size=(n_texts, n_classes))
    logits[np.arange(n_texts), expected] += 1.5
    labels = tuple(f"c{i}" for i in range(n_classes))
    return ClassificationScores(
        "made up", labels, expected, logits, 1.5, 1.0, np.zeros(n_texts, dtype=np.int64), **changes
    )


# Reliability


def test_the_calibration_error_is_the_mean_distance_from_the_diagonal() -> None:
    """Guo et al. 2017, equation 3, computed text by text."""
    nothing = reliability(np.array([[0.9, 0.1]]), np.array([0]), n_bins=15)[0]
    assert (nothing.n, nothing.interval, math.isnan(nothing.accuracy)) == (0, (0.0, 1.0), True)
    e = evaluation()
    confidence, right = e.probabilities().max(1), e.found == e.expected
    total = 0.0
    for low in range(15):
        inside = (confidence > low / 15) & (confidence <= (low + 1) / 15)
        if inside.any():
            total += inside.sum() / len(inside) * abs(right[inside].mean() - confidence[inside].mean())
    assert expected_calibration_error(e.probabilities(), e.expected) == pytest.approx(100 * total)


# Classes


def test_intervals_of_a_class_are_those_of_its_shares() -> None:
    e = evaluation()
    for i, (_, score, intervals) in enumerate(e.by_class):
        right, found, there = e.confusion[i, i], e.confusion[:, i].sum(), e.confusion[i].sum()
        for interval, of in ((intervals.precision, found), (intervals.recall, there)):
            expected = wilson_interval(int(right), int(of))
            assert interval == pytest.approx(tuple(100 * bound for bound in expected))
        assert intervals.f1 is not None
        assert intervals.f1[0] < score.f1 < intervals.f1[1]
    confusion = np.array([[3, 0], [0, 0]])
    resampled = counts_of(resampled_confusions(confusion, n_bootstrap=10))
    assert class_intervals(counts_of(confusion), resampled)[1] == (None, None, None), "without texts"


# Mistakes


def test_the_most_confident_mistakes_come_first_and_are_mistakes() -> None:
    e = evaluation()
    wrong = set(np.flatnonzero(e.found != e.expected).tolist())
    assert {each.text for each in e.confident_mistakes(10**6)} == wrong
    sure = e.probabilities().max(1)
    first = [each.confidence for each in e.confident_mistakes(5)]
    assert first == sorted((sure[i] for i in wrong), reverse=True)[:5]
    confused = e.confusion[~np.eye(3, dtype=bool)]
    assert [n for *_, n in e.mistakes(100)] == sorted(confused.tolist(), reverse=True)


@pytest.mark.parametrize("position", [0, 500, 999])
def test_a_long_text_is_shown_round_the_word_that_counts_most(position: int) -> None:
    pieces = [Span("for-strong" if i == position else "same", f"w{i:03} ") for i in range(1000)]
    shown = shortened(pieces, 100)
    words = [piece.text for piece in shown if piece.text.startswith("w")]
    assert pieces[position] in shown
    assert words == [f"w{i:03} " for i in range(int(words[0][1:4]), int(words[0][1:4]) + len(words))]
    assert 100 <= sum(map(len, words)) < 110
    assert (shown[0].text == "… ") == (position > 0)
    assert (shown[-1].text == " …") == (position < 999)
    assert shortened(pieces, 10**6) == pieces


# Figures

ALL_RIGHT = ClassificationScores(
    "all right", ("<img src=x>", "$\\frac$"), np.array([0, 1]), np.array([[9.0, 0.0], [0.0, 9.0]]), 1.0, 1.0,
    np.zeros(2, dtype=np.int64),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("scores", [ALL_RIGHT, evaluation(n_classes=MAX_CLASSES + 5)], ids=["right", "many"])
def test_classes_of_any_number_and_name_can_be_drawn(tmp_path: Path, scores: ClassificationScores) -> None:
    for plot in (plot_confusion, plot_classes, plot_reliability):
        plot(scores, tmp_path / f"{plot.__name__}.svg")
    ids = re.findall('id="(f1-[0-9]+)"', (tmp_path / "plot_classes.svg").read_text("utf-8"))
    assert sorted(ids) == sorted(f"f1-{i}" for i in range(min(len(scores.labels), MAX_CLASSES)))
    assert scores is not ALL_RIGHT or scores.confident_mistakes(10) == []


def turned(classifier: Classifier, texts: list[str]) -> ClassificationScores:
    """Each label turned round, so that every text is a mistake."""
    logits, n_cut, _ = classifier.logits(texts)
    wrong = 1 - logits.argmax(1)
    return ClassificationScores(
        "turned", classifier.labels, wrong, logits, 1.0, 1.0, n_cut, no_baseline="none", texts=tuple(texts)
    )


# The page


@pytest.mark.slow
def test_the_page_shows_the_surest_mistakes_with_their_words(
    unsure_classifier: Classifier, tiny_classifier_run: Path, tmp_path: Path
) -> None:
    texts = [f"{text} $x^$ <script>" for _, text in labelled_texts(12, seed=5)]
    e = turned(unsure_classifier, texts)
    run = Run.open(tiny_classifier_run)
    sets = [replace(e, files=("turned.tsv",))]
    request = EvaluationRequest(n_examples=2)
    page = classification_page(run, unsure_classifier, sets, [], request, figures=tmp_path, reference=None)
    (mistakes,) = (section for section in page.sections if section.title == "Most confident mistakes")
    examples = [part for part in mistakes.parts if isinstance(part, Example)]
    assert len(examples) == 4
    for (i, _, _), example in zip(e.confident_mistakes(4), examples, strict=True):
        shown = {name: text for name, text, _ in example.rows}
        assert "".join(span.text for span in shown["text"]) == texts[i]  # type: ignore[union-attr]
        assert shown["label"] == unsure_classifier.labels[e.expected[i]]
        assert str(shown["given"]).startswith(f"{unsure_classifier.labels[e.found[i]]}, log-odds ")
        (strongest, *_) = (s.text for s in shown["text"] if s.kind == "for-strong")  # type: ignore[union-attr]
        assert strongest in PRAISE + BLAME
    assert "4 of 12 mistakes; turned: 12 texts with 2 labels, of turned.tsv" in str(mistakes.parts[0])
    assert "<script" not in page_html(page).decode()
    figures = {"curves.svg", "classes.svg", "confusion.svg", "reliability.svg"}
    assert {path.name for path in tmp_path.iterdir()} == figures


@pytest.mark.slow
def test_the_command_writes_a_page_of_a_classifier(tiny_classifier_run: Path, tmp_path: Path) -> None:
    done = succeed("report", tiny_classifier_run, "--out", tmp_path / "out")
    assert done.stdout.strip() == str(tmp_path / "out" / "report.html")
    html = (tmp_path / "out" / "report.html").read_text("utf-8")
    headings = re.findall(r"<h2>(.*?)</h2>", html)
    assert headings == [
        "Summary", "Scores", "Learning curves", "Labels", "Can its confidence be believed?",
        "Most confident mistakes", "Model card",
    ]  # fmt: skip
    assert "tiny-test: 30 texts with 2 labels, of " in html
    assert "n:30|interval:Wilson" in html
    assert not re.search(r"(?:src|href)=.(?!data:|#)", html)
    assert len(html.encode()) < 3_000_000
    wrong = error_of("report", tiny_classifier_run, "--split", "train")
    assert "--split train: there are test and valid" in wrong


@pytest.mark.slow
def test_a_test_set_or_weights_that_are_gone_are_told_on_the_page(classifier_run: Path) -> None:
    run = classifier_run
    config = (run / "config.toml").read_text("utf-8")
    (run / "config.toml").write_text(config.replace("test.tsv", "gone.tsv"), "utf-8")
    succeed("report", run)
    assert "Nothing could be classified:" in (run / "report.html").read_text("utf-8")
    assert "gone.tsv" in error_of("report", run, "--split", "test")
    (run / "model.safetensors").unlink()
    succeed("report", run)
    html = (run / "report.html").read_text("utf-8")
    assert "The run has no weights yet, so that nothing could be classified." in html
    assert "Learning curves" in html
