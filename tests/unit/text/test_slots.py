"""Slots: what they stand for, in which order, and that no text of a user becomes one."""

from random import Random

from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.text.alterations import slots_at_random, transformations
from dragoman.text.slots import SLOTS
from dragoman.text.transformations import Transformations

SLOTTING = Transformations(transformations(["", ""], slots=True))

SPANS = ["14:30", "25", "1,000", "3.14", "{name}", "<b>", "a@b.de", "www.a.de", "😀", " ", "%d"]
SLOTLESS = st.text(st.characters(exclude_characters=SLOTS), max_size=4)
TEXTS = st.lists(st.sampled_from(SPANS) | SLOTLESS).map("".join)


def test_what_every_language_writes_alike_is_carried_over() -> None:
    kinds = ["<b>", "www.a.de", "</b>", "a@b.de", "{name}", "%d", "😀"]
    for text, spans in {
        "Meet me at 14:30 with 25 bikes on 12.05.2024.": ["14:30", "25", "12.05.2024"],
        "3 men, 1,000 people, 3.14, v2.0": [],
        "在2024年10月3日": ["2024", "10"],
        "<b>www.a.de</b> a@b.de {name} %d 😀": kinds,
        "12, 13 and 12": ["12", "13"],
        "a<b and c>d, <b id=x>, <input disabled>": ["<b id=x>", "<input disabled>"],
    }.items():
        assert SLOTTING.spans(text) == spans


@given(text=TEXTS)
@example(text="%d14:3014:30")  # a slot beside the second time makes a span of it, which nobody asked for
def test_what_slots_stand_for_is_put_back(text: str) -> None:
    spans = SLOTTING.spans(text)
    slotted = SLOTTING.with_slots(text, spans)
    assert SLOTTING.without_slots(slotted, spans).replace(" ", "") == text.replace(" ", "")
    assert all(slot in slotted for slot, _ in zip(SLOTS, spans, strict=False))


def test_a_space_comes_between_a_span_and_letters() -> None:
    a, b = SLOTS[:2]
    assert SLOTTING.without_slots(f"Rad{a}{b}an", ["25", "www.a.de"]) == "Rad 25 www.a.de an"
    assert SLOTTING.without_slots(f"({a}) {b}word", ["25", "<b>"]) == "(25) <b>word"
    assert SLOTTING.without_slots(f"在{a}年", ["2024"]) == "在2024年"
    assert SLOTTING.without_slots(f"a {a} {b}", ["b"]) == "a b ", "one that stands for nothing is left out"


@given(sides=st.tuples(TEXTS, TEXTS), seed=st.integers(0, 9))
def test_slots_stand_for_the_same_on_both_sides(sides: tuple[str, str], seed: int) -> None:
    slotted = slots_at_random(sides, Random(seed))
    assert slotted == slots_at_random(sides, Random(seed))
    counts = [[text.count(slot) for slot in SLOTS] for text in slotted]
    assert counts[0] == counts[1]


def test_every_slot_is_drawn_and_what_one_side_has_alone_stays() -> None:
    drawn = {slots_at_random(("at 14:30 and 25", "um 14:30"), Random(i))[1] for i in range(99)}
    assert drawn == {f"um {slot}" for slot in SLOTS}
    assert slots_at_random(("12 and 12", "12"), Random(1)) == ["12 and 12", "12"]
