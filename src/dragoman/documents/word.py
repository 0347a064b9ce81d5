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
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import count
from typing import Any, NamedTuple

from lxml import etree

from dragoman.documents.budget import Budget
from dragoman.documents.markup import Reader, without_controls
from dragoman.documents.passages import Passage, Pieces, Thing, coded
from dragoman.errors import DataError
from dragoman.text.normalisation import is_wordy

MOST_BYTES = 256 * 2**20
"""Bytes of all parts of a file, unpacked, at most."""
MOST_XML = 64 * 2**20
"""Bytes of those that are XML: as a tree they take several times as many."""
MOST_PARTS = 5000
"""Parts of a file, at most."""
LONGEST_NAME = 1000
"""Characters of the name of a part, at most."""

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_TYPES = "[Content_Types].xml"
"""The part that tells the types of all others."""
_BODY, *_NOTES = (
    f"application/vnd.openxmlformats-officedocument.wordprocessingml.{name}+xml"
    for name in ("document.main", "header", "footer", "footnotes", "endnotes")
)
"""The types of the parts that hold text."""
_CONTAINERS = frozenset(
    _W + name for name in ("hyperlink", "ins", "moveTo", "smartTag", "customXml", "dir", "bdo", "sdt")
)
"""What may stand around runs; <sdt> has its runs one level deeper."""
_DROPPED = frozenset(_W + name for name in ("proofErr", "lastRenderedPageBreak", "softHyphen"))
"""What a program noted about the text that was."""
_INVISIBLE = frozenset(_W + name for name in ("lang", "noProof"))
"""What makes no difference between two runs that a reader sees."""
_OLD_WORD = b"\xd0\xcf\x11\xe0"


class _Text(NamedTuple):
    """Text of one formatting."""

    text: str
    form: str
    """What a reader sees of the formatting."""
    properties: Any


class _Item(NamedTuple):
    """An element that is kept as it is."""

    element: Any
    run: Any = None
    """The run that it is in."""


class WordParagraph:
    """A paragraph, taken apart."""

    def __init__(self, element: Any, field_runs: set[Any], place: int, budget: Budget) -> None:
        """`field_runs` are those that belong to fields. DataError: more pieces than the `budget` has."""
        self._element = element
        items: list[_Text | Thing] = []
        for item in _contents(element, field_runs, budget):
            budget.spend()
            if not isinstance(item, _Item):
                items.append(item)
            elif items and isinstance(items[-1], Thing) and items[-1].side == "point":
                items[-1].raw.append(item)  # those in a row are one
            else:
                items.append(Thing("point", "", [item]))
        lengths: Counter[str] = Counter()
        properties: dict[str, Any] = {}
        for text in (item for item in items if isinstance(item, _Text)):
            lengths[text.form] += len(text.text)
            properties.setdefault(text.form, text.properties)
        most = max(lengths, key=lambda form: lengths[form], default="")
        self._properties = properties.get(most)
        """Those of most of the text."""
        pieces, self._things = coded(_formatted(items, most))
        """By their codes: the items at a place, a container, or the <rPr> of runs, which may be None."""
        self.passage = Passage(pieces, place, separators="\t")

    def write(self, pieces: Pieces, budget: Budget) -> None:
        """Put another text into the paragraph. DataError: it takes more pieces than the `budget` has."""
        self._element[:] = self._element.findall(f"{_W}pPr")
        parents, properties = [self._element], [self._properties]
        for piece in pieces:
            if isinstance(piece, str):
                parents[-1].append(_run(properties[-1], piece, budget))
                continue
            thing = self._things[piece]
            if isinstance(thing, list):
                for item in thing:
                    if item.run is not None:
                        parents[-1].append(_run(item.run.find(f"{_W}rPr"), "", budget))
                    (parents[-1] if item.run is None else parents[-1][-1]).append(item.element)
            elif thing is None or thing.tag == f"{_W}rPr":
                properties = [*properties, thing] if piece.kind == "open" else properties[:-1]
            elif piece.kind == "open":
                del _holder(thing)[:]
                parents[-1].append(_copy(thing, budget))
                parents.append(_holder(parents[-1][-1]))
            else:
                parents.pop()


def _holder(container: Any) -> Any:
    """Return what holds the runs of a container: itself, or a child, or nothing."""
    return container.find(f"{_W}sdtContent") if container.tag == f"{_W}sdt" else container


def _contents(parent: Any, field_runs: set[Any], budget: Budget) -> Iterator[_Text | _Item | Thing]:
    """Yield text, elements that stay, and both sides of containers."""
    for child in parent:
        budget.step()
        if child.tag == f"{_W}pPr" or child.tag in _DROPPED:
            continue
        if child.tag == f"{_W}r" and child not in field_runs:
            yield from _run_contents(child)
        elif child.tag in _CONTAINERS and (content := _holder(child)) is not None:
            yield Thing("open", "container", child)
            yield from _contents(content, field_runs, budget)
            yield Thing("close", "container", child)
        else:
            yield _Item(child)


def _formatted(items: Sequence[_Text | Thing], most: str) -> Iterator[str | Thing]:
    """Yield the items, with both sides of a pair around text whose formatting is not that of `most`."""
    form = most
    for i, item in enumerate(items):
        next_form = item.form if isinstance(item, _Text) else most
        sides = [side.form for side in items[max(0, i - 1) : i + 2 : 2] if isinstance(side, _Text)]
        if isinstance(item, Thing) and item.side == "point" and len(sides) == 2 and sides[0] == sides[1]:
            next_form = sides[0]  # that of the two texts around a point
        if next_form != form:
            if form != most:
                yield Thing("close", "form", None)
            if isinstance(item, _Text) and next_form != most:
                yield Thing("open", "form", item.properties)
            form = next_form
        yield item.text if isinstance(item, _Text) else item
    if form != most:
        yield Thing("close", "form", None)


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
        self._parts: dict[str, tuple[zipfile.ZipInfo, bytes]] = {}
        """By its name, how each part is to be written, and what is in it."""
        for info, part in _unpacked(name, content):
            budget.check()
            self._parts[info.filename] = info, part
        self._budget = budget
        self._stories: dict[str, Any] = {}
        """The elements at the roots of the parts that are written again."""
        self._paragraphs: list[WordParagraph] = []
        places = count(1)
        xml = {part: text for part, (_, text) in self._parts.items() if part.lower().endswith(".xml")}
        for story, root in _stories(name, xml, budget):
            field_runs = _field_runs(root, budget)
            for element, place in zip(root.iter(f"{_W}p"), places, strict=False):
                budget.step()
                paragraph = WordParagraph(element, field_runs, place, budget)
                if is_wordy(paragraph.passage.text):
                    self._paragraphs.append(paragraph)
                    self._stories[story] = root
        self.passages = [paragraph.passage for paragraph in self._paragraphs]

    def written(self, translations: Sequence[Pieces]) -> bytes:
        """DataError: the file would have too many pieces."""
        copied = self._budget.renewed()
        for paragraph, translation in zip(self._paragraphs, translations, strict=True):
            paragraph.write(translation, copied)
        self._budget.check()
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            for story, root in self._stories.items():
                text = etree.tostring(root.getroottree(), encoding="UTF-8", standalone=True)
                self._parts[story] = self._parts[story][0], text
            for info, part in self._parts.values():
                archive.writestr(info, part)
        return content.getvalue()


read = WordFile


def _unpacked(name: str, content: bytes) -> Iterator[tuple[zipfile.ZipInfo, bytes]]:
    """Yield the parts of an archive. What it says of their sizes may be a lie: they are read in blocks.

    DataError: the archive is damaged or too large, or has too many parts, or one with too long a name.
    """
    n_bytes = n_xml = 0
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            infos = archive.infolist()
            if len(infos) > MOST_PARTS:
                raise DataError(f"{name}: has {len(infos)} parts, and {MOST_PARTS} are the most; refused")
            if any(len(info.filename) > LONGEST_NAME for info in infos):
                raise DataError(f"{name}: a part has a name of more than {LONGEST_NAME} characters; refused")
            for info in infos:
                part = bytearray()
                with archive.open(info) as file:
                    while block := file.read(1 << 16):
                        part += block
                        n_bytes += len(block)
                        n_xml += len(block) if info.filename.lower().endswith(".xml") else 0
                        if n_bytes > MOST_BYTES or n_xml > MOST_XML:
                            raise DataError(
                                f"{name}: is larger than {MOST_BYTES >> 20} MiB when unpacked, or its text "
                                f"than {MOST_XML >> 20} MiB; refused"
                            )
                kept = zipfile.ZipInfo(info.filename, info.date_time)
                kept.compress_type = info.compress_type
                yield kept, bytes(part)
    # All that zipfile raises at a damaged archive: RuntimeError at a password or an unknown method, OSError
    # and ValueError at offsets that lead nowhere.
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError) as error:
        raise DataError(f"{name}: is damaged, cut short, or no .docx; save it again") from error


def _stories(name: str, xml: Mapping[str, bytes], budget: Budget) -> Iterator[tuple[str, Any]]:
    """Yield the name and the root of each part with text, the body first. DataError: there is no body."""
    listed = _root(name, _TYPES, xml[_TYPES], budget).iterfind("{*}Override") if _TYPES in xml else ()
    types = {element.get("PartName", "").lower(): element.get("ContentType") for element in listed}
    stories = [(part, types.get(f"/{part}".lower())) for part in sorted(xml)]
    bodies = [part for part, kind in stories if kind == _BODY]
    if not bodies:
        raise _not_word(name, "it has no body")
    for part in bodies + [part for part, kind in stories if kind in _NOTES]:
        root = _root(name, part, xml[part], budget)
        if part in bodies and root.tag != f"{_W}document":  # "Strict Open XML" has other names, too
            raise _not_word(name, f"it begins with {root.tag}")
        yield part, root


def _root(name: str, part: str, xml: bytes, budget: Budget) -> Any:
    """Return the root of a part. DataError: it is not XML, or has more pieces than the `budget`."""
    _Counter(f"{name}/{part}", xml, budget).read()
    try:
        return etree.fromstring(xml, etree.XMLParser(resolve_entities=False, no_network=True))
    except etree.XMLSyntaxError as error:
        raise _not_word(name, str(error)) from error


def _not_word(name: str, reason: str) -> DataError:
    reason = " ".join(reason.split())[:200]
    return DataError(f"{name}: is damaged, or no Word document ({reason}); save it again")


class _Counter(Reader):
    """Counts the elements and attributes of a part before it becomes a tree."""

    def _opened(self, tag: str, attributes: dict[str, str]) -> None:
        self._budget.spend(1 + len(attributes), where=self.place)


def _run_contents(run: Any) -> Iterator[_Text | _Item]:
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
            yield _Item(child, run)
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
    depth = first = 0
    for i, run in enumerate(runs):
        budget.step()
        for mark in run.findall(f"{_W}fldChar"):
            kind = mark.get(f"{_W}fldCharType")
            if kind == "begin":
                first, depth = i if depth == 0 else first, depth + 1
            elif kind == "end" and depth:
                depth -= 1
                field_runs.update([] if depth else runs[first : i + 1])
    return field_runs


def _copy(element: Any, budget: Budget) -> Any:
    """Return a copy of an element. DataError: it has more pieces than the `budget` has."""
    budget.spend(sum(1 + len(child.attrib) for child in element.iter()))
    return deepcopy(element)


def _run(properties: Any, text: str, budget: Budget) -> Any:
    """Return a run of `text`, with tabs and line breaks."""
    run = etree.Element(f"{_W}r")
    if properties is not None:
        run.append(_copy(properties, budget))
    for piece in re.split("([\t\n])", without_controls(text)):
        if piece:
            budget.spend()
            child = etree.SubElement(run, _W + {"\t": "tab", "\n": "br"}.get(piece, "t"))
            if piece not in "\t\n":
                child.text = piece
                child.set(_SPACE, "preserve")
    return run
