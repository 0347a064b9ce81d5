"""Files that wait to be fetched: few, for a short time, and only by whoever knows their names."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path, PurePath

from dragoman.runs import write_atomically

MAX_STEM = 40
"""Characters of a file's name before its ending: 160 bytes at most, of the 255 that a file system takes."""

_NOT_IN_NAMES = re.compile(r"[^\w.()\[\] -]+")
_KEPT = re.compile(r"[A-Za-z0-9_-]{32}\.[^/\\]{1,80}")


class Downloads:
    """A folder of files that workers of a service share. Make it before they are forked.

    A file goes when it is older than `seconds`, or, the oldest first, when all have more than `max_bytes`.
    """

    def __init__(self, *, seconds: float, max_bytes: int, within: Path | None = None) -> None:
        """Makes the folder, which only this user can read, `within` another one or where temporary files are."""
        self.folder = Path(tempfile.mkdtemp(prefix="dragoman-files-", dir=within))
        self._seconds, self._max_bytes = seconds, max_bytes
        self._owner = os.getpid()

    def keep(self, name: str, content: bytes) -> str:
        """Keeps a file; the name by which it is to be fetched: 192 random bits, a dot, and its own name.

        RunError: there is no space for it.
        """
        self.sweep(room=len(content))
        kept = f"{secrets.token_urlsafe(24)}.{safe_name(name)}"
        write_atomically(self.folder / kept, content)
        return kept

    def fetch(self, kept: str) -> tuple[str, bytes] | None:
        """The own name of the file that is kept as `kept`, and what is in it; None: there is none, or no more."""
        self.sweep()
        if not _KEPT.fullmatch(kept):
            return None
        try:
            return kept.partition(".")[2], (self.folder / kept).read_bytes()
        except (OSError, ValueError):
            return None

    def sweep(self, *, room: int = 0) -> None:
        """Deletes what is too old, and the oldest of the rest until there is `room` for so many bytes more."""
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
        """Deletes everything, in the process that made the folder; in any other nothing."""
        if os.getpid() == self._owner:
            shutil.rmtree(self.folder, ignore_errors=True)


def safe_name(name: str) -> str:
    """`name` as a file may be called anywhere: without a folder, not too long, only letters, digits and ._-()[]."""
    last = PurePath(name.replace("\\", "/")).name
    path = PurePath(_NOT_IN_NAMES.sub("_", last).strip(". ") or "document")
    return path.stem[:MAX_STEM].strip(". ") + path.suffix[:MAX_STEM]
