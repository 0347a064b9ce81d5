"""Word documents (.docx): body, tables, text boxes, headers, footers, footnotes and endnotes.

Runs of one formatting are one stretch of text; where a paragraph has several, formatting and hyperlinks are
pairs of codes around it, and pictures, breaks of pages, references and fields are codes at a place. Fields
(page numbers, tables of contents), deleted text, comments, equations, charts and all other parts of the file
stay as they are.
"""

from __future__ import annotations

import io
import re
import sys
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dragoman.documents.budget import Budget
from dragoman.documents.markup import Reader, without_controls
from dragoman.documents.passages import Code, Passage, Pieces
from dragoman.errors import DataError
from dragoman.text.normalisation import is_wordy

if TYPE_CHECKING:
    from docx.document import Document

MOST_BYTES = 256 * 2**20
"""Bytes of all parts of a file, unpacked, at most."""
MOST_XML = 64 * 2**20
"""Bytes of those that are XML: as a tree they take several times as many."""
MOST_PARTS = 5000
"""Parts of a file, at most."""
LONGEST_NAME = 1000
"""Characters of the name of a part, at most."""
MOST_RELATIONS = 20_000
"""Relations between parts, at most: python-docx searches its list of parts for each."""

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
_PARSED = re.compile(r"application/vnd\.openxmlformats-.*\+xml", re.IGNORECASE | re.DOTALL)
"""The types of parts that python-docx parses."""
_OBJECT = re.compile(r"'?<[^<>]* at 0x[0-9a-f]+>'?")
"""An object as Python shows it, such as the file in a message of python-docx."""
_XML = (".xml", ".rels")
"""The endings of the names of parts that are XML."""
_OLD_WORD = b"\xd0\xcf\x11\xe0"


class Item(NamedTuple):
    """An element that is kept as it is."""

    element: Any
    is_in_run: bool = False
    properties: Any = None
    """Those of the run that it is in."""


class Container(NamedTuple):
    """An element around runs, and the one in it that holds them: itself, or a child."""

    element: Any
    content: Any


class _Text(NamedTuple):
    """Text of one formatting."""

    text: str
    form: str
    """What a reader sees of the formatting."""
    properties: Any


class WordParagraph:
    """A paragraph, taken apart."""

    def __init__(self, element: Any, field_runs: set[Any], place: int, budget: Budget) -> None:
        """`field_runs` are those that belong to fields. DataError: more pieces than the `budget` has."""
        self._budget = budget
        self._element, self._field_runs = element, field_runs
        self._things: dict[int, Any] = {}
        """By the key of a code: the items at a place, a `Container`, or the properties of runs."""
        items: list[_Text | Code] = []
        self._collect(element, items)
        texts = [item for item in items if isinstance(item, _Text)]
        counts: Counter[str] = Counter()
        for item in texts:
            counts[item.form] += len(item.text)
        most = counts.most_common(1)[0][0] if counts else ""
        self._properties = next((item.properties for item in texts if item.form == most), None)
        """Those of most of the text."""
        self.passage = Passage(self._pieces(items, most), place, separators="\t")

    def write(self, pieces: Pieces, budget: Budget) -> None:
        """Put another text into the paragraph. DataError: it takes more pieces than the `budget` has."""
        _clear(self._element, but=f"{_W}pPr")
        parents, properties = [self._element], [self._properties]
        for piece in pieces:
            if isinstance(piece, str):
                parents[-1].append(_run(properties[-1], piece, budget))
                continue
            thing = self._things[piece.key]
            if isinstance(thing, list):
                for item in thing:
                    if item.is_in_run:
                        parents[-1].append(_run(item.properties, "", budget))
                    (parents[-1][-1] if item.is_in_run else parents[-1]).append(item.element)
            elif not isinstance(thing, Container):
                if piece.kind == "open":
                    properties.append(thing)
                else:
                    properties.pop()
            elif piece.kind == "open":
                _clear(thing.content)
                parents[-1].append(_copy(thing.element, budget))
                is_outer = thing.content is thing.element  # the one that is to be filled
                parents.append(parents[-1][-1] if is_outer else parents[-1][-1].find(f"{_W}sdtContent"))
            else:
                parents.pop()

    def _add(self, thing: Any) -> int:
        """Return the key of a new thing."""
        self._things[len(self._things)] = thing
        return len(self._things) - 1

    def _collect(self, parent: Any, items: list[_Text | Code]) -> None:
        """Add text, begins and ends of containers, and points to `items`; points in a row are one."""
        for child in parent:
            self._budget.step()
            content = child.find(f"{_W}sdtContent") if child.tag == f"{_W}sdt" else child
            if child.tag == f"{_W}pPr" or child.tag in _DROPPED:
                continue
            if child.tag == f"{_W}r" and child not in self._field_runs:
                for part in _contents(child):
                    if isinstance(part, Item):
                        self._collect_item(part, items)
                    else:
                        self._budget.spend()
                        items.append(part)
            elif child.tag in _CONTAINERS or (child.tag == f"{_W}sdt" and content is not None):
                self._budget.spend(2)
                key = self._add(Container(child, content))
                items.append(Code("open", key))
                self._collect(content, items)
                items.append(Code("close", key))
            else:
                self._collect_item(Item(child), items)

    def _collect_item(self, item: Item, items: list[_Text | Code]) -> None:
        self._budget.spend()
        last = self._things[items[-1].key] if items and isinstance(items[-1], Code) else None
        if isinstance(last, list):
            last.append(item)
        else:
            items.append(Code("point", self._add([item])))

    def _pieces(self, items: list[_Text | Code], most: str) -> Pieces:
        """Pairs of codes around the text whose formatting is not that of `most`; all else as it is."""
        pieces: list[str | Code] = []
        form, key = most, -1
        for i, item in enumerate(items):
            next_form = item.form if isinstance(item, _Text) else most
            sides = [side.form for side in items[max(0, i - 1) : i + 2 : 2] if isinstance(side, _Text)]
            if isinstance(item, Code) and item.kind == "point" and len(sides) == 2 and sides[0] == sides[1]:
                next_form = sides[0]  # that of the two texts around a point
            if next_form != form:
                pieces += [Code("close", key)] if form != most else []
                if next_form != most:
                    assert isinstance(item, _Text)
                    key = self._add(item.properties)
                    pieces.append(Code("open", key))
                form = next_form
            pieces.append(item.text if isinstance(item, _Text) else item)
        return (*pieces, *([Code("close", key)] if form != most else []))


Story: TypeAlias = tuple[Any, Any]
"""The element at the root of a part with text; and the part, if python-docx leaves that as it is, or None."""


class WordFile:
    """A Word document, taken apart."""

    noun = "paragraph"

    def __init__(self, name: str, content: bytes, languages: tuple[str, str], budget: Budget) -> None:
        """DataError: it is damaged, protected by a password, no .docx, or too large when unpacked, declares
        entities, or has more pieces than the `budget`.
        """
        if content.startswith(_OLD_WORD):
            raise DataError(
                f"{name}: is protected by a password, or an old .doc; save it as .docx without one"
            )
        unpacked = _unpacked(name, content, budget)
        try:
            self._document, self._stories = _opened(unpacked)
        except Exception as error:  # whatever python-docx or lxml stumbles over, the file is the reason
            reason = " ".join(_OBJECT.sub("it", str(error)).split())[:200] or type(error).__name__
            raise DataError(f"{name}: is damaged, or no Word document ({reason}); save it again") from error
        budget.check()
        self._budget = budget
        paragraphs: list[WordParagraph] = []
        places = count(1)
        for story, _ in self._stories:
            field_runs = _field_runs(story, budget)
            for element, place in zip(story.iter(f"{_W}p"), places, strict=False):
                budget.step()
                paragraph = WordParagraph(element, field_runs, place, budget)
                if is_wordy(paragraph.passage.text):
                    paragraphs.append(paragraph)
        self._paragraphs = paragraphs
        self.passages = [paragraph.passage for paragraph in paragraphs]

    def written(self, translations: Sequence[Pieces]) -> bytes:
        """DataError: the file would have too many pieces."""
        from docx.opc.oxml import serialize_part_xml

        copied = self._budget.renewed()
        for paragraph, translation in zip(self._paragraphs, translations, strict=True):
            paragraph.write(translation, copied)
        for element, part in self._stories:
            if part is not None:
                part._blob = serialize_part_xml(element)  # there is no other way to change such a part
        self._budget.check()
        content = io.BytesIO()
        self._document.save(content)
        return content.getvalue()


read = WordFile


def _opened(unpacked: io.BytesIO) -> tuple[Document, list[Story]]:
    """Return the document in an archive, and its parts with text, the body first."""
    import docx
    from docx.opc.part import XmlPart
    from docx.oxml import parse_xml

    document = docx.Document(unpacked)
    if document.element.tag != f"{_W}document":  # "Strict Open XML" has other names, too
        raise ValueError(f"it begins with {document.element.tag}")
    parts = [part for part in document.part.package.iter_parts() if part.content_type in _STORIES]
    parts.sort(key=lambda part: (part is not document.part, part.partname))
    return document, [
        (part.element, None) if isinstance(part, XmlPart) else (parse_xml(part.blob), part) for part in parts
    ]


def _unpacked(name: str, content: bytes, budget: Budget) -> io.BytesIO:
    """Return the same archive, not compressed: no part of it is larger than it was found to be.

    What an archive says of its sizes may be a lie, on which who unpacks a part at once relies.
    """
    unpacked = io.BytesIO()
    relations: Counter[str] = Counter()
    n_bytes = n_xml = 0
    part = bytearray()
    with zipfile.ZipFile(unpacked, "w") as copy:
        for filename, block in _blocks(name, content):
            budget.check()
            is_xml = filename.lower().endswith(_XML)
            n_bytes += len(block)
            n_xml += len(block) if is_xml else 0
            if n_bytes > MOST_BYTES or n_xml > MOST_XML:
                raise DataError(
                    f"{name}: is larger than {MOST_BYTES >> 20} MiB when unpacked, or its text than "
                    f"{MOST_XML >> 20} MiB; refused"
                )
            part += block
            if not block:
                if is_xml:
                    _PieceCounter(name, filename, bytes(part), budget, relations).read()
                copy.writestr(filename, part)
                part.clear()
    unpacked.seek(0)
    return unpacked


def _blocks(name: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the parts of an archive, each by its name and in blocks; an empty one comes at the end of a part.

    DataError: the archive is damaged, or has too many parts, or one with too long a name.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            infos = archive.infolist()
            if len(infos) > MOST_PARTS:
                raise DataError(f"{name}: has {len(infos)} parts, and {MOST_PARTS} are the most; refused")
            if any(len(info.filename) > LONGEST_NAME for info in infos):
                raise DataError(f"{name}: a part has a name of more than {LONGEST_NAME} characters; refused")
            for info in infos:
                with archive.open(info) as file:
                    block = b" "
                    while block:
                        block = file.read(1 << 16)
                        yield info.filename, block
    # All that zipfile raises at a damaged archive: RuntimeError at a password or an unknown method, OSError
    # and ValueError at offsets that lead nowhere.
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError) as error:
        raise DataError(f"{name}: is damaged, cut short, or no .docx; save it again") from error


class _PieceCounter(Reader):
    """Counts the elements and attributes of a part, and relations, before the part becomes a tree."""

    def __init__(self, name: str, part: str, xml: bytes, budget: Budget, relations: Counter[str]) -> None:
        """`read` refuses a part that hides that another one is XML, too."""
        super().__init__(f"{name}/{part}", xml, budget)
        self._part, self._relations = part, relations

    def _opened(self, tag: str, attributes: dict[str, str]) -> None:
        self._budget.spend(1 + len(attributes), where=lambda: f"{self._part}, {self.place()}")
        if self._part.endswith(".rels"):
            self._relations["internal"] += attributes.get("TargetMode") != "External"
            if self._relations["internal"] > MOST_RELATIONS:
                self.refuse(f"more than {MOST_RELATIONS:,} relations between parts; refused")
        if "ContentType" in attributes:
            named = attributes.get("PartName", f".{attributes.get('Extension', '')}")
            if _PARSED.fullmatch(attributes["ContentType"]) and not named.lower().endswith(_XML):
                self.refuse(f"{named} is declared to be XML, which has other endings; refused")


def _contents(run: Any) -> Iterator[_Text | Item]:
    """Yield the content of a run: text, with tabs and line breaks, and other elements."""
    properties = run.find(f"{_W}rPr")
    visible = [] if properties is None else [one for one in properties if one.tag not in _INVISIBLE]
    form = sys.intern("".join(map(_shape, visible)))  # equal ones are one object
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
            yield Item(child, True, properties)
            continue
        if text:
            yield _Text(text, form, properties)


def _shape(element: Any) -> str:
    """Return an element as text, without the namespaces that are declared around it and never used."""
    return f"<{element.tag}{sorted(element.attrib.items())}{''.join(map(_shape, element))}>"


def _field_runs(story: Any, budget: Budget) -> set[Any]:
    """Return the runs of fields, from their begins to their ends, which may be some paragraphs further."""
    runs = list(story.iter(f"{_W}r"))
    field_runs: set[Any] = set()
    begins: list[int] = []
    for i, run in enumerate(runs):
        budget.step()
        for mark in run.findall(f"{_W}fldChar"):
            kind = mark.get(f"{_W}fldCharType")
            if kind == "begin":
                begins.append(i)
            elif kind == "end" and begins:
                begin = begins.pop()
                if not begins:
                    field_runs.update(runs[begin : i + 1])
    return field_runs


def _copy(element: Any, budget: Budget) -> Any:
    """Return a copy of an element. DataError: it has more pieces than the `budget` has."""
    budget.spend(sum(1 + len(child.attrib) for child in element.iter()))
    return deepcopy(element)


def _run(properties: Any, text: str, budget: Budget) -> Any:
    """Return a run of `text`, with tabs and line breaks."""
    from docx.oxml import OxmlElement

    run = OxmlElement("w:r")
    if properties is not None:
        run.append(_copy(properties, budget))
    for piece in re.split("([\t\n])", without_controls(text)):
        if piece:
            budget.spend()
            child = OxmlElement({"\t": "w:tab", "\n": "w:br"}.get(piece, "w:t"))
            if piece not in "\t\n":
                child.text = piece
                child.set(_SPACE, "preserve")
            run.append(child)
    return run


def _clear(element: Any, *, but: str = "") -> None:
    """Take all children out, but for those with the tag `but`."""
    for child in list(element):
        if child.tag != but:
            element.remove(child)
