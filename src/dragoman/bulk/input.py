"""What a command reads: a name that is resolved once, and the lines or sentences behind it, in chunks."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from io import BufferedReader
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from dragoman.data.readers.files import (
    ReadOffset,
    find_file,
    format_suffix,
    guess_encoding,
    is_stream,
    local_copy,
    longest_line,
    open_bytes,
    open_lines,
    too_long,
)
from dragoman.documents.files import FORMATS, SAVED_AS, STRUCTURED, DocumentFile
from dragoman.documents.passages import Tags
from dragoman.documents.plain import decoded
from dragoman.errors import ConfigError, DataError

CHUNK_LINES = 4096
"""Lines per chunk: enough to batch sentences of similar length, few enough to redo after a crash."""
SOON = 1000
"""Lines per chunk of what is not continued after a crash; on stdout they appear after the first chunk."""
AS_THEY_COME = 0
"""Lines per chunk of a pipe: those that have arrived."""

STDIN = Path("-")
MOST_BYTES = 256 << 20
"""Maximum bytes of a decompressed document."""


class Chunk(NamedTuple):
    """Consecutive lines of a file, or sentences of a document."""

    first_number: int
    """Number of the first line, counted from 1."""
    lines: list[str]
    share: float
    """Fraction of the input that has been read up to the end of the chunk, 0 to 1; 0 = unknown."""
    digest: str
    """Hash of all lines from the first of the file to the last of the chunk."""
    tags: Tags | None = None
    """The tags of the document."""


@dataclass(frozen=True)
class Input:
    """Lines or a document: from a file, a pipe or stdin."""

    name: str
    """Its name in messages."""
    path: Path
    """Where it is; "-" = stdin."""
    ending: str | None = None
    """Ending of the document format; None = lines."""
    encoding: str = "utf-8"
    is_stream: bool = False
    """Whether it is read as it arrives, once: from stdin, or from a pipe to stdout."""
    languages: tuple[str, str] = ("", "")
    """Source and target of a document."""

    @classmethod
    def of(
        cls,
        name: str,
        *,
        out: Path | None = None,
        as_document: bool | None = False,
        languages: tuple[str, str] = ("", ""),
    ) -> Input:
        """Find the file `name`, "-" = stdin, whose results go to `out`; None = stdout.

        `as_document` says whether it is a document; None = if its suffix says so. `languages` are source and
        target of one.

        Raises:
            ConfigError: the format of `out` differs, or is not for a terminal.
            DataError: a file is missing; the document format is not supported.
            MissingExtraError: a package for the format is not installed.
        """
        ending = None
        if as_document is not False:
            suffix = format_suffix(name)
            if suffix in STRUCTURED:
                raise DataError(
                    f"{name}: the lines of {suffix} files are not plain text, and a translation would damage "
                    "them; extract the text, or translate each line as it is with --lines"
                )
            is_named = suffix in SAVED_AS or (suffix in FORMATS and suffix != ".txt")
            suffix = suffix if is_named else ".txt"
            if is_named or as_document:
                DocumentFile.check_ending(name, suffix)
                ending = suffix
            target = format_suffix(out.name) if out is not None else suffix
            if target != suffix and (suffix != ".txt" or target in FORMATS):
                raise ConfigError(
                    f"--out {out}: a document keeps its format; give a name that ends in {suffix}"
                )
        if ending == ".docx" and out is None and sys.stdout.isatty():
            raise ConfigError(f"{name}: cannot write a Word document to a terminal; give --out FILE.docx")
        path = STDIN if name == "-" else find_file(name, copied=False)
        comes_once = name == "-" or (out is None and is_stream(path))
        return cls("stdin" if name == "-" else name, path, ending, "utf-8", comes_once, languages)

    def encoded(self, encoding: str | None, language: str) -> Input:
        """Return the same in `encoding`, or in a guess from the first MiB of a text in `language`.

        ConfigError: the encoding is unknown, or not for this file.
        """
        has_own = self.ending not in (None, ".txt", ".srt")
        if encoding is None:
            if has_own or self.is_stream:
                return self
            with open_bytes(local_copy(self.path)) as stream:
                return replace(self, encoding=guess_encoding(stream.read(1 << 20), language))
        try:
            one_byte = "\n".encode(encoding) == b"\n"
        except (LookupError, ValueError) as error:  # ValueError: a name that is not even text
            raise ConfigError(f"--encoding {encoding}: is unknown; try cp1252, latin-1 or gb18030") from error
        if has_own:
            raise ConfigError(
                f"--encoding {encoding}: is not for {self.name}, which says itself how it is encoded"
            )
        if not one_byte and self.ending is None:
            raise ConfigError(
                f"--encoding {encoding}: has no line ends of one byte; convert the text to UTF-8"
            )
        return replace(self, encoding=encoding)

    @property
    def files(self) -> list[Path]:
        """The files that are read."""
        return [self.path]

    @cached_property
    def document(self) -> DocumentFile:
        """The document, read whole. DataError: it is damaged, too large, or not in the format of its name."""
        content = bytearray()
        with nullcontext() if self.path == STDIN else open_bytes(local_copy(self.path)) as file:
            blocks = [file.read(MOST_BYTES + 1)] if file else stream_blocks(STDIN, "type or paste text")
            for block in blocks:
                content += block
                if len(content) > MOST_BYTES:
                    size = f"{MOST_BYTES >> 20} MiB"
                    raise DataError(f"{self.name}: is larger than {size}; cut it into several documents")
        whole = bytes(content)
        if self.encoding != "utf-8":
            whole = decoded(self.name, whole, self.encoding)[0].encode()
        return DocumentFile.read(self.name, whole, self.languages, ending=self.ending)

    def place(self, number: int) -> str:
        """Return where a line or sentence is, counted from 1, in words."""
        if self.ending is None:
            return f"line {number}"
        return f"{self.document.noun} {self.document.places[number - 1]}"

    def chunks(self, *, n_done: int = 0, digest: str = "", chunk_lines: int = CHUNK_LINES) -> Iterator[Chunk]:
        """Cut the input into chunks, from line `n_done` + 1 on. `digest` is that of the lines before it.

        Raises:
            DataError: the input cannot be read, is damaged or is not in its encoding; other lines are done
                than those.
        """
        arriving, share = self._lines()
        tags = None if self.ending is None else self.document.tags
        groups: Iterator[list[str]] = map(list, arriving)
        if chunk_lines != AS_THEY_COME:
            groups = in_groups(chain.from_iterable(arriving), chunk_lines, n_first=n_done)
        n_lines, read = 0, hashlib.blake2b(digest_size=16)
        for group in groups:
            read.update("".join(f"{line}\n" for line in group).encode())
            n_lines += len(group)
            if n_lines == n_done and read.hexdigest() != digest:
                break
            if n_lines > n_done:
                yield Chunk(n_lines - len(group) + 1, group, share(n_lines), read.hexdigest(), tags)
        if n_lines <= n_done and n_done and read.hexdigest() != digest:
            raise DataError(
                f"{self.name}: its first {n_done:,} lines have changed since they were translated; restore "
                "them, or delete the .journal and .partial of the output to start over"
            )

    def _lines(self) -> tuple[Iterable[Iterable[str]], Callable[[int], float]]:
        """Return the lines, in groups as they come, and what share has been read, given their number."""
        if self.ending is not None:
            sentences = self.document.sentences
            return [sentences], lambda n: n / len(sentences)
        if self.is_stream:
            blocks = stream_blocks(self.path, "type a sentence")
            return line_chunks(blocks, name=self.name, encoding=self.encoding), lambda n: 0.0
        path, position = local_copy(self.path), ReadOffset()
        return [open_lines(path, encoding=self.encoding, position=position)], share_of(path, position)


def share_of(path: Path, position: ReadOffset) -> Callable[[int], float]:
    """Return what tells, at any time, the share of a file's bytes that were read; 0 = it is no file."""
    size = path.stat().st_size if path.is_file() else 0
    return lambda n: min(1.0, position.n_bytes / size) if size else 0.0


def in_groups(lines: Iterator[str], size: int, *, n_first: int = 0) -> Iterator[list[str]]:
    """Cut `lines` into groups of `size`. One ends after the first `n_first`."""
    n = 0
    while group := list(islice(lines, min(size, n_first - n) if n < n_first else size)):
        yield group
        n += len(group)


def line_chunks(blocks: Iterable[bytes], *, name: str, encoding: str = "utf-8") -> Iterator[list[str]]:
    """Split blocks of bytes into lines; yield those that each block completes.

    Only "\\n" ends a line. The lines have no line ends and no byte order mark. DataError: one is too long, or
    not in this encoding.
    """
    n_lines, unfinished, most = 0, b"", longest_line()
    for block in chain(blocks, [None]):  # None: the end
        if block is None:
            complete, unfinished = [unfinished] if unfinished else [], b""
        else:
            *complete, unfinished = (unfinished + block).split(b"\n")
        lines = []
        for line in complete:
            n_lines += 1
            content = line.removesuffix(b"\r")
            if len(content) > most:
                raise too_long(f"{name}, line {n_lines}", most)
            try:
                lines.append(content.decode(encoding).removeprefix("\ufeff" if n_lines == 1 else ""))
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{name}, line {n_lines}: is not {encoding.upper()} (byte {error.start + 1}); convert "
                    "it, or say how it is encoded, as in --encoding cp1252"
                ) from error
        if lines:
            yield lines
        if len(unfinished) > most + 1:  # with "\r"
            raise too_long(f"{name}, line {n_lines + 1}", most)


def stream_blocks(path: Path, invitation: str) -> Iterator[bytes]:
    """Yield the bytes of a pipe or of stdin as they arrive. DataError: it cannot be read.

    On a terminal stderr says how to end the input; otherwise a command that waits for it seems to hang.
    """
    is_stdin = path == STDIN
    try:
        if is_stdin and sys.stdin.isatty():
            ends = "Ctrl-Z and Enter" if os.name == "nt" else "Ctrl-D"
            print(f"{invitation}; {ends} ends", file=sys.stderr)
        with nullcontext(sys.stdin.buffer) if is_stdin else path.open("rb") as stream:
            read = partial(stream.read1, 1 << 16) if isinstance(stream, BufferedReader) else stream.read
            yield from iter(read, b"")
    except OSError as error:
        raise DataError(
            f"{'stdin' if is_stdin else path}: cannot be read ({error.strerror}); name a file to read"
        ) from error
