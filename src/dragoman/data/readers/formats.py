"""XML that a stranger wrote, and translation memories (TMX), read as streams.

expat is what everybody uses; entities are refused, and memory does not grow with the file.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple, NoReturn
from xml.parsers import expat

from dragoman.data.readers.files import longest_line, open_bytes, too_long
from dragoman.data.readers.tables import Notes, one_line
from dragoman.errors import DataError
from dragoman.text.languages import language_code

BLOCK = 1 << 16
OF_ELEMENT = 16
"""Bytes as which an element counts where a unit of a TMX file is bounded."""
N_TELLING = 1000
"""Units of a TMX file that tell its languages."""
NEARLY_ALL = 0.9
"""Share of these units that have the two languages of the file."""

CONTROL = "\x7f"
"""Stands for each byte of a control character, or of a reference to one, which no XML can hold."""
WITH_CONTROLS = "with a control character"

_CONTROLS = re.compile(
    rb"[\x01-\x08\x0b\x0c\x0e-\x1f]|&#(?:0*(?:[0-8]|1[124-9]|2[0-9]|3[01])|x0*(?:[0-8bcef]|1[0-9a-f]));",
    re.IGNORECASE,
)
_UTF_16 = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"<\0": "utf-16-le", b"\0<": "utf-16-be"}
"""How a file is encoded that begins with these bytes."""


@lru_cache(maxsize=1024)
def language_matches(tag: str, language: str) -> bool:
    """Return whether the tag is the language or a variant of it: "en-US" matches "en", not the reverse."""
    tag, language = (name.lower().replace("_", "-") for name in (tag, language))
    return tag == language or tag.startswith(f"{language}-")


def mark_controls(xml: bytes) -> bytes:
    """Return as many bytes of XML in UTF-8, or in a code page, with `CONTROL` for what XML cannot hold."""
    return _CONTROLS.sub(lambda match: CONTROL.encode() * len(match[0]), xml)


def tmx(path: Path, *, src_lang: str, tgt_lang: str, notes: Notes) -> Iterator[tuple[str, str]]:
    """Yield the source and target of each translation unit of a TMX file.

    Units without one of the languages, or with a control character, are left out. The codes of inline
    elements (<bpt>, <ph>, ...) are dropped, and the text of others, such as <hi>, is kept. DataError: the
    file is no TMX, is cut short, or declares entities.
    """
    languages: set[str] = set()
    variants: tuple[Counter[str], Counter[str]] = Counter(), Counter()  # of taken sources, and of targets
    n_repeated = 0
    for _, texts in XmlUnits(path, TMX).read():
        notes.n_read += 1
        if len(languages) < 100:
            languages.update(tag for tag, _ in texts)
        fitting = []  # on each side the texts in the language itself, or else in its variants
        for language in (src_lang, tgt_lang):
            matching = [tagged for tagged in texts if language_matches(tagged[0], language)]
            fitting.append([tagged for tagged in matching if len(tagged[0]) == len(language)] or matching)
        n_repeated += sum(len(tagged) > 1 for tagged in fitting)
        lacks = [lang for lang, some in zip((src_lang, tgt_lang), fitting, strict=True) if not some]
        pair = [tagged[0] for tagged in fitting if tagged]
        if lacks:
            notes.skipped[f"without {' and '.join(lacks)}"] += 1
        elif any(CONTROL in text for _, text in pair):
            notes.skipped[WITH_CONTROLS] += 1
        else:
            for counts, (tag, _) in zip(variants, pair, strict=True):
                counts[tag.lower().replace("_", "-")] += len(counts) < 100
            yield pair[0][1], pair[1][1]
    if notes.n_read and notes.skipped.total() - notes.skipped[WITH_CONTROLS] == notes.n_read:
        raise DataError(
            f"{path}: no unit in both {src_lang} and {tgt_lang}; its languages: "
            f"{', '.join(sorted(languages)) or 'none'} (data.src_lang, data.tgt_lang)"
        )
    if n_repeated:
        notes.remarks.append(f"{n_repeated} units have a language more than once; the first is taken")
    for language, tags in zip((src_lang, tgt_lang), variants, strict=True):
        if len(tags) > 1:
            mixed = ", ".join(f"{tag} ({n:,})" for tag, n in tags.most_common())
            example = max(tags, key=len)
            notes.remarks.append(f"{language} mixes {mixed}; to take one, say it: {example}, for example")


def tmx_languages(path: Path) -> tuple[str, str]:
    """Return the language of a TMX file's source, by its header, and the other that nearly all units have.

    DataError: as `tmx`; or the beginning of the file does not tell.
    """
    units, counts, n_units = XmlUnits(path, TMX), Counter[str](), 0
    for _, texts in islice(units.read(), N_TELLING):
        n_units += 1
        counts.update(sorted({language_code(tag) for tag, _ in texts}))
    source = language_code(units.source)
    usual = [code for code, n in counts.items() if n >= NEARLY_ALL * n_units]
    if source not in usual or len(usual) != 2:
        languages = ", ".join(f"{code} ({n:,} units)" for code, n in counts.most_common(20)) or "none"
        raise DataError(
            f"{path}: its languages are {languages}; say which to learn, as in --src-lang en --tgt-lang de"
        )
    return source, usual[1 - usual.index(source)]


class XmlParser:
    """expat for files that a stranger wrote: entities and deep nesting are refused."""

    KIND, ROOTS = "", frozenset[str]()
    """The format, and the elements that a file of it begins with, if they are known."""
    DEEPEST, JOINT = 100, " "
    """Elements within one another, at most; what is between the name of a file and a line of it."""

    def __init__(self, name: str, encoding: str | None = None) -> None:
        """`name` is for messages; `encoding` counts more than what the file says of itself."""
        self._name = name
        self._depth = 0
        self._has_begun = False
        """An element was read, and so the declaration of the encoding before it."""
        self._create_parser(encoding)

    def _create_parser(self, encoding: str | None) -> None:
        self.parser = expat.ParserCreate(encoding)
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.EntityDeclHandler = self._declared
        self.parser.SkippedEntityHandler = self._skipped

    def place(self) -> str:
        """Return the line that is being read."""
        return f"line {self.parser.CurrentLineNumber}"

    def refuse(self, why: str) -> NoReturn:
        """DataError: `why`, with the line that is being read."""
        raise DataError(f"{self._name}{self.JOINT}{self.place()}: {why}")

    def _parse(self, block: bytes | memoryview, *, is_last: bool) -> None:
        """Parse the next bytes. DataError: they are not XML, or in an encoding that is not read."""
        try:
            self.parser.Parse(block, is_last)
        except expat.ExpatError as error:
            raise DataError(
                f"{self._name}{self.JOINT}{self.place()}: not XML, or cut short "
                f"({expat.ErrorString(error.code)} at column {error.offset}); check its encoding, or write "
                "it again with the program it is from"
            ) from error
        except (LookupError, ValueError) as error:
            if self._has_begun:  # a callback raised it
                raise
            raise DataError(
                f"{self._name}: declares an encoding that is not read in XML ({error}); "
                "write it again in UTF-8"
            ) from error

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition(":")[2]
        self._depth += 1
        if self._depth > self.DEEPEST:
            self.refuse(f"more than {self.DEEPEST} elements within one another; refused")
        if not self._has_begun and self.ROOTS and tag not in self.ROOTS:
            self.refuse(f"not {self.KIND}, for it begins with <{tag}>; give another file")
        self._has_begun = True
        self._opened(tag, attributes)

    def _end(self, tag: str) -> None:
        self._depth -= 1
        self._closed(tag.rpartition(":")[2])

    def _opened(self, tag: str, attributes: dict[str, str]) -> None:
        """Take the beginning of an element, whose tag has no prefix."""

    def _characters(self, text: str) -> None:
        """Take text within an element, which may come in pieces."""

    def _closed(self, tag: str) -> None:
        """Take the end of an element."""

    def _declared(self, name: str, *_: object) -> None:
        self.refuse(
            f"declares the entity {name!r}; refused, for entities can fill the memory and fetch other files; "
            "remove the declaration"
        )

    def _skipped(self, name: str, _: object) -> None:
        self.refuse(f"&{name}; is not defined; write the character itself, or &amp; for a plain &")


class UnitFormat(NamedTuple):
    """The elements of an XML format whose units hold texts in several languages."""

    name: str
    roots: frozenset[str]
    unit: frozenset[str]
    language: frozenset[str]
    text: str
    codes: frozenset[str] = frozenset()
    """Elements in a text that are left out with all that is in them."""
    is_complete: bool = False
    """Each text has a language and a word, or the file is refused."""


TMX = UnitFormat(
    "TMX", frozenset({"tmx"}), frozenset({"tu"}), frozenset({"tuv"}), "seg",
    codes=frozenset({"bpt", "ept", "it", "ph", "ut"}),
)  # fmt: skip


class UnitTexts(NamedTuple):
    """The texts of a unit, each with the tag of its language, and the line on which it begins."""

    line: int
    texts: list[tuple[str, str]]


class XmlUnits(XmlParser):
    """The units of an XML file, read in bounded pieces."""

    GAP = "\0"  # no XML file can hold one
    """Left by <ph> and <ut>, such as a line break: it keeps words, and sentences, apart."""
    APART = re.compile(rf"(?<=[\w.,:;!?…%)\]}}»”]){GAP}+(?=[\w(\[{{«“„¿¡])")

    def __init__(self, path: Path, format_: UnitFormat) -> None:
        super().__init__(str(path))
        self.path, self.format = path, format_
        self.KIND, self.ROOTS = format_.name, format_.roots
        self.source = ""
        """The language of the source, as the header of a TMX file has it."""
        self._finished: list[UnitTexts] = []
        self._unit = UnitTexts(0, [])
        self._language = ""
        self._text: list[str] | None = None
        self._code_depth = 0  # of elements whose text is dropped
        self._most = longest_line()
        self._left = self._most  # bytes that this unit may still have, an element counting as `OF_ELEMENT`
        self._n_bytes = 0
        self._held = b""  # a reference that goes on in the next block
        self._decoder: codecs.IncrementalDecoder | None = None

    def read(self) -> Iterator[UnitTexts]:
        """Parse the file, and yield unit by unit. DataError: it is not of this format."""
        block = b" "
        with open_bytes(self.path) as file:
            while block:
                self._feed(block := file.read(BLOCK))
                finished, self._finished = self._finished, []
                yield from finished

    def _feed(self, block: bytes) -> None:
        is_last = not block
        if not self._n_bytes and (encoding := _UTF_16.get(block[:2])):
            self._decoder = codecs.getincrementaldecoder(encoding)("replace")
            self._create_parser("utf-8")
        if self._decoder is not None:
            block = self._decoder.decode(block, is_last).replace("\ufffd", CONTROL).encode()
        block = self._held + block
        start = block.rfind(b"&", -16)
        end = len(block) if is_last or start < 0 or b";" in block[start:] else start
        block, self._held = block[:end], block[end:]
        self._n_bytes += len(block)
        self._parse(mark_controls(block), is_last=is_last)
        if self._n_bytes - self.parser.CurrentByteIndex > self._most + BLOCK:
            self._take(self._most + 1)  # a tag that does not end

    def _take(self, n: int) -> None:
        self._left -= n
        if self._left < 0:
            raise too_long(f"{self.path} {self.place()}", self._most)

    def _opened(self, tag: str, attributes: dict[str, str]) -> None:
        self._take(OF_ELEMENT)
        if self._text is not None:
            if self._code_depth or tag in self.format.codes:
                self._code_depth += 1
                self._text.append(self.GAP if tag in ("ph", "ut") else "")
        elif tag == "header":
            self.source = attributes.get("srclang", "")
        elif tag in self.format.unit:
            self._unit, self._left = UnitTexts(self.parser.CurrentLineNumber, []), self._most
        elif tag in self.format.language:
            self._language = attributes.get("xml:lang") or attributes.get("lang") or ""
            if self.format.is_complete and not self._language:
                self.refuse(f"<{tag}> has no xml:lang; name its language")
        elif tag == self.format.text:
            self._text = []

    def _characters(self, text: str) -> None:
        if self._text is not None and not self._code_depth:
            self._take(len(text))
            self._text.append(text)

    def _closed(self, tag: str) -> None:
        if self._code_depth:
            self._code_depth -= 1
        elif tag == self.format.text and self._text is not None:
            text = "".join(self._text)
            if self.GAP in text:
                text = self.APART.sub(" ", text).replace(self.GAP, "")
            text = one_line(text)
            if self.format.is_complete and not text.strip():
                self.refuse(f"<{tag}> is empty; write one, or remove it")
            self._unit.texts.append((self._language, text))
            self._text = None
        elif tag in self.format.language:
            self._language = ""
        elif tag in self.format.unit:
            self._finished.append(self._unit)
