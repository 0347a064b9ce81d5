"""Of several candidates, the one that agrees most with the others comes first."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from dragoman.predict import reranking
from dragoman.predict.reranking import minimum_risk, pairwise_chrf
from dragoman.predict.results import Alternative, Translation

TEXTS = st.text(st.sampled_from("ab cü\u3000.中"), max_size=12)


def translation_of(*texts: str) -> Translation:
    alternatives = tuple(Alternative(text, -float(i)) for i, text in enumerate(texts))
    return Translation("source", alternatives)


@given(st.lists(TEXTS, min_size=1, max_size=6))
def test_pairs_are_scored_as_by_sacrebleu(texts: list[str]) -> None:
    metric = CHRF()
    expected = [[metric.sentence_score(row, [column]).score for column in texts] for row in texts]
    np.testing.assert_allclose(pairwise_chrf(texts), expected, rtol=1e-9, atol=1e-9)


@given(st.lists(TEXTS, min_size=1, max_size=6))
def test_the_first_has_the_highest_mean_score_and_none_is_lost(texts: list[str]) -> None:
    chosen = minimum_risk(translation_of(*texts))
    metric = CHRF()
    means = [sum(metric.sentence_score(a, [b]).score for b in texts) / len(texts) for a in texts]
    assert means[texts.index(chosen.text)] == pytest.approx(max(means))
    assert sorted(chosen.alternatives) == sorted(translation_of(*texts).alternatives)
    assert chosen.alternatives[0] == (chosen.text, chosen.score)


def test_the_consensus_wins_over_the_best_scored() -> None:
    odd, first, second = "Ein Hund bellt laut", "Der rote Kater schläft", "Der rote Kater schlief"
    chosen = minimum_risk(translation_of(odd, first, second, first))
    assert chosen.text == first
    assert chosen.score == -1.0
    assert chosen.alternatives[-1].text == odd


def test_the_text_in_a_pivot_language_stays() -> None:
    assert minimum_risk(translation_of("ab", "cd")._replace(through="xy")).through == "xy"


def test_of_equally_good_candidates_the_search_decides() -> None:
    assert minimum_risk(translation_of("ab", "cd")).text == "ab"
    assert minimum_risk(translation_of("")).text == ""


@pytest.mark.slow
def test_the_parts_of_a_text_choose_together_and_are_never_compared_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[int] = []

    def counted(texts: Sequence[str]) -> Any:
        compared.append(max(map(len, texts)))
        return pairwise_chrf(texts)

    monkeypatch.setattr(reranking, "pairwise_chrf", counted)
    odd, same = "Ein Hund bellt laut", "Der rote Kater schläft"
    part = translation_of(odd, same, same, odd + ".")
    parts = (part,) * 500 + (translation_of(same, odd, odd, odd),) * 499
    texts = [" ".join(p.alternatives[k].text for p in parts) for k in range(4)]
    whole = translation_of(*texts)._replace(parts=parts)
    chosen = minimum_risk(whole)
    assert compared == [22] * 999
    assert chosen.text == texts[1]
    assert [p.text for p in chosen.parts[:1] + chosen.parts[-1:]] == [same, odd]
