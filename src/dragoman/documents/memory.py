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
class Variant:
    """A <tuv>. Places are those of bytes."""

    attribute: str
    """The name of the attribute that holds the language."""
    language: str
    start: int
    end: int = 0
    inner: int = 0
    """Where its start tag ends."""
    segment: tuple[int, int] | None = None
    """Where its <seg> begins and ends, tags included."""
    text: tuple[int, int] = (0, 0)
    """Where what is in it does. At the same place in "<seg/>"."""
    items: list[str | InlineElement] = field(default_factory=list)

    @property
    def is_filled(self) -> bool:
        """There is more than white space in it."""
        return any(not isinstance(item, str) or item.strip() for item in self.items)


@dataclass
class InlineElement:
    """An inline element, or the begin or end of one."""

    side: str
    """ "open", "close", "point" or "gap"."""
    name: str
    """The same for both sides of a pair."""
    start: int
    end: int
    is_code: bool
    """Whether it holds no text of the sentence."""


@dataclass
class Unit:
    """A source segment that is to be translated, and where its translation belongs."""

    source: Variant
    passage: Passage
    raw: dict[Code, str]
    """What each code is in the file."""
    target: Variant | None
    """One that is empty."""
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
        self._languages = languages
        self._n_units = self._n_sources = 0
        self._available: set[str] = set()
        self._n_segments: Counter[str] = Counter()
        """How many segments each variant of the target language has."""
        self._left_out: Counter[str] = Counter()
        self._variants: list[Variant] = []
        self._variant: Variant | None = None
        self._within: list[InlineElement] = []  # those that are open; a code for all in it
        self._segment_start = -1
        self.read()
        budget.notes += [
            f"{n:,} unit{'s' * (n != 1)} {why}: not translated" for why, n in self._left_out.items()
        ]
        if self._n_units and not self._n_sources:
            available = ", ".join(sorted(self._available)[:20]) or "none"
            raise DataError(f"{name}: no unit has a segment in {languages[0]}; its languages: {available}")
        self._target = max(self._n_segments, key=self._n_segments.__getitem__, default=languages[1])
        self.passages = [unit.passage for unit in self._units]

    def written(self, translations: Sequence[Pieces]) -> bytes:
        parts: list[bytes] = []
        done = 0
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
        text = "".join(escaped(piece) if isinstance(piece, str) else unit.raw[piece] for piece in translation)
        target, source = unit.target, unit.source
        if target is not None and target.segment is not None:
            start, end = target.text
            if start == end and self._content[start - 2 : start] == b"/>":
                start, text = start - 2, f">{text}</seg>"
            return target.inner, end, f"{ORIGIN}{self._content[target.inner : start].decode()}{text}"
        assert source.segment is not None
        within = (
            self._content[source.inner : source.segment[0]],
            self._content[source.segment[1] : source.end],
        )
        before = _NO_SPACE.split(self._content[max(0, source.start - 200) : source.start])[-1].decode()
        opening, closing = (_NO_SPACE.split(part, 1)[0].decode() for part in within)
        return unit.end, unit.end, (
            f"{before}<tuv {source.attribute}={quoteattr(self._target)}>"
            f"{opening}{ORIGIN}{opening}<seg>{text}</seg>{closing}</tuv>"
        )  # fmt: skip

    def _tag_at(self, start: int) -> tuple[int, bool]:
        """Where the tag that begins at `start` ends, and whether it is of an empty element."""
        match = _TAG.match(self._content, start)
        assert match is not None
        return match.end(), match[0].endswith(b"/>")

    def _opened(self, tag: str, attributes: dict[str, str]) -> None:
        start = self.parser.CurrentByteIndex
        if self._segment_start >= 0 or tag in ("tu", "tuv"):
            self._budget.spend(where=self.place)
        if self._segment_start >= 0:
            self._start_inline(tag, attributes, start)
        elif tag == "tu":
            self._variants = []
            self._n_units += 1
        elif tag == "tuv":
            attribute = "xml:lang" if "xml:lang" in attributes else "lang"
            self._variant = Variant(attribute, attributes.get(attribute, ""), start)
            self._variant.inner, _ = self._tag_at(start)
            if len(self._available) < 100:
                self._available.add(self._variant.language)
        elif tag == "seg" and self._variant is not None and self._variant.segment is None:
            end, _ = self._tag_at(start)
            self._segment_start = start
            self._variant.text = (end, end)

    def _start_inline(self, tag: str, attributes: dict[str, str], start: int) -> None:
        """Handle the start of an element within a segment."""
        assert self._variant is not None
        parent = self._within[-1] if self._within else None
        if parent is not None and parent.is_code:
            self._within.append(parent)
            return
        end, is_empty = self._tag_at(start)
        side = {"bpt": "open", "ept": "close", "ph": "gap", "ut": "gap", "it": "point"}.get(tag)
        name = f"element {start}"
        if tag in ("bpt", "ept"):
            name = f"{attributes.get('i', '')} in {parent and parent.start}"
        element = InlineElement(side or ("point" if is_empty else "open"), name, start, end, tag in _CODES)
        self._variant.items.append(element)
        self._within.append(element)

    def _characters(self, text: str) -> None:
        if self._segment_start >= 0 and not (self._within and self._within[-1].is_code):
            assert self._variant is not None
            self._budget.spend(where=self.place)
            self._variant.items.append(text)

    def _closed(self, tag: str) -> None:
        place = self.parser.CurrentByteIndex
        if self._within:
            self._end_inline(place)
        elif self._segment_start >= 0 and self._variant is not None:
            start, is_empty = self._variant.text[0], self._tag_at(self._segment_start)[1]
            self._variant.text = (start, start if is_empty else place)
            self._variant.segment = (self._segment_start, self._end_of_element(place, self._segment_start))
            self._segment_start = -1
        elif tag == "tuv" and self._variant is not None:
            self._variant.end = self._end_of_element(place, self._variant.start)
            self._variants.append(self._variant)
            self._variant = None
        elif tag == "tu":
            self._finish()

    def _end_of_element(self, place: int, start: int) -> int:
        """Where the element that began at `start` ends, for an event at `place`."""
        return place if self._tag_at(start)[1] else self._tag_at(place)[0]

    def _end_inline(self, place: int) -> None:
        """Handle the end of an element within a segment."""
        assert self._variant is not None
        element = self._within.pop()
        if self._within and self._within[-1] is element:
            return  # within a code
        end = self._end_of_element(place, element.start)
        if element.is_code:
            element.end = end
        elif element.side == "open":
            self._variant.items.append(InlineElement("close", element.name, place, end, False))

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
        if mark_controls(segment := self._content[slice(*source.segment)]) != segment:
            self._left_out[WITH_CONTROLS] += 1
        elif sum(isinstance(item, InlineElement) for item in source.items) > MOST_ELEMENTS:
            self._left_out[f"with more than {MOST_ELEMENTS:,} inline elements"] += 1
        else:
            pieces, raw = coded(
                x if isinstance(x, str) else Thing(x.side, x.name, self._content[x.start : x.end].decode())
                for x in source.items
            )
            end = max(variant.end for variant in self._variants)
            self._units.append(Unit(source, Passage(pieces, self._n_units), raw, target, end))

    def _variant_in(self, language: str) -> Variant | None:
        """Return the one in the language itself, else in a variant of it; one that is filled comes first."""
        fitting = [v for v in self._variants if language_matches(v.language, language) and v.segment]
        fitting.sort(key=lambda v: (not v.is_filled, len(v.language) != len(language)))
        return next(iter(fitting), None)


read = Memory
