"""Alignment: shifts are found where they begin and end, and nothing is where nothing is shifted."""

import random

import numpy as np
import pytest

from dragoman.data.doctor.alignment import NOWHERE, AlignedStretch, Alignment, check_alignment
from faulty import phrases, sides_of


def check(pairs: list[tuple[str, str]]) -> tuple[AlignedStretch, ...]:
    return check_alignment(*sides_of(pairs)).stretches


def unrelated(found: Alignment) -> np.ndarray:
    """The lines that are no translation, more likely than not."""
    return np.flatnonzero(found.probability < 0.5)


def rotated(pairs: list[tuple[str, str]], start: int, end: int, by: int) -> list[tuple[str, str]]:
    """The pairs with the targets of a stretch moved, so that those of source i stand at i + by."""
    targets = [tgt for _, tgt in pairs]
    stretch = targets[start:end]
    targets[start:end] = stretch[-by:] + stretch[:-by]
    return [(src, tgt) for (src, _), tgt in zip(pairs, targets, strict=True)]


@pytest.mark.parametrize("tgt_lang", ["de", "pl", "zh"])
def test_nothing_is_found_where_nothing_is_shifted(tgt_lang: str) -> None:
    result = check_alignment(*sides_of(phrases(2000, tgt_lang=tgt_lang)))
    assert result.stretches == ()
    assert len(unrelated(result)) <= 20  # 1 %
    assert result.separation is None
    assert result.notes == ()


def test_in_a_cycle_of_lines_no_shift_wins() -> None:
    """Every shift fits as well as another: a word stands beside the same one each time."""
    for seed, n in enumerate((2, 3, 5, 7, 10, 11, 20, 50)):
        rng = random.Random(seed)
        src, tgt = ([rng.randbytes(rng.randint(1, 4)).hex() for _ in range(n)] for _ in range(2))
        assert check([(src[i % n], tgt[i % n]) for i in range(400)]) == (), n


@pytest.mark.slow
@pytest.mark.parametrize("by", [1, -1, 3, -7])
@pytest.mark.parametrize("tgt_lang", ["de", "zh"])
def test_a_shifted_stretch_is_found_with_its_borders(by: int, tgt_lang: str) -> None:
    start, end = 500, 620
    stretches = check(rotated(phrases(2000, tgt_lang=tgt_lang), start, end, by))
    (found,) = [stretch for stretch in stretches if stretch.shift == by]
    inner = (start, end - by) if by > 0 else (start - by, end)  # of these sources the target is in the file
    assert abs(found.start - inner[0]) <= 2
    assert abs(found.end - inner[1]) <= 2
    assert all(stretch.start >= start - 2 and stretch.end <= end + 2 for stretch in stretches)


def test_a_shuffled_stretch_has_no_translation_near() -> None:
    pairs = phrases(2000)
    stretch = [tgt for _, tgt in pairs[800:1100]]
    random.Random(1).shuffle(stretch)
    pairs[800:1100] = [(src, tgt) for (src, _), tgt in zip(pairs[800:1100], stretch, strict=True)]
    (found,) = check(pairs)
    assert found.shift == NOWHERE
    assert abs(found.start - 800) <= 5
    assert abs(found.end - 1100) <= 5


def test_wrong_translations_here_and_there_are_suspected() -> None:
    pairs = phrases(2000)
    rng = random.Random(1)
    wrong = set(rng.sample(range(2000), 60))
    replaced = [
        (src, pairs[(i + 997) % 2000][1] if i in wrong else tgt) for i, (src, tgt) in enumerate(pairs)
    ]
    suspected = set(unrelated(check_alignment(*sides_of(replaced))).tolist())
    assert len(suspected & wrong) > 0.5 * len(wrong)
    assert len(suspected - wrong) < 20
