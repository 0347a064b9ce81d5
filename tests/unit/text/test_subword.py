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
from dragoman.errors import DataError, RunError
from dragoman.text.normalisation import normalise, normalise_lowercase
from dragoman.text.subwords import N_FIXED
from dragoman.text.tokenizer import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    UNK_ID,
    Tokenizer,
    TokenizerPair,
    load_tokenizer,
    train_tokenizer,
)
from dragoman.text.vocabulary import draw_sample

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
@pytest.mark.parametrize("vocab_size", [300, 1000])
def test_the_vocabulary_has_the_size_asked_for_where_the_text_is_rich_enough(
    kind: Kind, vocab_size: int
) -> None:
    rng = random.Random(1)
    words = ["".join(rng.choices(["ka", "to", "mi", "lun", "ser", "pod"], k=5)) for _ in range(3000)]
    tokenizer = train_tokenizer(words * 2, TokenizerConfig(kind=kind, vocab_size=vocab_size))
    assert tokenizer.vocab_size == vocab_size


@pytest.mark.parametrize("kind", KINDS)
def test_a_frequent_word_is_one_token(kind: Kind) -> None:
    tokenizer = train_tokenizer(ENGLISH, TokenizerConfig(kind=kind, vocab_size=8000))
    assert pieces(tokenizer, "young bicycles") == ["▁young", "▁bicycles"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", [["a"], ["ab ab"], ["x y z", "aa bb"], ["我们"] * 3])
def test_a_tiny_corpus_gives_a_small_vocabulary(kind: Kind, texts: list[str]) -> None:
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


def test_the_same_text_gives_the_same_merges() -> None:
    first, second, other = (
        train_tokenizer(texts, TokenizerConfig(kind="bpe", vocab_size=350)).fingerprint
        for texts in (ENGLISH, iter(ENGLISH), GERMAN)
    )
    assert first == second != other


def test_special_tokens_come_first_and_are_never_found_in_text(tokenizer: Tokenizer) -> None:
    assert (PAD_ID, BOS_ID, EOS_ID, UNK_ID) == (0, 1, 2, 3)
    for text in ("<pad>", "<s>", "</s>", "<unk>", "a</s>b", "<0x41>", "x <0xFF> <s>"):
        ids = tokenizer.encode(text)
        assert min(ids) >= 4
        assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("kind", KINDS)
def test_special_and_byte_tokens_are_never_learnt_as_pieces(kind: Kind) -> None:
    tokenizer = train_tokenizer(["<s> </s> <0x41> <unk>"] * 50, TokenizerConfig(kind=kind, vocab_size=400))
    ids = tokenizer.encode("<0x41> </s>")
    assert len(ids) > 6
    assert tokenizer.decode(ids) == "<0x41> </s>"


def test_punctuation_and_digits_are_tokens_of_their_own(tokenizer: Tokenizer) -> None:
    assert pieces(tokenizer, "the bush.")[-1] == "."
    assert "".join(pieces(tokenizer, "12 bushes"))[:3] == "▁12"
    assert not any("12" in piece for piece in pieces(tokenizer, "12 bushes"))


def test_special_ids_are_left_out_of_decoded_text(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("two dogs")
    assert tokenizer.decode([BOS_ID, *ids, EOS_ID, PAD_ID, PAD_ID, UNK_ID]) == "two dogs"


def test_any_ids_decode_and_broken_bytes_become_replacement_characters(tokenizer: Tokenizer) -> None:
    first_byte = 4
    assert tokenizer.decode([first_byte + 0xE6]) == "\ufffd"
    assert tokenizer.decode([first_byte + b for b in "我".encode()]) == "我"
    assert set(tokenizer.decode([first_byte + b for b in b"\xe6\x88\xff"])) == {"\ufffd"}
    assert isinstance(tokenizer.decode(range(tokenizer.vocab_size + 10)), str)


def test_tokens_tile_the_normalised_text(tokenizer: Tokenizer) -> None:
    text = "  Two 我们😀 bushes.\t12 x́"
    tokens = tokenizer.tokens(text)
    assert [token.id for token in tokens] == tokenizer.encode(text)
    spans = [(token.start, token.end) for token in tokens]
    assert spans[0][0] == 0
    distinct = list(dict.fromkeys(spans))
    assert all(before[1] == after[0] for before, after in pairwise(distinct))
    assert "".join(normalise(text)[start:end] for start, end in distinct) == normalise(text)
    emoji = normalise(text).index("😀")
    assert spans.count((emoji, emoji + 1)) == len("😀".encode())


def test_dropout_draws_other_segmentations_of_the_same_text() -> None:
    tokenizer = train_tokenizer(ENGLISH, TokenizerConfig(kind="bpe", vocab_size=400, dropout=0.5))
    plain = tokenizer.encode(ENGLISH[0])
    drawn = tokenizer.encode_batch([ENGLISH[0]] * 50, dropout=np.random.default_rng(1))
    assert len({tuple(ids) for ids in drawn}) > 10
    assert drawn == tokenizer.encode_batch([ENGLISH[0]] * 50, dropout=np.random.default_rng(1))
    assert drawn != tokenizer.encode_batch([ENGLISH[0]] * 50, dropout=np.random.default_rng(2))
    assert set(tokenizer.decode_batch(drawn)) == {ENGLISH[0]}
    assert tokenizer.encode_batch([ENGLISH[0]] * 50) == [plain] * 50
    assert plain == train_tokenizer(ENGLISH, TokenizerConfig(kind="bpe", vocab_size=400)).encode(ENGLISH[0])


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


def test_a_saved_tokenizer_is_the_same_when_loaded(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "folder" / "t.json"
    tokenizer.save(path)
    loaded = load_tokenizer(path)
    assert loaded.fingerprint == tokenizer.fingerprint
    assert loaded.encode_batch(ENGLISH) == tokenizer.encode_batch(ENGLISH)
    assert [entry.name for entry in path.parent.iterdir()] == ["t.json"]


def test_the_file_is_one_that_the_tokenizers_library_reads(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "t.json")
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "t.json"))
    for text in ENGLISH[:3]:
        assert theirs.encode(text).ids == tokenizer.encode(text)
        assert theirs.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("kind", KINDS)
def test_a_lower_casing_tokenizer_reads_and_writes_lower_case(kind: Kind, tmp_path: Path) -> None:
    tokenizer = train_tokenizer(GERMAN, TokenizerConfig(kind=kind, vocab_size=400, lowercase=True))
    tokenizer.save(tmp_path / "t.json")
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "t.json"))
    for each in (tokenizer, load_tokenizer(tmp_path / "t.json")):
        for text in ("ZWEI  Büsche, DOGS", "İ"):
            assert each.decode(each.encode(text)) == each.normalise(text) == normalise_lowercase(text)
        assert each.encode("ZWEI BÜSCHE") == each.encode("zwei büsche")
        assert theirs.encode("Zwei Büsche").ids == each.encode("Zwei Büsche")


def test_other_normalisers_are_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    tokenizer.save(path)
    settings = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(settings | {"normalizer": {"type": "NFKC"}}))
    with pytest.raises(RunError, match="not a way in which Dragoman normalises text"):
        load_tokenizer(path)


def test_a_failed_save_leaves_the_old_file_and_nothing_else(
    tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer.save(tmp_path / "t.json")

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(RunError, match="No space left"):
        tokenizer.save(tmp_path / "t.json")
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.json"]
    assert load_tokenizer(tmp_path / "t.json").fingerprint == tokenizer.fingerprint


def test_a_missing_or_foreign_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    with pytest.raises(RunError, match=r"t\.json: cannot be read \(No such file or directory\).*train again"):
        load_tokenizer(path)
    with pytest.raises(RunError, match=r"src\.json: cannot be read"):
        TokenizerPair.load(tmp_path)
    foreign = tokenizers.Tokenizer(tokenizers.models.BPE()).to_str()
    for content in ("", "{", "{}", "[]", json.dumps({"model": {}}), foreign):
        path.write_text(content)
        with pytest.raises(RunError, match=r"t\.json: is not a Dragoman tokenizer .*train again"):
            load_tokenizer(path)


def test_no_text_is_reported() -> None:
    for kind in ("bpe", "words"):
        with pytest.raises(DataError, match="no text to learn a vocabulary from: every line is empty"):
            train_tokenizer(["", " \n"], TokenizerConfig(kind=kind, vocab_size=300))
    for shared in (True, False):
        with pytest.raises(DataError, match="no text"):
            TokenizerPair.train([], TokenizerConfig(shared=shared))


@pytest.mark.parametrize("shared", [True, False])
def test_a_pair_is_learnt_in_one_reading_and_saved(shared: bool, tmp_path: Path) -> None:
    corpus = zip(ENGLISH, GERMAN, strict=True)
    pair = TokenizerPair.train(corpus, TokenizerConfig(vocab_size=350, shared=shared))
    assert pair.shared == shared
    assert (pair.src.fingerprint == pair.tgt.fingerprint) == shared
    pair.save(tmp_path)
    files = ["shared.json"] if shared else ["src.json", "tgt.json"]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == files
    loaded = TokenizerPair.load(tmp_path)
    assert loaded.shared == shared
    assert loaded.src.fingerprint == pair.src.fingerprint
    assert loaded.tgt.fingerprint == pair.tgt.fingerprint


def test_separate_tokenizers_learn_their_own_language() -> None:
    pair = TokenizerPair.train(
        zip(ENGLISH, GERMAN, strict=True), TokenizerConfig(vocab_size=400, shared=False)
    )
    assert len(pair.src.encode("and")) < len(pair.tgt.encode("and"))
    assert len(pair.tgt.encode("und")) < len(pair.src.encode("und"))


def test_a_sample_is_drawn_evenly_and_always_the_same() -> None:
    assert draw_sample(range(5), 10) == [0, 1, 2, 3, 4]
    sample = draw_sample(iter(range(10_000)), 1000)
    assert sample == draw_sample(range(10_000), 1000)
    assert len(set(sample)) == 1000
    tenths = Counter(i // 1000 for i in sample)
    assert (
        min(tenths.values()) > 100 - 5 * 10 < max(tenths.values()) < 100 + 5 * 10
    )  # five standard deviations
