"""The token store: the corpus' ids, once made, as often as they are asked for."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dragoman.config import TokenizerConfig
from dragoman.data.corpora import Corpus, Pair, open_corpus
from dragoman.data.store import CHUNK, Side, Skipped, TokenStore
from dragoman.errors import DataError
from dragoman.text.tokenizer import EOS_ID, PAD_ID, TokenizerPair

SENTENCES = [
    Pair("A dog runs.", "Ein Hund läuft."),
    Pair("", "Nichts."),
    Pair("Two dogs run.", "Zwei Hunde laufen."),
    Pair("Nothing.", " \t"),
    Pair("dog " * 50, "Hund"),
    Pair("dog", "Hund " * 50),
    Pair("我们 😀", "wir"),
]
USABLE = [SENTENCES[0], SENTENCES[2], SENTENCES[6]]
TOKENIZERS = TokenizerPair.train([*USABLE * 3], TokenizerConfig(vocab_size=300))
DROPPING = TokenizerPair.train([*USABLE * 3], TokenizerConfig(vocab_size=300, dropout=0.5))


class Listed(Corpus):
    """A corpus in memory that counts its readings."""

    name = "listed"

    def __init__(self, pairs: list[Pair]) -> None:
        self.content, self.n_readings = pairs, 0

    def _read(self) -> Iterator[Pair]:
        self.n_readings += 1
        yield from self.content

    def fingerprint(self) -> str:
        return str(hash(tuple(self.content)))


def prepare(
    corpus: Corpus, cache: Path, *, max_length: int = 30, dropout: bool = False, draw: int = 0
) -> TokenStore:
    tokenizers = DROPPING if dropout else TOKENIZERS
    return TokenStore.prepare(
        corpus, tokenizers, max_length=max_length, cache=cache, dropout=dropout, draw=draw
    )


def texts(store: TokenStore) -> list[tuple[str, str]]:
    return [
        (TOKENIZERS.src.decode(store.src(i).tolist()), TOKENIZERS.tgt.decode(store.tgt(i).tolist()))
        for i in range(len(store))
    ]


def test_a_store_holds_the_usable_pairs_in_order_with_end_tokens(tmp_path: Path) -> None:
    store = prepare(Listed(SENTENCES), tmp_path)
    assert texts(store) == USABLE
    for i, pair in enumerate(USABLE):
        assert store.src(i).tolist() == [*TOKENIZERS.src.encode(pair.src), EOS_ID]
        assert store.tgt(i).tolist() == [*TOKENIZERS.tgt.encode(pair.tgt), EOS_ID]
    assert store.src_lengths.tolist() == [len(store.src(i)) for i in range(3)]
    assert store.tgt_lengths.tolist() == [len(store.tgt(i)) for i in range(3)]


def test_what_is_skipped_is_counted_and_told_in_one_line(tmp_path: Path) -> None:
    store = prepare(Listed(SENTENCES), tmp_path)
    assert store.skipped == Skipped(empty=2, too_long=2)
    assert store.skipped_message() == (
        "skipped 4 of 7 pairs: 2 empty on one side, 2 longer than 30 tokens (data.max_length)"
    )
    assert prepare(Listed(USABLE), tmp_path).skipped_message() == ""


def test_the_longest_sentence_kept_has_max_length_tokens_with_its_end(tmp_path: Path) -> None:
    pair = USABLE[0]
    length = 1 + max(len(TOKENIZERS.src.encode(pair.src)), len(TOKENIZERS.tgt.encode(pair.tgt)))
    corpus = Listed([pair, Pair("a", "b")])
    assert len(prepare(corpus, tmp_path, max_length=length)) == 2
    assert len(prepare(corpus, tmp_path, max_length=length - 1)) == 1


def test_a_store_is_made_once_and_then_opened(tmp_path: Path) -> None:
    corpus = Listed(SENTENCES)
    first = prepare(corpus, tmp_path)
    second = prepare(corpus, tmp_path)
    assert corpus.n_readings == 1
    assert texts(second) == texts(first)
    assert second.skipped == first.skipped
    assert second.skipped_message() == first.skipped_message()


def test_another_corpus_tokenizer_or_length_makes_another_store(tmp_path: Path) -> None:
    prepare(Listed(SENTENCES), tmp_path)
    prepare(Listed(USABLE), tmp_path)
    prepare(Listed(SENTENCES), tmp_path, max_length=31)
    prepare(Listed(SENTENCES), tmp_path, dropout=True)
    prepare(Listed(SENTENCES), tmp_path, dropout=True, draw=1)
    assert len(list(tmp_path.iterdir())) == 5


def test_dropout_segments_differently_each_draw_and_the_same_text(tmp_path: Path) -> None:
    corpus = Listed(USABLE * 20)
    draws = [prepare(corpus, tmp_path, max_length=64, dropout=True, draw=draw) for draw in (1, 2, 1)]
    ids = [[store.src(i).tolist() for i in range(len(store))] for store in draws]
    assert ids[0] == ids[2] != ids[1]
    assert all(texts(store) == USABLE * 20 for store in draws)
    plain = prepare(corpus, tmp_path, max_length=64)
    assert [plain.src(i).tolist() for i in range(3)] == [
        [*TOKENIZERS.src.encode(p.src), EOS_ID] for p in USABLE
    ]


@pytest.mark.parametrize("name", ["src.ids", "tgt.offsets", "meta.json"])
@pytest.mark.parametrize("damage", ["cut", "gone", "longer"])
def test_a_damaged_store_is_made_anew(tmp_path: Path, name: str, damage: str) -> None:
    corpus = Listed(SENTENCES)
    prepare(corpus, tmp_path)
    (path,) = tmp_path.glob(f"*/{name}")
    data = path.read_bytes()
    path.unlink()
    if damage != "gone":
        path.write_bytes(data[:-3] if damage == "cut" else data + b"?")
    assert texts(prepare(corpus, tmp_path)) == USABLE
    assert corpus.n_readings == 2
    assert len(list(tmp_path.iterdir())) == 1


def test_a_corpus_longer_than_a_chunk_is_stored_whole_and_progress_told(tmp_path: Path) -> None:
    n_pairs = 2 * CHUNK + 7
    corpus = Listed([Pair(str(i % 1000), str(i % 777)) for i in range(n_pairs)])
    told: list[int] = []
    store = TokenStore.prepare(corpus, TOKENIZERS, max_length=9, cache=tmp_path, progress=told.append)
    assert texts(store) == corpus.content
    assert told == [CHUNK, 2 * CHUNK, n_pairs]


def test_a_corpus_without_a_usable_pair_is_reported_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        prepare(Listed(SENTENCES[1:]), tmp_path, max_length=2)
    assert str(error.value) == (
        "listed: no usable pair; skipped 6 of 6 pairs: 2 empty on one side, "
        "4 longer than 2 tokens (data.max_length); raise data.max_length or check the files"
    )
    assert list(tmp_path.iterdir()) == []


def test_files_that_do_not_match_leave_nothing_half_written(tmp_path: Path) -> None:
    for name, n in (("a.en", 5000), ("a.de", 5001)):
        (tmp_path / name).write_text("line\n" * n)
    files = [str(tmp_path / name) for name in ("a.en", "a.de")]
    cache = tmp_path / "cache"
    with pytest.raises(DataError, match="parallel files must match"):
        prepare(open_corpus(files, src_lang="en", tgt_lang="de"), cache)
    assert list(cache.iterdir()) == []


def test_an_interruption_leaves_nothing_half_written(tmp_path: Path) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        TokenStore.prepare(Listed(SENTENCES), TOKENIZERS, max_length=30, cache=tmp_path, progress=interrupt)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_reported_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(DataError) as error:
        prepare(Listed(SENTENCES), tmp_path)
    assert str(error.value) == (
        f"{tmp_path}: cannot hold the token store of listed (No space left on device); "
        "free some space there, or choose another folder"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_is_a_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    with pytest.raises(DataError, match=r"cannot hold the token store of listed \(File exists\)"):
        prepare(Listed(SENTENCES), tmp_path / "cache")


def test_what_a_killed_build_left_is_removed_a_day_later(tmp_path: Path) -> None:
    old, new = tmp_path / "a.partial", tmp_path / "b.partial"
    for folder in (old, new):
        folder.mkdir()
    os.utime(old, (time.time() - 90_000,) * 2)
    prepare(Listed(SENTENCES), tmp_path)
    assert not old.exists()
    assert new.exists()


def test_a_large_vocabulary_is_stored_in_wider_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = prepare(Listed(SENTENCES), tmp_path / "narrow")
    monkeypatch.setattr(type(TOKENIZERS.src), "vocab_size", 1 << 16)
    wide = prepare(Listed(SENTENCES), tmp_path / "wide")
    assert (narrow.source.ids.dtype, wide.source.ids.dtype) == (np.uint16, np.uint32)
    assert texts(wide) == texts(narrow)


def test_padded_rows_are_the_sentences_and_padding() -> None:
    sentences = [[5, 6, EOS_ID], [EOS_ID], [7, 8, 9, EOS_ID]]
    ids = np.concatenate([np.array(s, dtype=np.uint16) for s in sentences])
    side = Side(ids, np.array([0, 3, 4, 8]))
    assert side.padded(np.array([2, 1, 0])).tolist() == [
        [7, 8, 9, EOS_ID],
        [EOS_ID, PAD_ID, PAD_ID, PAD_ID],
        [5, 6, EOS_ID, PAD_ID],
    ]
    assert side.padded(np.array([1])).shape == (1, 1)
