"""The probabilities of words are those of their tokens."""

import math

import pytest

from dragoman.errors import DataError
from dragoman.predict.alignment import word_probabilities
from dragoman.predict.scoring import score_pairs
from dragoman.predict.translator import Translator

PAIRS = [("red cat", "rot Katze"), ("big old house", "groß alt Haus!"), ("", ""), ("blue dog", "")]


def test_words_together_are_as_probable_as_the_tokens_without_the_end(translator: Translator) -> None:
    sources, targets = zip(*PAIRS[:2], strict=True)
    words = word_probabilities(translator, sources, targets)
    scored = score_pairs(translator, sources, targets)
    for found, translation in zip(words, scored, strict=True):
        of_tokens = translation.log_prob - translation.log_probs[-1]
        assert math.fsum(math.log(word.probability) for word in found) == pytest.approx(of_tokens, rel=1e-4)


def test_positions_are_those_of_the_words(translator: Translator) -> None:
    (words,) = word_probabilities(translator, ["big old house"], ["groß  alt Haus!"])
    assert ["groß  alt Haus!"[word.start : word.end] for word in words] == ["groß", "alt", "Haus", "!"]
    assert all(0 <= word.probability <= 1 for word in words)


def test_pairs_that_cannot_be_scored_have_no_words(translator: Translator) -> None:
    sources, targets = zip(*PAIRS, strict=True)
    too_long = "cat " * translator.max_positions
    found = word_probabilities(translator, [*sources, too_long, "cat"], [*targets, "Katze", too_long])
    assert [bool(words) for words in found] == [True, True, False, False, False, False]


def test_every_source_needs_a_target(translator: Translator) -> None:
    with pytest.raises(DataError, match="2 sources and 1 targets"):
        word_probabilities(translator, ["red cat", "blue dog"], ["rot Katze"])
