"""XML that a stranger wrote: read without expanding entities or opening other files."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape

from dragoman.data.readers.formats import XmlParser
from dragoman.documents.budget import Budget

MOST_ATTRIBUTES = 500
"""Attributes of an element, at most."""
MOST_NAMESPACES = 200
"""Namespaces declared by an element and those around it, at most: looking one up is a search among them."""
LONGEST_TAG = 4 * 2**20
"""Bytes of a tag or comment, at most; the parser reports a tag when it has all of its attributes."""
BLOCK = 2**18
"""Bytes that are parsed at once."""

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Reader(XmlParser):
    """A parser of a whole file that refuses deep nesting and huge tags, too.

    A subclass counts in the budget what it keeps; `check` of the budget is called here.
    """

    DEEPEST, JOINT = 200, ", "

    def __init__(self, name: str, xml: bytes, budget: Budget, *, encoding: str | None = None) -> None:
        super().__init__(name, encoding)
        self._xml, self._budget = xml, budget
        self._namespaces = [0]
        """How many are declared for the children of each element that is open, and above."""

    def read(self) -> None:
        """Take all elements and text. DataError: it is no XML, or refused."""
        xml = memoryview(self._xml)
        for end_of_block in range(BLOCK, len(xml) + BLOCK, BLOCK):
            self._parse(xml[end_of_block - BLOCK : end_of_block], is_last=False)
            if end_of_block - self.parser.CurrentByteIndex > LONGEST_TAG:
                self.refuse(f"a tag or comment of more than {LONGEST_TAG >> 20} MiB; refused")
            self._budget.check()
        self._parse(b"", is_last=True)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        declared = self._namespaces[-1]
        if attributes:
            declared += sum(name.startswith("xmlns") for name in attributes)
        self._namespaces.append(declared)
        if len(attributes) > MOST_ATTRIBUTES:
            self.refuse(f"more than {MOST_ATTRIBUTES} attributes of one element; refused")
        if declared > MOST_NAMESPACES:
            self.refuse(f"more than {MOST_NAMESPACES} namespaces; refused")
        super()._start(tag, attributes)
        self._budget.step(1 + len(attributes))

    def _end(self, tag: str) -> None:
        self._namespaces.pop()
        super()._end(tag)


def without_controls(text: str) -> str:
    """`text` without the characters that no XML may hold; a model can write them by their bytes."""
    return _NO_XML.sub("", text)


def escaped(text: str) -> str:
    """`text` as it stands in an element."""
    return escape(without_controls(text))
