"""Scores against sacreBLEU itself, and against BLEU worked out by hand."""

import math
import os

import pytest
import sacrebleu

from dragoman.errors import DataError
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


def test_a_translation_equal_to_its_reference_is_perfect() -> None:
    for lang in ("en", "zh", "ja", "ko"):
        values = [score.value for score in score_all(REFERENCES, REFERENCES, tgt_lang=lang, n_bootstrap=20)]
        assert values == pytest.approx([100, 100, 0])


def test_empty_lines_are_scored_not_refused() -> None:
    for score in score_all(["", ""], ["a b c d", ""], tgt_lang="en", n_bootstrap=10):
        assert math.isfinite(score.value)
        assert score.interval is not None


def test_translations_that_score_0_in_some_resamples_have_intervals() -> None:
    hypotheses = ["a b", *[""] * 9]
    for score in score_all(hypotheses, ["a b c d"] * 10, tgt_lang="en", n_bootstrap=50):
        assert score.interval is not None
        assert all(map(math.isfinite, score.interval))


def test_the_signature_names_every_choice() -> None:
    score = bleu(HYPOTHESES, REFERENCES, tgt_lang="de", n_bootstrap=50, seed=7)
    parts = dict(part.split(":") for part in score.signature.split("|"))
    assert parts == {
        "nrefs": "1",
        "bs": "50",
        "seed": "7",
        "case": "mixed",
        "eff": "no",
        "tok": "13a",
        "smooth": "exp",
        "version": sacrebleu.__version__,
    }


@pytest.mark.parametrize(
    ("tgt_langs", "tokenisation"),
    [("en de-CH", "13a"), ("zh zh-Hant zh_CN zho_Hans", "zh"), ("ja ko th", "char")],
)
def test_the_target_language_picks_the_tokenisation(tgt_langs: str, tokenisation: str) -> None:
    for tgt_lang in tgt_langs.split():
        score = bleu(["我喜欢猫。"], ["我喜欢狗。"], tgt_lang=tgt_lang, n_bootstrap=0)
        assert f"tok:{tokenisation}|" in score.signature


@pytest.mark.parametrize("tgt_lang", ["th", "km-KH", "lao", "my"])
def test_ter_counts_characters_where_no_spaces_separate_words(tgt_lang: str) -> None:
    """One of 13 characters is another; spaces and case do not count."""
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


def test_the_interval_follows_from_the_seed() -> None:
    def interval(seed: int) -> tuple[float, float] | None:
        return bleu(HYPOTHESES, REFERENCES, tgt_lang="en", n_bootstrap=50, seed=seed).interval

    assert interval(1) == interval(1) != interval(2)


def test_without_bootstrap_there_is_no_interval() -> None:
    score = bleu(HYPOTHESES, REFERENCES, tgt_lang="en", n_bootstrap=0)
    assert score.interval is None
    assert "bs:" not in score.signature


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


def test_case_counts_in_bleu_and_not_in_lowercased_bleu() -> None:
    shouted = [text.upper() for text in REFERENCES]
    assert bleu(shouted, REFERENCES, tgt_lang="en", n_bootstrap=0).value < 100
    score = tokenised_lowercased_bleu(shouted, REFERENCES, tgt_lang="en", n_bootstrap=0)
    assert score.value == pytest.approx(100)
    assert score.name == "BLEU (lower-cased)"
    assert "case:lc|" in score.signature


def test_lowercased_bleu_keeps_hyphenated_words_whole_and_splits_punctuation() -> None:
    tokenised = ['a well-known man , 3.5 meters " tall " .']
    plain = ['A well-known man, 3.5 meters "tall".']
    score = tokenised_lowercased_bleu(plain, tokenised, tgt_lang="en", n_bootstrap=0)
    assert score.value == pytest.approx(100)
    split = tokenised_lowercased_bleu(
        ["a well - known man"], ["a well-known man"], tgt_lang="en", n_bootstrap=0
    )
    assert split.value < 100


@pytest.mark.parametrize("metric", [bleu, chrf, tokenised_lowercased_bleu, score_all])
def test_counts_that_differ_are_an_error_with_both_numbers(metric) -> None:
    with pytest.raises(DataError, match="there are 4 translations and 3 references; scoring needs one"):
        metric(HYPOTHESES, REFERENCES[:3], tgt_lang="en")
    with pytest.raises(DataError, match="nothing to score: 0 translations and 0 references"):
        metric([], [], tgt_lang="en")
