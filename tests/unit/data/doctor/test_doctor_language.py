"""Scripts and languages: what is foreign is found and named, what is at home is not."""

import pytest

from dragoman.data.doctor.language import (
    MIN_LINES,
    LanguageFaults,
    check_languages,
    profiles,
    script_of,
    scripts_of_language,
)
from faulty import phrases, sides_of


def check(
    pairs: list[tuple[str, str]], src_lang: str | None = "en", tgt_lang: str | None = "de"
) -> LanguageFaults:
    return check_languages(*sides_of(pairs), langs=(src_lang, tgt_lang))


def found(faults: LanguageFaults) -> dict[str, dict[int, str]]:
    return {kind: lines for kind, lines in faults.lines.items() if lines}


@pytest.mark.parametrize(("src_lang", "tgt_lang"), [("en", "de"), ("en", "pl"), ("en", "zh"), ("de", "pl")])
def test_honest_text_is_at_home(src_lang: str, tgt_lang: str) -> None:
    faults = check(phrases(1000, src_lang=src_lang, tgt_lang=tgt_lang), src_lang, tgt_lang)
    assert found(faults) == {}
    assert faults.whole == []
    assert faults.notes == []


def test_swapped_sides_are_told_from_one_wrong_side() -> None:
    pairs = phrases(1000)
    pairs[10] = pairs[10][::-1]
    pairs[20] = (pairs[20][0], pairs[500][0])
    pairs[30] = (pairs[600][1], pairs[30][1])
    assert found(check(pairs)) == {
        "swapped": {10: "by their letters"},
        "language": {20: "target looks like en", 30: "source looks like de"},
    }


def test_scripts_tell_at_once() -> None:
    pairs = phrases(1000, tgt_lang="zh")
    pairs[10] = pairs[10][::-1]
    pairs[20] = (pairs[20][0], "This is not Chinese.")
    pairs[30] = ("Это не по-английски", pairs[30][1])
    pairs[40] = ("I use Twitter.", "我用Twitter。")
    assert found(check(pairs, tgt_lang="zh")) == {
        "swapped": {10: "by their scripts"},
        "script": {20: "target in latin script", 30: "source in cyrillic script"},
    }


@pytest.mark.parametrize(("rare", "usual"), [("traditional", "simplified"), ("simplified", "traditional")])
def test_chinese_in_the_rarer_kind_of_characters_is_found(rare: str, usual: str) -> None:
    texts = {"traditional": "這是我的書。", "simplified": "这是我的书。", "either": "我是王大明。"}
    targets = [texts[usual]] * 998 + [texts["either"]]
    targets[500], targets[700] = texts[rare], texts["traditional"] + texts["simplified"]
    expected = f"target in {rare} characters"
    faults = check([(f"This is my book {i}.", target) for i, target in enumerate(targets)], tgt_lang="zh")
    assert found(faults) == {"characters": {500: expected, 700: expected}}


def test_japanese_has_its_own_characters() -> None:
    pairs = [("This is my country.", "これは私の国です。"), ("I am a doctor.", "私は醫師です。")] * 200
    assert found(check(pairs, tgt_lang="ja")) == {}


def test_declared_languages_are_compared_with_what_is_there() -> None:
    pairs = phrases(400)
    exchanged = [(tgt, src) for src, tgt in pairs]
    assert check(exchanged).whole == [
        "the source is declared as en, but its short words are those of de",
        "the target is declared as de, but its short words are those of en",
    ]
    assert check(exchanged, "de-AT", "en_GB").whole == []
    assert check(pairs, None, None).whole == []
    assert check(pairs, "ru", "de").whole == ["the source is declared as ru, but written in latin script"]
    assert check(pairs, "xx", "de").whole == []


def test_in_a_small_corpus_only_scripts_are_judged() -> None:
    pairs = phrases(MIN_LINES - 1)
    pairs[10] = pairs[10][::-1]
    pairs[20] = (pairs[20][0], "Это по-русски")
    faults = check(pairs)
    assert found(faults) == {"script": {20: "target in cyrillic script"}}
    assert faults.notes == [f"languages were judged by script only: fewer than {MIN_LINES} pairs"]


def test_a_third_language_is_named() -> None:
    texts = {
        "fr": "Il est très content parce que nous sommes dans la maison avec elle.",
        "es": "No sé por qué ella está aquí con nosotros, pero es muy bueno.",
        "it": "Non so perché lei è qui con noi, ma questo è molto bello.",
        "pl": "Nie wiem, dlaczego ona jest tutaj, ale to jest bardzo dobre.",
        "nl": "Ik weet niet waarom zij hier is, maar het is heel goed voor ons.",
        "sv": "Jag vet inte varför hon är här, men det är mycket bra för oss.",
    }
    pairs = phrases(1000)
    for i, text in enumerate(texts.values()):
        pairs[100 * i] = (pairs[100 * i][0], text)
    expected = {100 * i: f"target looks like {lang}" for i, lang in enumerate(texts)}
    assert found(check(pairs)) == {"language": expected}


def test_every_letter_has_its_script_and_so_has_every_language() -> None:
    letters = {"latin": "aßł\uff21", "greek": "ω", "cyrillic": "ж", "hebrew": "ש", "arabic": "ع", "thai": "ก"}
    letters |= {"devanagari": "अ", "hangul": "한", "kana": "か", "han": "中\U00020000"}
    for script, characters in letters.items():
        assert {script_of(char) for char in characters} == {script}
    for lang, profile in profiles().items():
        assert profile.script in scripts_of_language(lang)
        assert {script_of(word[0]) for word in profile.words} == {profile.script}, lang
