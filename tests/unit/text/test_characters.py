"""Characters as tokens: nothing is lost but what training never showed."""

import pytest

from dragoman.config import TokenizerConfig
from dragoman.errors import DataError
from dragoman.text.normalisation import normalise
from dragoman.text.tokenizer import UNK_ID, Tokenizer, train_tokenizer
from dragoman.text.vocabulary import SPECIAL_TOKENS

CHARACTERS = TokenizerConfig(kind="characters")
CHINESE = ["我们去学校。", "你好！", "他 3 点 去 2010 年的学校。"]
ENGLISH = ["The cat sat.", "e\u0301te\u0301 😀👩‍👩‍👧"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(CHINESE + ENGLISH, CHARACTERS)


def test_every_character_is_a_token(tokenizer: Tokenizer) -> None:
    assert [token.piece for token in tokenizer.tokens(" 我们去 3\t点。")] == [*"我们去▁3▁点。"]
    known = set("".join(map(normalise, CHINESE + ENGLISH)))
    assert tokenizer.vocab_size == len(SPECIAL_TOKENS) + len(known)


def test_unknown_characters_are_counted_and_written_as_replacement_characters(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("鱼我")[0] == UNK_ID
    assert tokenizer.decode(tokenizer.encode("鱼 我")) == "\ufffd 我"


def test_the_most_frequent_characters_are_kept() -> None:
    texts = ["aaaabbbccd"]
    assert train_tokenizer(texts, CHARACTERS.model_copy(update={"min_frequency": 2})).vocab_size == 4 + 3
    lower = train_tokenizer(["AaBb我"], CHARACTERS.model_copy(update={"lowercase": True}))
    assert lower.vocab_size == 4 + 3
    assert lower.decode(lower.encode("BA 我")) == "ba\ufffd我"
    small = train_tokenizer(["abcdefgh" * 2 + "aabbcc"], CHARACTERS.model_copy(update={"vocab_size": 10}))
    assert small.encode("abcdefgh") == [4, 5, 6, 7, 8, 9, UNK_ID, UNK_ID]
    with pytest.raises(DataError, match=r"nothing occurs tokenizer\.min_frequency = 9 times"):
        train_tokenizer(texts, CHARACTERS.model_copy(update={"min_frequency": 9}))
