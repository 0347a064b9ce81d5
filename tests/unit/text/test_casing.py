"""Text in capitals or title case: read as the vocabulary has it, written in its own case again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import TokenizerConfig, TokenizerKind
from dragoman.text.alterations import in_capitals, in_title_case
from dragoman.text.casing import in_casing, usual_case
from dragoman.text.tokenizer import Tokenizer, train_tokenizer

LINES = [
    "The dog sees John in the park.",
    "A man in the park sees the big dog.",
    "John and the man don't see Berlin.",
    "Der Hund sieht John in dem Wald.",
] * 20
WORDS = ["the", "dog", "John", "man", "Berlin", "don't", "Ärger", "straße", "42", ",", "."]
KINDS: list[TokenizerKind] = ["bpe", "unigram", "words"]


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return train_tokenizer(LINES, TokenizerConfig(kind=request.param, vocab_size=400))


@pytest.mark.parametrize("text", [*LINES[:4], "The dog. The man!", "(The dog sees John.)"])
def test_text_is_read_as_the_vocabulary_has_it(tokenizer: Tokenizer, text: str) -> None:
    assert usual_case(in_capitals(text), tokenizer) == (text, "capitals")


def test_title_case_is_told_from_names_and_nouns(tokenizer: Tokenizer) -> None:
    assert usual_case("The Man Sees The Dog In The Park", tokenizer)[1] == "title"
    for text in ("John Berlin John Hund", "The Dog Sees", "Der Hund John Wald"):
        assert usual_case(text, tokenizer) == (text, "")


@pytest.mark.parametrize(
    "text",
    ["The dog", "John", "I", "", "...", "42", "狗 NBA 公园", "我喜欢NBA", "DOG кот сидит", "مرحبا DOG"],
)
def test_usual_text_and_scripts_without_case_stay(tokenizer: Tokenizer, text: str) -> None:
    assert usual_case(text, tokenizer) == (text, "")


def test_what_is_carried_over_stays(tokenizer: Tokenizer) -> None:
    text = "THE DOG SEES {Name} IN www.Wald.De, <B>JOHN</B> AND %(Man)s"
    read, casing = usual_case(text, tokenizer)
    assert read == "The dog sees {Name} in www.Wald.De, <B>John</B> and %(Man)s"
    assert in_casing(casing, read) == text


def test_a_first_word_behind_something_carried_over_begins_no_sentence(tokenizer: Tokenizer) -> None:
    assert usual_case("JOHN 42 {x} SEES", tokenizer)[0] == "John 42 {x} sees"
    assert usual_case("JOHN. SEES", tokenizer)[0] == "John. Sees"


@given(words=st.lists(st.sampled_from(WORDS), max_size=9))
def test_only_case_changes_and_comes_back(tokenizer: Tokenizer, words: list[str]) -> None:
    for altered in (in_capitals(" ".join(words)), in_title_case(" ".join(words))):
        read, casing = usual_case(altered, tokenizer)
        assert read.upper() == altered.upper()
        assert in_casing(casing, read) == (altered if casing else read)
        assert (read == altered) == (casing == "")
