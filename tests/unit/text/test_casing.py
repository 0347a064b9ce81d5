"""Text in capitals or title case: read as the vocabulary has it, written in its own case again."""

import sys
import unicodedata
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import TokenizerConfig, TokenizerKind
from dragoman.text.alterations import in_capitals, transformations
from dragoman.text.tokenizer import Tokenizer, train_tokenizer
from dragoman.text.transformations import Casing, Transformations

LINES = [
    "The dog sees John in the park.",
    "A man in the park sees the big dog.",
    "John and the man don't see Berlin.",
    "Der Hund sieht John in dem Wald.",
    "Die Straße ist heute gesperrt.",
    "İyi bir gün ve ılık bir akşam.",
] * 20
KINDS: list[TokenizerKind] = ["bpe", "unigram", "words"]


def usual_case(text: str, tokenizer: Tokenizer, language: str) -> tuple[str, Casing]:
    listed = transformations([language, ""], slots=False)
    return Transformations(listed, tokenizer.encode_batch).usual_case(text)


def in_casing(casing: Casing, text: str, language: str) -> str:
    return Transformations(transformations(["", language], slots=False)).in_casing(text, casing)


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return train_tokenizer(LINES, TokenizerConfig(kind=request.param, vocab_size=400))


def test_text_is_read_as_the_vocabulary_has_it(tokenizer: Tokenizer) -> None:
    for text in (*LINES[:4], "The dog. The man!", "(The dog sees John.)"):
        assert usual_case(in_capitals(text, "en"), tokenizer, "en") == (text, "capitals")
    for text in ("The dog", "John", "I", "", "...", "42", "狗 NBA 公园", "我喜欢NBA", "DOG кот сидит"):
        assert usual_case(text, tokenizer, "en") == (text, ""), "it is usual, or of a script without case"


def test_title_case_is_told_from_names_and_nouns(tokenizer: Tokenizer) -> None:
    assert usual_case("The Man Sees The Dog In The Park", tokenizer, "en")[1] == "title"
    for text in ("John Berlin John Hund", "The Dog Sees", "Der Hund John Wald"):
        assert usual_case(text, tokenizer, "en") == (text, "")


def test_what_is_carried_over_stays(tokenizer: Tokenizer) -> None:
    text = "THE DOG SEES {Name} IN www.Wald.De, <B>JOHN</B> AND %(Man)s"
    assert usual_case("JOHN 42 {x} SEES", tokenizer, "en")[0] == "John 42 {x} sees"
    read, casing = usual_case(text, tokenizer, "en")
    assert read == "The dog sees {Name} in www.Wald.De, <B>John</B> and %(Man)s"
    assert in_casing(casing, read, "en") == text


@pytest.mark.parametrize("language", ["tr", "az-Latn", "TUR"])
def test_turkish_has_a_dotted_and_a_dotless_i(tokenizer: Tokenizer, language: str) -> None:
    capitals, line = "İYİ BİR GÜN VE ILIK BİR AKŞAM.", LINES[5]
    for form in ("NFC", "NFD"):
        assert usual_case(unicodedata.normalize(form, capitals), tokenizer, language) == (line, "capitals")
    assert in_casing("capitals", line, language) == capitals
    assert in_casing("title", line, language) == "İyi Bir Gün Ve Ilık Bir Akşam."


def test_letters_without_a_capital_of_their_own_count_for_neither_case(tokenizer: Tokenizer) -> None:
    assert usual_case("DIE STRAßE IST HEUTE GESPERRT.", tokenizer, "de") == (LINES[4], "capitals")
    assert usual_case("STRAßE GESPERRT", tokenizer, "de") == ("Straße gesperrt", "capitals")
    assert usual_case("ßß", tokenizer, "de") == ("ßß", "")


SHORT = SimpleNamespace(encode_batch=lambda texts: [[0] * len(text) for text in texts])
"""The shortest form of a word is that of the vocabulary."""


def assert_case_comes_back(text: str, language: str) -> None:
    """Case and composition aside, and the two letters i, the text is the same."""
    read, casing = usual_case(text, SHORT, language)  # type: ignore[arg-type]
    assert casing or read == text
    back = (unicodedata.normalize("NFC", each) for each in (in_casing(casing, read, language), text))
    one, other = (unicodedata.normalize("NFC", each.replace("ı", "i").casefold()) for each in back)
    assert one.replace("i̇", "i") == other.replace("i̇", "i")


@given(words=st.lists(st.text(), max_size=6), language=st.sampled_from(["en", "tr"]))
def test_any_text_is_read_and_comes_back(words: list[str], language: str) -> None:
    for text in (" ".join(words), " ".join(words).upper(), " ".join(words).title()):
        assert_case_comes_back(text, language)


@pytest.mark.nightly
def test_every_letter_with_case_is_read_and_comes_back() -> None:
    for c in filter(lambda c: c.lower() != c.upper(), map(chr, range(sys.maxunicode + 1))):
        for text in (f"{c}STANBUL VE", f"STRA{c}E VE", f"{c}stanbul Ve Ankara Çok", f"Ve Ank{c}ra Çok Güzel"):
            assert_case_comes_back(text, "tr")
            assert_case_comes_back(text, "de")
