"""Text files: find by name, decompress by suffix, read lines, hash.

A text file is UTF-8, plain or compressed (.gz, .xz, .zst). Whatever is wrong with one is a `DataError`
of one line that names the file, the line and the remedy.
"""

from __future__ import annotations

import atexit
import codecs
import gzip
import hashlib
import io
import lzma
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import IO, Any

from dragoman.data.datasets import places, providing
from dragoman.errors import ConfigError, DataError, optional
from dragoman.files import cache_folder

COMPRESSED = (".gz", ".xz", ".zst")

LONGEST_LINE = 1 << 20
"""Bytes of a line, or of a text in another format, unless $DRAGOMAN_LONGEST_LINE says otherwise."""


def longest_line() -> int:
    """Bytes that a line may have. Longer ones are no sentences, and may fill the memory when unpacked.

    Raises:
        ConfigError: $DRAGOMAN_LONGEST_LINE is not a number of bytes.
    """
    return limit_of("DRAGOMAN_LONGEST_LINE", LONGEST_LINE, "bytes")


def limit_of(variable: str, default: int, unit: str) -> int:
    """Return the number of `unit` that an environment variable allows.

    Raises:
        ConfigError: its value is not a number of them.
    """
    value = os.environ.get(variable) or str(default)
    if not (value.isascii() and value.isdecimal() and 0 < int(value) <= 10**12):
        raise ConfigError(f"{variable} = {value[:40]}: is not a number of {unit}, such as {default}")
    return int(value)


def too_long(where: str, most: int) -> DataError:
    """Return the complaint about a line, or another text, of more than `most` bytes."""
    return DataError(
        f"{where}: is longer than {most:,} bytes; cut it into lines, or set DRAGOMAN_LONGEST_LINE to more"
    )


CODE_PAGES = {
    **dict.fromkeys(("bs", "cs", "hr", "hu", "pl", "ro", "sk", "sl", "sq"), "cp1250"),
    **dict.fromkeys(("be", "bg", "mk", "ru", "sr", "uk"), "cp1251"),
    **dict.fromkeys(("et", "lt", "lv"), "cp1257"),
    "el": "cp1253", "tr": "cp1254", "he": "cp1255", "ar": "cp1256", "vi": "cp1258", "th": "cp874",
    "zh": "gb18030", "ja": "cp932", "ko": "cp949",
}  # fmt: skip
"""In which Windows wrote text of a language before UTF-8; of all others it is cp1252."""


def find_file(name: str, *, copied: bool = True) -> Path:
    """Where the file `name` is: in the working directory, in $DRAGOMAN_DATA, or among the fetched data sets.

    A pipe can be read once only: unless `copied` is False, it is read now, and this is where its copy is.

    Raises:
        DataError: it is in none of them, is an address such as https://host/train.en, or cannot be copied.
    """
    if not name:
        raise DataError("the name of a file is empty; give its path")
    if "://" in name:
        raise DataError(f"{name}: has to be on this machine; download it, or give a pipe as <(curl {name})")
    for path in (folder / name for folder, _ in places()):
        if is_stream(path) or path.is_file():
            return local_copy(path) if copied else path
    if Path(name).is_dir():
        raise DataError(f"{name}: is a folder; name a file in it")
    if Path(name).is_absolute():
        raise DataError(f"{name}: no such file; check the path")
    data = os.environ.get("DRAGOMAN_DATA")
    elsewhere = f"$DRAGOMAN_DATA = {data}" if data else "$DRAGOMAN_DATA, which is not set"
    dataset = providing(name)
    remedy = f"get it with: dragoman data fetch {dataset.name}" if dataset else "check the path"
    raise DataError(
        f"{name}: no such file in {Path.cwd()}, in {elsewhere}, nor in {cache_folder()}; {remedy}"
    )


def local_copy(path: Path) -> Path:
    """Return `path`, or a copy of what a pipe gives. DataError: it cannot be copied."""
    return _copy(path) if is_stream(path) else path


def is_stream(path: Path) -> bool:
    """Whether it is a pipe or a device, whose bytes come once, as those of a shell's <(...)."""
    try:
        return not path.is_dir() and path.exists() and not path.is_file()
    except OSError:
        return False


@cache
def _copy(path: Path) -> Path:
    """Return a file with all that comes from a pipe; it is deleted when this process ends."""
    try:
        folder = tempfile.mkdtemp(prefix="dragoman-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        copy = Path(folder, path.name)
        with path.open("rb") as stream, copy.open("wb") as file:
            shutil.copyfileobj(stream, file)
    except OSError as error:
        raise unreadable(path, error) from error
    return copy


def format_suffix(name: str) -> str:
    """Return the suffix of a file's format, without that of its compression: ".tsv" of "train.tsv.gz"."""
    path = Path(name.lower())
    return path.with_suffix("").suffix if path.suffix in COMPRESSED else path.suffix


class ReadOffset:
    """How far a file has been read."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._end = 0

    @property
    def n_bytes(self) -> int:
        """Bytes that have been read, as they are stored, compressed or not; 0 in a pipe."""
        if self._file is not None and not self._file.closed and self._file.seekable():
            self._end = self._file.tell()
        return self._end

    @contextmanager
    def following(self, file: IO[bytes]) -> Iterator[None]:
        """Tell how far `file` has been read, as long as it is open, and afterwards how far it was."""
        self._file, self._end = file, 0
        try:
            yield
        finally:
            self._end, self._file = self.n_bytes, None


def open_lines(
    path: Path,
    *,
    encoding: str = "utf-8",
    position: ReadOffset | None = None,
    skip: int = 0,
) -> Generator[str, None, None]:
    """Yield the lines of a text file, decompressed by suffix, without line ends ("\\n" or "\\r\\n") or BOM.

    Only "\\n" ends a line. `position` tells how far it is. The first `skip` lines are not looked at.

    DataError: the file cannot be read, is damaged, is not in its `encoding`, or holds a NUL or a line longer
    than `longest_line`, which is not read to its end. MissingExtraError: it ends in .zst and zstandard is
    not installed.
    """
    n, most = skip, longest_line()
    try:
        with open_bytes(path, position=position, place=lambda: f" after line {n}") as file:
            for _ in islice(file, skip):
                pass
            for n, line in enumerate(iter(partial(file.readline, most + 2), b""), start=skip + 1):
                if b"\0" in line:  # as in UTF-16, whose English is valid UTF-8
                    raise DataError(
                        f"{path} line {n}: holds a NUL byte; if the file is UTF-16, convert it with: "
                        "iconv -f utf-16 -t utf-8; if not, remove them with: tr -d '\\000'"
                    )
                content = line.removesuffix(b"\n").removesuffix(b"\r")
                if len(content) > most:
                    raise too_long(f"{path} line {n}", most)
                text = content.decode(encoding)
                yield text.removeprefix("\ufeff") if n == 1 else text
    except UnicodeDecodeError as error:
        byte, place = error.object[error.start], error.start + 1
        raise DataError(
            f"{path} line {n}: not {encoding.upper()} (byte 0x{byte:02x} at position {place}); "
            "convert the file; text of Windows in a Western language with: iconv -f windows-1252 -t utf-8"
        ) from error


def guess_encoding(start: bytes, language: str) -> str:
    """How a text in `language` is encoded, told from its first bytes: "utf-8" or a code page of Windows.

    What is neither, for it holds bytes that the code page has not, is called "utf-8": reading it complains.
    """
    if b"\0" in start or start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-8"  # or UTF-16, or no text
    for encoding in ("utf-8", CODE_PAGES.get(language, "cp1252")):
        with suppress(UnicodeDecodeError):
            codecs.getincrementaldecoder(encoding)().decode(start)  # the last character may be cut in two
            return encoding
    return "utf-8"


def hash_strings(*parts: str) -> str:
    """One hash of several strings, whose borders count."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def hash_file(path: Path) -> str:
    """Return a hash of a file's bytes as they are stored. DataError: it cannot be read."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise unreadable(path, error) from error
    return digest.hexdigest()


def hash_text(text: str, *, seed: int) -> int:
    """64 random-looking bits of a text, white space aside; other ones for every seed."""
    digest = hashlib.blake2b(
        " ".join(text.split()).encode(), digest_size=8, salt=(seed % 2**64).to_bytes(8, "little")
    )
    return int.from_bytes(digest.digest(), "little")


def unreadable(path: Path, error: OSError) -> DataError:
    """Return the complaint about a file that the system does not let us read."""
    return DataError(f"{path}: cannot be read ({error.strerror or error}); check the path and its rights")


_UNPACKERS: dict[str, Callable[[IO[bytes]], Any]] = {".gz": gzip.open, ".xz": lzma.open}


class _DamagedError(Exception):
    """zstandard says that a file is damaged; its own exception exists only where it is installed."""


class _ZstdReader(io.RawIOBase):
    """Decompressed bytes of a .zst file. zstandard's own reader takes a file cut short for a whole one."""

    def __init__(self, file: IO[bytes], zstandard: Any) -> None:
        self._file, self._zstandard = file, zstandard
        self._frame: Any = None
        self._input, self._output = b"", memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._output:
            self._input = self._input or self._file.read(1 << 10)  # may become 32 MiB
            if not self._input:
                if self._frame:
                    raise EOFError("the last frame is not complete")
                return 0
            self._frame = self._frame or self._zstandard.ZstdDecompressor().decompressobj()
            try:
                self._output = memoryview(self._frame.decompress(self._input))
            except self._zstandard.ZstdError as error:
                raise _DamagedError(str(error)) from error
            self._input = self._frame.unused_data if self._frame.eof else b""
            self._frame = None if self._frame.eof else self._frame
        n = min(len(buffer), len(self._output))
        buffer[:n], self._output = self._output[:n], self._output[n:]
        return n

    def close(self) -> None:
        self._file.close()
        super().close()


@contextmanager
def open_bytes(
    path: Path, *, position: ReadOffset | None = None, place: Callable[[], str] = str
) -> Iterator[io.BufferedIOBase]:
    """Open a file, decompressed by its suffix; `place` says, in complaints, how far it has been read.

    DataError: the file cannot be read, or turns out to be damaged while it is. MissingExtraError: it ends
    in .zst and zstandard is not installed.
    """
    suffix = path.suffix.lower()
    try:
        with path.open("rb") as stored, (position or ReadOffset()).following(stored):
            if suffix == ".zst":
                zstandard = optional("zstandard", extra="zst", purpose=f"reading {path}")
                file: Any = io.BufferedReader(_ZstdReader(stored, zstandard), 1 << 16)
            else:
                file = _UNPACKERS[suffix](stored) if suffix in _UNPACKERS else stored
            with nullcontext() if file is stored else file:  # of a closed file nobody knows the offset
                yield file
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, _DamagedError) as error:
        raise DataError(
            f"{path}: damaged or cut short{place()} ({error}); compress or fetch it again"
        ) from error
    except OSError as error:
        raise unreadable(path, error) from error


def compressed(data: bytes, name: str) -> bytes:
    """Compress `data` by the suffix of a file's name, as a whole frame or member.

    Frames one after the other are a file like any other, for readers of .gz, .xz and .zst alike.
    MissingExtraError: it is .zst and zstandard is not installed.
    """
    suffix = Path(name).suffix.lower()
    if suffix == ".gz":
        return gzip.compress(data, mtime=0)
    if suffix == ".xz":
        return lzma.compress(data)
    if suffix == ".zst":
        zstandard = optional("zstandard", extra="zst", purpose=f"writing {name}")
        return bytes(zstandard.ZstdCompressor().compress(data))
    return data
