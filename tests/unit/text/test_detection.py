"""Languages: of a text, by their codes, and by their names."""

import pytest

pytest.importorskip("py3langid")

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.text.languages import NAMES, detect, known, name_of

TEXTS = {
    "en": "The old house stands by the river.",
    "de": "Das alte Haus steht am Fluss.",
    "pl": "Stary dom stoi nad rzeką.",
    "zh": "那座老房子在河边。",
    "ar": "يقف البيت القديم عند النهر.",
    "ru": "Старый дом стоит у реки.",
}


def test_the_language_of_a_sentence_is_found_and_has_a_name() -> None:
    for language, text in TEXTS.items():
        assert detect(text)[0].language == detect(text, TEXTS)[0].language == language
    assert {each.language for each in detect("x") if len(each.language) == 2} <= NAMES.keys()
    assert (name_of("de"), name_of("zh-Hans"), name_of("tlh")) == ("German", "Chinese (simplified)", "tlh")


@pytest.mark.slow
@settings(max_examples=30)
@given(text=st.text(), among=st.lists(st.sampled_from([*TEXTS, "xx"]), min_size=1))
def test_confidences_of_any_text_fall_and_add_to_one(text: str, among: list[str]) -> None:
    for languages in (None, among):
        found = detect(text, languages)
        confidences = [each.confidence for each in found]
        assert confidences == sorted(confidences, reverse=True)
        if languages is None:
            assert sum(confidences) == pytest.approx(1)
        else:
            assert sorted(found) == sorted(
                each for each in [*detect(text), ("xx", 0.0)] if each[0] in languages
            )


def test_a_variant_is_told_as_its_language_and_the_first_of_equals_comes_first() -> None:
    (chinese,) = detect(TEXTS["zh"], ["zh"])
    for variants in (["zt", "zh-Hant", "zh_CN"], ["zh_CN", "zt", "zh-Hant"]):
        assert detect(TEXTS["zh"], ["pb", *variants])[:3] == [(code, chinese.confidence) for code in variants]


def test_a_code_means_the_same_language_however_it_is_written() -> None:
    for code, among, found in (
        ("DE", ["en", "de"], "de"),
        ("de", ["DE"], "DE"),
        ("zh-Hans", ["zh"], "zh"),
        ("zh", ["zh-Hans"], "zh-Hans"),
        ("zt", ["zh", "zh-Hant"], "zh-Hant"),
        ("pt-BR", ["pt-BR", "pb"], "pt-BR"),
        ("pt", ["pb"], "pb"),
        ("pt", ["en", "pt-PT", "pb"], None),
        ("pt_BR", ["pb"], "pb"),
        ("pt-PT", ["pb"], None),
        ("en-US", ["de", "en"], "en"),
        ("zh-TW", ["zh", "zt"], "zt"),
        ("sr-Latn", ["sr-Cyrl", "sr"], None),
        ("", ["en"], None),
    ):
        assert known(code, among) == found, code
