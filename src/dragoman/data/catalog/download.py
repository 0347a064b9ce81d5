"""Download files: resumable, and complete with the expected checksum before they get their name.

    train.zip             the file, once all of it is there and its checksum is right
    train.zip.part        as much as has arrived so far; the next attempt continues it
    train.zip.part.json   where that came from, and by which mark the server knows the same file again
    train.zip.wrong       a file whose checksum was another than the expected one

An interrupted download is continued by a range request that names the mark (`If-Range`): a server whose
file has changed sends the new one from its beginning.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from email.message import Message
from http.client import HTTPException, HTTPMessage, HTTPResponse
from io import BufferedIOBase
from pathlib import Path
from time import sleep
from typing import IO, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from dragoman.config import parse_json
from dragoman.errors import DataError
from dragoman.files import locked

TIMEOUT = 30.0
"""Seconds without a byte after which a server is given up for this attempt."""

N_ATTEMPTS = 5
"""Attempts in a row that bring nothing new before an address is given up."""

LONGEST_PAUSE = 30.0
"""Seconds between two attempts at most; the first pause is one second, each further one twice as long."""

MAX_BYTES = 20 * 10**9
"""A file larger than this is refused unless the caller says otherwise."""

BLOCK = 1 << 16

_SIZE = re.compile(r"[0-9]{1,18}")
"""What a server may say of sizes: Python refuses to read numbers of thousands of digits."""

Progress = Callable[[int, "int | None"], None]
"""Is told the bytes that are there, and the bytes of the whole file where the server says it."""


class Downloaded(NamedTuple):
    """A file that is there: the address it came from ("" if it was there before), its size and its sums."""

    path: Path
    url: str
    size: int
    sha256: str


class DownloadError(DataError):
    """No address gives the file: there is no network, it has moved, or it is not what it was."""


class _TransientError(Exception):
    """It may work a moment later. `after` is how many seconds the server asks to wait."""

    def __init__(self, message: str, *, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


class _AddressError(Exception):
    """This address does not give the file; another one may."""


def download(
    urls: Sequence[str],
    path: Path,
    *,
    checksum: str = "",
    checksum_origin: str = "published",
    max_bytes: int = MAX_BYTES,
    progress: Progress | None = None,
) -> Downloaded:
    """Download a file to `path` from the first address that has it; continue an interrupted download.

    `checksum` is "md5:..." or "sha256:...", or several of them with spaces between, one of which must be
    right; messages call it `checksum_origin`. A file that is at `path` already is only checked.
    DownloadError: no address gives the file, or its checksum is wrong (it is kept beside its place).
    DataError: it is too large, or there is no room. RunError: another process is at it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{path.parent}: cannot be made ({error.strerror}); choose another folder") from error
    with locked(path.with_name(f".{path.name}.lock"), what=path):
        if path.is_file():
            if wrong := _mismatch(path, checksum, checksum_origin):
                raise DataError(f"{path}: {wrong}; remove the file to download it again")
            return Downloaded(path, "", path.stat().st_size, checksum_of(path, "sha256"))
        reasons: dict[str, list[str]] = {}
        for url in urls:
            source = _Source(url, path, max_bytes=max_bytes, progress=progress)
            try:
                source.fetch()
                source.accept(checksum, checksum_origin)
            except _AddressError as error:
                reasons.setdefault(str(error), []).append(url)
                continue
            return Downloaded(path, url, path.stat().st_size, checksum_of(path, "sha256"))
    complaints = "; ".join(f"{' and '.join(tried)}: {reason}" for reason, tried in reasons.items())
    raise DownloadError(f"{path.name} could not be downloaded: {complaints}")


def checksum_of(path: Path, algorithm: str) -> str:
    """Return the hexadecimal checksum of a file. DataError: it cannot be read."""
    try:
        with path.open("rb") as file:
            return checksum_of_bytes(file, algorithm)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}); check its rights") from error


def checksum_of_bytes(file: BufferedIOBase, algorithm: str) -> str:
    """Return the hexadecimal checksum of what an open file still holds."""
    digest = hashlib.new(algorithm, usedforsecurity=False)
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()


class _Source:
    """One address, and what has arrived from it."""

    def __init__(self, url: str, path: Path, *, max_bytes: int, progress: Progress | None) -> None:
        self.url, self.path, self.max_bytes = url, path, max_bytes
        self.progress = progress or (lambda n, total: None)
        self.part = path.with_name(f"{path.name}.part")
        self.note = path.with_name(f"{path.name}.part.json")

    @property
    def size(self) -> int:
        """Bytes that have arrived."""
        return self.part.stat().st_size if self.part.exists() else 0

    def mark(self) -> str:
        """Return the server's validator (ETag or date) of the partial file; "" = start from the beginning."""
        try:
            note = parse_json(self.note.read_bytes())
        except (OSError, ValueError):
            return ""
        fits = isinstance(note, dict) and note.get("url") == self.url and self.part.exists()
        return str(note.get("mark", "")) if fits else ""

    def forget(self) -> None:
        """Remove what has arrived."""
        for file in (self.note, self.part):
            file.unlink(missing_ok=True)

    def fetch(self) -> None:
        """Let the whole file arrive. _AddressError: N_ATTEMPTS in a row brought nothing new."""
        most, n_failures = self.size, 0
        while True:
            try:
                self.attempt()
                return
            except _TransientError as error:
                if self.size >= most + BLOCK:
                    most, n_failures = self.size, 0
                n_failures += 1
                if n_failures >= N_ATTEMPTS:
                    raise _AddressError(f"{error} ({n_failures} attempts)") from error
                sleep(min(error.after or 2.0 ** (n_failures - 1), LONGEST_PAUSE))

    def attempt(self) -> None:
        """One request. Afterwards the file is whole, or one of the two errors says why not."""
        mark, n = self.mark(), self.size
        # Some servers of data sets turn away what does not look like a browser.
        headers = {"User-Agent": "Mozilla/5.0 (compatible; dragoman)", "Accept-Encoding": "identity"}
        if mark and n:
            headers |= {"Range": f"bytes={n}-", "If-Range": mark}
        try:
            response = _open(self.url, headers)
        except HTTPError as error:
            with error:
                if error.code == 416 and mark and _total(error.headers) == n:
                    return  # nothing is missing but the name
                if error.code == 416:
                    self.forget()
                    raise _TransientError("HTTP 416: the server has no such range of the file") from error
                raise _complaint(error) from error
        with response:
            self.receive(response, n if response.status == 206 else 0, mark)

    def receive(self, response: HTTPResponse, start: int, mark: str) -> None:
        """Write what the server sends behind the first `start` bytes, which are here already."""
        if response.headers.get_content_type() in ("text/html", "application/xhtml+xml"):
            raise _AddressError("answered with a web page in place of the file")
        begun = re.match(rf"bytes ({_SIZE.pattern})-", response.headers.get("Content-Range", ""))
        if start and (not begun or int(begun[1]) != start or _mark(response.headers) not in ("", mark)):
            self.forget()
            raise _TransientError("the server sent another range than the one asked for")
        length = response.headers.get("Content-Length", "")
        total = start + int(length) if _SIZE.fullmatch(length) else _total(response.headers)
        if (total or 0) > self.max_bytes:
            raise DataError(f"{self.url}: {total:,} bytes are more than the limit of {self.max_bytes:,}")
        missing, free = (total or 0) - start, shutil.disk_usage(self.part.parent).free
        if missing > free:
            raise DataError(
                f"{self.part.parent}: {missing / 1e6:,.0f} MB are needed for {self.path.name} and "
                f"{free / 1e6:,.0f} MB are free; make room, or choose another folder"
            )
        if not start:
            self.forget()
            note = {"url": self.url, "mark": _mark(response.headers)}
            with self.writing():
                self.note.write_text(json.dumps(note), encoding="utf-8")
        self.progress(start, total)
        n = start
        with self.writing(), self.part.open("ab") as part:
            try:
                for block in _blocks(response):
                    n += len(block)
                    if n > self.max_bytes:
                        raise DataError(f"{self.url}: more than the limit of {self.max_bytes:,} bytes")
                    part.write(block)
                    part.flush()
                    self.progress(n, total)
            finally:  # what has arrived is kept, even after an error
                part.flush()
                with suppress(OSError):  # a device such as /dev/full has no disk behind it
                    os.fsync(part.fileno())
        if total is not None and n < total:
            raise _TransientError(f"the connection ended after {n:,} of {total:,} bytes")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Make a DataError of what goes wrong with the disk."""
        try:
            yield
        except OSError as error:
            raise DataError(
                f"{self.part}: cannot be written ({error.strerror or error}); make room or check the rights, "
                "then run the same command to continue"
            ) from error

    def accept(self, checksum: str, origin: str) -> None:
        """Give the file its name. _AddressError: its checksum is wrong; it is put aside then."""
        if wrong := _mismatch(self.part, checksum, origin):
            aside = self.path.with_name(f"{self.path.name}.wrong")
            with self.writing():
                self.part.replace(aside)
                self.note.unlink(missing_ok=True)
            raise _AddressError(f"{wrong}; what came is kept as {aside}")
        with self.writing():
            self.part.replace(self.path)
            self.note.unlink(missing_ok=True)


class _Redirects(HTTPRedirectHandler):
    """Follows the web's redirects, those of newer kinds too, but never from https to http."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        if urlsplit(req.full_url).scheme == "https" and urlsplit(newurl).scheme != "https":
            raise _AddressError(f"is redirected to {newurl}, which is not encrypted")
        return super().redirect_request(req, fp, 307 if code == 308 else code, msg, headers, newurl)

    http_error_308 = HTTPRedirectHandler.http_error_302


def _open(url: str, headers: dict[str, str]) -> HTTPResponse:
    """Return the server's answer. HTTPError: it refuses. The other two errors: there is none."""
    try:
        if urlsplit(url).scheme not in ("http", "https"):
            raise ValueError("neither http nor https")
        response: HTTPResponse = build_opener(_Redirects).open(Request(url, headers=headers), timeout=TIMEOUT)  # noqa: S310 (checked above)
        return response
    except HTTPError:
        raise
    except (OSError, HTTPException) as error:
        raise _no_answer(error) from error
    except ValueError as error:
        raise _AddressError(f"is not an address of the web ({error})") from error


def _no_answer(error: Exception) -> _TransientError | _AddressError:
    """Return the error for an unreachable server: without a network, a retry would only take time."""
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, TimeoutError):
        return _TransientError(f"no answer in {TIMEOUT:g} s")
    if isinstance(reason, socket.gaierror):
        host = "the server's name is not known here"
        return _AddressError(f"{host} ({reason.strerror}); is there a network?")
    if isinstance(reason, ssl.SSLCertVerificationError):
        return _AddressError(f"the server's certificate is not valid ({reason.verify_message})")
    if isinstance(reason, ConnectionResetError | HTTPException):
        return _TransientError(f"the connection broke ({reason or type(reason).__name__})")
    return _AddressError(f"cannot be reached ({getattr(reason, 'strerror', None) or reason})")


def _complaint(error: HTTPError) -> _TransientError | _AddressError:
    status = f"HTTP {error.code} {error.reason}".strip()
    if error.code in (408, 425, 429, 500, 502, 503, 504):
        seconds = error.headers.get("Retry-After", "").strip()  # or a date, which is not read
        return _TransientError(status, after=float(seconds) if seconds.isdecimal() else None)
    return _AddressError(status + ": there is no such file any more" * (error.code in (404, 410)))


def _blocks(response: HTTPResponse) -> Iterator[bytes]:
    """Yield the content as it arrives. _TransientError: the connection breaks."""
    while True:
        try:
            block = response.read1(BLOCK)
        except TimeoutError as error:
            raise _TransientError("the server stopped sending") from error
        except (OSError, HTTPException) as error:
            raise _TransientError(f"the connection broke ({error or type(error).__name__})") from error
        if not block:
            return
        yield block


def _total(headers: Message) -> int | None:
    """Return the bytes of the whole file, as an answer about ranges says them."""
    match = re.search(rf"/({_SIZE.pattern})$", headers.get("Content-Range", ""))
    return int(match[1]) if match else None


def _mark(headers: Message) -> str:
    """Return the validator for If-Range: a strong ETag, or the date of change."""
    tag = str(headers.get("ETag", ""))
    return tag if tag.startswith('"') else str(headers.get("Last-Modified", ""))


def _mismatch(path: Path, checksum: str, origin: str) -> str:
    """Describe a wrong checksum of a file; "" = it is right, or unknown."""
    wrong = []
    for expected in checksum.split():
        algorithm, _, digest = expected.partition(":")
        actual = checksum_of(path, algorithm)
        if actual == digest:
            return ""
        wrong.append(f"its {algorithm} is {actual}, the {origin} one is {digest}")
    return ", and ".join(wrong)
