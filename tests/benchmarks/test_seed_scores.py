"""The seeds' own metrics, as far as they can be checked by hand."""

from __future__ import annotations

import math
import runpy
from pathlib import Path

import pytest

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "seed_scores.py"))


def test_a_perfect_translation_of_seed_001_is_too_short_by_two_tokens() -> None:
    sentence = SCRIPT["characters"]("要是他知道会发生什么， 他就会改变计划。")
    assert len(sentence) == 19
    with_ends = ["BOS", *sentence, "EOS"]
    for weights in (SCRIPT["BLEU_4"], SCRIPT["BLEU_2"]):
        score = SCRIPT["mean_bleu"]([with_ends], [sentence], weights)
        assert score == pytest.approx(math.exp(1 - 21 / 19))
        assert SCRIPT["mean_bleu"]([sentence], [sentence], weights) == pytest.approx(1.0)


def test_a_sentence_without_a_common_four_gram_counts_as_nothing() -> None:
    assert SCRIPT["mean_bleu"]([list("abcdef")], [list("abcxef")], SCRIPT["BLEU_4"]) < 1e-50


def test_words_are_lower_case_with_punctuation_apart() -> None:
    assert SCRIPT["words"]("Ein Mann, allein.") == ["ein", "mann", ",", "allein", "."]
