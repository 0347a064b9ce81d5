"""Altered texts: what changes, and what stays."""

import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.text.alterations import (
    NEIGHBOURS,
    carried_over,
    in_capitals,
    in_title_case,
    invented_copy,
    noise,
    with_copy,
    with_other_numbers,
    with_typos,
    without_final_point,
)
from dragoman.text.slots import CARRIED

ADDRESS = "see https://Www.example.org/a?b=1 or me@example.org."


def test_case_changes_letters_of_words_and_leaves_addresses_alone() -> None:
    assert in_capitals(ADDRESS, "en") == "SEE https://Www.example.org/a?b=1 OR me@example.org."
    assert in_title_case(ADDRESS, "en") == "See https://Www.example.org/a?b=1 Or me@example.org."
    assert in_title_case("it's a LATE train, élan", "en") == "It's A LATE Train, Élan"


@given(st.text(), st.sampled_from(["en", "tr"]))
def test_case_changes_letters_alone(text: str, language: str) -> None:
    capital_of = {"i": "İ"} if language == "tr" else {}
    assert in_capitals(text, language) == "".join(capital_of.get(c, c.upper()) for c in text) or re.search(
        CARRIED, text, re.DOTALL
    )
    assert in_title_case(text, language).replace("İ", "I").upper() == text.replace("İ", "I").upper()


def test_final_points_go_from_both_sides_or_from_none() -> None:
    assert without_final_point(['He said "no!"', "Er sagte „nein!“"]) == ['He said "no"', "Er sagte „nein“"]
    assert without_final_point(["Wait...", "等一下。"]) == ["Wait", "等一下"]
    assert without_final_point(["A title", "Ein Titel."]) == ["A title", "Ein Titel."]


@pytest.mark.slow
@given(st.text(max_size=200), st.integers())
def test_typing_mistakes_are_in_a_seventh_of_the_long_words(text: str, seed: int) -> None:
    altered = with_typos(text, Random(seed))
    assert abs(len(altered) - len(text)) <= 1 + len(text.split()) / 7 * 2


def test_a_typing_mistake_is_one_of_four_kinds() -> None:
    found = {with_typos("house", Random(seed)) for seed in range(500)}
    swapped = {"ohuse", "huose", "hosue", "houes"}
    missing = {"ouse", "huse", "hose", "houe"}
    doubled = {"hhouse", "hoouse", "houuse", "housse"}
    near = {
        "house"[:i] + other + "house"[i + 1 :]
        for i, letter in enumerate("hous")
        for other in NEIGHBOURS[letter]
    }
    assert found <= swapped | missing | doubled | near | {"house"}
    for kind in (swapped, missing, doubled, near):
        assert found & kind
    for seed in range(50):
        assert with_typos("a cat at 14:30", Random(seed)) == "a cat at 14:30", "short words and addresses"


def test_numbers_of_both_sides_get_the_same_other_digits() -> None:
    pair = ["At 14:30 there were 25 of 1,000.", "Um 14:30 waren es 25 von 1.000."]
    for seed in range(20):
        src, tgt = with_other_numbers(pair, Random(seed))
        numbers = [n for n in carried_over(src) if n in carried_over(tgt)]
        assert [len(n) for n in numbers] == [5, 2]
        assert numbers[1][0] != "0"
        assert "1,000" in src, "it is written otherwise on the other side, and stays"
    twice = ["2 and 2", "2 und 2"]
    assert with_other_numbers(twice, Random(1)) == twice


def test_what_is_invented_is_carried_over_and_noise_is_printable_text_of_one_line() -> None:
    for seed in range(100):
        copy = invented_copy(Random(seed))
        assert carried_over(copy) == {copy: 1}
        src, tgt = with_copy(["A dog.", "Ein Hund。"], Random(seed))
        assert carried_over(src) == carried_over(tgt)
        assert carried_over(src).total() == 1
        assert "A dog" in src
        assert "Ein Hund" in tgt
        text = noise(Random(seed))
        assert text.strip()
        assert text.encode().decode() == text
        assert "\n" not in text
