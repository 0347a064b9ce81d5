"""Translation memories (TMX): every unit with a segment of the source language has one of the target's.

A target segment that is there and holds anything stays as it is; an empty one is filled, and a missing one
is added, in the variant that the file has of the language ("de-DE"). Both are marked as machine translations.
All else stays to the byte: header, notes, other languages, comments, DOCTYPE, encoding. Inline elements
(<bpt>, <ept>, <ph>, <it>, <hi>, ...) come into the translation as they are in the source.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from dragoman.data.readers.formats import WITH_CONTROLS, language_matches, mark_controls
from dragoman.documents.budget import Budget
from dragoman.documents.markup import Reader, escaped
from dragoman.documents.passages import Code, Passage, Pieces, Thing, coded
from dragoman.documents.plain import decoded
from dragoman.errors import DataError

MOST_ELEMENTS = 1000
"""Maximum inline elements of a segment; a segment with more is not translated."""

ORIGIN = '<prop type="x-Origin">MT</prop>'
"""Marks a machine translation, as CAT tools do."""

_CODES = frozenset({"bpt", "ept", "it", "ph", "ut"})
"""Inline elements that hold no text of the sentence."""
_DECLARATION = re.compile(rb"""<\?xml[^>]{0,100}?encoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
_SUPPORTED = re.compile(
    r"utf-?8|us-?ascii|ascii|iso-?8859-?\d{1,2}|latin-?\d|windows-?125\d|cp125\d|koi8-?[ru]|gb(k|2312|18030)"
    r"|big5|shift_?jis|euc-?(jp|kr)",
    re.IGNORECASE,
)
_NO_SPACE = re.compile(rb"\S")
_TAG = re.compile(rb"""<[^>"']*(?:(?:"[^"]*"|'[^']*')[^>"']*)*>""")


@dataclass
class Element:
    """An element. Places are those of bytes."""

    start: int
    inner: int
    """Where its start tag ends."""
    is_empty: bool
    """Whether it is written as "<seg/>", and has no end tag."""
    is_code: bool
    """Whether it holds no text of a sentence, or is in one that holds none."""
    thing: Thing | None = None
    """What it, or its start tag, is in a segment; a thing's `raw` is where it begins and ends."""
    inner_end: int = 0
    end: int = 0


@dataclass
class Variant:
    """A <tuv>."""

    element: Element
    attribute: str
    """The name of the attribute that holds the language."""
    language: str
    segment: Element | None = None
    """Its <seg>."""
    items: list[str | Thing] = field(default_factory=list)
    """What is in the segment."""

    @property
    def is_filled(self) -> bool:
        """There is more than white space in it."""
        return any(not isinstance(item, str) or item.strip() for item in self.items)


class Unit(NamedTuple):
    """A source segment that is to be translated, and where its translation belongs."""

    source: Variant
    target: Variant | None
    """One that is empty."""
    raw: dict[Code, list[int]]
    """Where each code of the source is."""
    end: int
    """Where the last <tuv> of the unit ends."""


class Memory(Reader):
    """A translation memory, taken apart: its units that lack a translation, in order."""

    KIND, ROOTS = "TMX", frozenset({"tmx"})
    noun = "unit"

    def __init__(self, name: str, content: bytes, languages: tuple[str, str], budget: Budget) -> None:
        """DataError: it is no TMX, damaged, hostile or too large, or lacks the source language."""
        declared = _DECLARATION.match(content)
        encoding = declared[1].decode() if declared else "utf-8"
        if not _SUPPORTED.fullmatch(encoding):
            raise DataError(f"{name}: is in {encoding}, which is not supported; convert it to UTF-8")
        text, self._encoding = decoded(name, content, encoding)
        self._content = text.encode()
        super().__init__(name, mark_controls(self._content), budget, encoding="utf-8")
        self._units: list[Unit] = []
        self.passages: list[Passage] = []
        self._languages = languages
        self._n_units = self._n_sources = 0
        self._available: set[str] = set()
        self._n_segments: Counter[str] = Counter()
        """How many segments each variant of the target language has."""
        self._left_out: Counter[str] = Counter()
        self._open: list[Element] = []
        self._variants: list[Variant] = []
        """Those of the unit that are closed."""
        self._variant: Variant | None = None
        self._segment: Element | None = None
        self.read()
        budget.notes += [
            f"{n:,} unit{'s' * (n != 1)} {why}: not translated" for why, n in self._left_out.items()
        ]
        if self._n_units and not self._n_sources:
            available = ", ".join(sorted(self._available)[:20]) or "none"
            raise DataError(f"{name}: no unit has a segment in {languages[0]}; its languages: {available}")
        self._target = max(self._n_segments, key=self._n_segments.__getitem__, default=languages[1])

    def written(self, translations: Sequence[Pieces]) -> bytes:
        parts, done = list[bytes](), 0
        for unit, translation in zip(self._units, translations, strict=True):
            self._budget.step(1 + len(translation))
            start, end, text = self._edit(unit, translation)
            parts += [self._content[done:start], text.encode()]
            done = end
        whole = b"".join([*parts, self._content[done:]]).decode()
        # Characters that the encoding has not become numbered references.
        return self._encoding._replace(errors="xmlcharrefreplace").encoded(whole)

    def _edit(self, unit: Unit, translation: Pieces) -> tuple[int, int, str]:
        """From where to where what is to be put for a unit."""
        text = "".join(
            escaped(piece) if isinstance(piece, str) else self._content[slice(*unit.raw[piece])].decode()
            for piece in translation
        )
        target, source = unit.target, unit.source
        if target is not None and target.segment is not None:
            inner, start, end = target.element.inner, target.segment.inner, target.segment.inner_end
            if target.segment.is_empty:
                start, text = start - 2, f">{text}</seg>"
            return inner, end, f"{ORIGIN}{self._content[inner:start].decode()}{text}"
        assert source.segment is not None
        within = (
            self._content[source.element.inner : source.segment.start],
            self._content[source.segment.end : source.element.end],
        )
        start = source.element.start
        before = _NO_SPACE.split(self._content[max(0, start - 200) : start])[-1].decode()
        opening, closing = (_NO_SPACE.split(part, 1)[0].decode() for part in within)
        return unit.end, unit.end, (
            f"{before}<tuv {source.attribute}={quoteattr(self._target)}>"
            f"{opening}{ORIGIN}{opening}<seg>{text}</seg>{closing}</tuv>"
        )  # fmt: skip

    def _end_of_tag(self, start: int) -> int:
        match = _TAG.match(self._content, start)
        assert match is not None
        return match.end()

    def _opened(self, tag: str, attributes: dict[str, str]) -> None:
        start, variant = self.parser.CurrentByteIndex, self._variant
        if self._segment is not None or tag in ("tu", "tuv"):
            self._budget.spend(where=self.place)
        end = self._end_of_tag(start)
        parent = self._open[-1] if self._open else None
        is_hidden = self._segment is not None and parent is not None and parent.is_code
        is_code = is_hidden or (self._segment is not None and tag in _CODES)
        element = Element(start, end, self._content[end - 2 : end] == b"/>", is_code)
        self._open.append(element)
        if is_hidden:
            return
        if self._segment is not None and parent is not None and variant is not None:
            usual = "point" if element.is_empty else "open"
            side = {"bpt": "open", "ept": "close", "ph": "gap", "ut": "gap", "it": "point"}.get(tag, usual)
            is_half = tag in ("bpt", "ept")  # which say by their numbers what belongs together
            name = f"{attributes.get('i', '')} in {parent.start}" if is_half else f"element {start}"
            element.thing = Thing(side, name, [start, end])
            variant.items.append(element.thing)
        elif tag == "tu":
            self._variants = []
            self._n_units += 1
        elif tag == "tuv":
            attribute = "xml:lang" if "xml:lang" in attributes else "lang"
            self._variant = Variant(element, attribute, attributes.get(attribute, ""))
            if len(self._available) < 100:
                self._available.add(self._variant.language)
        elif tag == "seg" and variant is not None and variant.segment is None:
            self._segment = variant.segment = element

    def _characters(self, text: str) -> None:
        if self._segment is not None and self._variant is not None and not self._open[-1].is_code:
            self._budget.spend(where=self.place)
            self._variant.items.append(text)

    def _closed(self, tag: str) -> None:
        element, place, variant = self._open.pop(), self.parser.CurrentByteIndex, self._variant
        element.inner_end = element.inner if element.is_empty else place
        element.end = element.inner if element.is_empty else self._end_of_tag(place)
        if element is self._segment:
            self._segment = None
        elif self._segment is not None and variant is not None:
            if element.thing is not None and element.is_code:
                element.thing.raw[1] = element.end
            elif element.thing is not None and not element.is_empty:
                variant.items.append(Thing("close", element.thing.name, [place, element.end]))
        elif variant is not None and element is variant.element:
            self._variants.append(variant)
            self._variant = None
        elif tag == "tu":
            self._finish()

    def _finish(self) -> None:
        """Handle the end of a unit: find the text to translate."""
        source, target = (self._variant_in(language) for language in self._languages)
        if source is None or source.segment is None:
            return
        self._n_sources += 1
        if target is not None:
            self._n_segments[target.language] += 1
        if not source.is_filled or target is source or (target is not None and target.is_filled):
            return
        if mark_controls(segment := self._content[source.segment.start : source.segment.end]) != segment:
            self._left_out[WITH_CONTROLS] += 1
        elif sum(isinstance(item, Thing) for item in source.items) > MOST_ELEMENTS:
            self._left_out[f"with more than {MOST_ELEMENTS:,} inline elements"] += 1
        else:
            pieces, raw = coded(source.items)
            self.passages.append(Passage(pieces, self._n_units))
            end = max(variant.element.end for variant in self._variants)
            self._units.append(Unit(source, target, raw, end))

    def _variant_in(self, language: str) -> Variant | None:
        """Return the one in the language itself, else in a variant of it; one that is filled comes first."""
        fitting = [v for v in self._variants if language_matches(v.language, language) and v.segment]
        fitting.sort(key=lambda v: (not v.is_filled, len(v.language) != len(language)))
        return next(iter(fitting), None)


read = Memory
