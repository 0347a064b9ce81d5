"""Word documents (.docx): body, tables, text boxes, headers, footers, footnotes and endnotes.

Runs of one formatting are one stretch of text; where a paragraph has several, formatting and hyperlinks are
pairs of codes around it, and pictures, breaks of pages, references and fields are codes at a place. Fields
(page numbers, tables of contents), deleted text, comments, equations, charts and all other parts of the file
stay as they are.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from dragoman.errors import DataError
from dragoman.predict.documents.markup import Reader, without_controls
from dragoman.predict.documents.passages import Code, Passage, Pieces
from dragoman.predict.documents.text import is_wordy

if TYPE_CHECKING:
    from docx.document import Document

MOST_BYTES = 256 * 2**20
"""Bytes of all parts of a file, unpacked, at most."""
MOST_XML = 64 * 2**20
"""Bytes of those that are XML: as a tree they take several times as many."""
MOST_PARTS = 5000
"""Parts of a file, at most."""

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.{}+xml"
_STORIES = frozenset(map(_TYPE.format, ("document.main", "header", "footer", "footnotes", "endnotes")))
"""The types of the parts that hold text."""
_CONTAINERS = frozenset(
    _W + name for name in ("hyperlink", "ins", "moveTo", "smartTag", "customXml", "dir", "bdo")
)
"""What may stand around runs, but for <sdt>, which has its runs one level deeper."""
_DROPPED = frozenset(_W + name for name in ("proofErr", "lastRenderedPageBreak", "softHyphen"))
"""What a program noted about the text that was."""
_INVISIBLE = frozenset(_W + name for name in ("lang", "noProof"))
"""What makes no difference between two runs that a reader sees."""
_OBJECT = re.compile(r"'?<[^<>]* at 0x[0-9a-f]+>'?")
"""An object as Python shows it, such as the file in a message of python-docx."""
_OLD_WORD = b"\xd0\xcf\x11\xe0"


class Item(NamedTuple):
    """An element that is kept as it is."""

    element: Any
    run: Any = None
    """The run that it is in; None where it stands beside runs."""


@dataclass
class Point:
    """What stands at a place."""

    items: list[Item]


@dataclass
class Format:
    """The properties of runs, an element or None."""

    properties: Any


@dataclass
class Container:
    """An element around runs, and the one in it that holds them: itself, or a child."""

    element: Any
    content: Any
    is_used: bool = False

    def emptied(self) -> tuple[Any, Any]:
        """The element, and the one in it that is to be filled; copies where it has been used."""
        element, content = self.element, self.content
        if self.is_used:
            element = deepcopy(self.element)
            content = element if self.content is self.element else element.find(f"{_W}sdtContent")
        self.is_used = True
        _clear(content)
        return element, content


class _Text(NamedTuple):
    """Text of one formatting."""

    text: str
    form: bytes
    """What a reader sees of the formatting."""
    properties: Any


class Paragraph:
    """A paragraph, taken apart."""

    def __init__(self, element: Any, field_runs: set[Any], place: int) -> None:
        """`field_runs` are those that belong to fields."""
        self._element, self._field_runs = element, field_runs
        self._things: dict[int, Point | Format | Container] = {}
        items: list[_Text | Code] = []
        self._collect(element, items)
        texts = [item for item in items if isinstance(item, _Text)]
        counts: Counter[bytes] = Counter()
        for item in texts:
            counts[item.form] += len(item.text)
        most = counts.most_common(1)[0][0] if counts else b""
        self._properties = next((item.properties for item in texts if item.form == most), None)
        """Those of most of the text."""
        self.passage = Passage(self._pieces(items, most), place, separators="\t")

    def write(self, pieces: Pieces) -> None:
        """Puts another text into the paragraph."""
        _clear(self._element, but=f"{_W}pPr")
        parents, properties = [self._element], [self._properties]
        for piece in pieces:
            if isinstance(piece, str):
                parents[-1].append(_run(properties[-1], piece))
                continue
            thing = self._things[piece.key]
            if isinstance(thing, Point):
                for item in thing.items:
                    parents[-1].append(item.element if item.run is None else _run_of(item))
            elif isinstance(thing, Format):
                if piece.kind == "open":
                    properties.append(thing.properties)
                else:
                    properties.pop()
            elif piece.kind == "open":
                element, content = thing.emptied()
                parents[-1].append(element)
                parents.append(content)
            else:
                parents.pop()

    def _add(self, thing: Point | Format | Container) -> int:
        """The key of a new thing."""
        self._things[len(self._things)] = thing
        return len(self._things) - 1

    def _collect(self, parent: Any, items: list[_Text | Code]) -> None:
        """Adds text, begins and ends of containers, and points to `items`; points in a row are one."""
        for child in parent:
            content = child.find(f"{_W}sdtContent") if child.tag == f"{_W}sdt" else child
            if child.tag == f"{_W}pPr" or child.tag in _DROPPED:
                continue
            if child.tag == f"{_W}r" and child not in self._field_runs:
                for found in _contents(child):
                    if isinstance(found, Item):
                        self._collect_item(found, items)
                    else:
                        items.append(found)
            elif child.tag in _CONTAINERS or (child.tag == f"{_W}sdt" and content is not None):
                key = self._add(Container(child, content))
                items.append(Code("open", key))
                self._collect(content, items)
                items.append(Code("close", key))
            else:
                self._collect_item(Item(child), items)

    def _collect_item(self, item: Item, items: list[_Text | Code]) -> None:
        last = self._things[items[-1].key] if items and isinstance(items[-1], Code) else None
        if isinstance(last, Point):
            last.items.append(item)
        else:
            items.append(Code("point", self._add(Point([item]))))

    def _pieces(self, items: list[_Text | Code], most: bytes) -> Pieces:
        """Pairs of codes around the text whose formatting is not that of `most`; all else as it is."""
        pieces: list[str | Code] = []
        form, key = most, -1
        for i, item in enumerate(items):
            wanted = item.form if isinstance(item, _Text) else _form_around(items, i, most)
            if wanted != form:
                pieces += [Code("close", key)] if form != most else []
                if wanted != most:
                    assert isinstance(item, _Text)
                    key = self._add(Format(item.properties))
                    pieces.append(Code("open", key))
                form = wanted
            pieces.append(item.text if isinstance(item, _Text) else item)
        return (*pieces, *([Code("close", key)] if form != most else []))


class WordFile:
    """A Word document, taken apart."""

    noun = "paragraph"

    def __init__(self, document: Document) -> None:
        self._document = document
        if document.element.tag != f"{_W}document":  # "Strict Open XML" has other names, too
            raise ValueError(f"it begins with {document.element.tag}")
        self._parsed: list[tuple[Any, Any]] = []
        """Parts that python-docx leaves as they are, and the elements that they hold."""
        paragraphs: list[Paragraph] = []
        places = count(1)
        for story in self._stories():
            field_runs = _field_runs(story)
            for element, place in zip(story.iter(f"{_W}p"), places, strict=False):
                paragraph = Paragraph(element, field_runs, place)
                if is_wordy(paragraph.passage.text):
                    paragraphs.append(paragraph)
        self._paragraphs = paragraphs
        self.passages = [paragraph.passage for paragraph in paragraphs]

    def _stories(self) -> Iterator[Any]:
        """The elements at the root of parts with text, the body first."""
        from docx.opc.part import XmlPart
        from docx.oxml import parse_xml

        parts = [part for part in self._document.part.package.iter_parts() if part.content_type in _STORIES]
        for part in sorted(parts, key=lambda part: (part is not self._document.part, part.partname)):
            if isinstance(part, XmlPart):
                yield part.element
            else:
                self._parsed.append((part, parse_xml(part.blob)))
                yield self._parsed[-1][1]

    def written(self, translations: Sequence[Pieces]) -> bytes:
        """The file with a translation in place of each paragraph."""
        from docx.opc.oxml import serialize_part_xml

        for paragraph, translation in zip(self._paragraphs, translations, strict=True):
            paragraph.write(translation)
        for part, element in self._parsed:
            part._blob = serialize_part_xml(element)  # there is no other way to change such a part
        content = io.BytesIO()
        self._document.save(content)
        return content.getvalue()


def read(name: str, content: bytes, languages: tuple[str, str]) -> WordFile:
    """The Word document `content`.

    DataError: it is damaged, protected by a password, no .docx, or too large when unpacked, or it declares
    entities.
    """
    import docx

    if content.startswith(_OLD_WORD):
        raise DataError(f"{name}: is protected by a password, or an old .doc; save it as .docx without one")
    unpacked = _unpacked(name, content)
    try:
        return WordFile(docx.Document(unpacked))
    except Exception as error:  # whatever python-docx or lxml stumbles over, the file is the reason
        reason = " ".join(_OBJECT.sub("it", str(error)).split())[:200] or type(error).__name__
        raise DataError(f"{name}: is damaged, or no Word document ({reason}); save it again") from None


def _unpacked(name: str, content: bytes) -> io.BytesIO:
    """The same archive, not compressed: no part of it is larger than it was found to be.

    What an archive says of its sizes may be a lie, on which who unpacks a part at once relies.
    """
    unpacked = io.BytesIO()
    n_bytes = n_xml = 0
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(unpacked, "w") as copy:
            infos = archive.infolist()
            if len(infos) > MOST_PARTS:
                raise DataError(f"{name}: has {len(infos)} parts, and {MOST_PARTS} are the most; refused")
            for info in infos:
                part = io.BytesIO()
                with archive.open(info) as file:
                    while block := file.read(1 << 16):
                        part.write(block)
                        n_bytes += len(block)
                        n_xml += len(block) if info.filename.endswith((".xml", ".rels")) else 0
                        if n_bytes > MOST_BYTES or n_xml > MOST_XML:
                            raise DataError(
                                f"{name}: is larger than {MOST_BYTES >> 20} MiB when unpacked, or its text "
                                f"than {MOST_XML >> 20} MiB; refused"
                            )
                if info.filename.endswith((".xml", ".rels")):
                    Reader(f"{name}/{info.filename}", part.getvalue()).read()
                copy.writestr(info.filename, part.getvalue())
    # All that zipfile raises at a damaged archive: RuntimeError at a password, NotImplementedError at an
    # unknown method, OSError and ValueError at offsets that lead nowhere.
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError, ValueError):
        raise DataError(f"{name}: is damaged, cut short, or no .docx; save it again") from None
    unpacked.seek(0)
    return unpacked


def _contents(run: Any) -> Iterator[_Text | Item]:
    """What is in a run: text, with tabs and line breaks, and other elements."""
    properties = run.find(f"{_W}rPr")
    form = _form(properties)
    texts = {f"{_W}tab": "\t", f"{_W}cr": "\n", f"{_W}noBreakHyphen": "\u2011"}
    for child in run:
        if child is properties or child.tag in _DROPPED:
            continue
        if child.tag == f"{_W}t":
            text = (child.text or "").translate({9: " ", 10: " ", 13: " "})
        elif child.tag == f"{_W}br" and child.get(f"{_W}type", "textWrapping") == "textWrapping":
            text = "\n"
        elif child.tag in texts:
            text = texts[child.tag]
        else:
            yield Item(child, run)
            continue
        if text:
            yield _Text(text, form, properties)


def _form(properties: Any) -> bytes:
    """What a reader sees of a run's properties, to be compared."""
    from lxml import etree

    if properties is None:
        return b""
    return b"".join(
        etree.tostring(child, method="c14n") for child in properties if child.tag not in _INVISIBLE
    )


def _form_around(items: list[_Text | Code], i: int, most: bytes) -> bytes:
    """The formatting of a point between two texts of the same; else, and of a container, that of `most`."""
    item = items[i]
    sides = items[max(0, i - 1) : i + 2 : 2]
    if isinstance(item, Code) and item.kind == "point" and len(sides) == 2:
        before, after = sides
        if isinstance(before, _Text) and isinstance(after, _Text) and before.form == after.form:
            return before.form
    return most


def _field_runs(story: Any) -> set[Any]:
    """The runs of fields, from their begins to their ends, which may be some paragraphs further."""
    runs = list(story.iter(f"{_W}r"))
    found: set[Any] = set()
    begins: list[int] = []
    for i, run in enumerate(runs):
        for mark in run.findall(f"{_W}fldChar"):
            kind = mark.get(f"{_W}fldCharType")
            if kind == "begin":
                begins.append(i)
            elif kind == "end" and begins:
                begin = begins.pop()
                if not begins:
                    found.update(runs[begin : i + 1])
    return found


def _run(properties: Any, text: str) -> Any:
    """A run of `text`, with tabs and line breaks."""
    from docx.oxml import OxmlElement

    run = OxmlElement("w:r")
    if properties is not None:
        run.append(deepcopy(properties))
    for piece in re.split("([\t\n])", without_controls(text)):
        if piece:
            child = OxmlElement({"\t": "w:tab", "\n": "w:br"}.get(piece, "w:t"))
            if piece not in "\t\n":
                child.text = piece
                child.set(_SPACE, "preserve")
            run.append(child)
    return run


def _run_of(item: Item) -> Any:
    """A run that holds the element alone."""
    run = _run(item.run.find(f"{_W}rPr"), "")
    run.append(item.element)
    return run


def _clear(element: Any, *, but: str = "") -> None:
    """Takes all children out, but for those with the tag `but`."""
    for child in list(element):
        if child.tag != but:
            element.remove(child)
