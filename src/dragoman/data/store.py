"""A corpus as ids in memory-mapped files: millions of records without Python objects.

cache/<key>/
    src.ids, tgt.ids            the ids of all sentences one after the other, end tokens included
    src.offsets, tgt.offsets    int64: sentence i is ids[offsets[i]:offsets[i + 1]]
    meta.json                   counts and types; written last

The columns of labelled texts are text and label; the ids of a label cell are the numbers of its classes.

The key is a hash of corpus, tokenizers and settings, so a store is made once and never goes stale. A corpus
of more than SHARD_PAIRS pairs lies in several such folders, its shards: the key of each but the first also
says how many pairs come before it.

A shard grows in cache/<key>.partial. A build that is killed keeps the shards that are finished.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cached_property, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from dragoman.config import parse_json
from dragoman.data.labelled import class_numbers, numbers_of
from dragoman.data.records import Corpus, Labelled, Pair
from dragoman.errors import DataError, counted
from dragoman.files import locked, sync
from dragoman.metrics.labelling import Labels
from dragoman.text.tokenizer import EOS_ID, PAD_ID, Tokenizer, TokenizerPair

FORMAT, LABELLED_FORMAT = 1, 2
"""Goes into every key: raise it where the files or the text's treatment change."""

CHUNK = 4096
"""Records that are encoded at once."""

SHARD_PAIRS = 1 << 22
"""Pairs of a corpus in a shard, skipped ones included.

They bound its files, the memory of planning, and what a killed build makes again: two minutes' work.
"""

ABANDONED = 24 * 3600.0
"""Seconds after which what another build left behind is removed: it was killed."""

META = "meta.json"


class Skipped(NamedTuple):
    """What a store leaves out."""

    empty: int = 0
    """Pairs with an empty side, or texts without a word."""
    too_long: int = 0
    """Pairs that are too long on either side."""
    cut: int = 0
    """Texts that lost their end ..."""
    cut_tokens: int = 0
    """... and the tokens it had."""

    def __add__(self, other: tuple[int, ...]) -> Skipped:  # type: ignore[override]
        return Skipped(*map(sum, zip(self, other, strict=True)))


class Side:
    """A column, as the sentences of one language. `side[i]` are the ids of record i."""

    def __init__(self, ids: npt.NDArray[Any], offsets: npt.NDArray[np.int64]) -> None:
        self.ids, self.offsets = ids, offsets

    @cached_property
    def lengths(self) -> npt.NDArray[np.int32]:
        """Ids of each record, an end token included."""
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


class Shard:
    """The usable ones of consecutive records of a corpus, as ids in files; `len(shard)` is their number."""

    def __init__(self, folder: Path, columns: Sequence[str]) -> None:
        """Open the finished shard in `folder`. ValueError: it is incomplete, or has changed."""
        self.folder, self._columns = folder, columns
        try:
            self._meta = parse_json((folder / META).read_bytes())
            self._n_records = int(self._meta["n_pairs"])
            self.skipped = Skipped(**self._meta["skipped"])
            self.n_tokens = [int(self._meta[name]["n_tokens"]) for name in columns]
            self.has_more = bool(self._meta.get("has_more", False))
            for name in columns:
                for suffix in ("ids", "offsets"):
                    if checksum_of(folder / f"{name}.{suffix}") != self._meta[name]["crc"][suffix]:
                        raise ValueError(f"{name}.{suffix} has changed since it was written")
        except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"{folder}: not a complete token store ({error})") from error

    def __len__(self) -> int:
        return self._n_records

    @property
    def n_read(self) -> int:
        """Records of the corpus that it stands for, skipped ones included."""
        return len(self) + self.skipped.empty + self.skipped.too_long

    def open(self) -> list[Side]:
        """Return its columns, mapped and not read."""
        sides = []
        for name in self._columns:
            ids, dtype = np.empty(0, dtype=np.int64), self._meta[name]["dtype"]
            if self._meta[name]["n_tokens"]:  # nothing cannot be mapped
                ids = np.asarray(np.memmap(self.folder / f"{name}.ids", dtype, mode="r"))
            offsets = np.asarray(np.memmap(self.folder / f"{name}.offsets", np.int64, mode="r"))
            sides.append(Side(ids, offsets))
        return sides


class Store:
    """The usable records of a corpus as ids, in the corpus' order; `len(store)` is their number."""

    is_together = False
    """Whether shards stay mapped, and a batch may hold records of several; else memory is that of one."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards = shards
        self.starts = np.cumsum([0, *map(len, shards)])
        """Shard k holds the records from starts[k] to starts[k + 1]."""
        self.skipped = sum((shard.skipped for shard in shards), Skipped())
        self._opened: dict[int, list[Side]] = {}

    def __len__(self) -> int:
        return int(self.starts[-1])

    def sides(self, k: int) -> list[Side]:
        """Return the columns of shard `k`; those of the shard before are let go, unless all stay mapped."""
        if k not in self._opened:
            if not self.is_together:
                self._opened.clear()
            self._opened[k] = self.shards[k].open()
        return self._opened[k]


class TokenStore(Store):
    """The usable pairs of a corpus: source and target, each with its end token.

    Lengths count the end token and not the start token, which no sentence here has.
    """

    def __init__(self, shards: Sequence[Shard], *, max_length: int) -> None:
        super().__init__(shards)
        self.max_length = max_length
        self.n_src_tokens, self.n_tgt_tokens = map(sum, zip(*(s.n_tokens for s in shards), strict=True))
        """Tokens of all source and of all target sentences, end tokens included."""

    @property
    def blocks(self) -> list[range]:
        """Shards by their numbers: the pairs of a batch lie in one block, a shard or all of them."""
        n = len(self.shards)
        return [range(n)] if self.is_together else [range(k, k + 1) for k in range(n)]

    def src(self, i: int) -> npt.NDArray[Any]:
        """Return the source ids of pair `i`, the end token last."""
        k = self.shard_of(i)
        return self.sides(k)[0][i - self.starts[k]]

    def tgt(self, i: int) -> npt.NDArray[Any]:
        """Return the target ids of pair `i`, the end token last."""
        k = self.shard_of(i)
        return self.sides(k)[1][i - self.starts[k]]

    def padded(self, indices: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
        """Source rows (B, S) and target rows (B, T) of the pairs at `indices`, which lie in one block.

        No ids of other pairs are read.
        """
        parts = [
            (rows, [side.padded(inside) for side in self.sides(k)])
            for k, rows, inside in self._by_shard(indices)
        ]
        if len(parts) == 1:
            return parts[0][1]
        padded = []
        for of_side in zip(*(sides for _, sides in parts), strict=True):
            whole = np.full((len(indices), max(ids.shape[1] for ids in of_side)), PAD_ID, dtype=np.int64)
            for (rows, _), ids in zip(parts, of_side, strict=True):
                whole[rows, : ids.shape[1]] = ids
            padded.append(whole)
        return padded

    def lengths(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """(2, B): tokens of the sources and of the targets of the pairs at `indices`, in one block."""
        lengths = np.empty((2, len(indices)), dtype=np.int32)
        for k, rows, inside in self._by_shard(indices):
            lengths[:, rows] = [side.lengths[inside] for side in self.sides(k)]
        return lengths

    def _by_shard(
        self, indices: npt.NDArray[np.int64]
    ) -> Iterator[tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """Yield each shard that holds pairs at `indices`, which of them it holds, and their places in it."""
        shards = np.searchsorted(self.starts, indices, side="right") - 1
        for k in np.unique(shards).tolist():
            rows = np.flatnonzero(shards == k)
            yield k, rows, indices[rows] - self.starts[k]

    def shard_of(self, i: int | np.int64) -> int:
        """Return the number of the shard that holds pair `i`."""
        return int(np.searchsorted(self.starts, i, side="right")) - 1

    def skipped_message(self) -> str:
        """How many pairs of the corpus were left out, and why, in one line; "" where none was."""
        n_empty, n_long = self.skipped.empty, self.skipped.too_long
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
        `progress` is told, after every chunk, how many pairs have been read. `dropout` segments at random
        (BPE-dropout) from this seed: with (seed, epoch), each epoch of a training sees other segmentations,
        and the same ones when it is repeated.

        DataError: the corpus cannot be read, no pair is usable, or the disk is full.
        """
        key = (
            f"{FORMAT} {corpus.fingerprint()} {tokenizers.src.fingerprint} {tokenizers.tgt.fingerprint} "
            f"{max_length} {dropout}"
        )
        sizes = {"src": tokenizers.src.vocab_size, "tgt": tokenizers.tgt.vocab_size}
        encode = partial(encode_pairs, tokenizers, max_length=max_length, slots=corpus.has_slots)
        maker = ShardMaker(corpus, encode, sizes, dropout, cache=cache, most=shard_pairs, progress=progress)
        store = cls(maker.shards(key), max_length=max_length)
        if not len(store):
            raise DataError(
                f"{corpus.name}: no usable pair; {store.skipped_message()}; "
                "raise data.max_length or check the files"
            )
        return store


class LabelledStore(Store):
    """The texts of a corpus that are not empty, and their labels, in one shard."""

    def __init__(self, shards: Sequence[Shard], *, n_classes: int, several: bool) -> None:
        """`several`: a text may have any number of labels."""
        super().__init__(shards)
        self.text, cells = self.sides(0)
        self.labels: Labels = cells.ids.astype(np.int32)
        """(N,) class numbers, or (N, C) 0 and 1."""
        if several:
            self.labels = np.zeros((len(self), n_classes), dtype=np.uint8)
            self.labels[np.repeat(np.arange(len(self)), cells.lengths), cells.ids] = 1

    @property
    def lengths(self) -> npt.NDArray[np.int32]:
        """Tokens of each text."""
        return self.text.lengths

    def gathered(self, texts: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the ids of `texts`, one after the other, and the tokens that each has."""
        ids = [self.text[i] for i in texts.tolist()]
        return np.concatenate(ids).astype(np.int64), self.lengths[texts].astype(np.int64)

    def notes(self) -> list[str]:
        """Return a line for each kind of skipped examples of the corpus."""
        n_empty, _, n_texts, n_tokens = self.skipped
        lines = [f"skipped {counted(n_empty, 'text')}: they are empty"] if n_empty else []
        if n_texts:
            lines.append(f"cut {n_tokens:,} tokens off {n_texts:,} of {len(self):,} texts (data.max_windows)")
        return lines

    @classmethod
    def prepare(
        cls,
        corpus: Corpus,
        tokenizer: Tokenizer,
        *,
        labels: Sequence[str],
        max_tokens: int,
        cache: Path,
        dropout: tuple[int, ...] | None = None,
    ) -> LabelledStore:
        """Return the store of `corpus` in the folder `cache`; make it if it is missing or incomplete.

        `labels` are the names of the classes in their order. Texts end after `max_tokens` tokens (0: never);
        what that cuts is counted. `dropout`: see `TokenStore.prepare`. DataError: the corpus
        cannot be read, has a label that is not among `labels`, or no text; or the disk is full.
        """
        key = (
            f"labelled {LABELLED_FORMAT} {corpus.fingerprint()} {tokenizer.fingerprint} "
            f"{json.dumps(list(labels))} {max_tokens} {dropout}"
        )
        encode = partial(encode_texts, corpus, tokenizer, class_numbers(labels), max_tokens=max_tokens)
        sizes = {"text": tokenizer.vocab_size, "label": len(labels)}
        shards = ShardMaker(corpus, encode, sizes, dropout, cache=cache, most=sys.maxsize).shards(key)
        if not len(shards[0]):
            raise DataError(f"{corpus.name}: no text to learn from; check the file and data.text_column")
        return cls(shards, n_classes=len(labels), several=bool(corpus.separator))


Encode = Callable[
    [Sequence[Any], "np.random.Generator | None"], tuple[Sequence[Sequence[list[int]]], Skipped]
]
"""Returns each column of the usable ones of some records, as ids, and what is left out."""


def encode_pairs(
    tokenizers: TokenizerPair,
    records: Sequence[Pair],
    generator: np.random.Generator | None,
    *,
    max_length: int,
    slots: bool,
) -> tuple[Sequence[Sequence[list[int]]], Skipped]:
    """Encode pairs of `max_length` tokens a side at most, end tokens last, which count.

    `slots`: whether `SLOTS` in the pairs become tokens.
    """
    src = tokenizers.src.encode_batch([pair.src for pair in records], dropout=generator, slots=slots)
    tgt = tokenizers.tgt.encode_batch([pair.tgt for pair in records], dropout=generator, slots=slots)
    filled = [pair for pair in zip(src, tgt, strict=True) if all(pair)]
    kept = [pair for pair in filled if max(map(len, pair)) < max_length]
    columns = [[[*pair[i], EOS_ID] for pair in kept] for i in (0, 1)]
    return columns, Skipped(empty=len(records) - len(filled), too_long=len(filled) - len(kept))


def encode_texts(
    corpus: Corpus,
    tokenizer: Tokenizer,
    numbers: Mapping[str, int],
    records: Sequence[Labelled],
    generator: np.random.Generator | None,
    *,
    max_tokens: int,
) -> tuple[Sequence[Sequence[list[int]]], Skipped]:
    """Encode texts, of which `max_tokens` are kept (0: all), and the cells of their labels as numbers."""
    ids = tokenizer.encode_batch([example.text for example in records], dropout=generator)
    kept = [(whole, example.label) for whole, example in zip(ids, records, strict=True) if whole]
    lost = [max(0, len(whole) - (max_tokens or len(whole))) for whole, _ in kept]
    separator = corpus.separator or ""
    classes = [numbers_of(cell, numbers, separator=separator, where=corpus.name) for _, cell in kept]
    skipped = Skipped(len(records) - len(kept), cut=sum(n > 0 for n in lost), cut_tokens=sum(lost))
    return [[whole[: max_tokens or None] for whole, _ in kept], classes], skipped


class ShardMaker:
    """Opens the shards of a corpus in a folder, and makes those that are missing."""

    def __init__(
        self,
        corpus: Corpus,
        encode: Encode,
        vocab_sizes: Mapping[str, int],
        dropout: tuple[int, ...] | None,
        *,
        cache: Path,
        most: int,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """`vocab_sizes` says the different ids of each column, `most` the records of a shard.

        `dropout` is the seed of BPE-dropout; None: there is none. `progress`: see `TokenStore.prepare`.
        """
        self.corpus, self.encode, self.vocab_sizes = corpus, encode, vocab_sizes
        self.cache, self.most, self.dropout, self.progress = cache, most, dropout, progress
        self._columns = list(vocab_sizes)
        self._n_read, self._records = 0, corpus.records()  # from this number on

    def shards(self, key: str) -> list[Shard]:
        """Return all shards. `key` says all that they depend on. DataError: see `TokenStore.prepare`."""
        shards: list[Shard] = []
        while not shards or shards[-1].has_more:
            start = sum(shard.n_read for shard in shards)
            whole = f"{key} {start}" if start else key
            folder = self.cache / hashlib.blake2b(whole.encode(), digest_size=16).hexdigest()
            shards.append(self._prepare(folder, start))
        return shards

    def _prepare(self, folder: Path, start: int) -> Shard:
        """Open the shard in `folder`; if it is missing, it is written first, whole or not at all."""
        unfinished = folder.with_suffix(".partial")
        with suppress(ValueError):
            return Shard(folder, self._columns)
        try:
            self.cache.mkdir(parents=True, exist_ok=True)
            with locked(folder.with_suffix(".lock"), what=folder, wait=math.inf):
                with suppress(ValueError):
                    return Shard(folder, self._columns)  # another process has made it meanwhile
                for killed in self.cache.glob("*.partial"):
                    if killed == unfinished or time.time() - killed.stat().st_mtime > ABANDONED:
                        shutil.rmtree(killed, ignore_errors=True)
                unfinished.mkdir()
                try:
                    self._build(unfinished, start)
                    shutil.rmtree(folder, ignore_errors=True)  # a damaged one
                    unfinished.rename(folder)
                    sync(self.cache)
                finally:
                    shutil.rmtree(unfinished, ignore_errors=True)
            return Shard(folder, self._columns)
        except OSError as error:
            raise DataError(
                f"{self.cache}: cannot hold the token store of {self.corpus.name} "
                f"({error.strerror or error}); free some space there, or choose another folder"
            ) from error

    def _build(self, folder: Path, start: int) -> None:
        """Write the files of the shard from record `start` on."""
        if start != self._n_read:
            self._n_read, self._records = start, self.corpus.records(skip=start)
        generator = None if self.dropout is None else np.random.default_rng([*self.dropout, start])
        n_kept, skipped = 0, Skipped()
        with ExitStack() as opened:
            writers = {
                name: ColumnWriter(folder, name, opened, vocab_size=size)
                for name, size in self.vocab_sizes.items()
            }
            while records := list(islice(self._records, min(CHUNK, start + self.most - self._n_read))):
                self._n_read += len(records)
                if self.progress:
                    self.progress(self._n_read)
                columns, left_out = self.encode(records, generator)
                for writer, column in zip(writers.values(), columns, strict=True):
                    writer.append(column)
                n_kept, skipped = n_kept + len(columns[0]), skipped + left_out
            ahead = list(islice(self._records, 1))
            self._records = chain(ahead, self._records)
            meta = {"corpus": self.corpus.name, "n_pairs": n_kept, "skipped": skipped._asdict()}
            meta |= {"has_more": bool(ahead)} | {name: one.written() for name, one in writers.items()}
            with (folder / META).open("w", encoding="utf-8") as file:
                json.dump(meta, file, indent=1)
                flush(file)


def keep_only(stores: Sequence[Store], cache: Path) -> None:
    """Remove every other store from the folder `cache`: those of past epochs."""
    kept = {shard.folder for store in stores for shard in store.shards}
    for folder in cache.iterdir():
        if folder not in kept and folder.is_dir():
            shutil.rmtree(folder, ignore_errors=True)


class ColumnWriter:
    """Writes records to the two files of a column."""

    def __init__(self, folder: Path, name: str, opened: ExitStack, *, vocab_size: int) -> None:
        dtype = "uint16" if vocab_size < 1 << 16 else "uint32"
        self.meta: dict[str, Any] = {"dtype": dtype, "n_tokens": 0, "crc": {"ids": 0, "offsets": 0}}
        self._files: dict[str, BinaryIO] = {
            suffix: opened.enter_context((folder / f"{name}.{suffix}").open("wb"))
            for suffix in self.meta["crc"]
        }
        self._write("offsets", np.zeros(1, dtype=np.int64))

    def append(self, records: Sequence[Sequence[int]]) -> None:
        """Write the ids of records."""
        lengths = np.fromiter(map(len, records), dtype=np.int64, count=len(records))
        self._write("offsets", self.meta["n_tokens"] + np.cumsum(lengths))
        n_ids = int(lengths.sum())
        self._write("ids", np.fromiter(chain.from_iterable(records), dtype=self.meta["dtype"], count=n_ids))
        self.meta["n_tokens"] += n_ids

    def _write(self, suffix: str, numbers: npt.NDArray[Any]) -> None:
        data = numbers.tobytes()
        self._files[suffix].write(data)
        self.meta["crc"][suffix] = zlib.crc32(data, self.meta["crc"][suffix])

    def written(self) -> dict[str, Any]:
        """Sync all that was appended to the disk, and return what it takes to read it, or to go on."""
        for file in self._files.values():
            flush(file)
        return self.meta


def checksum_of(path: Path) -> int:
    """Return the CRC-32 of a file."""
    crc = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            crc = zlib.crc32(block, crc)
    return crc


def flush(file: Any) -> None:
    """Sync `file` to the disk."""
    file.flush()
    os.fsync(file.fileno())
