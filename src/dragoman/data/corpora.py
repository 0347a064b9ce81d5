"""Parallel text, read as a stream: two aligned files, a tab-separated file, or the embedded phrasebook.

Files are UTF-8, plain or compressed (.gz, .xz, .zst). Whatever is wrong with one is a `DataError` of one
line that names the file, the line and the remedy.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import os
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from dragoman.errors import DataError, MissingExtraError

PHRASEBOOK = "phrasebook:"


class Pair(NamedTuple):
    """A sentence and its translation, as they stand in the corpus."""

    src: str
    tgt: str


def has_text(pair: Pair) -> bool:
    """Both sides hold more than white space."""
    return bool(pair.src.strip() and pair.tgt.strip())


class Corpus(ABC):
    """Pairs that can be read again and again. `name` says in messages where they come from."""

    name: str

    def pairs(self) -> Iterator[Pair]:
        """Every pair in order, those with an empty side included.

        DataError, when it is met: a file cannot be read or does not fit the other; at the end: there was
        no pair, or none with text on both sides.
        """
        n_pairs = n_usable = 0
        for pair in self._read():
            n_pairs += 1
            n_usable += has_text(pair)
            yield pair
        if not n_pairs:
            raise DataError(f"{self.name}: empty corpus; give files with one sentence a line")
        if not n_usable:
            raise DataError(
                f"{self.name}: none of the {n_pairs} lines has text on both sides; "
                "check that the files, languages and columns are the right ones"
            )

    @abstractmethod
    def _read(self) -> Iterator[Pair]:
        """Every pair in order."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A hash of the content: corpora of equal hash hold the same pairs."""


class AlignedFiles(Corpus):
    """Two files whose lines match one by one."""

    def __init__(self, src: Path, tgt: Path) -> None:
        self.src, self.tgt = src, tgt
        self.name = f"{src} + {tgt}"

    def _read(self) -> Iterator[Pair]:
        n_src = n_tgt = 0
        for src, tgt in zip_longest(open_lines(self.src), open_lines(self.tgt)):
            n_src += src is not None
            n_tgt += tgt is not None
            if src is not None and tgt is not None:
                yield Pair(src, tgt)
        if n_src != n_tgt:
            hint = locate_drift(
                [_n_characters(self.src), _n_characters(self.tgt)], names=[str(self.src), str(self.tgt)]
            )
            raise DataError(
                f"{self.src} has {n_src} lines and {self.tgt} {n_tgt}; "
                f"parallel files must match line by line{hint and f' ({hint})'}"
            )

    def fingerprint(self) -> str:
        return _hash("aligned", _hash_file(self.src), _hash_file(self.tgt))


class TabSeparated(Corpus):
    """One file with source and target in two of its columns, which are counted from 0."""

    def __init__(self, path: Path, columns: tuple[int, int]) -> None:
        self.path, self.columns = path, columns
        self.name = str(path)

    def _read(self) -> Iterator[Pair]:
        src, tgt = self.columns
        for n, line in enumerate(open_lines(self.path), start=1):
            fields = line.split("\t")
            if len(fields) > max(src, tgt):
                yield Pair(fields[src], fields[tgt])
            elif not line.strip():
                yield Pair("", "")
            else:
                raise DataError(
                    f"{self.path} line {n}: no column {max(src, tgt)}, counted from 0, among {len(fields)}; "
                    "separate the columns by tabs, or name others with data.columns"
                )

    def fingerprint(self) -> str:
        return _hash("columns", *map(str, self.columns), _hash_file(self.path))


class Phrasebook(Corpus):
    """A split of the corpus that comes with Dragoman."""

    def __init__(self, split: str, *, src_lang: str, tgt_lang: str) -> None:
        from dragoman.data import phrasebook

        self.name = PHRASEBOOK + split
        if split not in phrasebook.SPLITS:
            raise DataError(f"{self.name}: no such split; there are {', '.join(phrasebook.SPLITS)}")
        for lang in (src_lang, tgt_lang):
            if lang not in phrasebook.LANGUAGES:
                known = ", ".join(phrasebook.LANGUAGES)
                raise DataError(f"{self.name}: no language {lang!r} in the phrasebook; there are {known}")
        self.split, self.src_lang, self.tgt_lang = split, src_lang, tgt_lang

    def _read(self) -> Iterator[Pair]:
        from dragoman.data.phrasebook import pairs

        for src, tgt in pairs(self.split, self.src_lang, self.tgt_lang):
            yield Pair(src, tgt)

    def fingerprint(self) -> str:
        return _hash("phrasebook", *(text for pair in self._read() for text in pair))


class _Part(Corpus):
    """The pairs of a corpus whose source is among the held-out ones, or those whose source is not."""

    def __init__(
        self, corpus: Corpus, held_out: frozenset[int], *, seed: int, name: str, inside: bool
    ) -> None:
        self.corpus, self.held_out, self.seed, self.inside = corpus, held_out, seed, inside
        self.name = f"{corpus.name} ({name})"

    def _read(self) -> Iterator[Pair]:
        for pair in self.corpus.pairs():
            if (_hash_source(pair, self.seed) in self.held_out) == self.inside:
                yield pair

    def fingerprint(self) -> str:
        held_out = map(str, sorted(self.held_out))
        return _hash("part", self.corpus.fingerprint(), str(self.seed), str(self.inside), *held_out)


def open_corpus(
    files: Sequence[str], *, src_lang: str, tgt_lang: str, columns: tuple[int, int] = (0, 1)
) -> Corpus:
    """The corpus in two aligned files, one tab-separated file, or a split such as "phrasebook:train".

    A relative name is looked up in the working directory, then in $DRAGOMAN_DATA. DataError: a file is
    missing, or there is no such split or language.
    """
    if not 1 <= len(files) <= 2:
        raise DataError(f"a corpus of {len(files)} files; give two aligned files or one tab-separated file")
    if len(files) == 2:
        return AlignedFiles(find_file(files[0]), find_file(files[1]))
    if files[0].startswith(PHRASEBOOK):
        return Phrasebook(files[0].removeprefix(PHRASEBOOK), src_lang=src_lang, tgt_lang=tgt_lang)
    if min(columns) < 0:
        raise DataError(f"{files[0]}: column {min(columns)}; columns are counted from 0 (data.columns)")
    return TabSeparated(find_file(files[0]), columns)


def find_file(name: str) -> Path:
    """Where the file `name` is: in the working directory or in $DRAGOMAN_DATA. DataError: in neither."""
    folders = [Path()]
    if os.environ.get("DRAGOMAN_DATA"):
        folders.append(Path(os.environ["DRAGOMAN_DATA"]))
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    if Path(name).is_absolute():
        raise DataError(f"{name}: no such file; check the path")
    elsewhere = f"$DRAGOMAN_DATA = {folders[1]}" if len(folders) > 1 else "$DRAGOMAN_DATA, which is not set"
    raise DataError(f"{name}: no such file in {Path.cwd()} nor in {elsewhere}; check the path")


def split_held_out(corpus: Corpus, *, n_held_out: int, seed: int) -> tuple[Corpus, Corpus]:
    """The corpus without, and the corpus of, about `n_held_out` random pairs: at most that, or a tenth.

    Pairs with the same source stay together, so that no held-out source is also trained on. The choice
    depends on `seed` and the text alone, not on the order of lines. DataError: too few different sources.
    """
    hashes = np.fromiter(
        (_hash_source(pair, seed) for pair in corpus.pairs() if has_text(pair)),
        dtype=np.uint64,
    )
    limit = min(n_held_out, max(1, len(hashes) // 10))
    sources, counts = np.unique(hashes, return_counts=True)  # in order of hash: a random one
    sources, counts = sources[counts <= limit], counts[counts <= limit]
    held_out = frozenset(sources[np.cumsum(counts) <= limit].tolist())
    if not held_out or len(hashes) < 2:
        raise DataError(
            f"{corpus.name}: {len(hashes)} usable pairs are too few, or too alike, to hold some out; "
            "give data.valid files of its own"
        )
    return (
        _Part(corpus, held_out, seed=seed, name="without held-out pairs", inside=False),
        _Part(corpus, held_out, seed=seed, name="held-out pairs", inside=True),
    )


def open_lines(path: Path) -> Iterator[str]:
    """The lines of a text file, decompressed by its suffix, without line ends ("\\n" or "\\r\\n") or BOM.

    Only "\\n" ends a line. DataError: the file cannot be read, is damaged or is not UTF-8.
    MissingExtraError: it ends in .zst and zstandard is not installed.
    """
    n = 0
    try:
        with _open_bytes(path) as file:
            for n, line in enumerate(file, start=1):
                text = line.removesuffix(b"\n").removesuffix(b"\r").decode()
                yield text.removeprefix("\ufeff") if n == 1 else text
    except UnicodeDecodeError as error:
        byte, position = error.object[error.start], error.start + 1
        raise DataError(
            f"{path} line {n}: not UTF-8 (byte 0x{byte:02x} at position {position}); "
            "convert the file, for example with: iconv -f latin1 -t utf-8"
        ) from None
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, _DamagedError) as error:
        raise DataError(
            f"{path}: damaged or cut short after line {n} ({error}); compress or fetch it again"
        ) from None
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({error.strerror or error}); check the path and its rights"
        ) from None


def locate_drift(lengths: Sequence[np.ndarray], *, names: Sequence[str]) -> str:
    """Where lines are probably missing from the shorter of two files, in words; "" where it is not clear.

    `lengths` are the characters of each line, `names` the files. The missing lines are taken to be in one
    place. A line and its translation have lengths of a typical ratio: the place is where the files fit
    best, matched line by line before it and shifted by the missing lines after it.
    """
    short, long = sorted(range(2), key=lambda i: len(lengths[i]))
    n, n_missing = len(lengths[short]), len(lengths[long]) - len(lengths[short])
    if n < 20:
        return ""
    short_logs, long_logs = np.log1p(lengths[short]), np.log1p(lengths[long])
    before = short_logs - long_logs[:n]
    after = short_logs - long_logs[n_missing:]
    # cost[k]: how badly the lengths fit if lines k, k+1, ... of the shorter file are to be shifted
    cost = np.concatenate([[0.0], np.cumsum(np.abs(before - np.median(before)))])
    shifted = np.abs(after - np.median(after))
    cost += np.concatenate([[0.0], np.cumsum(shifted[::-1])])[::-1]
    k = int(cost.argmin())
    clear = 3.0  # nats: about ten lines that fit better
    if cost[0] - cost[k] < clear:
        return ""
    lines = "a line is" if n_missing == 1 else f"{n_missing} lines are"
    if cost[n] - cost[k] < clear:
        return f"by the lengths of lines, {names[short]} ends too early"
    return f"by the lengths of lines, {lines} missing from {names[short]} near line {k + 1}"


def _n_characters(path: Path) -> np.ndarray:
    """The length of each line."""
    return np.fromiter((len(line) for line in open_lines(path)), dtype=np.int64)


class _DamagedError(Exception):
    """zstandard says that a file is damaged; its own exception exists only where it is installed."""


class _ZstdReader(io.RawIOBase):
    """Decompressed bytes of a .zst file. zstandard's own reader takes a file cut short for a whole one."""

    def __init__(self, file: IO[bytes], zstandard: Any) -> None:
        self._file, self._zstandard = file, zstandard
        self._frame: Any = None
        self._input = self._output = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._output:
            self._input = self._input or self._file.read(1 << 16)
            if not self._input:
                if self._frame:
                    raise EOFError("the last frame is not complete")
                return 0
            self._frame = self._frame or self._zstandard.ZstdDecompressor().decompressobj()
            try:
                self._output = self._frame.decompress(self._input)
            except self._zstandard.ZstdError as error:
                raise _DamagedError(str(error)) from None
            self._input = self._frame.unused_data if self._frame.eof else b""
            self._frame = None if self._frame.eof else self._frame
        n = min(len(buffer), len(self._output))
        buffer[:n], self._output = self._output[:n], self._output[n:]
        return n

    def close(self) -> None:
        self._file.close()
        super().close()


def _open_bytes(path: Path) -> io.BufferedIOBase:
    """The file, decompressed by its suffix."""
    if path.suffix == ".gz":
        return gzip.GzipFile(path)
    if path.suffix == ".xz":
        return lzma.LZMAFile(path)
    if path.suffix == ".zst":
        try:
            import zstandard
        except ImportError:
            raise MissingExtraError("zstandard", extra="zst", purpose=f"reading {path}") from None
        return io.BufferedReader(_ZstdReader(path.open("rb"), zstandard), 1 << 16)
    return path.open("rb")


def _unreadable(path: Path, error: OSError) -> DataError:
    """The complaint about a file that the system does not let us read."""
    return DataError(f"{path}: cannot be read ({error.strerror or error}); check the path and its rights")


def _hash_source(pair: Pair, seed: int) -> int:
    """64 random-looking bits of the source sentence, other ones for every seed."""
    digest = hashlib.blake2b(
        " ".join(pair.src.split()).encode(), digest_size=8, salt=(seed % 2**64).to_bytes(8, "little")
    )
    return int.from_bytes(digest.digest(), "little")


def _hash(*parts: str) -> str:
    """One hash of several strings, whose borders count."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def _hash_file(path: Path) -> str:
    """A hash of a file's bytes as they are stored. DataError: it cannot be read."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({error.strerror or error}); check the path and its rights"
        ) from None
    return digest.hexdigest()
