"""Modified corpora: the same draw gives the same pairs, another one others."""

from typing import Any

import pytest

from corpus_files import Listed
from dragoman.config import TranslationConfig, parse_config
from dragoman.data.modifiers import MOST_MERGED, ModifiedCorpus
from dragoman.data.records import Pair
from dragoman.presets import ROBUST
from dragoman.text.alterations import carried_over
from dragoman.text.slots import SLOTS

PAIRS = [Pair(f"The dog number {i} sleeps.", f"Der Hund Nummer {i} schläft.") for i in range(2000)]


def modified(
    rates: dict[str, float], pairs: list[Pair] = PAIRS, languages: tuple[str, str] = ("en", "de"), **more: int
) -> ModifiedCorpus:
    chosen = {"max_length": 128, "seed": 1, "draw": 0, **more}
    data = {"src_lang": "en", "tgt_lang": "de", "train": ["a.tsv"], "max_length": chosen["max_length"]}
    config = parse_config({"name": "modified", "seed": chosen["seed"], "data": data, "modifiers": rates})
    assert isinstance(config, TranslationConfig)
    return ModifiedCorpus(Listed(pairs), config, languages, draw=chosen["draw"])


@pytest.mark.slow
def test_a_draw_is_the_same_each_time_and_another_is_another() -> None:
    assert list(modified({}).pairs()) == PAIRS
    first, again = modified(ROBUST), modified(ROBUST)
    assert list(first.pairs()) == list(first.pairs()) == list(again.pairs())
    assert first.fingerprint() == again.fingerprint()
    others = (modified(ROBUST, draw=1), modified(ROBUST, seed=2), modified({**ROBUST, "upper": 0.5}))
    for other in others:
        assert list(other.pairs()) != list(first.pairs())
        assert other.fingerprint() != first.fingerprint()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "is_altered"),
    [
        ("upper", lambda src, tgt: src.isupper() and tgt.isupper()),
        ("title", lambda src, tgt: src.istitle() and tgt.istitle()),
        ("typos", lambda src, tgt: src not in dict(PAIRS) and tgt in dict(PAIRS).values()),
        ("no_final", lambda src, tgt: not src.endswith(".") and not tgt.endswith(".")),
        ("numbers", lambda src, tgt: carried_over(src) == carried_over(tgt) != {}),
        (
            "copies",
            lambda src, tgt: carried_over(src) == carried_over(tgt) and carried_over(src).total() == 2,
        ),
        ("noise", lambda src, tgt: src == tgt),
    ],
)
def test_a_rate_is_the_share_of_pairs(name: str, is_altered: Any) -> None:
    """Within four standard deviations: 2000 pairs at a rate of 0.3 are 600 ± 82."""
    found = list(modified({name: 0.3}).pairs())
    assert len(found) == len(PAIRS)
    n = sum(pair != before for pair, before in zip(found, PAIRS, strict=True))
    assert abs(n - 600) <= 90, "some mistakes change nothing: a letter may be doubled as it was"
    assert all(is_altered(*pair) for pair, before in zip(found, PAIRS, strict=True) if pair != before)


def test_merged_neighbours_hold_every_pair_once_in_order() -> None:
    found = list(modified({"merge": 0.5}).pairs())
    assert len(found) < len(PAIRS)
    for side in (0, 1):
        assert " ".join(pair[side] for pair in found) == " ".join(pair[side] for pair in PAIRS)
    sizes = {pair.src.count(".") for pair in found}
    assert sizes == set(range(1, MOST_MERGED + 1))


def test_merged_lines_stay_below_the_longest_take_nothing_empty_and_no_space_in_chinese() -> None:
    pairs = [*PAIRS[:51], Pair("", "leer"), *PAIRS[50:100]]
    found = list(modified({"merge": 1.0}, pairs=pairs, max_length=25).pairs())
    assert max(len(text.encode()) for pair in found for text in pair) <= 75
    assert {pair.src.count(".") for pair in found} == {0, 1, 2}
    assert Pair("", "leer") in found
    pairs = [Pair(f"Dog {i}.", "狗睡觉。") for i in range(40)]
    chinese = [pair.tgt for pair in modified({"merge": 1.0}, pairs=pairs, languages=("en", "zh")).pairs()]
    assert "狗睡觉。狗睡觉。" in "\n".join(chinese)
    assert not any(" " in text for text in chinese)


def test_slots_stand_for_what_both_sides_share_and_never_come_from_the_corpus() -> None:
    pairs = [Pair(f"at {i} {SLOTS[0]}", f"um {i} {SLOTS[1]}") for i in range(100, 300)]
    for src, tgt in modified({"slots": 1.0}, pairs=pairs).pairs():
        assert src.removeprefix("at ").strip() == tgt.removeprefix("um ").strip()
        assert src.split()[1] in SLOTS
    half = [pair.src for pair in modified({"slots": 0.5}, pairs=pairs).pairs()]
    assert 0.3 < sum(any(slot in src for slot in SLOTS) for src in half) / len(half) < 0.7
    assert not any(slot in src for slot in SLOTS for src in half if "at 1" in src or "at 2" in src)
    assert modified({"slots": 0.5}, pairs=pairs).has_slots
    assert not modified({"upper": 0.5}, pairs=pairs).has_slots
