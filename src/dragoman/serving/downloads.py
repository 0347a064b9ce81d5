"""Temporary storage of translated files, which are downloaded by secret names."""

from __future__ import annotations

import errno
import logging
import os
import re
import secrets
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path, PurePath

from dragoman.serving.errors import HTTPError, too_much
from dragoman.serving.monitoring import log

MAX_STEM = 40
"""Characters of a file's name before its ending: 160 bytes at most, of the 255 that a file system takes."""

_NOT_IN_NAMES = re.compile(r"[^\w.()\[\] -]+")
_KEPT = re.compile(r"[A-Za-z0-9_-]{32}\.[^/\\]{1,80}")


class Downloads:
    """Files shared by the workers of a service, in a private folder. Create it before the workers are forked.

    A file is deleted when it is older than `seconds`; the oldest are deleted when the total exceeds
    `max_bytes`. The folder is created with the first file and readable by this user only.
    """

    def __init__(self, *, seconds: float, max_bytes: int, within: Path | None = None) -> None:
        """`within` is the folder in which the folder is made; by default where temporary files are."""
        self.folder = (within or Path(tempfile.gettempdir())) / f"dragoman-files-{secrets.token_hex(16)}"
        self._seconds, self._max_bytes = seconds, max_bytes
        self._owner = os.getpid()

    def keep(self, name: str, content: bytes) -> str:
        """Keep a file. Returned is its name here: 192 random bits, a dot, and its own name.

        HTTPError: it is larger than all files may be together (413), or cannot be written (507, 503).
        """
        if len(content) > self._max_bytes:
            raise too_much("bytes", len(content), self._max_bytes, "kept_bytes")
        kept = f"{secrets.token_urlsafe(24)}.{safe_name(name)}"
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            self.sweep(room=len(content))
            (self.folder / kept).write_bytes(content)  # nobody knows its name before it is whole
        except OSError as error:
            with suppress(OSError):
                (self.folder / kept).unlink()
            log("a translated file cannot be kept", {"why": str(error)}, level=logging.ERROR)
            is_full = errno.errorcode.get(error.errno or 0) in ("ENOSPC", "EDQUOT")
            raise HTTPError(
                507 if is_full else 503,
                "the translated file cannot be kept here; /v1/documents answers with the file itself",
            ) from error
        return kept

    def fetch(self, kept: str) -> tuple[str, bytes] | None:
        """Return the own name of the file kept as `kept`, and its content.

        None: there is none, or no more.
        """
        self.sweep()
        with suppress(OSError, ValueError):
            if _KEPT.fullmatch(kept):
                return kept.partition(".")[2], (self.folder / kept).read_bytes()
        return None

    def sweep(self, *, room: int = 0) -> None:
        """Delete expired files, and the oldest others until `room` bytes are free."""
        files = []
        for path in self.folder.glob("*"):
            with suppress(OSError):  # another worker may have deleted it
                state = path.stat()
                files.append((state.st_mtime, state.st_size, path))
        total = room + sum(size for _, size, _ in files)
        for written, size, path in sorted(files):
            if total <= self._max_bytes and written >= time.time() - self._seconds:
                break
            with suppress(OSError):
                path.unlink()
            total -= size

    def close(self) -> None:
        """Delete everything, in the process that made the folder; in any other nothing."""
        if os.getpid() == self._owner:
            shutil.rmtree(self.folder, ignore_errors=True)


def safe_name(name: str) -> str:
    """`name` as a file may be called anywhere: no folder, not too long, only letters, digits and . _-()[]."""
    last = PurePath(name.replace("\\", "/")).name
    path = PurePath(_NOT_IN_NAMES.sub("_", last).strip(". ") or "document")
    return path.stem[:MAX_STEM].strip(". ") + path.suffix[:MAX_STEM]
