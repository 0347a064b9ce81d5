"""What notebooks show: tables, with everything from outside escaped."""

from pathlib import Path
from typing import Any

import lxml.html
import numpy as np

from dragoman.data.records import Labelled, Pair
from dragoman.metrics.score import Score
from dragoman.notebook import MAX_ROWS, Shown, table
from dragoman.predict.classifier import Classification, Classifier
from dragoman.predict.results import Alternative, Translation
from dragoman.predict.translator import Translator
from dragoman.tasks.classification.evaluation import evaluate as evaluate_classifier
from dragoman.tasks.translation.evaluation import evaluate

HOSTILE = "<script>alert('x')</script>\"&"


def rows_of(html: str) -> list[list[str]]:
    """The cells of all tables; nothing in it is a program or comes from elsewhere."""
    tree = lxml.html.fromstring(f"<div>{html}</div>")
    assert not tree.xpath("//script | //@src | //@href | //td/b")
    return [[cell.text_content() for cell in row] for row in tree.iter("tr")]


def shown(value: Any) -> list[list[str]]:
    return rows_of(value._repr_html_())


# Tables


def test_a_table_holds_its_cells_as_they_are() -> None:
    rows = rows_of(table(("a", HOSTILE), [(HOSTILE, 1234), (None, 0.25), ("<b>x</b>", "")]))
    assert rows == [["a", HOSTILE], [HOSTILE, "1,234"], ["", "0.2"], ["<b>x</b>", ""]]
    scores = Shown(Score("BLEU", float(i), "", None) for i in range(MAX_ROWS + 7))
    assert len(shown(scores)) == 1 + MAX_ROWS
    assert "… and 7 more" in scores._repr_html_()


# What the types show


def test_translations_are_a_list_and_shown_as_one_table(translator: Translator) -> None:
    found = translator.translate(["red cat", "big dog"])
    assert isinstance(found, list)
    assert shown(found) == [
        ["source", "translation", "score"],
        *([t.source, t.text, f"{t.score:.2f}"] for t in found),
    ]


def test_alternatives_are_shown_where_there_are_some() -> None:
    alternatives = (Alternative("a", -0.5), Alternative(HOSTILE, -1.0))
    rows = shown(Translation(HOSTILE, alternatives))
    assert rows == [["score", "translation"], ["-0.50", "a"], ["-1.00", HOSTILE]]
    assert shown(Translation("s", alternatives[:1]))[1] == ["s", "a", "-0.50"]


def test_scores_are_shown_with_interval_and_signature(translator: Translator) -> None:
    score = Score("BLEU", 31.25, HOSTILE, (30.0, 32.5))
    expected = ["BLEU", "31.2", "30.0 – 32.5", HOSTILE]
    assert shown(score) == [["score", "value", "95 % interval", "signature"], expected]
    evaluation = evaluate(translator, HOSTILE, [Pair("red cat", "rot Katze")] * 3)
    assert [row[0] for row in shown(evaluation)[1:]] == [s.name for s in evaluation.scores]


def test_a_classifier_s_evaluation_is_shown_with_its_confusions(tiny_classifier_run: Path) -> None:
    classifier = Classifier.load(tiny_classifier_run, device="cpu", precision="fp32")
    examples = [Labelled("good dog", "praise"), Labelled("bad cat", "blame"), Labelled("fine", "praise")]
    evaluation = evaluate_classifier(classifier, "t", examples)
    rows = shown(evaluation)
    assert [row[0] for row in rows[1:3]] == ["accuracy", "macro-F1"]
    matrix = [[int(cell) for cell in row[1:]] for row in rows[-2:]]
    np.testing.assert_array_equal(matrix, evaluation.confusion)
    found = classifier.classify([e.text for e in examples])
    assert isinstance(found, list)
    assert [row[:2] for row in shown(found)[1:]] == [[c.text, c.label] for c in found]
    assert [row[0] for row in shown(found[0])[1:]] == list(found[0].probabilities)
    assert shown(Shown([Classification("", "", {})]))[1] == ["", "", ""]
