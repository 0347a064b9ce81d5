"""Words and characters as tokens: how text is split, which words are known, and how they are written."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.config import TokenizerConfig
from dragoman.errors import ConfigError, DataError, RunError
from dragoman.text.normalisation import normalise
from dragoman.text.tokenizer import (
    UNK_ID,
    Tokenizer,
    load_tokenizer,
    train_tokenizer,
)
from dragoman.text.vocabulary import SPECIAL_TOKENS
from dragoman.text.words import Words, format_words

ENGLISH = ["The cat sat .", "The dog sat ,", "A cat ran !", "The cat is n't here : no !"]
GERMAN = ["Die Katze saß .", "Der Hund saß ,", "Eine Katze rannte !", "Die Katze ist nicht hier : nein !"]

spacy_installed = pytest.mark.skipif(
    importlib.util.find_spec("spacy") is None, reason="the extra spacy is not installed"
)


def words(**settings: Any) -> TokenizerConfig:
    return TokenizerConfig(kind="words", **settings)


def pieces(tokenizer: Tokenizer, text: str) -> list[str]:
    return [token.piece for token in tokenizer.tokens(text)]


SPLIT = {
    "Hello, how are you?": "Hello , how are you ?",
    "Don't! A well-known dogs' home.": "Don't ! A well-known dogs ' home .",
    "At 10:30, 3.5 m (1,000 mm).": "At 10:30 , 3.5 m ( 1,000 mm ) .",
    "In 2010. 7-9, 3. end": "In 2010 . 7-9 , 3 . end",
    "a.b x_1 -- mp3 'tis": "a . b x _ 1 - - mp3 ' tis",
    "</s><pad>": "< / s > < pad >",
    "हिन्दी में, zażółć l’eau 😀!": "हिन्दी में , zażółć l’eau 😀 !",
    "我们 去学校。": "我 们 去 学 校 。",
    "カタカナ 漢字abc": "カ タ カ ナ 漢 字 abc",
}


def test_words_numbers_and_punctuation_are_tokens() -> None:
    for text, expected in SPLIT.items():
        assert Words().split(text) == expected.split()


def test_the_vocabulary_holds_the_most_frequent_words_and_others_are_unknown() -> None:
    many = train_tokenizer([" ".join(f"w{i} " * (i + 1) for i in range(20))], words(vocab_size=10))
    assert many.vocab_size == 10
    assert pieces(many, "w19 w14 w13 w0") == ["w19", "w14", "<unk>", "<unk>"]
    assert many.decode(many.encode("w19 w0 w14")) == "w19 \ufffd w14"
    assert train_tokenizer(["\ufffd \ufffd a"], words()).encode("\ufffd") == [UNK_ID]
    frequent = train_tokenizer(["cat cat cat dog dog bird"], words(min_frequency=2))
    assert pieces(frequent, "cat dog bird") == ["cat", "dog", "<unk>"]
    with pytest.raises(DataError, match=r"nothing occurs tokenizer\.min_frequency = 4 times; lower it"):
        train_tokenizer(["cat cat cat"], words(min_frequency=4))


def test_the_unknown_rate_counts_unknown_tokens() -> None:
    tokenizer = train_tokenizer(ENGLISH, words())
    assert tokenizer.unknown_rate(iter(["The bird sat .", "fish"])) == 2 / 5
    assert tokenizer.unknown_rate(["The cat"] * 10_000 + ["bird fish"]) == 2 / 20_002
    assert tokenizer.unknown_rate([]) == 0.0


FORMATTED = {
    "hello , how are you ?": "Hello, how are you?",
    "yes ! no ? well . . .": "Yes! no? well...",
    'he said : " yes " ; " no " .': 'He said: "yes"; "no".',
    "a ( small ) dog [ 1 ] , here …": "A (small) dog [1], here…",
    "¿ qué tal ? ¡ hola !": "¿Qué tal? ¡hola!",
    '" hello " , he said': '"Hello", he said',
    "is n't": "Is n't",
    "3 dogs": "3 dogs",
    "ŉa ßa": "ŉa ßa",
    "McDonald - x": "McDonald - x",
    "- żaba": "- Żaba",
    "\ufffd cat": "\ufffd cat",
    "": "",
}


def test_formatted_output_has_a_capital_and_closed_up_punctuation() -> None:
    for text, formatted in FORMATTED.items():
        assert format_words(text.split()) == formatted
    tokenizer = train_tokenizer(["Hello, how are you? Fine."], words(lowercase=True, format_output=True))
    ids = tokenizer.encode("HELLO, how are you?")
    assert tokenizer.decode(ids) == "Hello, how are you?"
    assert tokenizer.encode(tokenizer.decode(ids)) == ids


def test_the_file_keeps_the_expression_that_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.json"
    train_tokenizer(ENGLISH, words()).save(path)
    settings = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(settings | {"pattern": "[a-z]"}))
    with pytest.raises(RunError, match="an expression that Dragoman has never written"):
        load_tokenizer(path)
    monkeypatch.setattr("dragoman.text.words.PATTERNS", {"[a-z]"})
    assert len(load_tokenizer(path).encode("The cat")) == 5


@pytest.mark.slow
@spacy_installed
def test_spacy_words_tile_the_text_and_are_formatted(tmp_path: Path) -> None:
    text = "We don't know (yet) if it's 3.5 km."
    tokenizer = train_tokenizer(
        [text], words(splitter="spacy", lowercase=True, format_output=True), lang="en"
    )
    tokenizer.save(tmp_path / "t.json")
    for each in (tokenizer, load_tokenizer(tmp_path / "t.json")):
        normal = each.normalise(text)
        assert "".join(normal[token.start : token.end] for token in each.tokens(text)) == normal
        assert each.decode(each.encode(text)) == "We don't know (yet) if it's 3.5 km."
        assert min(each.encode("</s> <s> <pad> <unk>")) >= UNK_ID


@spacy_installed
def test_a_language_that_spacy_does_not_know_is_reported() -> None:
    with pytest.raises(ConfigError, match=r'no rules for the language "qq" .*use splitter = "regex"'):
        train_tokenizer(ENGLISH, words(splitter="spacy"), lang="qq")
    anything = train_tokenizer(["it's here"], words(splitter="spacy"))
    assert pieces(anything, "it's here") == Words(splitter="spacy", language="xx").split("it's here")


def test_a_file_split_by_spacy_decodes_without_it(tmp_path: Path) -> None:
    spec = {"kind": "words", "splitter": "spacy", "language": "en", "format_output": True, "lowercase": False}
    (tmp_path / "t.json").write_text(json.dumps(spec | {"vocabulary": [*SPECIAL_TOKENS, "do", "n't", "!"]}))
    assert load_tokenizer(tmp_path / "t.json").decode([4, 5, 6]) == "Don't!"


# Characters

CHARACTERS = TokenizerConfig(kind="characters")
CHINESE = ["我们去学校。", "你好！", "他 3 点 去 2010 年的学校。"]
MIXED = ["The cat sat.", "e\u0301te\u0301 😀👩‍👩‍👧"]


@pytest.fixture(scope="module")
def characters() -> Tokenizer:
    return train_tokenizer(CHINESE + MIXED, CHARACTERS)


def test_every_character_is_a_token(characters: Tokenizer) -> None:
    assert [token.piece for token in characters.tokens(" 我们去 3\t点。")] == [*"我们去▁3▁点。"]
    known = set("".join(map(normalise, CHINESE + MIXED)))
    assert characters.vocab_size == len(SPECIAL_TOKENS) + len(known)


def test_unknown_characters_are_counted_and_written_as_replacement_characters(characters: Tokenizer) -> None:
    assert characters.encode("鱼我")[0] == UNK_ID
    assert characters.decode(characters.encode("鱼 我")) == "\ufffd 我"


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
