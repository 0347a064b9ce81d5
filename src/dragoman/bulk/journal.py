"""Write a file in pieces that survive a kill at any instant.

    out.zst.partial   the output so far: whole compressed frames, one behind the other
    out.zst.journal   how much of it counts: lines of input that are done, bytes of output, all settings

A piece is appended to the partial file and brought to the disk; then a new journal, which counts it, takes
the place of the old one. Whatever the kill leaves behind the counted bytes is cut off on the next start, and
as many lines of the input are skipped. In the end the journal says so, the partial file gets its name, and
the journal goes. While one process writes, a lock keeps others off. A partial file without a journal is not
ours, and stays. A device or a pipe as output is written as the pieces come, without a journal.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from dragoman import files
from dragoman.bulk.input import Chunk
from dragoman.bulk.job import Done
from dragoman.config import parse_json
from dragoman.data.readers.files import compressed
from dragoman.errors import RunError
from dragoman.runs import differences

HASHES = {"model": "the run has other weights or tokens", "glossary": "the glossary has other terms"}
"""What it means if a setting that is a hash differs."""


class Journal:
    """The journal of an output file, which resumes an unfinished output. A context manager."""

    def __init__(self, out: Path, settings: Mapping[str, Any]) -> None:
        """Take everything that the output depends on besides its input as `settings`, a JSON value.

        RunError: `out` is a folder, or its folder is missing.
        """
        try:
            target = files.destination(out)
        except OSError as error:
            raise RunError(f"{out}: {error.strerror}; give the name of a file to write") from error
        if not out.parent.is_dir():
            raise RunError(f"{out}: there is no folder {out.parent}; give the name of a file to write")
        self.out = target or out
        self.resumable = target is not None
        self.partial = self.out.with_name(f"{self.out.name}.partial")
        self.path = self.out.with_name(f"{self.out.name}.journal")
        self.settings = dict(settings)
        self.n_lines = 0
        """Number of finished lines of the input."""
        self.digest = ""
        """Hash of the finished lines."""
        self.n_bytes = 0
        """Valid bytes of the partial file."""
        self.counts: Counter[str] = Counter()
        """Number of skipped lines, by reason."""
        self.finished = False
        self._file: IO[bytes] | None = None
        self._open = ExitStack()

    def __enter__(self) -> Journal:
        """Open the partial file at its end of valid bytes.

        RunError: it is locked, too short, or was begun with other settings.
        """
        with ExitStack() as opened, self._complaints(self.out):
            if not self.resumable:
                self._file = opened.enter_context(files.open_through(self.out))
            else:
                lock = self.out.with_name(f".{self.out.name}.lock")
                opened.enter_context(files.locked(lock, what=self.out))
                files.remove_unfinished(self.path)
                if self.path.exists():
                    self._read()
                elif self.partial.exists():
                    raise RunError(
                        f"{self.partial}: is no unfinished output, for it has no journal; move it, or name "
                        "another output"
                    )
                else:
                    self._write()  # first, so that the partial file is known as ours
                if not self.finished:
                    self._file = opened.enter_context(self.partial.open("ab"))
                    self._cut_off()
            self._open = opened.pop_all()
        return self

    def _cut_off(self) -> None:
        """Truncate the partial file to its valid bytes. RunError: it has fewer."""
        assert self._file is not None, "is open"
        size = self._file.seek(0, os.SEEK_END)
        if size < self.n_bytes:
            raise RunError(
                f"{self.partial}: has {size} bytes where {self.path.name} counts {self.n_bytes}; "
                "delete both to start over"
            )
        self._file.truncate(self.n_bytes)

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        with self._open:
            if self._file is not None:
                with suppress(OSError):  # what it could not write, it has said
                    self._file.close()
            if error is not None and self.resumable and not self.n_lines and not self.finished:
                for path in (self.partial, self.path):  # nothing is done: leave nothing
                    with suppress(OSError):
                        path.unlink()

    def append(self, chunk: Chunk, done: Done) -> None:
        """Append the result of the next lines and sync it to disk. RunError: no space."""
        assert chunk.first_number == self.n_lines + 1, "chunks come in the order of the input"
        self._append(done.data)
        self.n_lines += len(chunk.lines)
        self.digest = chunk.digest
        self.counts.update(done.counts)
        self._write()

    def finish(self) -> None:
        """Rename the complete output, replacing an existing file. RunError: it cannot be written."""
        if not self.finished and not self.n_bytes:
            self._append(compressed(b"", self.out.name))  # no bytes at all are no compressed file
        self.finished = True
        self._write()
        with self._complaints(self.out):
            if self._file is not None:
                self._file.close()  # Windows renames no open file
            if self.resumable:
                if self.partial.exists():  # it is not, if a kill came right here
                    files.put_in_place(self.partial, self.out)
                self.path.unlink()

    def _append(self, data: bytes) -> None:
        assert self._file is not None, "is open"
        with self._complaints(self.partial if self.resumable else self.out):
            self._file.write(data)
            self._file.flush()
            if self.resumable:
                os.fsync(self._file.fileno())
        self.n_bytes += len(data)

    def _write(self) -> None:
        """Write the journal, unless the output is a device or a pipe."""
        if self.resumable:
            names = ("settings", "n_lines", "digest", "n_bytes", "counts", "finished")
            record = {name: getattr(self, name) for name in names}
            text = json.dumps(record, indent=2, ensure_ascii=False)
            files.write_atomically(self.path, text.encode() + b"\n")

    def _read(self) -> None:
        """Load the journal. RunError: it has other settings, or is damaged."""
        try:
            record = parse_json(self.path.read_bytes())
            settings = dict(record["settings"])
            self.n_lines, self.n_bytes = int(record["n_lines"]), int(record["n_bytes"])
            self.digest = str(record["digest"])
            self.counts, self.finished = Counter(record["counts"]), bool(record["finished"])
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(
                f"{self.path}: is damaged; delete it and {self.partial.name} to start over"
            ) from error
        current = dict(self.settings)
        changes = [what for name, what in HASHES.items() if settings.pop(name, "") != current.pop(name, "")]
        if changed := "; ".join([*changes, *differences(settings, current)]):
            raise RunError(
                f"{self.path}: {self.out.name} is unfinished, and was begun with other settings ({changed}); "
                f"use the same ones to continue, or delete it and {self.partial.name} to start over"
            )

    @contextmanager
    def _complaints(self, path: Path) -> Iterator[None]:
        """RunError: `path` cannot be written; a pipe that nobody reads is the caller's matter."""
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            raise RunError(f"{files.cannot_write(path, error)}; the same command continues") from error
