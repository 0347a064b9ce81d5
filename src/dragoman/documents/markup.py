"""XML that a stranger wrote: read without expanding entities or opening other files."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn
from xml.parsers import expat
from xml.sax.saxutils import escape

from dragoman.documents.budget import Budget
from dragoman.errors import DataError

DEEPEST = 200
"""Elements within one another, at most."""
MOST_ATTRIBUTES = 500
"""Attributes of an element, at most."""
MOST_NAMESPACES = 200
"""Namespaces declared by an element and those around it, at most: looking one up is a search among them."""
LONGEST_TAG = 4 * 2**20
"""Bytes of a tag or comment, at most; the parser reports a tag when it has all of its attributes."""
BLOCK = 2**18
"""Bytes that are parsed at once."""

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Reader:
    """An expat parser that refuses declarations of entities, deep nesting and huge tags.

    Callbacks count what they keep in the budget; the reader calls its `check`.
    """

    def __init__(self, name: str, content: bytes, budget: Budget, *, encoding: str | None = None) -> None:
        """`name` is for messages; `encoding` counts more than what the file says of itself."""
        self._name, self._content, self._budget = name, content, budget
        self._namespaces = [0]
        """How many are declared for the children of each element that is open, and above."""
        self._has_begun = False
        """An element was read, and so the declaration of the encoding before it."""
        self._start: Callable[[str, dict[str, str]], None] | None = None
        self._end: Callable[[str], None] | None = None
        self.parser = expat.ParserCreate(encoding)
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._started
        self.parser.EndElementHandler = self._ended
        self.parser.EntityDeclHandler = self._declared
        self.parser.SkippedEntityHandler = self._skipped

    def read(
        self,
        *,
        start: Callable[[str, dict[str, str]], None] | None = None,
        end: Callable[[str], None] | None = None,
        text: Callable[[str], None] | None = None,
    ) -> None:
        """Call `start`, `end` and `text` for what is there. DataError: it is no XML, or refused."""
        self._start, self._end = start, end
        self.parser.CharacterDataHandler = text
        content = memoryview(self._content)
        for end_of_block in range(BLOCK, len(content) + BLOCK, BLOCK):
            self._parse(content[end_of_block - BLOCK : end_of_block], is_last=False)
            if end_of_block - self.parser.CurrentByteIndex > LONGEST_TAG:
                self.refuse(f"a tag or comment of more than {LONGEST_TAG >> 20} MiB; refused")
            self._budget.check()
        self._parse(b"", is_last=True)

    def _parse(self, block: bytes | memoryview, *, is_last: bool) -> None:
        try:
            self.parser.Parse(block, is_last)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise DataError(
                f"{self._name}, line {error.lineno}: is not XML, or cut short ({reason} at column "
                f"{error.offset}); write it again with the program it is from"
            ) from error
        except (LookupError, ValueError) as error:
            if self._has_begun:  # a callback raised it
                raise
            raise DataError(
                f"{self._name}: declares an encoding that is not read in XML ({error}); "
                "write it again in UTF-8"
            ) from error

    def refuse(self, why: str) -> NoReturn:
        """DataError: `why`, with the line that is being read."""
        raise DataError(f"{self._name}, {self.place()}: {why}")

    def place(self) -> str:
        """Return the line that is being read."""
        return f"line {self.parser.CurrentLineNumber}"

    def _started(self, tag: str, attributes: dict[str, str]) -> None:
        self._has_begun = True
        self._budget.step(1 + len(attributes))
        declared = self._namespaces[-1]
        if attributes:
            declared += sum(name.startswith("xmlns") for name in attributes)
        self._namespaces.append(declared)
        if len(self._namespaces) - 1 > DEEPEST:
            self.refuse(f"more than {DEEPEST} elements within one another; refused")
        if len(attributes) > MOST_ATTRIBUTES:
            self.refuse(f"more than {MOST_ATTRIBUTES} attributes of one element; refused")
        if declared > MOST_NAMESPACES:
            self.refuse(f"more than {MOST_NAMESPACES} namespaces; refused")
        if self._start is not None:
            self._start(tag, attributes)

    def _ended(self, tag: str) -> None:
        self._namespaces.pop()
        if self._end is not None:
            self._end(tag)

    def _declared(self, name: str, *_: Any) -> None:
        self.refuse(
            f"declares the entity {name!r}; refused, for entities can fill the memory and fetch other files; "
            "remove the declaration"
        )

    def _skipped(self, name: str, _: Any) -> None:
        self.refuse(f"&{name}; is not defined; write the character itself, or &amp; for a plain &")


def without_controls(text: str) -> str:
    """`text` without the characters that no XML may hold; a model can write them by their bytes."""
    return _NO_XML.sub("", text)


def escaped(text: str) -> str:
    """`text` as it stands in an element."""
    return escape(without_controls(text))
