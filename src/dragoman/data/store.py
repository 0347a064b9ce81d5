"""A corpus as ids in memory-mapped files: millions of sentences without Python objects.

cache/<key>/
    src.ids, tgt.ids            the ids of all sentences one after the other, end tokens included
    src.offsets, tgt.offsets    int64: sentence i is ids[offsets[i]:offsets[i + 1]]
    meta.json                   counts and types; written last

The key is a hash of corpus, tokenizers and settings, so a store is made once and never goes stale. A corpus
of more than SHARD_PAIRS pairs lies in several such folders, its shards: the key of each but the first also
says how many pairs come before it.

A shard grows in cache/<key>.partial, whose progress.json says now and then how much of its files is on the
disk: what is killed goes on from there.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from dragoman.config import parse_json
from dragoman.data.corpora import Corpus, Pair
from dragoman.errors import DataError, counted
from dragoman.files import locked, sync
from dragoman.text.tokenizer import EOS_ID, PAD_ID, TokenizerPair

FORMAT = 1
"""Goes into every key: raise it where the files or the text's treatment change."""

CHUNK = 4096
"""Texts or pairs that are encoded at once."""

SHARD_PAIRS = 1 << 22
"""Pairs of a corpus in a shard, skipped ones included: they bound its files, and the memory of planning."""

NOTED_PAIRS = 1 << 16
"""Pairs after which a build notes how far it is: what a kill costs, at most."""

ABANDONED = 24 * 3600.0
"""Seconds after which what a killed build left behind is removed, unless it is what is gone on with."""

META, PROGRESS = "meta.json", "progress.json"

Store = TypeVar("Store")
Item = TypeVar("Item")


class Skipped(NamedTuple):
    """Pairs that a store leaves out: with an empty side, or too long on either."""

    empty: int
    too_long: int


class Side:
    """The sentences of one language. `side[i]` are the ids of sentence i, the end token last."""

    def __init__(self, ids: npt.NDArray[Any], offsets: npt.NDArray[np.int64]) -> None:
        self.ids, self.offsets = ids, offsets

    @cached_property
    def lengths(self) -> npt.NDArray[np.int32]:
        """Tokens of each sentence, the end token included."""
        return np.diff(self.offsets).astype(np.int32)

    def __getitem__(self, i: int) -> npt.NDArray[Any]:
        return self.ids[self.offsets[i] : self.offsets[i + 1]]

    def padded(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the sentences at `indices` as rows (B, S), filled up with PAD_ID."""
        lengths = self.lengths[indices][:, None]  # (B, 1)
        columns = np.arange(lengths.max())[None, :]  # (1, S)
        is_token = columns < lengths  # (B, S)
        rows = np.full(is_token.shape, PAD_ID, dtype=np.int64)
        rows[is_token] = self.ids[(self.offsets[indices][:, None] + columns)[is_token]]
        return rows


class Sides(NamedTuple):
    """The sentences of a shard in both languages: pair i of the shard is `src[i]` and `tgt[i]`."""

    src: Side
    tgt: Side


class Shard:
    """The usable ones of consecutive pairs of a corpus, as ids in files; `len(shard)` is their number."""

    def __init__(self, folder: Path) -> None:
        """Open the finished shard in `folder`, made by `TokenStore.prepare`. ValueError: it is incomplete."""
        self.folder = folder
        try:
            self._meta = parse_json((folder / META).read_bytes())
            self._n_pairs = int(self._meta["n_pairs"])
            self.skipped = Skipped(**self._meta["skipped"])
            self.n_src_tokens, self.n_tgt_tokens = (
                int(self._meta[name]["n_tokens"]) for name in ("src", "tgt")
            )
            self.has_more = bool(self._meta.get("has_more", False))
            self.open()
            for name in ("src", "tgt"):
                check_side(folder, name, self._meta[name])
        except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"{folder}: not a complete token store ({error})") from error

    def __len__(self) -> int:
        return self._n_pairs

    @property
    def n_read(self) -> int:
        """Pairs of the corpus that it stands for, skipped ones included."""
        return len(self) + sum(self.skipped)

    def open(self) -> Sides:
        """Its sentences, mapped and not read. ValueError: a file has not the size it should have."""
        src, tgt = (
            open_side(self.folder, name, self._meta[name], n_sentences=len(self)) for name in ("src", "tgt")
        )
        return Sides(src, tgt)


class TokenStore:
    """The usable pairs of a corpus as ids, in the corpus' order; `len(store)` is their number.

    Lengths count the end token and not the start token, which no sentence here has.
    """

    def __init__(self, shards: Sequence[Shard], *, max_length: int) -> None:
        self.shards, self.max_length = shards, max_length
        self.starts = np.cumsum([0, *map(len, shards)])
        """Shard k holds the pairs from starts[k] to starts[k + 1]."""
        self.skipped = Skipped(*map(sum, zip(*(shard.skipped for shard in shards), strict=True)))
        self.n_src_tokens = sum(shard.n_src_tokens for shard in shards)
        self.n_tgt_tokens = sum(shard.n_tgt_tokens for shard in shards)
        """Tokens of all source and of all target sentences, end tokens included."""
        self._opened = 0, shards[0].open()

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def blocks(self) -> list[range]:
        """Shards by their numbers: the pairs of a batch lie in one block, which here is a shard."""
        return [range(k, k + 1) for k in range(len(self.shards))]

    def sides(self, k: int) -> Sides:
        """Return the sentences of shard `k`. Those of the shard before are let go: memory is that of one."""
        if self._opened[0] != k:
            self._opened = k, self.shards[k].open()
        return self._opened[1]

    def src(self, i: int) -> npt.NDArray[Any]:
        """Return the source ids of pair `i`, the end token last."""
        k = self.shard_of(i)
        return self.sides(k).src[i - self.starts[k]]

    def tgt(self, i: int) -> npt.NDArray[Any]:
        """Return the target ids of pair `i`, the end token last."""
        k = self.shard_of(i)
        return self.sides(k).tgt[i - self.starts[k]]

    def padded(self, indices: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Source rows (B, S) and target rows (B, T) of the pairs at `indices`, which lie in one shard.

        No ids of other pairs are read.
        """
        k, inside = self.locate(indices)
        sides = self.sides(k)
        return sides.src.padded(inside), sides.tgt.padded(inside)

    def lengths(self, indices: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Tokens of the sources and of the targets of the pairs at `indices`, which lie in one shard."""
        k, inside = self.locate(indices)
        sides = self.sides(k)
        return sides.src.lengths[inside], sides.tgt.lengths[inside]

    def locate(self, indices: npt.NDArray[np.int64]) -> tuple[int, npt.NDArray[np.int64]]:
        """Return the number of the shard that holds the pairs at `indices`, and their places in it."""
        k = self.shard_of(indices[0])
        inside = indices - self.starts[k]
        assert inside.min() >= 0
        assert inside.max() < len(self.shards[k])
        return k, inside

    def shard_of(self, i: int | np.int64) -> int:
        """Return the number of the shard that holds pair `i`."""
        return int(np.searchsorted(self.starts, i, side="right")) - 1

    def skipped_message(self) -> str:
        """How many pairs of the corpus were left out, and why, in one line; "" where none was."""
        n_empty, n_long = self.skipped
        reasons = [f"{n_empty:,} empty on one side"] if n_empty else []
        reasons += [f"{n_long:,} longer than {self.max_length} tokens (data.max_length)"] if n_long else []
        return f"skipped {counted(n_empty + n_long, 'pair')}: {', '.join(reasons)}" if reasons else ""

    @classmethod
    def prepare(
        cls,
        corpus: Corpus,
        tokenizers: TokenizerPair,
        *,
        max_length: int,
        cache: Path,
        dropout: tuple[int, ...] | None = None,
        shard_pairs: int = SHARD_PAIRS,
        progress: Callable[[int], None] | None = None,
    ) -> TokenStore:
        """Return the store of `corpus` in the folder `cache`; make it if it is missing or incomplete.

        Shards of `shard_pairs` pairs are made one after the other; those that are there already are kept.

        Pairs with an empty side, or of more than `max_length` tokens on either, are skipped and counted.
        `progress` is told, now and then, how many pairs have been read.

        `dropout` segments at random (BPE-dropout) from this seed: with (seed, epoch), each epoch of a
        training sees other segmentations, and the same ones when it is repeated.

        A build that was killed, interrupted, or met a full disk goes on where it last noted its progress.

        DataError: the corpus cannot be read, no pair is usable, or the disk is full.
        """
        key = (
            f"{FORMAT} {corpus.fingerprint()} {tokenizers.src.fingerprint} {tokenizers.tgt.fingerprint} "
            f"{max_length} {dropout}"
        )
        encoder = Encoder(tokenizers, max_length=max_length, dropout=dropout, slots=corpus.has_slots)
        reading = CorpusStream(corpus, progress=progress)
        shards: list[Shard] = []
        while not shards or shards[-1].has_more:
            start = sum(shard.n_read for shard in shards)
            build = functools.partial(
                _build, reading=reading, encoder=encoder, start=start, n_pairs=shard_pairs
            )
            own_key = f"{key} {start}" if start else key
            shards.append(prepare_store(cache, own_key, name=corpus.name, opened=Shard, build=build))
        store = cls(shards, max_length=max_length)
        if not len(store):
            raise DataError(
                f"{corpus.name}: no usable pair; {store.skipped_message()}; "
                "raise data.max_length or check the files"
            )
        return store


def prepare_store(
    cache: Path, key: str, *, name: str, opened: Callable[[Path], Store], build: Callable[[Path], None]
) -> Store:
    """Open the folder of `key` in `cache`; if it is missing, `build` writes it first, or what lacks of it.

    `opened` raises ValueError for a folder that is not complete. What `build` has noted in PROGRESS is kept
    when it is killed, interrupted, or the disk is full. DataError: the disk is full, or what `build` raises.
    """
    folder = cache / hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
    with suppress(ValueError):
        return opened(folder)
    partial = folder.with_suffix(".partial")
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with locked(folder.with_suffix(".lock"), what=folder, wait=math.inf):
            with suppress(ValueError):
                return opened(folder)  # another process has made it meanwhile
            for abandoned in cache.glob("*.partial"):
                if abandoned != partial and time.time() - abandoned.stat().st_mtime > ABANDONED:
                    shutil.rmtree(abandoned, ignore_errors=True)
            partial.mkdir(exist_ok=True)
            try:
                build(partial)
                shutil.rmtree(folder, ignore_errors=True)  # a damaged one
                partial.rename(folder)
                sync(folder.parent)
            except DataError:
                shutil.rmtree(partial, ignore_errors=True)  # the same text will not do next time either
                raise
            finally:
                if not (partial / PROGRESS).exists():
                    shutil.rmtree(partial, ignore_errors=True)
        return opened(folder)
    except OSError as error:
        raise DataError(
            f"{cache}: cannot hold the token store of {name} ({error.strerror or error}); "
            "free some space there, or choose another folder"
        ) from error


def keep_only(stores: Sequence[Any], cache: Path) -> None:
    """Remove every other store from the folder `cache`: those of past epochs."""
    kept = {shard.folder for store in stores for shard in getattr(store, "shards", [store])}
    for folder in cache.iterdir():
        if folder not in kept and folder.is_dir():
            shutil.rmtree(folder, ignore_errors=True)


class CorpusStream:
    """A corpus that is read a stretch at a time."""

    def __init__(self, corpus: Corpus, *, progress: Callable[[int], None] | None = None) -> None:
        """`progress` is told `n_read`, the number of pairs up to here, after every chunk."""
        self.corpus, self.n_read = corpus, 0
        self._pairs, self._progress = corpus.pairs(), progress
        self._ahead: list[Pair] = []

    def stretch(self, start: int, n_pairs: int) -> Iterator[list[Pair]]:
        """Yield the pairs from `start` on, `n_pairs` at most, in chunks. DataError: see `Corpus.pairs`."""
        if start != self.n_read:
            self.n_read, self._pairs, self._ahead = start, self.corpus.pairs(skip=start), []
        while n := min(CHUNK, start + n_pairs - self.n_read):
            pairs = [*self._ahead, *islice(self._pairs, n - len(self._ahead))]
            self._ahead = []
            if not pairs:
                return
            self.n_read += len(pairs)
            if self._progress:
                self._progress(self.n_read)
            yield pairs

    def has_more(self) -> bool:
        """Whether a pair is left. DataError: see `Corpus.pairs`."""
        self._ahead = self._ahead or list(islice(self._pairs, 1))
        return bool(self._ahead)


@dataclass(frozen=True)
class Encoder:
    """How pairs become ids, and which are skipped."""

    tokenizers: TokenizerPair
    max_length: int
    """Tokens of a sentence, the end token included, at most."""
    dropout: tuple[int, ...] | None
    """The seed of BPE-dropout, or none of it."""
    slots: bool
    """Whether `SLOTS` in the pairs become tokens."""

    def __call__(
        self, pairs: Sequence[Pair], generator: np.random.Generator | None = None
    ) -> tuple[list[tuple[list[int], list[int]]], Skipped]:
        """Return the ids of the usable pairs, end tokens last, and how many pairs are left out."""
        how: dict[str, Any] = {"dropout": generator, "slots": self.slots}
        src = self.tokenizers.src.encode_batch([pair.src for pair in pairs], **how)
        tgt = self.tokenizers.tgt.encode_batch([pair.tgt for pair in pairs], **how)
        filled = [(s, t) for s, t in zip(src, tgt, strict=True) if s and t]
        kept = [(s, t) for s, t in filled if max(len(s), len(t)) < self.max_length]
        for s, t in kept:
            s.append(EOS_ID)
            t.append(EOS_ID)
        return kept, Skipped(len(pairs) - len(filled), len(filled) - len(kept))


def _build(folder: Path, *, reading: CorpusStream, encoder: Encoder, start: int, n_pairs: int) -> None:
    """Write the files of the shard of `n_pairs` pairs from `start` on, or what is not there of them yet."""
    noted = _noted(folder)
    n_read, n_empty, n_long = (noted.get(name, 0) for name in ("n_read", "empty", "too_long"))
    generator = None if encoder.dropout is None else np.random.default_rng([*encoder.dropout, start])
    if generator is not None and noted:
        generator.bit_generator.state = noted["generator"]
    sizes = [tokenizer.vocab_size for tokenizer in (encoder.tokenizers.src, encoder.tokenizers.tgt)]
    with (
        SideWriter(folder, "src", vocab_size=sizes[0], written=noted.get("src")) as src,
        SideWriter(folder, "tgt", vocab_size=sizes[1], written=noted.get("tgt")) as tgt,
    ):
        for pairs in reading.stretch(start + n_read, n_pairs - n_read):
            kept, skipped = encoder(pairs, generator)
            src.append([s for s, _ in kept])
            tgt.append([t for _, t in kept])
            n_read, n_empty, n_long = n_read + len(pairs), n_empty + skipped.empty, n_long + skipped.too_long
            if n_read // NOTED_PAIRS > (n_read - len(pairs)) // NOTED_PAIRS:
                state = None if generator is None else generator.bit_generator.state
                written = {"src": src.written(), "tgt": tgt.written(), "generator": state}
                counted = {"n_read": n_read, "empty": n_empty, "too_long": n_long}
                write_json(folder / f"{PROGRESS}.new", counted | written)
                (folder / f"{PROGRESS}.new").replace(folder / PROGRESS)
    meta = {
        "corpus": reading.corpus.name,
        "n_pairs": src.n_sentences,
        "max_length": encoder.max_length,
        "skipped": Skipped(n_empty, n_long)._asdict(),
        "has_more": reading.has_more(),
        "src": src.meta,
        "tgt": tgt.meta,
    }
    write_json(folder / META, meta)
    (folder / PROGRESS).unlink(missing_ok=True)


def _noted(folder: Path) -> dict[str, Any]:
    """Return what a build that did not come to its end noted, if its files still are as it says; else {}."""
    try:
        noted: dict[str, Any] = parse_json((folder / PROGRESS).read_bytes())
        for name in ("src", "tgt"):
            check_side(folder, name, noted[name]["meta"], sizes=noted[name]["sizes"])
    except (OSError, KeyError, TypeError, ValueError, AttributeError):
        return {}
    return noted


def write_json(path: Path, record: dict[str, Any]) -> None:
    """Write and sync a file about others, after them."""
    with path.open("w", encoding="utf-8") as file:
        json.dump(record, file, indent=1)
        flush(file)


class SideWriter:
    """Appends sentences to the two files of a side."""

    def __init__(
        self, folder: Path, name: str, *, vocab_size: int, written: dict[str, Any] | None = None
    ) -> None:
        """Begin new files; with `written`, which `written` returned, go on after what was there then."""
        self._folder, self._name = folder, name
        self.dtype = np.dtype(np.uint16 if vocab_size < 1 << 16 else np.uint32)
        self.n_sentences = 0 if written is None else int(written["n_sentences"])
        self.n_tokens = 0 if written is None else int(written["meta"]["n_tokens"])
        self._crc = {"ids": 0, "offsets": 0} if written is None else dict(written["meta"]["crc"])
        self._sizes = {"ids": 0, "offsets": 0} if written is None else dict(written["sizes"])

    @property
    def meta(self) -> dict[str, Any]:
        """What `open_side` and `check_side` need to know of the files."""
        return {"dtype": self.dtype.name, "n_tokens": self.n_tokens, "crc": self._crc}

    def written(self) -> dict[str, Any]:
        """Sync all that was appended to the disk, and return what it takes to go on after it."""
        flush(self._ids)
        flush(self._offsets)
        return {"meta": self.meta, "n_sentences": self.n_sentences, "sizes": self._sizes}

    def __enter__(self) -> SideWriter:
        self._ids, self._offsets = self._open("ids"), self._open("offsets")
        if not self._sizes["offsets"]:
            self._write("offsets", np.zeros(1, dtype=np.int64))
        return self

    def _open(self, suffix: str) -> BinaryIO:
        """Open a file after what is written of it; what came later is cut off."""
        size = self._sizes[suffix]
        file = (self._folder / f"{self._name}.{suffix}").open("r+b" if size else "wb")
        file.truncate(size)
        file.seek(size)
        return file

    def append(self, sentences: Sequence[list[int]]) -> None:
        """Write the sentences."""
        lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
        self._write("offsets", self.n_tokens + np.cumsum(lengths))
        n_tokens = int(lengths.sum())
        self._write("ids", np.fromiter(chain.from_iterable(sentences), dtype=self.dtype, count=n_tokens))
        self.n_sentences += len(sentences)
        self.n_tokens += n_tokens

    def _write(self, suffix: str, numbers: npt.NDArray[Any]) -> None:
        data = numbers.tobytes()
        (self._ids if suffix == "ids" else self._offsets).write(data)
        self._crc[suffix] = zlib.crc32(data, self._crc[suffix])
        self._sizes[suffix] += len(data)

    def __exit__(self, *exception: object) -> None:
        with self._ids, self._offsets:
            if exception == (None, None, None):
                flush(self._ids)
                flush(self._offsets)


def chunks(items: Iterator[Item], n: int) -> Iterator[list[Item]]:
    """Yield lists of `n` items, the last one shorter."""
    while chunk := list(islice(items, n)):
        yield chunk


def open_side(folder: Path, name: str, meta: dict[str, Any], *, n_sentences: int) -> Side:
    """Return a side of a finished store, mapped and not read.

    ValueError: a file has not the size it should have.
    """
    mapped = {}
    for suffix, dtype, n in (("ids", meta["dtype"], meta["n_tokens"]), ("offsets", "int64", n_sentences + 1)):
        path, size = folder / f"{name}.{suffix}", n * np.dtype(dtype).itemsize
        if path.stat().st_size != size:
            raise ValueError(f"{path.name} should have {size} bytes")
        # Nothing cannot be mapped.
        mapped[suffix] = np.asarray(np.memmap(path, dtype, mode="r")) if size else np.empty(0, dtype)
    return Side(mapped["ids"], mapped["offsets"])


def check_side(folder: Path, name: str, meta: dict[str, Any], *, sizes: dict[str, int] | None = None) -> None:
    """Compare the files of a side with their checksums. ValueError: one has changed since it was written.

    With `sizes`, the first bytes of each, as many as that.
    """
    for suffix, expected in meta.get("crc", {}).items():  # stores of earlier versions have none
        crc, remaining = 0, math.inf if sizes is None else sizes[suffix]
        with (folder / f"{name}.{suffix}").open("rb") as file:
            while block := file.read(int(min(remaining, 1 << 20))):
                crc, remaining = zlib.crc32(block, crc), remaining - len(block)
        if crc != expected:
            raise ValueError(f"{name}.{suffix} has changed since it was written")


def flush(file: Any) -> None:
    """Sync `file` to the disk."""
    file.flush()
    os.fsync(file.fileno())
