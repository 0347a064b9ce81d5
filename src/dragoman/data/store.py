"""A corpus as ids, in memory-mapped files: a million sentences, and no Python object for any of them.

cache/<key>/
    src.ids, tgt.ids            the ids of all sentences one after the other, end tokens included
    src.offsets, tgt.offsets    int64: sentence i is ids[offsets[i]:offsets[i + 1]]
    meta.json                   counts and types; written last

The key is a hash of corpus, tokenizers and settings, so a store is made once and never goes stale.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from dragoman.data.corpora import Corpus
from dragoman.errors import DataError
from dragoman.text.tokenizer import EOS_ID, PAD_ID, TokenizerPair

FORMAT = 1
"""Goes into every key: raise it where the files or the text's treatment change."""

CHUNK = 4096
"""Texts or pairs that are encoded at once."""

Store = TypeVar("Store")
Item = TypeVar("Item")


class Skipped(NamedTuple):
    """Pairs that a store leaves out: with an empty side, or too long on either."""

    empty: int
    too_long: int

    def describe(self, *, n_kept: int, max_length: int) -> str:
        """What was left out, in one line; "" where nothing was."""
        reasons = []
        if self.empty:
            reasons.append(f"{self.empty} empty on one side")
        if self.too_long:
            reasons.append(f"{self.too_long} longer than {max_length} tokens (data.max_length)")
        if not reasons:
            return ""
        return f"skipped {sum(self)} of {n_kept + sum(self)} pairs: {', '.join(reasons)}"


class Side:
    """The sentences of one language. `side[i]` are the ids of sentence i, the end token last."""

    def __init__(self, ids: npt.NDArray[Any], offsets: npt.NDArray[np.int64]) -> None:
        self.ids, self.offsets = ids, offsets
        self.lengths = np.diff(offsets).astype(np.int32)

    def __getitem__(self, i: int) -> npt.NDArray[Any]:
        return self.ids[self.offsets[i] : self.offsets[i + 1]]

    def padded(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The sentences at `indices` as rows (B, S), filled up with PAD_ID."""
        lengths = self.lengths[indices][:, None]  # (B, 1)
        columns = np.arange(lengths.max())[None, :]  # (1, S)
        is_token = columns < lengths  # (B, S)
        rows = np.full(is_token.shape, PAD_ID, dtype=np.int64)
        rows[is_token] = self.ids[(self.offsets[indices][:, None] + columns)[is_token]]
        return rows


class TokenStore:
    """The usable pairs of a corpus as ids, in the corpus' order; `len(store)` is their number.

    Lengths count the end token and not the start token, which no sentence here has.
    """

    def __init__(self, folder: Path) -> None:
        """The finished store in `folder`; `prepare` makes one. ValueError: it is not complete."""
        try:
            meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
            self.source, self.target = (
                open_side(folder, name, meta[name], n_sentences=meta["n_pairs"]) for name in ("src", "tgt")
            )
            self.skipped = Skipped(**meta["skipped"])
            self._n_pairs, self.max_length = int(meta["n_pairs"]), int(meta["max_length"])
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{folder}: not a complete token store ({error})") from None

    def __len__(self) -> int:
        return self._n_pairs

    @property
    def src_lengths(self) -> npt.NDArray[np.int32]:
        """Tokens of each source sentence, the end token included."""
        return self.source.lengths

    @property
    def tgt_lengths(self) -> npt.NDArray[np.int32]:
        """Tokens of each target sentence, the end token included."""
        return self.target.lengths

    def src(self, i: int) -> npt.NDArray[Any]:
        """The source ids of pair `i`, the end token last."""
        return self.source[i]

    def tgt(self, i: int) -> npt.NDArray[Any]:
        """The target ids of pair `i`, the end token last."""
        return self.target[i]

    def skipped_message(self) -> str:
        """How many pairs of the corpus were left out, and why, in one line; "" where none was."""
        return self.skipped.describe(n_kept=len(self), max_length=self.max_length)

    @classmethod
    def prepare(
        cls,
        corpus: Corpus,
        tokenizers: TokenizerPair,
        *,
        max_length: int,
        cache: Path,
        dropout: bool = False,
        draw: int = 0,
        progress: Callable[[int], None] | None = None,
    ) -> TokenStore:
        """The store of `corpus` in the folder `cache`: opened where it is complete, made where it is not.

        Pairs with an empty side, or of more than `max_length` tokens on either, are skipped and counted.
        `progress` is told, now and then, how many pairs have been read.

        `dropout` segments at random (BPE-dropout), once for every number `draw`: with draw = epoch each
        epoch sees other segmentations. The tokenizer's generator takes no seed, so only what lies in
        `cache` can be repeated: delete it, and the next draw is another one.

        DataError: the corpus cannot be read, no pair is usable, or the disk is full. Nothing half-written
        stays behind.
        """
        parts = (
            f"{FORMAT} {corpus.fingerprint()} {tokenizers.src.fingerprint} {tokenizers.tgt.fingerprint} "
            f"{max_length} {draw if dropout else None}"
        )

        def build(folder: Path) -> None:
            _build(folder, corpus, tokenizers, max_length=max_length, dropout=dropout, progress=progress)

        return prepare_store(cache, parts, name=corpus.name, opened=cls, build=build)


def prepare_store(
    cache: Path,
    key: str,
    *,
    name: str,
    opened: Callable[[Path], Store],
    build: Callable[[Path], None],
) -> Store:
    """What `opened` makes of the folder of `key` in `cache`, where `build` first writes it if need be.

    `opened` raises ValueError for a folder that is not complete. DataError: the disk is full.
    """
    folder = cache / hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
    try:
        return opened(folder)
    except ValueError:
        pass  # not there yet, or damaged: made anew
    try:
        cache.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(cache)
        partial = Path(tempfile.mkdtemp(prefix=folder.name, suffix=".partial", dir=cache))
        try:
            build(partial)
            _publish(partial, folder, opened)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return opened(folder)
    except OSError as error:
        raise DataError(
            f"{cache}: cannot hold the token store of {name} ({error.strerror or error}); "
            "free some space there, or choose another folder"
        ) from None


def _build(
    folder: Path,
    corpus: Corpus,
    tokenizers: TokenizerPair,
    *,
    max_length: int,
    dropout: bool,
    progress: Callable[[int], None] | None,
) -> None:
    """Writes all the files of a store into the empty `folder`."""
    n_read = n_empty = n_long = 0
    with ExitStack() as stack:
        src = stack.enter_context(SideWriter(folder, "src", vocab_size=tokenizers.src.vocab_size))
        tgt = stack.enter_context(SideWriter(folder, "tgt", vocab_size=tokenizers.tgt.vocab_size))
        for pairs in chunks(corpus.pairs(), CHUNK):
            src_ids = tokenizers.src.encode_batch([pair.src for pair in pairs], dropout=dropout)
            tgt_ids = tokenizers.tgt.encode_batch([pair.tgt for pair in pairs], dropout=dropout)
            filled = [(s, t) for s, t in zip(src_ids, tgt_ids, strict=True) if s and t]
            kept = [(s, t) for s, t in filled if max(len(s), len(t)) < max_length]
            for s, t in kept:
                s.append(EOS_ID)
                t.append(EOS_ID)
            src.append([s for s, _ in kept])
            tgt.append([t for _, t in kept])
            n_read += len(pairs)
            n_empty += len(pairs) - len(filled)
            n_long += len(filled) - len(kept)
            if progress:
                progress(n_read)
    skipped = Skipped(n_empty, n_long)
    if not src.n_sentences:
        raise DataError(
            f"{corpus.name}: no usable pair; {skipped.describe(n_kept=0, max_length=max_length)}; "
            "raise data.max_length or check the files"
        )
    meta = {
        "corpus": corpus.name,
        "n_pairs": src.n_sentences,
        "max_length": max_length,
        "skipped": skipped._asdict(),
        "src": src.meta,
        "tgt": tgt.meta,
    }
    write_meta(folder, meta)


def write_meta(folder: Path, meta: dict[str, Any]) -> None:
    """Writes the meta.json of a store, as the last of its files."""
    with (folder / "meta.json").open("w", encoding="utf-8") as file:
        json.dump(meta, file, indent=1)
        flush(file)


class SideWriter:
    """Appends sentences to the two files of a side."""

    def __init__(self, folder: Path, name: str, *, vocab_size: int) -> None:
        self._folder, self._name = folder, name
        self.dtype = np.dtype(np.uint16 if vocab_size < 1 << 16 else np.uint32)
        self.n_sentences = self.n_tokens = 0

    @property
    def meta(self) -> dict[str, Any]:
        """What `open_side` needs to know of the files."""
        return {"dtype": self.dtype.name, "n_tokens": self.n_tokens}

    def __enter__(self) -> SideWriter:
        self._ids = (self._folder / f"{self._name}.ids").open("wb")
        self._offsets = (self._folder / f"{self._name}.offsets").open("wb")
        self._offsets.write(np.zeros(1, dtype=np.int64).tobytes())
        return self

    def append(self, sentences: Sequence[list[int]]) -> None:
        """Writes the sentences."""
        lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
        self._offsets.write((self.n_tokens + np.cumsum(lengths)).tobytes())
        n_tokens = int(lengths.sum())
        tokens = np.fromiter(chain.from_iterable(sentences), dtype=self.dtype, count=n_tokens)
        self._ids.write(tokens.tobytes())
        self.n_sentences += len(sentences)
        self.n_tokens += n_tokens

    def __exit__(self, *exception: object) -> None:
        with self._ids, self._offsets:
            if exception == (None, None, None):
                flush(self._ids)
                flush(self._offsets)


def chunks(items: Iterator[Item], n: int) -> Iterator[list[Item]]:
    """Lists of `n` items, the last one shorter."""
    while chunk := list(islice(items, n)):
        yield chunk


def open_side(folder: Path, name: str, meta: dict[str, Any], *, n_sentences: int) -> Side:
    """A side of a finished store, mapped and not read. ValueError: a file has not the size it should have."""
    dtype, n_tokens = np.dtype(meta["dtype"]), meta["n_tokens"]
    sizes = {"ids": n_tokens * dtype.itemsize, "offsets": (n_sentences + 1) * 8}
    for suffix, size in sizes.items():
        if (folder / f"{name}.{suffix}").stat().st_size != size:
            raise ValueError(f"{name}.{suffix} should have {size} bytes")
    ids = np.memmap(folder / f"{name}.ids", dtype=dtype, mode="r")
    offsets = np.memmap(folder / f"{name}.offsets", dtype=np.int64, mode="r")
    return Side(np.asarray(ids), np.asarray(offsets))


def _publish(partial: Path, folder: Path, opened: Callable[[Path], Store]) -> None:
    """Gives a finished store its name, in place of a damaged one if need be."""
    if folder.exists():
        try:
            opened(folder)
        except ValueError:
            shutil.rmtree(folder)
        else:
            return  # another process was faster, and made the same
    partial.rename(folder)
    if os.name == "posix":
        handle = os.open(folder.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _remove_abandoned(cache: Path) -> None:
    """Removes what builds left behind that were killed more than a day ago."""
    for partial in cache.glob("*.partial"):
        if time.time() - partial.stat().st_mtime > 24 * 3600:
            shutil.rmtree(partial, ignore_errors=True)


def flush(file: Any) -> None:
    """What was written to `file` is on the disk."""
    file.flush()
    os.fsync(file.fileno())
