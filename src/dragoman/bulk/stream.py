"""Read a text file, or a parallel corpus, in chunks of lines; the result of a chunk."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from dragoman.data.readers.files import Position, open_lines
from dragoman.errors import DataError

CHUNK_LINES = 4096
"""Lines per chunk: enough to batch sentences of similar length, few enough to redo after a crash."""


class Chunk(NamedTuple):
    """Consecutive lines of a file."""

    first_number: int
    """Number of the first line, counted from 1."""
    lines: list[str]
    n_bytes: int
    """Bytes of the stored file that have been read up to the end of the chunk."""
    digest: str
    """Hash of all lines from the first of the file to the last of the chunk."""


class Done(NamedTuple):
    """The result of a chunk."""

    first_number: int
    n_lines: int
    """Lines of the chunk; the output may have fewer."""
    n_bytes: int
    data: bytes
    """The output as one compressed frame; b"" if all lines were skipped."""
    counts: Mapping[str, int]
    """Number of skipped lines, by reason."""
    digest: str = ""
    """The digest of the chunk."""
    problem: str = ""
    """Error message for the user; "" = no error."""


def read_chunks(
    path: Path,
    *,
    encoding: str = "utf-8",
    n_done: int = 0,
    digest: str = "",
    chunk_lines: int = CHUNK_LINES,
) -> Iterator[Chunk]:
    """Cut a text file into chunks, from line `n_done` + 1 on. `digest` is that of the lines before it.

    Raises:
        DataError: the file cannot be read, is damaged or is not in its `encoding`, or other lines are done
            than those.
    """
    position = Position()
    lines = open_lines(path, encoding=encoding, position=position)
    yield from cut(
        lines, name=str(path), position=position, n_done=n_done, digest=digest, chunk_lines=chunk_lines
    )


def cut(
    lines: Iterator[str],
    *,
    name: str,
    position: Position,
    n_done: int = 0,
    digest: str = "",
    chunk_lines: int = CHUNK_LINES,
) -> Iterator[Chunk]:
    """Cut `lines` into chunks, from line `n_done` + 1 on. `digest` is that of the lines before it.

    `name` is that of the input in messages, `position` how far it has been read.

    Raises:
        DataError: other lines are done than those; and whatever reading a line raises.
    """
    read = hashlib.blake2b(digest_size=16)

    def chunk_of(n: int) -> list[str]:
        chunk = list(islice(lines, n))
        read.update("".join(f"{line}\n" for line in chunk).encode())
        return chunk

    n_lines = 0
    while n_lines < n_done and (chunk := chunk_of(min(chunk_lines, n_done - n_lines))):
        n_lines += len(chunk)
    if n_lines < n_done or (n_done and read.hexdigest() != digest):
        raise DataError(
            f"{name}: its first {n_done:,} lines have changed since they were translated; restore them, or "
            "delete the .journal and .partial of the output to start over"
        )
    while chunk := chunk_of(chunk_lines):
        yield Chunk(n_lines + 1, chunk, position.n_bytes, read.hexdigest())
        n_lines += len(chunk)
