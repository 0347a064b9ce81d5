"""What tokenizers of every kind owe: files that give them back, special tokens in no text, pairs."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers

from dragoman.config import TokenizerConfig
from dragoman.errors import DataError, RunError
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

ENGLISH = [f"The {a} sat and 12 {b} are here ." for a in ("cat", "dog") for b in ("trees", "men")] * 5
GERMAN = [f"Die {a} saß und 12 {b} sind hier ." for a in ("Katze", "Maus") for b in ("Bäume", "Leute")] * 5
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
CONFIGS: dict[str, dict[str, Any]] = {
    "bpe": {},
    "unigram": {},
    "lower-cased": {"kind": "bpe", "lowercase": True},
    "characters": {},
    "words": {},
    "words, formatted": {"kind": "words", "lowercase": True, "format_output": True},
    "words, frequent": {"kind": "words", "min_frequency": 2},
}


def config(name: str, **more: Any) -> TokenizerConfig:
    return TokenizerConfig.model_validate({"kind": name, "vocab_size": 350, **CONFIGS[name], **more})


@pytest.fixture(params=CONFIGS, scope="module")
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return train_tokenizer([*ENGLISH, *GERMAN, *SPECIAL * 2], config(request.param))


def test_a_saved_tokenizer_is_the_same_when_loaded(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "folder" / "t.json"
    tokenizer.save(path)
    loaded = load_tokenizer(path)
    assert loaded.fingerprint == tokenizer.fingerprint
    batch = loaded.encode_batch([*ENGLISH, "A zebra"])
    assert batch == tokenizer.encode_batch([*ENGLISH, "A zebra"])
    assert loaded.decode_batch(batch) == tokenizer.decode_batch(batch)
    assert loaded.encode("ZWEI Büsche İ") == tokenizer.encode("ZWEI Büsche İ")
    assert [entry.name for entry in path.parent.iterdir()] == ["t.json"]


def test_special_tokens_are_text_where_they_are_read_and_nothing_where_they_are_written(
    tokenizer: Tokenizer,
) -> None:
    for text in SPECIAL:
        ids = tokenizer.encode(text)
        assert min(ids) > UNK_ID
        around = [BOS_ID, *ids, EOS_ID, PAD_ID, PAD_ID, tokenizer.vocab_size, 10_000]
        assert tokenizer.decode(around) == tokenizer.decode(ids)


def test_a_file_that_is_missing_damaged_or_of_something_else_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    with pytest.raises(RunError, match=r"t\.json: cannot be read \(No such file or directory\).*train again"):
        load_tokenizer(path)
    with pytest.raises(RunError, match=r"src\.json: cannot be read"):
        TokenizerPair.load(tmp_path)
    train_tokenizer(ENGLISH, config("words")).save(path)
    text = path.read_text(encoding="utf-8")
    good = json.loads(text)
    bad = [
        good | {"vocabulary": good["vocabulary"][1:]},
        good | {"vocabulary": [*good["vocabulary"], "cat"]},
        good | {"vocabulary": None},
        good | {"kind": "sounds"},
        good | {"splitter": "axe"},
        good | {"pattern": "("},
        *({k: v for k, v in good.items() if k != name} for name in good),
        {},
        {"model": {}},
    ]
    foreign = tokenizers.Tokenizer(tokenizers.models.BPE()).to_str()
    for content in (text[:-20], "", "{", foreign, *map(json.dumps, bad)):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(RunError, match=r"t\.json: is not a Dragoman tokenizer .*train again"):
            load_tokenizer(path)


@pytest.mark.parametrize("kind", ["bpe", "words"])
def test_no_text_is_reported(kind: str) -> None:
    with pytest.raises(DataError, match="no text to learn a vocabulary from: every line is empty"):
        train_tokenizer(["", " \n"], config(kind))
    for shared in (True, False):
        with pytest.raises(DataError, match="no text"):
            TokenizerPair.train([], config(kind, shared=shared))


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("kind", ["bpe", "words"])
def test_a_pair_is_learnt_in_one_reading_and_saved(kind: str, shared: bool, tmp_path: Path) -> None:
    pair = TokenizerPair.train(zip(ENGLISH, GERMAN, strict=True), config(kind, shared=shared))
    assert pair.shared == shared
    assert (pair.src.fingerprint == pair.tgt.fingerprint) == shared
    n_und = [len(one.encode("und")) for one in (pair.src, pair.tgt)]
    if kind == "bpe":
        assert (n_und[0] == n_und[1]) == shared, "each learns its own language"
    else:
        assert (pair.src.unknown_rate(GERMAN) == 0.0) == shared
    pair.save(tmp_path)
    files = ["shared.json"] if shared else ["src.json", "tgt.json"]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == files
    loaded = TokenizerPair.load(tmp_path)
    assert loaded.shared == shared
    assert loaded.src.fingerprint == pair.src.fingerprint
    assert loaded.tgt.fingerprint == pair.tgt.fingerprint


def test_the_target_may_be_of_another_kind(tmp_path: Path) -> None:
    corpus = [("Hello, you .", "你好。"), ("We go .", "我们走。")]
    characters = config("words", tgt_kind="characters", shared=False, format_output=True)
    TokenizerPair.train(corpus, characters).save(tmp_path)
    loaded = TokenizerPair.load(tmp_path)
    assert [t.piece for t in loaded.src.tokens("Hello, zebra.")] == ["Hello", ",", "<unk>", "."]
    assert loaded.tgt.decode(loaded.tgt.encode("我们 好。")) == "我们\ufffd好。"
    mixed = TokenizerPair.train(corpus, config("words", tgt_kind="bpe", shared=False, dropout=0.5))
    assert mixed.src.encode_batch(["We go"], dropout=np.random.default_rng(1)) == [mixed.src.encode("We go")]


def test_a_sample_is_drawn_evenly_and_always_the_same() -> None:
    sample = draw_sample(iter(range(10_000)), 1000)
    assert sample == draw_sample(range(10_000), 1000)
    assert len(set(sample)) == 1000
    assert all(abs(n - 100) < 50 for n in Counter(i // 1000 for i in sample).values()), "five deviations"
