"""The token store: the corpus' ids, once made, as often as they are asked for."""

import math
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpus_files import Listed
from dragoman.config import TokenizerConfig
from dragoman.data.corpora import open_corpus
from dragoman.data.records import Corpus, Pair
from dragoman.data.store import CHUNK, SHARD_PAIRS, Side, Skipped, TokenStore
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


def prepare(corpus: Corpus, cache: Path, *, max_length: int = 30, **options: Any) -> TokenStore:
    tokenizers = DROPPING if options.get("dropout") else TOKENIZERS
    return TokenStore.prepare(corpus, tokenizers, max_length=max_length, cache=cache, **options)


def break_off(corpus: Corpus, cache: Path, *, after: int, max_length: int = 9, **options: Any) -> None:
    """Interrupt a build when more than `after` pairs have been read."""

    def interrupt(n_read: int) -> None:
        if n_read > after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(corpus, cache, max_length=max_length, progress=interrupt, **options)


def texts(store: TokenStore) -> list[tuple[str, str]]:
    return [
        (TOKENIZERS.src.decode(store.src(i).tolist()), TOKENIZERS.tgt.decode(store.tgt(i).tolist()))
        for i in range(len(store))
    ]


def test_a_store_holds_the_usable_pairs_in_order_with_end_tokens_and_is_made_once(tmp_path: Path) -> None:
    corpus = Listed(SENTENCES)
    for store in (prepare(corpus, tmp_path), prepare(corpus, tmp_path)):
        assert texts(store) == USABLE
        for i, pair in enumerate(USABLE):
            assert store.src(i).tolist() == [*TOKENIZERS.src.encode(pair.src), EOS_ID]
            assert store.tgt(i).tolist() == [*TOKENIZERS.tgt.encode(pair.tgt), EOS_ID]
        src, tgt = store.sides(0)
        assert src.lengths.tolist() == [len(store.src(i)) for i in range(3)]
        assert tgt.lengths.tolist() == [len(store.tgt(i)) for i in range(3)]
        assert (store.n_src_tokens, store.n_tgt_tokens) == (src.lengths.sum(), tgt.lengths.sum())
        assert store.skipped == Skipped(empty=2, too_long=2)
        assert store.skipped_message() == (
            "skipped 4 pairs: 2 empty on one side, 2 longer than 30 tokens (data.max_length)"
        )
    assert corpus.n_readings == 1


def test_another_corpus_tokenizer_or_length_makes_another_store(tmp_path: Path) -> None:
    length = 1 + max(len(TOKENIZERS.src.encode(USABLE[0].src)), len(TOKENIZERS.tgt.encode(USABLE[0].tgt)))
    short = Listed([SENTENCES[0], Pair("a", "b")])
    assert len(prepare(short, tmp_path, max_length=length)) == 2, "of max_length tokens, its end among them"
    assert len(prepare(short, tmp_path, max_length=length - 1)) == 1
    assert prepare(Listed(USABLE), tmp_path).skipped_message() == ""
    for draw in (0, 1):
        prepare(Listed(USABLE), tmp_path, dropout=(1, draw))
    assert len(list(tmp_path.iterdir())) == 5


def test_dropout_segments_differently_each_draw_and_the_same_text(tmp_path: Path) -> None:
    corpus = Listed(USABLE * 20)
    where = (tmp_path / "one", tmp_path / "one", tmp_path / "other")  # drawn again in the other folder
    seeds = ((1, 1), (1, 2), (1, 1))
    draws = [prepare(corpus, at, max_length=64, dropout=seed) for at, seed in zip(where, seeds, strict=True)]
    ids = [[store.src(i).tolist() for i in range(len(store))] for store in draws]
    assert ids[0] == ids[2] != ids[1]
    assert all(texts(store) == USABLE * 20 for store in draws)
    plain = prepare(corpus, tmp_path, max_length=64)
    assert [plain.src(i).tolist() for i in range(3)] == [
        [*TOKENIZERS.src.encode(p.src), EOS_ID] for p in USABLE
    ]


@pytest.mark.parametrize("name", ["src.ids", "tgt.offsets", "meta.json"])
@pytest.mark.parametrize("damage", ["cut", "gone", "flipped", "nested"])
def test_a_damaged_store_is_rebuilt(tmp_path: Path, name: str, damage: str) -> None:
    corpus = Listed(SENTENCES)
    prepare(corpus, tmp_path)
    (path,) = tmp_path.glob(f"*/{name}")
    data = path.read_bytes()
    path.unlink()
    if damage != "gone":
        flipped = bytes([data[0] ^ 1]) + data[1:]
        damaged = {"cut": data[:-3], "flipped": flipped, "nested": b"[" * 100_000}
        path.write_bytes(damaged.get(damage, data + b"?"))
    assert texts(prepare(corpus, tmp_path)) == USABLE
    assert corpus.n_readings == 2
    assert len(list(tmp_path.iterdir())) == 1


def test_a_corpus_longer_than_a_chunk_is_stored_whole_and_progress_told(tmp_path: Path) -> None:
    n_pairs = 2 * CHUNK + 7
    corpus = Listed([Pair(str(i % 1000), str(i % 777)) for i in range(n_pairs)])
    told: list[int] = []
    store = prepare(corpus, tmp_path, max_length=9, progress=told.append)
    assert texts(store) == corpus.content
    assert told == [CHUNK, 2 * CHUNK, n_pairs]
    store = prepare(corpus, tmp_path, shard_pairs=CHUNK + 5)  # a shard does not end where a chunk does
    assert [len(shard) for shard in store.shards] == [CHUNK + 5, CHUNK + 2]
    assert texts(store) == corpus.content
    assert corpus.n_readings == 2


@pytest.mark.parametrize("shard_pairs", [SHARD_PAIRS, 2])
def test_a_corpus_without_a_usable_pair_is_reported_as_often_as_it_is_asked_for(
    tmp_path: Path, shard_pairs: int
) -> None:
    for _ in range(2):
        with pytest.raises(DataError) as error:
            prepare(Listed(SENTENCES[1:]), tmp_path, max_length=2, shard_pairs=shard_pairs)
        assert str(error.value) == (
            "listed: no usable pair; skipped 6 pairs: 2 empty on one side, "
            "4 longer than 2 tokens (data.max_length); raise data.max_length or check the files"
        )


@pytest.mark.parametrize(("n_lines", "in_shard", "n_finished"), [(5000, SHARD_PAIRS, 0), (7, 3, 2)])
def test_files_that_do_not_match_leave_finished_shards_and_nothing_half_written(
    tmp_path: Path, n_lines: int, in_shard: int, n_finished: int
) -> None:
    for name, n in (("a.en", n_lines), ("a.de", n_lines + 1)):
        (tmp_path / name).write_text("line\n" * n)
    corpus = open_corpus([str(tmp_path / name) for name in ("a.en", "a.de")], src_lang="en", tgt_lang="de")
    for _ in range(2):
        with pytest.raises(DataError, match="parallel files must match"):
            prepare(corpus, tmp_path / "cache", shard_pairs=in_shard)
        assert len(list((tmp_path / "cache").glob("*/meta.json"))) == n_finished
        assert len(list((tmp_path / "cache").iterdir())) == n_finished


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
    assert (narrow.sides(0)[0].ids.dtype, wide.sides(0)[0].ids.dtype) == (np.uint16, np.uint32)
    assert texts(wide) == texts(narrow)


@pytest.mark.parametrize("shard_pairs", [1, 3, 7, 8])
def test_shards_hold_the_pairs_of_one_file_in_order(tmp_path: Path, shard_pairs: int) -> None:
    whole = prepare(Listed(SENTENCES), tmp_path / "whole")
    store = prepare(Listed(SENTENCES), tmp_path / "shards", shard_pairs=shard_pairs)
    assert len(store.shards) == math.ceil(len(SENTENCES) / shard_pairs)
    assert max(shard.n_read for shard in store.shards) <= shard_pairs
    assert len(store) == len(whole)
    for i in range(len(whole)):
        assert store.src(i).tolist() == whole.src(i).tolist()
        assert store.tgt(i).tolist() == whole.tgt(i).tolist()
    assert (store.n_src_tokens, store.n_tgt_tokens) == (whole.n_src_tokens, whole.n_tgt_tokens)
    assert store.skipped_message() == whole.skipped_message()


def test_shards_that_are_finished_are_kept_when_a_build_is_broken_off(tmp_path: Path) -> None:
    break_off(Listed(USABLE), tmp_path, after=0, max_length=30)
    assert list(tmp_path.iterdir()) == [], "nothing half written"
    corpus = Listed(USABLE * 4)
    break_off(corpus, tmp_path, after=6, max_length=30, shard_pairs=3)
    finished = {folder: folder.stat().st_mtime_ns for folder in tmp_path.iterdir()}
    assert len(finished) == 2
    assert texts(prepare(corpus, tmp_path, shard_pairs=3)) == USABLE * 4
    assert len(list(tmp_path.iterdir())) == 4
    assert {folder: folder.stat().st_mtime_ns for folder in finished} == finished


def test_two_processes_that_want_the_same_store_make_it_once(tmp_path: Path) -> None:
    slow = Listed([Pair(str(i % 1000), "" if i % 7 == 0 else str(i % 777)) for i in range(5 * CHUNK + 7)])
    made: list[TokenStore] = []

    def prepared() -> None:
        made.append(prepare(slow, tmp_path, max_length=9))

    threads = [threading.Thread(target=prepared) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert slow.n_readings == 1
    assert texts(made[0]) == texts(made[1])


@pytest.mark.parametrize("k", [0, 1, 3])
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_damaged_shard_is_rebuilt_and_the_others_are_not(tmp_path: Path, k: int, damage: str) -> None:
    corpus = Listed(USABLE * 4)
    folders = [shard.folder for shard in prepare(corpus, tmp_path, shard_pairs=3).shards]
    written = [(folder / "meta.json").stat().st_mtime_ns for folder in folders]
    if damage == "gone":
        shutil.rmtree(folders[k])
    else:
        (folders[k] / "tgt.ids").write_bytes(b"?")
    assert texts(prepare(corpus, tmp_path, shard_pairs=3)) == USABLE * 4
    now = [(folder / "meta.json").stat().st_mtime_ns for folder in folders]
    assert [i for i in range(4) if now[i] != written[i]] == [k]
    assert len(list(tmp_path.iterdir())) == 4


def test_rows_of_pairs_are_those_of_their_shard(tmp_path: Path) -> None:
    store = prepare(Listed(USABLE * 4), tmp_path, shard_pairs=3)
    for indices in ([0, 2], [5], [11, 9, 10], [0]):
        for rows, sentence in zip(store.padded(np.array(indices)), (store.src, store.tgt), strict=True):
            assert [row[row != PAD_ID].tolist() for row in rows] == [sentence(i).tolist() for i in indices]
        for lengths, sentence in zip(store.lengths(np.array(indices)), (store.src, store.tgt), strict=True):
            assert lengths.tolist() == [len(sentence(i)) for i in indices]
    ids = np.array([5, 6, EOS_ID, EOS_ID, 7, 8, 9, EOS_ID], dtype=np.uint16)
    side = Side(ids, np.array([0, 3, 4, 8]))
    assert side.padded(np.array([2, 1])).tolist() == [[7, 8, 9, EOS_ID], [EOS_ID, PAD_ID, PAD_ID, PAD_ID]]
    assert side.padded(np.array([1])).shape == (1, 1)
