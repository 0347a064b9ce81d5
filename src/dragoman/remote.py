"""Objects of stores that fsspec reaches, such as s3://, gs:// and https://: copied here, or put there.

A transfer is retried after a lost connection. An object appears whole or not at all. This module imports no
torch, and fsspec and the package of a store only for an address.
"""

from __future__ import annotations

import errno
import hashlib
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path, PosixPath, WindowsPath
from typing import Any, TypeVar

from dragoman.errors import DataError, DragomanError, RunError, optional

N_ATTEMPTS = 5
"""Attempts at a transfer; the first pause between two is one second, each further one twice as long."""

BLOCK = 8 << 20

MARKS = (
    "size", "ETag", "etag", "md5Hash", "Content-MD5", "content_settings", "generation", "VersionId", "mtime",
    "LastModified", "Last-Modified", "last_modified", "modified", "updated", "created",
)  # fmt: skip
"""What stores say about an object that is different when its content is, whatever fsspec calls it."""

T = TypeVar("T")


def remote_url(path: str | Path) -> str | None:
    """Return the address that a name spells, as s3://bucket/key; None = a path of this machine.

    A `Path` has lost one of the two slashes.
    """
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/+(?=[^/])", str(path).replace("\\", "/"))
    return f"{match[1].lower()}://{str(path)[match.end() :]}" if match else None


class RemotePath(WindowsPath if WindowsPath is type(Path()) else PosixPath):  # type: ignore[misc]
    """A path that is written as the address that it is, with two slashes."""

    def __str__(self) -> str:
        path: str = super().__str__()
        return remote_url(path) or path


def refuse_remote(path: str | Path) -> None:
    """Check that a folder is one of this machine. RunError: it is an address."""
    if url := remote_url(path):
        raise RunError(f"{url}: has to be a folder of this machine; name one, and copy it afterwards")


class UploadError(RunError):
    """An object cannot be put into its store; the file on this machine is kept."""


class RemoteObject:
    """An object under an address, or the place where one is to be."""

    def __init__(self, url: str) -> None:
        """Find the package for the address.

        Raises:
            DataError: nothing knows such addresses, or it names no object.
            MissingExtraError: fsspec, or aiohttp for the web, is not installed.
            DragomanError: the package for this kind of store is not installed.
        """
        fsspec = optional("fsspec", extra="remote", purpose=url)
        options: dict[str, Any] = {}
        if url.startswith("http"):  # through proxies, and for as long as bytes arrive
            aiohttp = optional("aiohttp", extra="remote", purpose=url)
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=30)
            options["client_kwargs"] = {"timeout": timeout, "trust_env": True}
        self.url = url
        self.name = Path(url.partition("?")[0]).name
        """The last part of its key, which says by its suffix how to read it."""
        try:
            self.fs, self.path = fsspec.core.url_to_fs(url, **options)
        except ImportError as error:
            name = getattr(error.__cause__, "name", None) or str(error)
            raise DragomanError(f"{url} needs the package {name}: pip install {name}") from error
        except ValueError as error:
            raise DataError(f"{url}: is not an address that can be read ({error}); check it") from error

    @property
    def place(self) -> tuple[Any, str]:
        """The store and the key: equal for all addresses of the same object."""
        return self.fs, self.path

    def marks(self) -> dict[str, str]:
        """Return its size and what else changes with its content. DataError: it cannot be read."""
        self.fs.invalidate_cache()
        info = _retrying(lambda: self.fs.info(self.path), self._unreadable)
        if info.get("type") == "directory":
            raise DataError(f"{self.url}: is a folder; name an object in it")
        return {name: str(info[name]) for name in MARKS if info.get(name) is not None}

    def identity(self, marks: dict[str, str]) -> str:
        """Return the name of a folder for this version: readable, and different for every other one."""
        digest = hashlib.blake2b(repr((self.url, sorted(marks.items()))).encode(), digest_size=8).hexdigest()
        return f"{re.sub(r'[^A-Za-z0-9]+', '-', self.url.partition('?')[0])[:80]}-{digest}"

    def copy_to(self, path: Path, marks: dict[str, str]) -> None:
        """Copy the version with these `marks` to `path`; `path`.part has the beginning of a broken copy.

        Raises:
            DataError: it cannot be read, or has changed.
            RunError: there is no space.
        """
        part = path.with_name(f"{path.name}.part")
        options: dict[str, Any] = {}

        def attempt() -> None:
            self._check_unchanged(marks, part)
            try:
                self._append(part, options)
            except ValueError:  # a web server that knows no ranges: from its beginning, as a stream
                if options or not self.url.startswith("http"):
                    raise
                options["block_size"] = 0
                part.unlink()
                self._append(part, options)
            if part.stat().st_size < int(marks.get("size", 0)):
                raise OSError(f"the connection ended after {part.stat().st_size:,} of {marks['size']} bytes")

        _retrying(attempt, self._unreadable)
        self._check_unchanged(marks, part)
        part.replace(path)

    def _append(self, part: Path, options: dict[str, Any]) -> None:
        """Read what is missing from a file."""
        with part.open("ab") as out, self.fs.open(self.path, "rb", **options) as source:
            if options:
                out.truncate(0)
            else:
                source.seek(out.tell())
            while block := source.read(BLOCK):
                try:
                    out.write(block)
                    out.flush()
                except OSError as error:
                    raise RunError(
                        f"{part}: cannot be written ({error.strerror}); free some space, or set "
                        "DRAGOMAN_CACHE to another folder"
                    ) from error

    def _check_unchanged(self, marks: dict[str, str], part: Path) -> None:
        """Check that this version is still there. DataError: it is not; the partial copy is removed."""
        if self.marks() != marks:
            part.unlink(missing_ok=True)
            raise DataError(f"{self.url}: has changed while it was read; run the same command again")

    def check_writable(self) -> None:
        """Check, as far as one can tell before writing, that an object can be put here.

        Raises:
            RunError: there is no such bucket, no access to it, or the store takes no files.
        """
        if self.url.startswith("http"):
            raise RunError(f"{self.url}: a web server takes no files; name a file or an object of a store")
        bucket = str(self.path).partition("/")[0] or "/"
        for path in (self.path, bucket):
            try:
                self.fs.info(path)
            except PermissionError:
                return  # it may be allowed to write, though not to look
            except FileNotFoundError as error:
                if path == bucket:
                    raise RunError(f"{self.url}: there is no {bucket}; make it, or name another") from error
            except Exception as error:
                raise RunError(
                    f"{self.url}: cannot be written ({_reason(error)}); check the access"
                ) from error
            else:
                return

    def put(self, file: Path) -> None:
        """Make this object of a complete file. UploadError: it cannot be; no part of it is there."""

        def attempt() -> None:
            with self.fs.transaction, self.fs.open(self.path, "wb") as out, file.open("rb") as source:
                shutil.copyfileobj(source, out, BLOCK)
            self.fs.invalidate_cache()
            if (size := self.fs.info(self.path)["size"]) != file.stat().st_size:
                raise OSError(f"the store has {size} of {file.stat().st_size} bytes")

        _retrying(
            attempt,
            lambda reason: UploadError(
                f"{self.url}: cannot be written ({reason}); check the address and the access. "
                f"What was to be written is kept as {file}"
            ),
        )

    def _unreadable(self, reason: str) -> DataError:
        return DataError(f"{self.url}: cannot be read ({reason}); check the address and the access")


def _retrying(work: Callable[[], T], complaint: Callable[[str], DragomanError]) -> T:
    """Return the result of `work`, which is tried again after errors that may pass."""
    pause = 1.0
    for n_left in reversed(range(N_ATTEMPTS)):
        try:
            return work()
        except DragomanError:
            raise
        except Exception as error:  # each store has errors of its own
            # fsspec calls whatever the web does "not found".
            cause = error.__cause__ if type(error.__cause__).__module__.startswith("aiohttp") else None
            cause = cause or error
            status = getattr(cause, "status", None) or 0
            is_final = 400 <= status < 500 and status not in (408, 425, 429)
            is_final |= getattr(cause, "errno", None) == errno.EINVAL  # s3fs: a malformed request
            is_final |= isinstance(cause, FileNotFoundError | PermissionError | IsADirectoryError)
            is_final |= isinstance(cause, NotImplementedError | ValueError | TypeError)
            if not n_left or is_final or "Credentials" in type(cause).__name__:
                raise complaint(_reason(cause)) from error
        time.sleep(pause)
        pause *= 2
    raise AssertionError("the last attempt returns or raises")


def _reason(error: BaseException) -> str:
    message = str(error).strip().partition("\n")[0]
    if isinstance(error, FileNotFoundError) or getattr(error, "status", None) in (404, 410):
        return "there is no such object"
    return message or type(error).__name__
