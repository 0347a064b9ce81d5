"""The robustness card: what it alters, and what it counts."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dragoman.config import parse_config
from dragoman.data.records import Pair
from dragoman.predict.translator import Translator
from dragoman.tasks.translation.robustness import PLAIN, WORDS, Altered, alterations, robustness
from dragoman.text.alterations import carried_over

PAIRS = [
    Pair(f"The {animal} number {i} sleeps near the house.", f"Der {tier} Nummer {i} schläft beim Haus.")
    for i, (animal, tier) in enumerate([("dog", "Hund"), ("cat", "Kater"), ("bird", "Vogel")] * 20)
]


class Oracle:
    """Answers by a function of the text; `asked` are all texts."""

    def __init__(self, answer: Callable[[str], str]) -> None:
        self.answer, self.asked = answer, list[str]()
        data = {"src_lang": "en", "tgt_lang": "de", "train": ["train.tsv"]}
        self.config = parse_config({"name": "oracle", "data": data})

    def translate(self, texts: Sequence[str], **settings: Any) -> list[SimpleNamespace]:
        self.asked += texts
        return [SimpleNamespace(text=self.answer(text)) for text in texts]


def rows_of(answer: Callable[[str], str], **options: Any) -> dict[str, Altered]:
    found = robustness(cast(Translator, Oracle(answer)), "test", PAIRS, **options)
    return {row.name: row for row in found.rows}


def knowing(name: str = "") -> Callable[[str], str]:
    """An answer that is the reference of every altered text, "" for those of the alteration `name`."""
    known = {
        pair.src: "" if kind == name else pair.tgt
        for kind, pairs in alterations(PAIRS, languages=("en", "de")).items()
        for pair in pairs
    }
    return lambda text: known.get(text, "ein Wort")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["capitals", "three in a line"])
def test_faults_are_those_of_their_alteration_alone(name: str) -> None:
    rows = rows_of(knowing(name))
    assert rows[name].empty == 100
    assert rows[name].kept == 0
    assert rows[name].share == pytest.approx(0)
    assert (next(iter(rows)), [*rows][-1]) == (PLAIN, WORDS)
    for other, row in rows.items():
        if other not in (name, WORDS):
            assert (row.copied, row.repeated, row.empty) == (0, 0, 0)
            assert row.kept in (100, None)
            assert row.bleu == pytest.approx(100)


@pytest.mark.slow
def test_copies_and_loops_are_counted() -> None:
    assert rows_of(lambda text: text)["capitals"].copied == 100
    assert rows_of(lambda text: "ein Hund Hund Hund Hund")[WORDS].repeated == 100


def test_the_same_text_is_altered_for_every_model_and_a_part_of_it_at_most() -> None:
    first, second = Oracle(lambda text: "a"), Oracle(lambda text: "b")
    for oracle in (first, second):
        card = robustness(cast(Translator, oracle), "test", PAIRS, n_pairs=12)
    assert card.record()["name"] == "test (robustness)"
    assert first.asked == second.asked
    assert sum(text.isupper() for text in first.asked) == 12


def test_alterations_change_both_sides_alike() -> None:
    found = alterations(PAIRS, languages=("en", "de"))
    assert [pair.tgt for pair in found["typing mistakes"]] == [pair.tgt for pair in PAIRS]
    assert len(found["three in a line"]) == len(PAIRS) // 3
    for pairs in found.values():
        assert all(carried_over(src) == carried_over(tgt) for src, tgt in pairs)
