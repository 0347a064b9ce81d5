"""What can be seen in one pair: damage, markup, numbers, addresses; and that honest text is left alone."""

import pytest

from dragoman.data.doctor.content import (
    PAIR_CHECKS,
    copied,
    copied_words,
    empty_side,
    markup,
    mixed_scripts,
    other_addresses,
    other_numbers,
)
from dragoman.data.doctor.encoding import damage, mend

WRITTEN = (
    "Schöne Grüße aus Köln!",
    "Są w samochodzie, więc łódź śpi.",
    "Głosowałem – „tak”…",
    "Déjà vu, garçon!",
    "Příliš žluťoučký kůň úpěl ďábelské ódy",
    "It’s 20 °C — really",
    "你好，世界",
    "Привет, как дела?",
    "Γεια σου κόσμε",
    "♫ la la ♫",
)
HONEST = (
    "«LE CAFÉ» est fermé",
    "À «PARIS»",
    "SÃO PAULO, AMANHÃ…",
    "Hon sa: ”NEJ, SÅ…” och gick",
    "»SÖ« und »Å«",
    "СССР» и «Рёв» мотора",
    "Гёйгёльский район",
    "Фонв’єй",
    "Азербејџан",
    "iPhone和iPad",
    "联通",
    "5°C – 7°C, ROSÉ™",
    "chybný přepínač – x",
    "non « commité », modifications",
    "What?You don't know?No.",
    "www.example.com/a?b=c",
)


@pytest.mark.parametrize("text", ["D\u043eg", "M\u043escow is big", "М\u006fсква", "\u039d\u0391\u03a4O"])
def test_a_word_of_two_scripts_is_found(text: str) -> None:
    assert "of another script" in mixed_scripts(text)
    assert PAIR_CHECKS["scripts"]("a dog", text).startswith("target: ")


def test_honest_text_is_not_accused() -> None:
    for text in (*WRITTEN, *HONEST):
        assert damage(text) == ""
        assert mend(text) == text
    for text in (*WRITTEN, *HONEST, "3D-печать, SMSка", "5 μm, 3 kΩ", "Δx, Aβ42", "хлеб c маслом"):
        assert mixed_scripts(text) == "", "these letters do not look like those of the other script"


def test_a_side_that_cannot_be_seen_is_empty() -> None:
    for text in ("", "   ", "\t\u3000", "\u200b", "\u00ad\u2060", "\u3164", "\x07"):
        assert empty_side(text, "—") == "source empty"
    assert empty_side("a", " ") == "target empty"
    assert empty_side("", "") == "source and target empty"
    assert empty_side("a", "b") == ""


def test_utf8_read_as_another_encoding_is_found_and_what_was_written_is_shown() -> None:
    by_encoding = {
        **dict.fromkeys(("cp1252", "latin-1", "cp1250"), WRITTEN),
        "gb18030": ("Schöne Grüße aus Köln!", "你好世界"),
        "cp1251": ("Привет, как дела?", "It’s – really"),
    }
    for encoding, texts in by_encoding.items():
        for text in texts:
            misread = text.encode().decode(encoding, "replace")
            if "\ufffd" not in misread:  # else nobody can have read it so
                assert damage(misread) == f"UTF-8 read as another encoding → {text}", encoding
    twice = "Grüße".encode().decode("cp1252").encode().decode("cp1252")
    assert mend(twice) == "Grüße"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sch\ufffdn", "U+FFFD stands for characters that were lost"),
        ("锟斤拷", "锟斤拷 stands for characters that were lost"),
        ("a \x96 b", "control character U+0096, in Windows-1252 –"),
        ("a\x00b", "control character U+0000"),
        ("sch?n ist es", "a question mark inside a word (sch?n)"),
    ],
)
def test_what_is_lost_is_named(text: str, said: str) -> None:
    assert damage(text) == said


MARKUP = (
    "<b>bold</b>", "a<br/>b", "<p class='x'>", "Tom &amp; Jerry", "&#8211;", f"&#{'1' * 5000};", "Q& amp A",
    "R&amp D",
)  # fmt: skip


def test_tags_and_entities_are_markup_and_other_signs_are_not() -> None:
    assert all(map(markup, MARKUP))
    for text in ("I <3 you", "a < b > c", "AT&T", "R&D; and more", "<Tom>", "x<y"):
        assert markup(text) == ""


NUMBERS = {
    "1,000 people": "1.000 Leute",
    "1.5 litres": "1,5 Liter",
    "10 000 km": "10.000 km",
    "at 3 pm": "um 15 Uhr",
    "at 5:30": "um 5.30 Uhr",
    "in the 90s": "in den 1990ern",
    "4 million": "4000000",
    "30,000 yen": "3万日元",
    "three cats": "3 Katzen",
    "2 of 3": "2 von drei",
    "٣ cats": "3 Katzen",
    "007": "7",
}


def test_the_same_number_may_be_written_in_several_ways_and_others_are_named() -> None:
    for src, tgt in NUMBERS.items():
        assert other_numbers(src, tgt) == other_numbers(tgt, src) == ""
    assert other_numbers("in 1984", "im Jahr 1948") == "1984 in the source, 1948 in the target"
    assert other_numbers("1,000 of 50", "1.000 von 60") == "50 in the source, 60 in the target"


def test_addresses_must_be_on_both_sides() -> None:
    assert other_addresses("See www.a.org.", "Siehe www.a.org!") == ""
    assert other_addresses("https://A.org/x", "https://a.org/x") == ""
    assert other_addresses("mail me@a.org", "Mail an me@b.org") == (
        "only me@a.org in the source, only me@b.org in the target"
    )
    assert other_addresses("see www.a.org", "siehe dort") == "only www.a.org in the source"
    assert other_addresses("@@ at 5 @ home", "@ zu Hause") == ""


def test_a_copied_sentence_is_told_from_a_name() -> None:
    assert copied("Keep  it up!", "keep it UP!")
    assert not copied_words("Keep it up!", "Keep it up!")
    assert copied_words("New York", "New York")
    assert not copied("New York", "New York")
    assert not copied("1 2 3 4", "1 2 3 4")
    assert not copied_words("1990", "1990")
