"""Read text from files, pipes and stdin; write results to files and stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from io import BufferedReader
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO

from dragoman.cli.app import invite
from dragoman.errors import DataError, escape_control_characters

if TYPE_CHECKING:
    from pathlib import Path

CHUNK = 1000
"""Lines of a file that are translated together; output starts after the first chunk."""

MOST_BYTES = 256 << 20
"""Maximum bytes of a decompressed document."""


def file_chunks(name: str, encoding: str = "utf-8") -> Iterator[list[str]]:
    """Read a file in chunks of lines, so that sentences of similar length can share a batch.

    Raises:
        DataError: the file is missing, or not in this encoding.
    """
    from dragoman.data.readers.files import find_file, open_lines

    lines = open_lines(find_file(name), encoding=encoding)
    while chunk := list(islice(lines, CHUNK)):
        yield chunk


def stream_chunks(name: str, encoding: str = "utf-8") -> Iterator[list[str]]:
    """Read a pipe or stdin ("-") in chunks: the lines that have arrived so far.

    Raises:
        DataError: a line is not in this encoding, or the stream cannot be read.
    """
    blocks = stream_blocks(name, invitation="type a sentence")
    return line_chunks(blocks, name="stdin" if name == "-" else name, encoding=encoding)


def line_chunks(blocks: Iterable[bytes], *, name: str, encoding: str = "utf-8") -> Iterator[list[str]]:
    """Split blocks of bytes into lines; yield those that each block completes.

    Only "\\n" ends a line. The lines have no "\\n" or "\\r\\n".
    """
    from dragoman.data.readers.files import longest_line, too_long

    n_lines, unfinished, most = 0, b"", longest_line()
    for block in blocks:
        *lines, last = block.split(b"\n")
        unfinished = unfinished + lines[0] if lines else unfinished + last
        if len(unfinished) > most + 1:  # with "\r"
            raise too_long(f"{name}, line {n_lines + 1}", most)
        if lines:
            yield _decode([unfinished, *lines[1:]], name=name, encoding=encoding, n_before=n_lines)
            n_lines, unfinished = n_lines + len(lines), last
    if unfinished:
        yield _decode([unfinished], name=name, encoding=encoding, n_before=n_lines)


def _decode(lines: list[bytes], *, name: str, encoding: str, n_before: int) -> list[str]:
    """Decode lines, without the byte order mark of the first one."""
    from dragoman.data.readers.files import longest_line, too_long

    texts, most = [], longest_line()
    for number, line in enumerate(lines, start=n_before + 1):
        content = line.removesuffix(b"\r")
        if len(content) > most:
            raise too_long(f"{name}, line {number}", most)
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}, line {number}: is not {encoding.upper()} (byte {error.start + 1}); convert it, or "
                "say how it is encoded, as in --encoding cp1252"
            ) from error
        texts.append(text.removeprefix("\ufeff") if number == 1 else text)
    return texts


def read_bytes(name: str) -> bytes:
    """Read a whole file, decompressed by suffix, or stdin ("-"). DataError: it is missing or too large."""
    from dragoman.data.readers.files import find_file, open_bytes

    if name == "-":
        content = bytearray()
        for block in stream_blocks("-", invitation="type or paste text"):
            content += block
            if len(content) > MOST_BYTES:
                break
    else:
        with open_bytes(find_file(name)) as file:
            content = bytearray(file.read(MOST_BYTES + 1))
    if len(content) > MOST_BYTES:
        raise DataError(f"{name}: is larger than {MOST_BYTES >> 20} MiB; cut it into several documents")
    return bytes(content)


def stream_blocks(name: str, *, invitation: str) -> Iterator[bytes]:
    """Yield the bytes of a pipe or of stdin ("-") as they arrive. DataError: it cannot be read."""
    from dragoman.data.readers.files import find_file

    try:
        if name == "-":
            invite(invitation)
            yield from _blocks(sys.stdin.buffer)
        else:
            with find_file(name, copied=False).open("rb") as stream:
                yield from _blocks(stream)
    except OSError as error:
        raise DataError(
            f"{'stdin' if name == '-' else name}: cannot be read ({error.strerror}); name a file to read"
        ) from error


def _blocks(stream: BinaryIO) -> Iterator[bytes]:
    return iter(lambda: stream.read1(1 << 16) if isinstance(stream, BufferedReader) else stream.read(), b"")


def write_output(path: Path | None, content: str | bytes) -> None:
    """Write text, or a document, to stdout, or atomically to a file.

    A file is written in UTF-8 and compressed according to its suffix. On a terminal, control characters are
    escaped.
    """
    if path is not None:
        from dragoman.data.readers.files import compressed
        from dragoman.files import write_atomically

        encoded = content.encode() if isinstance(content, str) else content
        write_atomically(path, compressed(encoded, path.name))
    elif sys.stdout.isatty():
        from dragoman.documents.plain import decoded

        text = content if isinstance(content, str) else decoded("output", content)[0]
        sys.stdout.write(escape_control_characters(text))
    elif isinstance(content, str):
        sys.stdout.write(content)
        sys.stdout.flush()
    else:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
