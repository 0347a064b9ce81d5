"""Text files: UTF-8 or UTF-16 in, the same out."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import NamedTuple

from dragoman.documents.budget import Budget
from dragoman.documents.passages import Passage, Pieces, text_of
from dragoman.errors import DataError


class TextFile:
    """A text, in which a line is a paragraph."""

    noun = "line"

    def __init__(self, text: str, encoding: Encoding) -> None:
        self.passages: Sequence[Passage] = (Passage((text,), 1),)
        self._encoding = encoding

    def written(self, translations: Sequence[Pieces]) -> bytes:
        return self._encoding.encoded(text_of(translations[0]))


def read(name: str, content: bytes, languages: tuple[str, str], budget: Budget) -> TextFile:
    """Return the text file `content`. DataError: it is no text, or has too many lines."""
    text, encoding = decoded(name, content)
    budget.spend(text.count("\n") + text.count("\r") - text.count("\r\n"))
    return TextFile(text, encoding)


class Encoding(NamedTuple):
    """How a text file is written."""

    name: str
    byte_order_mark: bytes = b""
    errors: str = "replace"
    """What becomes of characters that it has not, as in `str.encode`: by default a question mark."""

    def encoded(self, text: str) -> bytes:
        """Return the file that holds `text`."""
        return self.byte_order_mark + text.encode(self.name, self.errors)


def decoded(name: str, content: bytes, usual: str = "utf-8") -> tuple[str, Encoding]:
    """Return the text of a file, and how it is written.

    In UTF-8 or UTF-16 with a byte order mark, or in the `usual` encoding. DataError: it is not.
    """
    marks = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
    mark = next((mark for mark in marks if content.startswith(mark)), b"")
    encoding = Encoding(marks.get(mark, usual), mark)
    content = content[len(mark) :]
    try:
        text = content.decode(encoding.name)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        shown = encoding.name.upper()[:6] if mark else usual.upper()
        raise DataError(f"{name}, line {line}: is not {shown}; convert the text to UTF-8") from error
    except LookupError as error:
        raise DataError(f"{name}: is in {usual}, which is not supported; convert it to UTF-8") from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DataError(f"{name}, line {line}: holds a NUL byte, so it is no text; convert it to UTF-8")
    return text, encoding
