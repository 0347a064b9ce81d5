"""What is protected comes out as it went in, whatever the translator does."""

import pickle
import re
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import ConfigError
from dragoman.predict import protection as protection_module
from dragoman.predict.protection import Protection
from dragoman.predict.results import Alternative, Link, Translation
from dragoman.predict.translator import Translator, translate_protected
from flows import answering, saying

WORDS = ("red", "cat", "two", "big,", "(old", "house)", ".", "3rd", "日本", "é")
SPANS = (
    "3", "12.50", "https://a.org/x?y=1,2", "www.b.com", "me@x.org", "{name}", "{0}", "%s", "%1$d", "${x}",
    "<b>", "</b>", "<i class='a'>", "</i>", "<br/>", "<p>", "</p>", "&amp;", "<!-- 3 -->",
)  # fmt: skip
PIECES = st.sampled_from([*WORDS, *SPANS, *SPANS])
TEXTS = st.lists(st.tuples(PIECES, st.sampled_from(["", " ", " ", "  "])), max_size=10).map(
    lambda pieces: "".join(piece + gap for piece, gap in pieces)
)
HOSTILE: dict[str, Callable[[str], str]] = {
    "identity": lambda text: text,
    "silence": lambda text: "",
    "twice": lambda text: f"{text} {text}",
    "reverse": lambda text: " ".join(reversed(text.split())),
    "capitals": str.upper,
    "no spaces": lambda text: "".join(text.split()),
    "numbers": lambda text: re.sub("two|red", "3", text),
    "spans of its own": lambda text: " ".join([*SPANS, text]),
    "letters": lambda text: "x" * len(text),
}


def assert_protected(protection: Protection, source: str, output: str) -> None:
    """The law: every span of the source is in the output as often."""
    wanted = Counter(span.text for span in protection.spans(source))
    found = Counter(span.text for span in protection.spans(output))
    assert {text: found[text] for text in wanted} == wanted


@pytest.mark.slow
def test_tags_may_be_nested_as_deep_as_they_like(translator: Translator) -> None:
    n = 5000
    texts = ["<b>" * n + "red" + "</b>" * n + " cat", "<i>" * n + "red cat", "red cat" + "</i>" * n]
    protection = Protection(["tags"])
    links = [Link(0, 3, 0, 3, 1.0), Link(4, 7, 4, 7, 1.0)]
    with answering(saying(lambda text: text), lambda translations: [links for _ in translations]):
        translations = translate_protected(translator, texts, protection)
    assert [translation.text for translation in translations] == texts


@settings(max_examples=60)
@given(st.lists(TEXTS, min_size=1, max_size=3), st.sampled_from(sorted(HOSTILE)))
def test_every_span_survives_every_translator(translator: Translator, texts: list[str], name: str) -> None:
    protection = Protection()
    with answering(saying(HOSTILE[name])):
        found = translate_protected(translator, texts, protection)
    for text, translation in zip(texts, found, strict=True):
        assert bool(translation.outcome) == bool(protection.spans(text))
        assert translation.source == text
        assert_protected(protection, text, translation.text)
        assert translation.alternatives[0] == (translation.text, translation.score)
        if translation.outcome == "put back":
            spans = [span.text for span in protection.spans(text) if not span.tag]
            there = [span.text for span in protection.spans(translation.text) if span.text in spans]
            assert there == spans


@pytest.mark.slow
@settings(max_examples=25)
@given(st.lists(TEXTS, min_size=1, max_size=3))
def test_every_span_survives_the_model(translator: Translator, texts: list[str]) -> None:
    for text, translation in zip(texts, translate_protected(translator, texts, Protection()), strict=True):
        assert_protected(Protection(), text, translation.text)


@settings(max_examples=60)
@given(st.recursive(
    st.sampled_from(["red", "cat,", "two dogs"]),
    lambda inner: st.tuples(st.sampled_from("biu"), st.lists(inner, min_size=1, max_size=3)).map(
        lambda made: f"<{made[0]}>{' '.join(made[1])}</{made[0]}>"
    ),
    max_leaves=6,
), st.sampled_from(["identity", "reverse", "capitals", "letters"]))  # fmt: skip
def test_balanced_tags_stay_balanced(translator: Translator, text: str, name: str) -> None:
    with answering(saying(HOSTILE[name])):
        found = translate_protected(translator, [text], Protection(["tags"]))
    unclosed: list[str] = []
    for closes, tag in re.findall(r"<(/?)(\w)>", found[0].text):
        if closes:
            assert unclosed.pop() == tag
        else:
            unclosed.append(tag)
    assert not unclosed


def linked_by(pairs: dict[str, str]) -> Callable[[Sequence[Translation]], list[list[Link]]]:
    """An alignment that links each word of the source with its translation."""
    return lambda translations: [
        [
            Link(s := t.source.index(src), s + len(src), e := t.text.index(tgt), e + len(tgt), 1.0)
            for src, tgt in pairs.items()
            if src in t.source and tgt in t.text
        ]
        for t in translations
    ]


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("a <b>red</b> car", "une voiture rouge", "une voiture <b>rouge</b>"),
        ("a <b>red</b> <i>car</i>", "une voiture rouge", "une <i>voiture</i> <b>rouge</b>"),
        ("<p>a <b>red car</b></p>", "une voiture rouge", "<p>une <b>voiture rouge</b></p>"),
        ("a red<br/> car", "une voiture rouge", "une voiture rouge<br/>"),
        ("a red car <b></b>", "une voiture rouge", "une voiture<b></b> rouge"),
        ("<u>fast</u> red car", "voiture rouge", "voiture <u></u>rouge"),
        ("a red car {x}.", "une voiture rouge.", "une voiture rouge {x}."),
        ("a {x} car", "une voiture", "une {x} voiture"),
        ("<b>{x}</b> car", "une voiture", "une <b>{x}</b> voiture"),
        ("a red car: <b>{x}</b>", "une voiture rouge", "une voiture <b>{x}</b> rouge"),
        ("sky <i>blue</i> 3", "bleu ciel", "bleu ciel<i></i> 3"),
    ],
)  # fmt: skip
def test_spans_come_to_the_words_that_are_aligned(
    translator: Translator, source: str, translation: str, expected: str
) -> None:
    words = {"a ": "une ", "red": "rouge", "car": "voiture", ".": "."}
    with answering(saying(lambda _: translation), linked_by(words)):
        found = translate_protected(translator, [source], Protection())
    assert found[0].text == expected


def test_what_is_copied_is_left_where_the_model_put_it(translator: Translator) -> None:
    with answering(saying(HOSTILE["reverse"])):
        found = translate_protected(translator, ["no span", "3 cats", "two 3"], Protection())
    assert [translation.text for translation in found] == ["span no", "cats 3", "3 two"]
    assert [translation.outcome for translation in found] == ["", "copied", "copied"]


def test_an_alternative_that_holds_the_spans_is_preferred(translator: Translator) -> None:
    alternatives = (Alternative("drei Katzen", -1.0), Alternative("3 Katzen", -2.0), Alternative("3 3", -3.0))

    def translate(texts: Sequence[str]) -> list[Translation]:
        return [Translation(text, alternatives) for text in texts]

    with answering(translate):
        (found,) = translate_protected(translator, ["3 cats"], Protection())
    assert (found.text, found.score, found.alternatives) == ("3 Katzen", -2.0, alternatives[1:2])


def test_alignment_and_caller_get_the_text_in_a_pivot_language(translator: Translator) -> None:
    aligned: list[str] = []

    def translate(texts: Sequence[str]) -> list[Translation]:
        return [Translation(text, (Alternative("une voiture", 0.0),), through="a car") for text in texts]

    def align(translations: Sequence[Translation]) -> list[list[Link]]:
        aligned.extend(translation.through for translation in translations)
        return [[] for _ in translations]

    texts = ["ein <b>Auto</b>", "ein Auto"]
    with answering(translate, align):
        found = translate_protected(translator, texts, Protection())
    assert aligned == ["a car"]
    assert [translation.through for translation in found] == ["a car"] * 2


def test_a_span_that_is_written_again_and_again_leaves_the_text_as_it_is(translator: Translator) -> None:
    with answering(saying(lambda _: "3 3")):
        (found,) = translate_protected(translator, ["3 cats"], Protection())
    assert (found.text, found.outcome) == ("3 cats", "untranslated")


@pytest.mark.parametrize(
    ("kind", "text", "spans"),
    [
        ("numbers", "3 dogs, 1,000.50 or 10:30 on 2024-01-05; B2B, 3rd, v2, 有3只",
         ["3", "1,000.50", "10:30", "2024-01-05", "3"]),
        ("numbers", "-5 °C, +3 %, −$5.50; € 12.50 (7 km/h), 5% of 3 men, 50%.",
         ["-5 °C", "+3 %", "−$5.50", "€ 12.50", "7 km/h", "5%", "3", "50%"]),
        ("numbers", "x-5, 5-10 km, US$5, 8 pm 8 am Tag, 3 l'autre, 3{x} 12 min 1990s 10 EUR",
         ["5", "5-10 km", "$5", "8 pm", "8", "3", "3", "12 min", "10 EUR"]),
        ("numbers", "+49 (0)30 123-78 or (030) 12345, 030/123 45; (555) 123-4567, 01 23 45 67 89. +5 10",
         ["+49 (0)30 123-78", "(030) 12345", "030/123 45", "(555) 123-4567", "01 23 45 67 89", "+5", "10"]),
        ("urls", "See https://a.org/b_(c)?d=1. Or www.x.de, awww.no",
         ["https://a.org/b_(c)?d=1", "www.x.de"]),
        ("emails", "<jane.doe@mail.example.org>, no@where, a@b.c.", ["jane.doe@mail.example.org", "a@b.c"]),
        ("tags", "1 < 2 <b>x</b> <a href=\"a>b\" id='c'>y</a> <br/> a< b >d &nbsp; & co; <!-- <i> -->",
         ["<b>", "</b>", "<a href=\"a>b\" id='c'>", "</a>", "<br/>", "&nbsp;", "<!-- <i> -->"]),
        ("tags", "a<b and c>d, i<n && j>m <td NoWrap x> <p id = 'a' b>", ["<td NoWrap x>", "<p id = 'a' b>"]),
        ("placeholders", "{name} {0} {{x y}} ${HOME} {} %s %d%% %1$s %(n)s %.2f 100% sure { no }",
         ["{name}", "{0}", "{{x y}}", "${HOME}", "{}", "%s", "%d", "%1$s", "%(n)s", "%.2f"]),
    ],
)  # fmt: skip
def test_each_kind_finds_its_own(kind: str, text: str, spans: list[str]) -> None:
    assert [span.text for span in Protection([kind]).spans(text)] == spans


def test_spans_do_not_overlap_and_patterns_come_first() -> None:
    protection = Protection(patterns=[r"Boeing \d+", "3 {2}cats"])
    text = "Boeing 747 at https://x.org/747 and 3  cats"
    assert [s.text for s in protection.spans(text)] == ["Boeing 747", "https://x.org/747", "3  cats"]
    assert all(text[s.start : s.end] == s.text for s in protection.spans(text))


def test_unknown_kinds_and_bad_patterns_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ConfigError, match='"names" cannot be protected; there are tags, urls, emails, placeh'
    ):
        Protection(["names"])
    with pytest.raises(ConfigError, match=r"nested too deeply\); correct it"):
        Protection((), ["(" * 1000 + ")" * 1000])
    monkeypatch.setattr(protection_module, "MATCH_SECONDS", 0.1)
    stuck = pickle.loads(pickle.dumps(Protection((), ["(a|aa)+$"])))
    with pytest.raises(ConfigError, match=r"was not done with 'a{40}' in 0\.1 s; write one that matches"):
        stuck.spans("a" * 60 + "b")
    with pytest.raises(ConfigError, match=r"'\[a': is no regular expression \(unterminated character set"):
        Protection([], ["[a"])
