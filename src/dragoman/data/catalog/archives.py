"""Unpack untrusted archives: .zip, .tar.gz and .tgz.

Nothing is written outside the folder, no link, device or pipe is made, nothing is overwritten, and an
archive that swells beyond all measure is given up, with all that came out of it.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from dragoman.errors import DataError

BLOCK = 1 << 16


class Limits(NamedTuple):
    """What an archive may hold at most; text is rarely compressed by more than a tenth of `ratio`."""

    n_bytes: int = 20 * 10**9
    n_files: int = 500_000
    ratio: float = 200.0
    """Unpacked bytes by packed bytes, once 10 MB are unpacked."""


def members(
    archive: Path, *, keep: Callable[[str], bool] = lambda name: True, limits: Limits | None = None
) -> Iterator[tuple[str, IO[bytes]]]:
    """Name and content of the files to `keep`, one after the other: read each before asking for the next.

    DataError: the archive is damaged or cut short, is of another kind than its name says, or one of its
    files to keep is not one to be unpacked.
    """
    meter = _Meter(archive, limits or Limits())
    if not archive.name.endswith((".zip", ".tar.gz", ".tgz")):
        raise DataError(f"{archive}: is not a supported archive; give a .zip, .tar.gz or .tgz file")
    unpacked = _zip_members if archive.suffix == ".zip" else _tar_members
    with _explained(archive):
        for name, content in unpacked(archive, keep, meter):
            meter.n_files += 1
            if meter.n_files > meter.limits.n_files:
                meter.refuse(f"more than {meter.limits.n_files:,} files")
            yield name, content


def unpack(archive: Path, folder: Path, *, keep: Callable[[str], bool] = lambda name: True) -> list[str]:
    """Unpack the files to `keep` into the new `folder`, all or none of them; return their names.

    DataError: as of `members`, or the folder is there already or cannot be written.
    """
    if folder.exists():
        raise DataError(f"{folder}: exists already; remove it to unpack {archive} again")
    names = []
    try:
        folder.mkdir(parents=True)
        for name, content in members(archive, keep=keep):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                raise DataError(f"{archive}: holds {path.name} twice; do not use it")
            with path.open("xb") as file:
                shutil.copyfileobj(content, file, BLOCK)
                file.flush()
                os.fsync(file.fileno())
            names.append(name)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if not isinstance(error, OSError):
            raise
        raise DataError(
            f"{error.filename or folder}: cannot be written ({error.strerror or error}); make room, check "
            "the rights, or choose another folder"
        ) from error
    return names


def _safe_name(name: str, *, archive: Path) -> str:
    """Return a member's name as a relative path. DataError: it leads, or might lead, out of the folder."""
    path = PurePosixPath(name)
    leads_out = path.is_absolute() or ".." in path.parts
    if leads_out or not path.parts or re.search(r"[\\\x00-\x1f]|^[A-Za-z]:", name):
        raise DataError(
            f"{archive}: holds a file named {name!r}, which leads out of the folder; do not use it"
        )
    return str(path)


class _Meter:
    """Counts what comes out of an archive. DataError: it is more than the limits allow."""

    def __init__(self, archive: Path, limits: Limits) -> None:
        self.archive, self.limits = archive, limits
        self.n_packed = archive.stat().st_size if archive.exists() else 0
        self.n_bytes = self.n_files = 0

    def count(self, n_bytes: int) -> None:
        self.n_bytes += n_bytes
        if self.n_bytes > self.limits.n_bytes:
            self.refuse(f"more than {self.limits.n_bytes:,} bytes")
        if self.n_bytes > max(10_000_000, self.limits.ratio * self.n_packed):
            self.refuse(f"more than {self.limits.ratio:g} times its size")

    def refuse(self, what: str) -> None:
        raise DataError(f"{self.archive}: unpacks to {what}, the most that is allowed; do not use it")


class _Watched(io.RawIOBase):
    """A stream whose bytes are counted, if there is a meter, and whose damage is explained."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile, archive: Path, meter: _Meter | None = None) -> None:
        self._stream, self._archive, self._meter = stream, archive, meter

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _explained(self._archive):
            block = self._stream.read(min(len(buffer), BLOCK))
        if self._meter:
            self._meter.count(len(block))
        buffer[: len(block)] = block
        return len(block)


_Members = Iterator[tuple[str, IO[bytes]]]


def _tar_members(archive: Path, keep: Callable[[str], bool], meter: _Meter) -> _Members:
    with (
        gzip.GzipFile(archive) as stream,
        tarfile.open(fileobj=io.BufferedReader(_Watched(stream, archive, meter), BLOCK), mode="r|") as tar,
    ):
        for member in tar:
            if member.isdir() or not keep(member.name):
                continue
            if not member.isreg() or member.issparse():
                raise _no_plain_file(archive, member.name)
            content = tar.extractfile(member)
            assert content is not None, "a regular file has content"
            yield (
                _safe_name(member.name, archive=archive),
                io.BufferedReader(_Watched(content, archive), BLOCK),
            )


def _zip_members(archive: Path, keep: Callable[[str], bool], meter: _Meter) -> _Members:
    with zipfile.ZipFile(archive) as zipped:
        for member in zipped.infolist():
            if member.is_dir() or not keep(member.filename):
                continue
            if member.flag_bits & 1:
                raise DataError(f"{archive}: {member.filename} is encrypted; there is no password to give")
            mode = member.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                raise _no_plain_file(archive, member.filename)
            # orig_filename: zipfile itself cuts a name at a NUL
            name = _safe_name(member.orig_filename, archive=archive)
            with zipped.open(member) as content:
                yield name, io.BufferedReader(_Watched(content, archive, meter), BLOCK)


@contextmanager
def _explained(archive: Path) -> Iterator[None]:
    """Make a DataError of what a damaged archive raises, as a ValueError at an offset that leads nowhere."""
    damage = (
        zipfile.BadZipFile, tarfile.TarError, zlib.error, gzip.BadGzipFile,
        EOFError, IndexError, RuntimeError, ValueError,
    )  # fmt: skip
    try:
        yield
    except damage as error:
        reason = str(error) or type(error).__name__
        raise DataError(
            f"{archive}: is damaged, cut short or no archive of this kind ({reason}); "
            "remove it and fetch it again"
        ) from error
    except OSError as error:
        raise DataError(f"{archive}: cannot be read ({error.strerror or error}); check its rights") from error


def _no_plain_file(archive: Path, name: str) -> DataError:
    return DataError(f"{archive}: {name!r} is a link, a device or the like, not a plain file; do not use it")
