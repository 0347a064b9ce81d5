"""Overlap: the fast search finds what comparing everything with everything finds."""

import random

import pytest

from dragoman.data.doctor.overlap import MIN_SEQUENCES, SIMILAR, HeldOutIndex, HeldOutTexts, Match
from dragoman.data.records import Numbered
from dragoman.text.normalisation import plain

SYLLABLES = ["ka", "lo", "mi", "ne", "tu", "ra", "so", "vi", "pe", "da"]


def texts(n: int, rng: random.Random, *, spaced: bool) -> list[str]:
    letters = SYLLABLES if spaced else list("的是不我了在有他这个你们她一到说")
    return [
        (" " if spaced else "").join("".join(rng.choices(letters, k=2)) for _ in range(rng.randint(2, 9)))
        for _ in range(n)
    ]


def changed(text: str, rng: random.Random) -> str:
    chars = list(text)
    for _ in range(rng.randint(0, 3)):
        chars[rng.randrange(len(chars))] = rng.choice("xyz,. 的")
    return "".join(chars)


def brute_force(line: str, held_out: list[str], n: int) -> float:
    """The highest similarity with any of them; 0 where it is below the limit."""

    def sequences(text: str) -> set[str]:
        return {text[i : i + n] for i in range(len(text) - n + 1)}

    best = 0.0
    a = sequences(plain(line))
    for other in map(plain, held_out):
        if other == plain(line):
            return 1.0
        b = sequences(other)
        if min(len(a), len(b)) >= MIN_SEQUENCES:
            best = max(best, len(a & b) / len(a | b))
    return best if best >= SIMILAR else 0.0


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("spaced", [True, False])
def test_all_and_only_similar_texts_are_found(seed: int, spaced: bool) -> None:
    rng = random.Random(seed)
    held_out = texts(60, rng, spaced=spaced)
    lines = [changed(text, rng) for text in held_out[:40]] + texts(20, rng, spaced=spaced)
    found = {match.line: match for match in HeldOutTexts(held_out).matches(lines)}
    expected = [brute_force(line, held_out, 4 if spaced else 2) for line in lines]
    assert sorted(found) == [i for i, similarity in enumerate(expected) if similarity]
    for i, match in found.items():
        assert match.similarity == pytest.approx(expected[i])
        assert brute_force(lines[i], [held_out[match.text]], 4 if spaced else 2) == match.similarity
    assert any(0 < similarity < 1 for similarity in expected)


def test_case_punctuation_and_spaces_do_not_count() -> None:
    held_out = HeldOutTexts(["Where is it?", "..."])
    assert held_out.matches(["WHERE  is it!!", "where isit", "...", "…"]) == [
        Match(0, 0, 1.0),
        Match(2, 1, 1.0),
    ]


def test_the_place_of_the_held_out_text_is_told_and_equality_is_worth_more_than_likeness() -> None:
    valid = [Numbered(7, ("The cat sat on the old mat.", "Die Katze saß auf der alten Matte."))]
    held_out = HeldOutIndex({"valid line": valid}, ("source", "target"))
    near = "Die Katze saß auf der alten Matte nun."
    exact, like, similarity = dict[int, str](), dict[int, str](), dict[int, float]()
    chunk = [Numbered(1, ("x", near)), Numbered(2, ("the cat sat on the old mat", near))]
    held_out.look_up(10, chunk, {"overlap": exact, "overlap-near": like}, similarity)
    assert exact == {11: "source is valid line 7"}
    assert list(like) == list(similarity) == [10]
    assert like[10].startswith("target is ")
    assert like[10].endswith(" % like valid line 7: Die Katze saß auf der alten Matte.")
    assert SIMILAR <= similarity[10] < 1


def test_long_texts_are_compared_too() -> None:
    rng = random.Random(1)
    long = [" ".join(texts(40, rng, spaced=True)) for _ in range(5)]
    (found,) = HeldOutTexts(long).matches([long[3].upper() + " and more", long[0][:300]])
    assert (found.line, found.text) == (0, 3)
    assert SIMILAR < found.similarity < 1
