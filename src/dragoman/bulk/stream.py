"""A text file in chunks of lines, and what becomes of a chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from dragoman.data.readers.files import Position, open_lines

CHUNK_LINES = 4096
"""Lines of a chunk: many, so that sentences of a length are searched together; few enough to do again."""


class Chunk(NamedTuple):
    """Lines that stand together in a file."""

    first_number: int
    """The number of the first of them, counted from 1."""
    lines: list[str]
    n_bytes: int
    """Bytes of the file, as it is stored, that have been read by now."""


class Done(NamedTuple):
    """What has become of a chunk."""

    first_number: int
    n_lines: int
    """Lines of the chunk; the output may have fewer."""
    n_bytes: int
    data: bytes
    """The output, compressed: a whole frame; b"" where no line is left."""
    counts: Mapping[str, int]
    """What was left out, by reason."""
    problem: str = ""
    """Why there is no output: a message for the user."""


Tick = Callable[[int], None]
"""Is told that so many more lines of some chunk are translated."""


def read_chunks(path: Path, *, n_done: int = 0, chunk_lines: int = CHUNK_LINES) -> Iterator[Chunk]:
    """The lines of a text file behind the first `n_done`, which are read and left away.

    DataError: it cannot be read, is damaged or is not UTF-8.
    """
    position = Position()
    lines = open_lines(path, position=position)
    for _ in islice(lines, n_done):
        pass
    first_number = n_done + 1
    while chunk := list(islice(lines, chunk_lines)):
        yield Chunk(first_number, chunk, position.n_bytes)
        first_number += len(chunk)
