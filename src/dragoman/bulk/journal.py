"""A file that is written in pieces and survives a kill at any instant.

    out.zst.partial   the output so far: whole compressed frames, one behind the other
    out.zst.journal   how much of it counts: lines of input that are done, bytes of output, all settings

A piece is appended to the partial file and brought to the disk; then a new journal, which counts it, takes
the place of the old one. Whatever the kill leaves behind the counted bytes is cut off on the next start, and
as many lines of the input are left away. In the end the journal says so, the partial file gets its name, and
the journal goes. While one process writes, a lock on the partial file keeps others off.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from dragoman.bulk.stream import Done
from dragoman.data.readers.files import compressed
from dragoman.errors import RunError
from dragoman.files import sync, write_atomically
from dragoman.runs import differences


class Journal:
    """The output `out`, to be continued where it is unfinished. A context manager."""

    def __init__(self, out: Path, settings: Mapping[str, Any]) -> None:
        """`settings` are all that the output depends on, as JSON has it.

        RunError: an unfinished output of other settings is there, or its files don't fit together.
        """
        self.out = out
        self.partial = out.with_name(f"{out.name}.partial")
        self.path = out.with_name(f"{out.name}.journal")
        self.settings = dict(settings)
        self.n_lines = 0
        """Lines of the input that are done."""
        self.n_bytes = 0
        """Bytes of the partial file that count."""
        self.counts: Counter[str] = Counter()
        """What was left out, by reason."""
        self.finished = False
        self._file: IO[bytes] | None = None
        self._read()

    def __enter__(self) -> Journal:
        """Opens the partial file behind what counts. RunError: another process has it, or it is too short."""
        if self.finished:
            return self
        if self.out.is_dir() or not self.out.parent.is_dir():
            what = "is a folder" if self.out.is_dir() else f"there is no folder {self.out.parent}"
            raise RunError(f"{self.out}: {what}; give the name of a file to write")
        try:
            self._file = self.partial.open("ab")
            self._take_over(self._file)
        except OSError as error:
            raise _cannot_write(self.partial, error) from None
        except RunError:
            assert self._file is not None, "has just been opened"
            self._file.close()
            raise
        return self

    def _take_over(self, file: IO[bytes]) -> None:
        """Locks the partial file and cuts off what does not count."""
        _lock(file, self.partial)
        self._read()  # what counted before the lock was had may have grown
        size = file.seek(0, os.SEEK_END)
        if size < self.n_bytes or self.finished:
            raise RunError(
                f"{self.partial}: has {size} bytes where {self.path.name} counts {self.n_bytes}; "
                "remove both to start anew"
            )
        file.truncate(self.n_bytes)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()
        if error is not None and not self.path.exists():
            with suppress(OSError):  # nothing is done: leave nothing
                self.partial.unlink()

    def append(self, done: Done) -> None:
        """Adds what has become of the next lines; it is on the disk when this returns. RunError: no space."""
        assert done.first_number == self.n_lines + 1, "chunks come in the order of the input"
        self._append(done.data)
        self.n_lines += done.n_lines
        self.counts.update(done.counts)
        self._write()

    def finish(self) -> None:
        """Gives the output its name; what had this name goes. RunError: it cannot be written."""
        if not self.finished and not self.n_bytes:
            self._append(compressed(b"", self.out.name))  # no bytes at all are no compressed file
        self.finished = True
        self._write()
        try:
            if self._file is not None and os.name != "posix":
                self._file.close()  # Windows renames no open file; elsewhere the lock stays until all is done
            if self.partial.exists():  # it is not, if a kill came right here
                self.partial.replace(self.out)
                sync(self.out.parent)
            self.path.unlink()
        except OSError as error:
            raise _cannot_write(self.out, error) from None

    def _append(self, data: bytes) -> None:
        assert self._file is not None, "is open"
        try:
            self._file.write(data)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise _cannot_write(self.partial, error) from None
        self.n_bytes += len(data)

    def _write(self) -> None:
        record = {
            "settings": self.settings,
            "n_lines": self.n_lines,
            "n_bytes": self.n_bytes,
            "counts": dict(self.counts),
            "finished": self.finished,
        }
        write_atomically(self.path, json.dumps(record, indent=2, ensure_ascii=False).encode() + b"\n")

    def _read(self) -> None:
        """Takes over what is done. RunError: with other settings, or the journal is damaged."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return
        try:
            record = json.loads(content)
            settings = dict(record["settings"])
            self.n_lines, self.n_bytes = int(record["n_lines"]), int(record["n_bytes"])
            self.counts, self.finished = Counter(record["counts"]), bool(record["finished"])
        except (ValueError, KeyError, TypeError):
            raise RunError(
                f"{self.path}: is damaged; remove it and {self.partial.name} to start anew"
            ) from None
        if changed := "; ".join(_said(settings, self.settings)):
            raise RunError(
                f"{self.path}: {self.out.name} is unfinished, and was begun with other settings ({changed}); "
                f"use the same ones to continue, or remove it and {self.partial.name} to start anew"
            )


def _said(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """What differs, in words; hashes say nothing to anybody."""
    hashes = {"input": "the input has changed", "model": "the run has other weights or tokens"}
    said = [words for name, words in hashes.items() if there.get(name) != here.get(name)]
    old, new = ({k: v for k, v in s.items() if k not in hashes} for s in (there, here))
    return said + list(differences(old, new))


def _lock(file: IO[bytes], path: Path) -> None:
    """Keeps other processes off until the file is closed or this process has died. RunError: one is there."""
    try:
        import fcntl
    except ImportError:  # Windows, where two writers cannot be told apart
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        renamed = not path.exists() or os.fstat(file.fileno()).st_ino != path.stat().st_ino
    except BlockingIOError:
        renamed = True
    if renamed:  # or another one was writing until right now
        raise RunError(
            f"{path}: another process is writing it; wait for it, or name another output"
        ) from None


def _cannot_write(path: Path, error: OSError) -> RunError:
    return RunError(
        f"{path}: cannot be written ({error.strerror}); free some space, or choose a folder that is yours; "
        "the same command continues"
    )
