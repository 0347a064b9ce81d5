"""Scores against sacreBLEU itself, and against BLEU worked out by hand."""

import math
import os

import pytest
import sacrebleu

from dragoman.errors import DataError
from dragoman.metrics.score import Score
from dragoman.metrics.translation import bleu, chrf, score_all, tokenised_lowercased_bleu

REFERENCES = [
    "A man is riding a bike in the park.",
    "Two dogs play with a well-known ball.",
    "The children are eating ice cream.",
    "It costs 3.50 euros, she says.",
]
HYPOTHESES = [
    "A man rides a bike in the park.",
    "Two dogs are playing with a ball.",
    "The children are eating ice cream.",
    "it costs 3.50 euros, she said.",
]


def test_values_are_sacrebleus_own() -> None:
    expected = [
        sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score,
        sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score,
        sacrebleu.corpus_ter(HYPOTHESES, [REFERENCES]).score,
    ]
    scores = score_all(HYPOTHESES, REFERENCES, tgt_lang="en", n_bootstrap=0)
    assert [score.value for score in scores] == expected
    assert [score.name for score in scores] == ["BLEU", "chrF2", "TER"]


def test_empty_lines_are_scored_not_refused() -> None:
    for hypotheses, references in ((["", ""], ["a b c d", ""]), (["a b", *[""] * 9], ["a b c d"] * 10)):
        for score in score_all(hypotheses, references, tgt_lang="en", n_bootstrap=50):
            assert score.interval is not None
            assert all(map(math.isfinite, (score.value, *score.interval)))


def test_the_signature_names_every_choice_and_the_interval_follows_from_the_seed() -> None:
    score = bleu(HYPOTHESES, REFERENCES, tgt_lang="de", n_bootstrap=50, seed=7)
    assert score.signature == (
        f"nrefs:1|bs:50|seed:7|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    )
    assert bleu(HYPOTHESES, REFERENCES, tgt_lang="de", n_bootstrap=50, seed=7).interval == score.interval
    assert bleu(HYPOTHESES, REFERENCES, tgt_lang="de", n_bootstrap=50, seed=8).interval != score.interval
    score = bleu(HYPOTHESES, REFERENCES, tgt_lang="en", n_bootstrap=0)
    assert score.interval is None
    assert "bs:" not in score.signature


def test_the_target_language_picks_the_tokenisation() -> None:
    for tgt_langs, tokenisation in (("en de-CH", "13a"), ("zh zh-Hant zho_Hans", "zh"), ("ja ko th", "char")):
        for tgt_lang in tgt_langs.split():
            score = bleu(["我喜欢猫。"], ["我喜欢狗。"], tgt_lang=tgt_lang, n_bootstrap=0)
            assert f"tok:{tokenisation}|" in score.signature
    for tgt_lang in ("th", "km-KH", "lao", "my"):  # one of 13 characters is another; case does not count
        ter = score_all(["ผมชอบสุนัข abcd"], ["ผมชอบสุนขข ABCD"], tgt_lang=tgt_lang, n_bootstrap=0)[2]
        assert ter.value == pytest.approx(100 / 14)
        assert "|tok:char|" in ter.signature


def test_the_interval_is_mean_and_half_width_of_the_resampled_scores() -> None:
    for score in score_all(HYPOTHESES, REFERENCES, tgt_lang="en", n_bootstrap=100):
        assert score.interval is not None
        low, high = score.interval
        name = score.name.upper().removesuffix("2")
        peer = getattr(sacrebleu, name)().corpus_score(HYPOTHESES, [REFERENCES], n_bootstrap=100)
        assert f"(μ = {(low + high) / 2:.2f} ± {(high - low) / 2:.2f})" in str(peer)
        assert low < score.value < high


@pytest.mark.parametrize("before", [None, "99"])
def test_scoring_leaves_the_environment_as_it_was(
    before: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if before is None:
        monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    else:
        monkeypatch.setenv("SACREBLEU_SEED", before)
    bleu(HYPOTHESES, REFERENCES, tgt_lang="en", n_bootstrap=10, seed=3)
    assert os.environ.get("SACREBLEU_SEED") == before


def test_lowercased_bleu_counts_no_case_keeps_hyphenated_words_whole_and_splits_punctuation() -> None:
    def lowercased(hypothesis: str, reference: str) -> Score:
        return tokenised_lowercased_bleu([hypothesis], [reference], tgt_lang="en", n_bootstrap=0)

    shouted = [text.upper() for text in REFERENCES]
    assert bleu(shouted, REFERENCES, tgt_lang="en", n_bootstrap=0).value < 100
    score = lowercased('A WELL-KNOWN man, 3.5 meters "tall".', 'a well-known man , 3.5 meters " tall " .')
    assert (score.value, score.name) == (pytest.approx(100), "BLEU (lower-cased)")
    assert "case:lc|" in score.signature
    assert lowercased("a well - known man", "a well-known man").value < 100


@pytest.mark.parametrize("metric", [bleu, chrf, tokenised_lowercased_bleu, score_all])
def test_counts_that_differ_are_an_error_with_both_numbers(metric) -> None:
    with pytest.raises(DataError, match="there are 4 translations and 3 references; scoring needs one"):
        metric(HYPOTHESES, REFERENCES[:3], tgt_lang="en")
    with pytest.raises(DataError, match="nothing to score: 0 translations and 0 references"):
        metric([], [], tgt_lang="en")
