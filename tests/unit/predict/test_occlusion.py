"""Words left out of a text, and what that does to the decision."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from dragoman.errors import DataError
from dragoman.metrics.labelling import Exclusive
from dragoman.predict.classifier import Classifier, Logits
from dragoman.predict.occlusion import parts_of, word_importance

WEIGHTS = {"good": 1.5, "awful": -2.0, "fine": 0.25}


class Counting(Classifier):
    """Adds up the weights of the words of a text, for the second of two labels: each effect is known."""

    def __init__(self, *, temperature: float = 1.0) -> None:
        self.labels, self.temperature = ("blame", "praise"), temperature
        self.labelling = Exclusive()

    def logits(self, texts: Sequence[str], *, progress: Callable[[int], None] | None = None) -> Logits:
        sums = [sum(WEIGHTS.get(word, 0.0) for word in text.split()) for text in texts]
        return Logits(
            np.array([[0.0, s] for s in sums]), np.zeros(len(texts), np.int64), np.zeros(len(texts), bool)
        )


def effects_of(explanation: Any) -> dict[str, float]:
    return {explanation.text[start:end]: effect for start, end, effect in explanation.effects}


def test_where_words_add_up_the_effect_of_each_is_its_weight() -> None:
    text = "a good and fine but awful dog"
    (for_praise,) = word_importance(Counting(), [text], labels=["praise"])
    expected = {word: WEIGHTS.get(word, 0.0) for word in text.split()}
    assert effects_of(for_praise) == pytest.approx(expected)
    assert sum(effects_of(for_praise).values()) == pytest.approx(for_praise.log_odds)
    (for_blame,) = word_importance(Counting(), [text], labels=["blame"])
    assert effects_of(for_blame) == pytest.approx({word: -w for word, w in expected.items()})
    (warm,) = word_importance(Counting(temperature=2.0), [text], labels=["praise"])
    assert effects_of(warm) == pytest.approx({word: w / 2 for word, w in expected.items()})
    (long,) = word_importance(Counting(), ["good " * 250])
    assert long.n_words_each == 3, "several at a time"
    assert [e.effect for e in long.effects] == pytest.approx([4.5] * 83 + [1.5])


def test_effects_are_those_of_texts_classified_without_the_word(unsure_classifier: Classifier) -> None:
    text = "red good, big dog"
    (explanation,) = word_importance(unsure_classifier, [text])
    without = {
        "red": "good, big dog",
        "good": "red , big dog",
        ",": "red good big dog",
        "dog": "red good, big ",
    }
    effects = effects_of(explanation)
    assert list(effects) == ["red", "good", ",", "big", "dog"]
    found = unsure_classifier.classify([text, *without.values()])
    odds = [math.log(p / (1 - p)) for p in (each.probabilities[explanation.label] for each in found)]
    assert explanation.log_odds == pytest.approx(odds[0], abs=1e-4)
    for word, other in zip(without, odds[1:], strict=True):
        assert effects[word] == pytest.approx(odds[0] - other, abs=1e-4)


def test_a_text_is_explained_as_it_is_alone(unsure_classifier: Classifier) -> None:
    texts = ["good red cat", "", "an awful river, really", "good"]
    together = word_importance(unsure_classifier, texts)
    for text, explanation in zip(texts, together, strict=True):
        (alone,) = word_importance(unsure_classifier, [text])
        assert alone.label == explanation.label
        for one, other in zip(alone.effects, explanation.effects, strict=True):
            assert one == pytest.approx(other, abs=1e-4)
    assert together[1].effects == ()


@pytest.mark.parametrize(("n_words", "max_parts"), [(1, 1), (7, 1), (7, 10), (101, 100), (999, 10)])
def test_parts_hold_every_word_once_and_are_no_more_than_asked_for(n_words: int, max_parts: int) -> None:
    words = [f"w{i}" for i in range(n_words)]
    text = " ".join(words)
    parts, _ = parts_of(text, max_parts=max_parts)
    assert len(parts) <= max_parts
    assert " ".join(text[start:end] for start, end in parts).split() == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I don't, it’s", ["I", "don't", ",", "it’s"]),
        ("'tis 'good'", ["'", "tis", "'", "good", "'"]),
        ("很好。", ["很", "好", "。"]),
        ("  ", []),
    ],
)
def test_words_are_words(text: str, words: list[str]) -> None:
    assert [text[start:end] for start, end in parts_of(text)[0]] == words


def test_labels_must_be_known_and_as_many_as_texts() -> None:
    with pytest.raises(DataError, match=r"text 1: the classifier knows no label 'x'; there are 'blame', 'pr"):
        word_importance(Counting(), ["good"], labels=["x"])
    with pytest.raises(DataError, match="there are 1 texts and 0 labels"):
        word_importance(Counting(), ["good"], labels=[])
