"""Of several candidates, the one that agrees most with the others comes first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from dragoman.predict import reranking
from dragoman.predict.reranking import minimum_risk, pairwise_chrf
from dragoman.predict.translator import Alternative, Translation, Translator

TEXTS = st.text(st.sampled_from("ab cü\u3000.中"), max_size=12)


def translation_of(*texts: str, log_probs: Sequence[float] = ()) -> Translation:
    """A translation of as many candidates, each less probable than the one before by default."""
    given = log_probs or [-float(i) for i in range(len(texts))]
    alternatives = tuple(
        Alternative(text, -float(i), log_prob)
        for i, (text, log_prob) in enumerate(zip(texts, given, strict=True))
    )
    return Translation("source", alternatives)


@settings(deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=6))
def test_pairs_are_scored_as_by_sacrebleu(texts: list[str]) -> None:
    metric = CHRF()
    expected = [[metric.sentence_score(row, [column]).score for column in texts] for row in texts]
    np.testing.assert_allclose(pairwise_chrf(texts), expected, rtol=1e-9, atol=1e-9)


@settings(deadline=None)
@given(
    st.lists(st.tuples(TEXTS, st.floats(-900.0, 0.0)), min_size=1, max_size=6, unique_by=lambda one: one[0]),
    st.booleans(),
)
def test_the_first_has_the_highest_expected_score_and_none_is_lost(
    candidates: list[tuple[str, float]], sampled: bool
) -> None:
    texts, log_probs = zip(*candidates, strict=True)
    translation = translation_of(*texts, log_probs=log_probs)
    chosen = minimum_risk(translation, sampled=sampled)
    metric = CHRF()
    weights = [1.0 if sampled else math.exp(log_prob - max(log_probs)) for log_prob in log_probs]
    expected = [
        sum(w * metric.sentence_score(a, [b]).score for b, w in zip(texts, weights, strict=True))
        / sum(weights)
        for a in texts
    ]
    assert expected[texts.index(chosen.text)] == pytest.approx(max(expected))
    assert sorted(chosen.alternatives) == sorted(translation.alternatives)


def test_the_consensus_wins_over_the_best_scored() -> None:
    odd, first, second = "Ein Hund bellt laut", "Der rote Kater schläft", "Der rote Kater schlief"
    candidates = translation_of(odd, first, second, first, log_probs=[-3.0, -3.1, -3.1, -3.1])
    chosen = minimum_risk(candidates)
    assert chosen.text == first
    assert chosen.score == -1.0
    assert chosen.alternatives[-1].text == odd


def test_a_probable_candidate_of_a_beam_wins_over_two_that_are_alike_and_a_sample_does_not() -> None:
    odd, first, second = "Ein Hund bellt laut", "Der rote Kater schläft", "Der rote Kater schlief"
    candidates = translation_of(odd, first, second, log_probs=[-1.0, -5.0, -5.0])
    assert minimum_risk(candidates).text == odd
    assert minimum_risk(candidates, sampled=True).text != odd


def test_of_equally_good_candidates_the_search_decides() -> None:
    assert minimum_risk(translation_of("ab", "cd", log_probs=[-1.0, -1.0])).text == "ab"
    assert minimum_risk(translation_of("")).text == ""


@pytest.mark.slow
def test_the_parts_of_a_text_choose_together_and_are_never_compared_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[int] = []
    monkeypatch.setattr(
        reranking,
        "pairwise_chrf",
        lambda texts: compared.append(max(map(len, texts))) or pairwise_chrf(texts),
    )
    odd, same = "Ein Hund bellt laut", "Der rote Kater schläft"
    even = [-1.0] * 4
    part = translation_of(odd, same, same, odd + ".", log_probs=even)
    parts = (part,) * 500 + (translation_of(same, odd, odd, odd, log_probs=even),) * 499
    texts = [" ".join(p.alternatives[k].text for p in parts) for k in range(4)]
    whole = translation_of(*texts)._replace(parts=parts)
    chosen = minimum_risk(whole)
    assert compared == [22] * 999
    assert chosen.text == texts[1]
    assert [p.text for p in chosen.parts[:1] + chosen.parts[-1:]] == [same, odd]


@pytest.mark.slow
def test_parts_follow_the_choice_of_the_whole(tiny_run: Path) -> None:
    translator = Translator.load(tiny_run, device="cpu", precision="fp32")
    text = "red cat, big dog. " * translator.config.model.max_positions
    chosen = minimum_risk(translator.translate([text], beam_size=3, n_best=3)[0])
    assert chosen.text == " ".join(part.text for part in chosen.parts if part.text)
