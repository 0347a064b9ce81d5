"""Every string there is comes back from its ids as its normal form."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.config import TokenizerConfig
from dragoman.text.normalisation import normalise
from dragoman.text.tokenizer import Tokenizer

CORPUS = [
    "Two young men, 12 dogs.",
    "Zwei Büsche, 我们 去 学校。",
    "e\u0301te\u0301 😀👩‍👩‍👧",
    "<s> </s> <0x41>",
] * 5
TOKENIZERS = {
    kind: Tokenizer.train(CORPUS, TokenizerConfig(kind=kind, vocab_size=340))  # type: ignore[arg-type]
    for kind in ("bpe", "unigram")
}
DROPPING = Tokenizer.train(CORPUS, TokenizerConfig(kind="bpe", vocab_size=340, dropout=0.3))

ASTRAL = st.characters(min_codepoint=0x1F000, max_codepoint=0x1FAFF)
MARKS = st.characters(categories=("Mn", "Mc", "Me"))
HAN = st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF)
CONTROLS = st.characters(categories=("Cc", "Cf", "Zs", "Zl", "Zp", "Cn", "Co"))
SPACES_AND_SPECIALS = (
    "\u2581", "\ufeff", "\ufffd", "\ufffe", "\uffff", "\x00", "\x1f", "\x85", "\u200d", "\ufe0f", " ",
    "\ud800", "\udfff", "</s>", "<pad>", "<unk>", "<0x41>", "<0xE6>",
)  # fmt: skip
SCRIPTS = (
    "de",
    "Two",
    "我们",
    "▁▁",
    "ﬁ",
    "Å",
    "가",
    "ᄀ",
    "ᅡ",
    "\U0001f1e9\U0001f1ea",
    "\U0001f469\u200d\U0001f4bb",
)
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
@settings(max_examples=400, deadline=None)
def test_every_string_decodes_to_its_normal_form(kind: str, text: str) -> None:
    tokenizer = TOKENIZERS[kind]
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == normalise(text)
    assert all(4 <= i < tokenizer.vocab_size for i in ids)
    assert bool(ids) == bool(normalise(text))
    assert tokenizer.encode_batch([text, "x"])[0] == ids


@given(text=TEXTS)
@settings(max_examples=200, deadline=None)
def test_dropout_changes_no_text(text: str) -> None:
    assert DROPPING.decode(DROPPING.encode_batch([text], dropout=True)[0]) == normalise(text)


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(text=TEXTS)
@settings(max_examples=200, deadline=None)
def test_the_spans_of_tokens_tile_every_string(kind: str, text: str) -> None:
    tokenizer = TOKENIZERS[kind]
    tokens = tokenizer.tokens(text)
    assert [token.id for token in tokens] == tokenizer.encode(text)
    spans = list(dict.fromkeys((token.start, token.end) for token in tokens))
    assert "".join(normalise(text)[start:end] for start, end in spans) == normalise(text)


@given(text=TEXTS)
@settings(max_examples=400, deadline=None)
def test_normalisation_is_idempotent_composed_and_of_single_spaces(text: str) -> None:
    normal = normalise(text)
    assert normalise(normal) == normal
    assert unicodedata.is_normalized("NFC", normal)
    assert normal.split() == ([] if not normal else normal.split(" "))
    assert "\u2581" not in normal
    normal.encode("utf-8")


@given(ids=st.lists(st.integers(min_value=0, max_value=400)))
@settings(max_examples=200, deadline=None)
def test_all_ids_decode_to_text(ids: list[int]) -> None:
    for tokenizer in TOKENIZERS.values():
        tokenizer.decode(ids).encode("utf-8")


def test_every_assigned_character_survives() -> None:
    characters = [chr(c) for c in range(0x110000)]
    assigned = [c for c in characters if unicodedata.category(c) not in ("Cn", "Co", "Cs")]
    texts = ["x".join(assigned[i : i + 16]) for i in range(0, len(assigned), 16)]
    for tokenizer in TOKENIZERS.values():
        assert tokenizer.decode_batch(tokenizer.encode_batch(texts)) == [normalise(text) for text in texts]
