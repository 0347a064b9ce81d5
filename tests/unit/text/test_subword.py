"""Tokenizers: what a vocabulary holds, and that it is written and read whole."""

import json
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import tokenizers

from dragoman.config import TokenizerConfig
from dragoman.errors import RunError
from dragoman.text.subwords import N_FIXED
from dragoman.text.tokenizer import (
    Tokenizer,
    load_tokenizer,
    train_tokenizer,
)

Kind = Literal["bpe", "unigram"]
KINDS: tuple[Kind, ...] = ("bpe", "unigram")
ENGLISH = [
    f"Two young {a}, {b} and 12 {c} are standing near the {a} bush."
    for a in ("dog", "man", "cat")
    for b in ("women", "children", "horses")
    for c in ("bushes", "trees", "houses", "bicycles")
]
GERMAN = [text.replace("Two", "Zwei").replace("and", "und").replace("bush", "Büsche") for text in ENGLISH]


@pytest.fixture(params=KINDS, scope="module")
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return train_tokenizer(ENGLISH + GERMAN, TokenizerConfig(kind=request.param, vocab_size=380))


def pieces(tokenizer: Tokenizer, text: str) -> list[str]:
    return [token.piece for token in tokenizer.tokens(text)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_vocabulary_has_the_size_asked_for_where_the_text_is_rich_enough(kind: Kind) -> None:
    rng = random.Random(1)
    words = ["".join(rng.choices(["ka", "to", "mi", "lun", "ser", "pod"], k=5)) for _ in range(3000)]
    for vocab_size in (300, 1000):
        tokenizer = train_tokenizer(words * 2, TokenizerConfig(kind=kind, vocab_size=vocab_size))
        assert tokenizer.vocab_size == vocab_size


@pytest.mark.parametrize("kind", KINDS)
def test_a_tiny_corpus_gives_a_small_vocabulary(kind: Kind) -> None:
    for texts in (["a"], ["ab ab"], ["x y z", "aa bb"], ["我们"] * 3):
        tokenizer = train_tokenizer(texts, TokenizerConfig(kind=kind, vocab_size=8000))
        assert N_FIXED < tokenizer.vocab_size < N_FIXED + 20
        assert tokenizer.decode(tokenizer.encode("something ELSE 7")) == "something ELSE 7"


@pytest.mark.parametrize("kind", KINDS)
def test_a_corpus_of_many_characters_leaves_room_for_words(kind: Kind) -> None:
    chinese = ["我们 " * 3 + chr(0x4E00 + i) + chr(0x4E00 + i) for i in range(1000)]
    tokenizer = train_tokenizer(chinese, TokenizerConfig(kind=kind, vocab_size=300))
    assert tokenizer.vocab_size <= 300
    assert pieces(tokenizer, "我们") == ["▁我们"]
    assert len(tokenizer.encode(chr(0x4E00 + 999))) == 4  # a space, three bytes


@pytest.mark.parametrize("kind", KINDS)
def test_special_and_byte_tokens_are_never_learnt_as_pieces_and_frequent_words_are(kind: Kind) -> None:
    texts = ["<s> </s> <0x41> <unk>"] * 50 + ENGLISH
    tokenizer = train_tokenizer(texts, TokenizerConfig(kind=kind, vocab_size=8000))
    ids = tokenizer.encode("<0x41> </s>")
    assert len(ids) > 6
    assert tokenizer.decode(ids) == "<0x41> </s>"
    assert pieces(tokenizer, "young bicycles") == ["▁young", "▁bicycles"]
    if kind == "bpe":
        again = train_tokenizer(iter(texts), TokenizerConfig(kind=kind, vocab_size=8000))
        assert again.fingerprint == tokenizer.fingerprint


def test_punctuation_and_digits_are_tokens_of_their_own(tokenizer: Tokenizer) -> None:
    assert pieces(tokenizer, "the bush.")[-1] == "."
    assert not any("12" in piece for piece in pieces(tokenizer, "12 bushes"))


def test_any_ids_decode_and_broken_bytes_become_replacement_characters(tokenizer: Tokenizer) -> None:
    first_byte = 4
    assert tokenizer.decode([first_byte + 0xE6]) == "\ufffd"
    assert tokenizer.decode([first_byte + b for b in "我".encode()]) == "我"
    assert set(tokenizer.decode([first_byte + b for b in b"\xe6\x88\xff"])) == {"\ufffd"}
    spans = [(token.start, token.end) for token in tokenizer.tokens("我 😀")]
    assert spans.count((2, 3)) == len("😀".encode()), "each byte stands for the whole character"


@pytest.mark.slow
def test_merges_are_left_out_as_the_paper_says(tmp_path: Path) -> None:
    """As often as by its algorithm 1, written down as it is there; characters of bytes are never merged."""
    tokenizer = train_tokenizer(ENGLISH, TokenizerConfig(kind="bpe", vocab_size=400, dropout=0.3))
    tokenizer.save(tmp_path / "t.json")
    settings = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))["model"]
    ranks = {tuple(merge): rank for rank, merge in enumerate(settings["merges"])}
    rng = random.Random(0)

    def by_the_paper(word: str) -> tuple[str, ...]:
        split = list(word)
        while True:
            there = [(ranks[pair], i) for i, pair in enumerate(pairwise(split)) if pair in ranks]
            left = [merge for merge in there if rng.random() >= 0.3]
            if not left:
                return tuple(split)
            _, i = min(left)
            split[i : i + 2] = [split[i] + split[i + 1]]

    word, n = max(ENGLISH[0].split(), key=len), 20_000
    pieces = tokenizer.pieces()
    rows = tokenizer.encode_batch([word] * n, dropout=np.random.default_rng(1))
    ours = Counter(tuple(pieces[i] for i in row) for row in rows)
    theirs = Counter(by_the_paper(f"▁{word}") for _ in range(n))
    assert len(ours) > 5
    for split in {*ours, *theirs}:
        expected = (ours[split] + theirs[split]) / 2
        assert abs(ours[split] - theirs[split]) < 6 * (expected + 1) ** 0.5, split

    (row,) = tokenizer.encode_batch(["😀"], dropout=np.random.default_rng(1))
    assert row == tokenizer.encode("😀")


def test_the_file_is_one_that_the_tokenizers_library_reads(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    tokenizer.save(path)
    theirs = tokenizers.Tokenizer.from_file(str(path))
    for text in ENGLISH[:3]:
        assert theirs.encode(text).ids == tokenizer.encode(text)
        assert theirs.decode(tokenizer.encode(text)) == text
    settings = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(settings | {"normalizer": {"type": "NFKC"}}))
    with pytest.raises(RunError, match="not a way in which Dragoman normalises text"):
        load_tokenizer(path)
