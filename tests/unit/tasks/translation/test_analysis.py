"""Where a translator is good: lengths, numbers, single sentences."""

import math
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.metrics.translation import bleu
from dragoman.tasks.translation.analysis import (
    Recall,
    by_length,
    extremes,
    faults,
    number_recall,
    numbers,
    word_diff,
)

TEXT = st.text(alphabet="ab1.,é猫 ", max_size=30)


def test_every_sentence_is_in_one_bucket_of_its_length_scored_alone() -> None:
    lengths = [2, 40, 3, 5, 6, 10, 11, 30, 31, 50, 51, 400]
    sources = [" ".join(["word"] * n) for n in lengths]
    references = ["a b c d e", "x", "f g h i j", *sources[3:]]
    hypotheses = ["a b c d x", "y", *references[2:]]
    buckets = by_length(sources, hypotheses, references, src_lang="en", tgt_lang="de", n_bootstrap=0)
    assert sorted(i for bucket in buckets for i in bucket.indices) == list(range(len(sources)))
    for bucket in buckets:
        longest = math.inf if bucket.longest is None else bucket.longest
        assert all(bucket.shortest <= lengths[i] <= longest for i in bucket.indices)
        own, expected = ([texts[i] for i in bucket.indices] for texts in (hypotheses, references))
        assert bucket.bleu == bleu(own, expected, tgt_lang="de", n_bootstrap=0)


# numbers


def test_a_lost_and_an_invented_number_are_both_wrong() -> None:
    assert numbers("At 12:30, 1,000 of 3.5 and 3.") == Counter(["12:30", "1,000", "3.5", "3"])
    found, wrong = number_recall(["2 cats", "no", "5 and 6", "7"], ["2 cats", "3 cats", "5", "7"])
    assert found == Recall(n_matched=3, n_reference=4, n_hypothesis=4)
    assert wrong == [1, 2]


# single sentences


@settings(max_examples=100)
@given(TEXT, TEXT)
def test_a_diff_holds_both_texts_whole(reference: str, hypothesis: str) -> None:
    differences = word_diff(reference, hypothesis)
    assert "".join(d.text for d in differences if d.kind != "extra") == reference
    assert "".join(d.text for d in differences if d.kind != "missing") == hypothesis


def test_a_diff_marks_phrases_of_words_and_not_letters() -> None:
    assert [tuple(d) for d in word_diff("he runs very fast .", "he walks so slowly .")] == [
        ("same", "he "), ("missing", "runs very fast"), ("extra", "walks so slowly"), ("same", " ."),
    ]  # fmt: skip


@given(st.lists(st.floats(0, 100), max_size=40), st.integers(1, 8))
def test_best_median_and_worst_are_apart_and_in_order(scores: list[float], n: int) -> None:
    best, median, worst = extremes(scores, n)
    assert len({*best, *median, *worst}) == len(best) + len(median) + len(worst)
    ordered = [scores[i] for i in (*best, *median, *worst[::-1])]
    assert ordered == sorted(ordered, reverse=True)
    if len(scores) >= 3 * n:
        assert len(best) == len(median) == len(worst) == n
        assert min(scores) == scores[worst[0]]


def test_each_fault_is_found_unless_the_reference_has_it_too() -> None:
    rows = {
        "copied": ("a small red house", "a small red house", "ein kleines rotes Haus"),
        "repeated": ("hello", "so so so so so", "hallo du"),
        "empty": ("hello", " ", "hallo"),
        "too long": ("hello", "eins zwei drei vier fünf sechs sieben acht", "hallo"),
    }
    for fault, row in rows.items():
        found = faults(*([text] for text in row), tgt_lang="de")
        assert {kind for kind, indices in found.items() if indices} == {fault}
    same = ("Paris, London", "Paris, London", "Paris, London")
    assert not any(faults(*([text] for text in same), tgt_lang="de").values())
