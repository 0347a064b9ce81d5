"""What comes back from the ids of every string there is.

Subwords: the text's normal form. Characters: that, with a replacement character for each that is unknown.
Words: text with the same ids.
"""

import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.config import TokenizerConfig
from dragoman.text.normalisation import normalise, normalise_lowercase
from dragoman.text.tokenizer import UNK_ID, Tokenizer, train_tokenizer

CORPUS = [
    "Two young men, 12 dogs.",
    "Zwei Büsche, 我们 去 学校。",
    "e\u0301te\u0301 😀👩‍👩‍👧",
    "<s> </s> <0x41>",
] * 5
WORD_CORPUS = [*CORPUS, 'He said: "don\'t (ever) go!" [...] ¿qué? 10:30; 3.5 ﬁ Å ς Σ \u0301x']


def trained(kind: str, corpus: Sequence[str] = CORPUS, **settings: Any) -> Tokenizer:
    return train_tokenizer(corpus, TokenizerConfig(kind=kind, vocab_size=340, **settings))


TOKENIZERS = {kind: trained(kind) for kind in ("bpe", "unigram")}
LOWERCASE = {kind: trained(kind, lowercase=True) for kind in ("bpe", "unigram")}
DROPPING = trained("bpe", dropout=0.3)
CHARACTERS = trained("characters")
WORDS = {
    "plain": trained("words", WORD_CORPUS),
    "lowercase": trained("words", WORD_CORPUS, lowercase=True),
    "formatted": trained("words", WORD_CORPUS, lowercase=True, format_output=True),
}
WHOLE = {**WORDS, "characters": CHARACTERS}

ASTRAL = st.characters(min_codepoint=0x1F000, max_codepoint=0x1FAFF)
MARKS = st.characters(categories=("Mn", "Mc", "Me"))
HAN = st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF)
CONTROLS = st.characters(categories=("Cc", "Cf", "Zs", "Zl", "Zp", "Cn", "Co"))
SPACES_AND_SPECIALS = (
    "\u2581", "\ufeff", "\ufffd", "\ufffe", "\uffff", "\x00", "\x1f", "\x85", "\u200d", "\ufe0f", " ",
    "\ud800", "\udfff", "</s>", "<pad>", "<unk>", "<0x41>", "<0xE6>",
)  # fmt: skip
SCRIPTS = (
    "de", "Two", "我们", "▁▁", "ﬁ", "Å", "가", "ᄀ", "ᅡ",
    "\U0001f1e9\U0001f1ea", "\U0001f469\u200d\U0001f4bb",
)  # fmt: skip
ODD = st.sampled_from(SPACES_AND_SPECIALS + SCRIPTS)
TEXTS = st.one_of(
    st.text(),
    st.lists(st.one_of(ASTRAL, MARKS, HAN, CONTROLS, ODD, st.characters()), max_size=30).map("".join),
)


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(text=TEXTS)
@example(text="\u2581 \u2581a")
@example(text="\ud83d\ude00")
@example(text=" \u0301x")
@example(text="</s><0x41>")
@settings(max_examples=400)
def test_every_string_decodes_to_its_normal_form(kind: str, text: str) -> None:
    tokenizer = TOKENIZERS[kind]
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == normalise(text)
    assert all(4 <= i < tokenizer.vocab_size for i in ids)
    assert bool(ids) == bool(normalise(text))
    assert tokenizer.encode_batch([text, "x"])[0] == ids


@given(text=TEXTS)
@settings(max_examples=200)
def test_dropout_changes_no_text(text: str) -> None:
    (ids,) = DROPPING.encode_batch([text], dropout=np.random.default_rng(1))
    assert DROPPING.decode(ids) == normalise(text)


@pytest.mark.parametrize("kind", LOWERCASE)
@given(text=TEXTS)
@example(text="İΑΣ Σ")
@settings(max_examples=200)
def test_every_string_decodes_to_its_lower_case(kind: str, text: str) -> None:
    tokenizer = LOWERCASE[kind]
    assert tokenizer.decode(tokenizer.encode(text)) == normalise_lowercase(text) == tokenizer.normalise(text)


@given(text=TEXTS)
@settings(max_examples=400)
def test_characters_decode_to_the_normal_form_but_for_unknown_ones(text: str) -> None:
    known = set("".join(map(normalise, CORPUS)))
    expected = "".join(c if c in known else "\ufffd" for c in normalise(text))
    assert CHARACTERS.decode(CHARACTERS.encode(text)) == expected


@pytest.mark.parametrize("kind", WORDS)
@given(text=TEXTS, data=st.data())
@example(text='(a" :.', data=None)
@example(text="\u0345x", data=None)
@settings(max_examples=400)
def test_what_words_decode_to_has_the_same_ids(kind: str, text: str, data: st.DataObject | None) -> None:
    tokenizer = WORDS[kind]
    ids = tokenizer.encode(text)
    assert tokenizer.encode(tokenizer.decode(ids)) == ids
    assert bool(ids) == bool(normalise(text))
    assert all(UNK_ID <= i < tokenizer.vocab_size for i in ids)
    if data is not None:  # all sequences of words are read back as they were written
        ids = data.draw(st.lists(st.integers(UNK_ID, tokenizer.vocab_size - 1), max_size=20))
        assert tokenizer.encode(tokenizer.decode(ids)) == ids


@pytest.mark.parametrize("kind", [*TOKENIZERS, *WHOLE])
@given(text=TEXTS)
@settings(max_examples=200)
def test_the_spans_of_tokens_tile_every_string(kind: str, text: str) -> None:
    tokenizer = {**TOKENIZERS, **WHOLE}[kind]
    tokens = tokenizer.tokens(text)
    assert [token.id for token in tokens] == tokenizer.encode(text)
    spans = list(dict.fromkeys((token.start, token.end) for token in tokens))
    normal = tokenizer.normalise(text)
    assert "".join(normal[start:end] for start, end in spans) == normal


@given(text=TEXTS)
@settings(max_examples=400)
def test_normalisation_is_idempotent_composed_and_of_single_spaces(text: str) -> None:
    normal = normalise(text)
    assert normalise(normal) == normal
    assert unicodedata.is_normalized("NFC", normal)
    assert normal.split() == ([] if not normal else normal.split(" "))
    assert "\u2581" not in normal
    normal.encode("utf-8")
    lower = normalise_lowercase(text)
    assert normalise_lowercase(lower) == normalise(lower) == lower == lower.lower()


@given(ids=st.lists(st.integers(min_value=0, max_value=400)))
@settings(max_examples=200)
def test_all_ids_decode_to_text(ids: list[int]) -> None:
    for tokenizer in (*TOKENIZERS.values(), *WHOLE.values()):
        tokenizer.decode(ids).encode("utf-8")


def test_every_assigned_character_survives_and_its_lower_case_is_stable() -> None:
    characters = [chr(c) for c in range(0x110000)]
    assigned = [c for c in characters if unicodedata.category(c) not in ("Cn", "Co", "Cs")]
    texts = ["x".join(assigned[i : i + 16]) for i in range(0, len(assigned), 16)]
    for tokenizer in TOKENIZERS.values():
        assert tokenizer.decode_batch(tokenizer.encode_batch(texts)) == [normalise(text) for text in texts]
    for c in characters:
        if c.lower() != c:
            lower = normalise_lowercase("x" + c)
            assert normalise_lowercase(lower) == lower == normalise(lower)
