"""The formats of translators and of IWSLT, read as streams: TMX, gettext PO, and tagged talks.

No package reads them as we need it. TMX: expat is what everybody uses; entities are refused, and memory
does not grow with the file. PO: polib reads a file whole, cuts a text at U+2028, and takes an entry whose
quote is never closed for one that is not translated.
"""

from __future__ import annotations

import io
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar
from xml.parsers import expat

from dragoman.data.readers.files import format_suffix, longest_line, open_bytes, open_lines, too_long
from dragoman.data.readers.tables import Notes, one_line
from dragoman.errors import DataError

BLOCK = 1 << 16
DEEPEST = 100
"""Elements of a TMX file within one another, at most."""
OF_ELEMENT = 16
"""Bytes as which an element counts where a unit of a TMX file is bounded."""
N_TELLING = 1000
"""Units of a TMX file that tell its languages."""


@lru_cache(maxsize=1024)
def language_matches(tag: str, language: str) -> bool:
    """Return whether the tag is the language or a variant of it: "en-US" matches "en", not the reverse."""
    tag, language = (name.lower().replace("_", "-") for name in (tag, language))
    return tag == language or tag.startswith(f"{language}-")


def tmx(path: Path, *, src_lang: str, tgt_lang: str, notes: Notes) -> Iterator[tuple[str, str]]:
    """Yield the source and target of each translation unit of a TMX file.

    Units without one of the languages are left out. The codes of inline elements (<bpt>, <ph>, ...) are
    dropped, and the text of others, such as <hi>, is kept. DataError: the file is no TMX, is cut short,
    or declares entities.
    """
    units = _UnitTexts(path, src_lang=src_lang, tgt_lang=tgt_lang, notes=notes)
    with open_bytes(path) as file:
        yield from units.read(file)
    if notes.n_read and notes.skipped.total() == notes.n_read:
        languages = ", ".join(sorted(units.languages)) or "none"
        raise DataError(
            f"{path}: no unit in both {src_lang} and {tgt_lang}; its languages: {languages} "
            "(data.src_lang, data.tgt_lang)"
        )
    if units.n_variants:
        notes.remarks.append(f"{units.n_variants} units have a language more than once; the first is taken")


def tmx_languages(path: Path) -> tuple[str, str] | None:
    """Return source and target language of a TMX file in two languages; None = its beginning does not tell.

    DataError: as `tmx`.
    """
    units = _UnitTexts(path, src_lang="", tgt_lang="", notes=Notes("units"))
    with open_bytes(path) as file:
        while units.notes.n_read < N_TELLING and (block := file.read(BLOCK)):
            units.feed(block)
    source, *codes = (re.split("[-_]", tag.lower())[0] for tag in (units.source, *units.languages))
    targets = set(codes) - {source}
    return (source, targets.pop()) if source in codes and len(targets) == 1 else None


Record = TypeVar("Record")


class XmlStream(ABC, Generic[Record]):
    """An XML file that a stranger wrote, as the events of a parser: bounded, and without entities.

    A subclass says in `_opened`, `_characters` and `_closed` what is kept, and adds what is complete to
    `_finished`.
    """

    KIND = ""
    """The format, and below it the elements that a file of it begins with, and what it holds."""
    ROOTS: frozenset[str] = frozenset()
    NOUN = ""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._finished: list[Record] = []
        self._root = ""
        self._most = longest_line()
        self._left = self._most  # bytes that this unit may still have, an element counting as `OF_ELEMENT`
        self._depth = 0
        self._n_bytes = 0
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.EntityDeclHandler = self._declared
        self._parser.SkippedEntityHandler = self._skipped

    @property
    def line(self) -> int:
        """The line that is being read."""
        return self._parser.CurrentLineNumber

    def read(self, file: io.BufferedIOBase) -> Iterator[Record]:
        """Parse a file, and yield what is finished block by block. DataError: it is not of this format."""
        block = b" "
        while block:
            self.feed(block := file.read(BLOCK))
            finished, self._finished = self._finished, []
            yield from finished

    def feed(self, block: bytes) -> None:
        """Parse the next bytes; none at the end of the file. DataError: they are not of this format."""
        self._n_bytes += len(block)
        try:
            self._parser.Parse(block, not block)
            if self._n_bytes - self._parser.CurrentByteIndex > self._most + BLOCK:  # a tag that does not end
                raise self._too_long()
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            if not block:
                raise DataError(
                    f"{self.path}: cut short at line {error.lineno} ({reason}); fetch or write it again"
                ) from error
            raise DataError(
                f"{self.path} line {error.lineno}: not XML ({reason} at column {error.offset}); "
                "check its encoding, or write it again with the program it is from"
            ) from error
        except (LookupError, ValueError) as error:
            if self._root:
                raise
            raise DataError(
                f"{self.path}: declares an encoding that is not read in XML ({error}); "
                "write it again in UTF-8"
            ) from error

    @abstractmethod
    def _opened(self, tag: str, attributes: dict[str, str]) -> None:
        """Take the beginning of an element."""

    @abstractmethod
    def _characters(self, text: str) -> None:
        """Take text within an element, which may come in pieces."""

    @abstractmethod
    def _closed(self, tag: str) -> None:
        """Take the end of an element."""

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition(":")[2]
        self._depth += 1
        self._take(OF_ELEMENT)
        if self._depth > DEEPEST:
            raise DataError(
                f"{self.path} line {self.line}: more than {DEEPEST} elements within one another; "
                f"give an export of a {self.NOUN}"
            )
        if not self._root:
            self._root = tag
            if tag not in self.ROOTS:
                raise DataError(
                    f"{self.path}: not {self.KIND}, for it begins with <{tag}>; give another file"
                )
        self._opened(tag, attributes)

    def _end(self, tag: str) -> None:
        self._depth -= 1
        self._closed(tag.rpartition(":")[2])

    def _take(self, n: int) -> None:
        self._left -= n
        if self._left < 0:
            raise self._too_long()

    def _too_long(self) -> DataError:
        return too_long(f"{self.path} line {self.line}", self._most)

    def _declared(self, name: str, *_: object) -> None:
        raise DataError(
            f"{self.path} line {self.line}: declares the entity {name!r}; refused, for "
            "entities can fill the memory and fetch other files; remove the declaration"
        )

    def _skipped(self, name: str, _: object) -> None:
        raise DataError(
            f"{self.path} line {self.line}: &{name}; is not defined; "
            "write the character itself, or &amp; for a plain &"
        )


def language_of(attributes: dict[str, str]) -> str:
    """Return the language that the attributes of an element name, or ""."""
    return attributes.get("xml:lang") or attributes.get("lang") or ""


class _UnitTexts(XmlStream[tuple[str, str]]):
    """The texts of finished translation units in two languages."""

    KIND, ROOTS, NOUN = "TMX", frozenset({"tmx"}), "translation memory"
    CODES = frozenset({"bpt", "ept", "it", "ph", "ut"})
    GAP = "\0"  # no XML file can hold one
    """Left by <ph> and <ut>, such as a line break: it keeps words apart."""

    def __init__(self, path: Path, *, src_lang: str, tgt_lang: str, notes: Notes) -> None:
        super().__init__(path)
        self.src_lang, self.tgt_lang, self.notes = src_lang, tgt_lang, notes
        self.source = ""
        """The language of the source, as the header has it."""
        self.languages: set[str] = set()
        self.n_variants = 0
        self._texts: list[tuple[str, str]] = []  # (language, text) of this unit
        self._language = ""
        self._segment: list[str] | None = None
        self._code_depth = 0  # of elements whose text is dropped

    def _opened(self, tag: str, attributes: dict[str, str]) -> None:
        if self._segment is not None:
            if self._code_depth or tag in self.CODES:
                self._code_depth += 1
                self._segment.append(self.GAP if tag in ("ph", "ut") else "")
        elif tag == "header":
            self.source = attributes.get("srclang", "")
        elif tag == "tu":
            self._texts, self._left = [], self._most
        elif tag == "tuv":
            self._language = language_of(attributes)
        elif tag == "seg":
            self._segment = []

    def _characters(self, text: str) -> None:
        if self._segment is not None and not self._code_depth:
            self._take(len(text))
            self._segment.append(text)

    def _closed(self, tag: str) -> None:
        if self._code_depth:
            self._code_depth -= 1
        elif tag == "seg" and self._segment is not None:
            text = "".join(self._segment)
            if self.GAP in text:
                text = re.sub(rf"(?<=\w){self.GAP}+(?=\w)", " ", text).replace(self.GAP, "")
            self._texts.append((self._language, one_line(text)))
            self._segment = None
        elif tag == "tu":
            self._finish()

    def _finish(self) -> None:
        """Make a pair of the unit that has just ended, or count what it lacks."""
        self.notes.n_read += 1
        if len(self.languages) < 100:
            self.languages.update(language for language, _ in self._texts)
        src, tgt = self._text_in(self.src_lang), self._text_in(self.tgt_lang)
        if src is not None and tgt is not None:
            self._finished.append((src, tgt))
        else:
            lacks = [lang for lang, text in ((self.src_lang, src), (self.tgt_lang, tgt)) if text is None]
            self.notes.skipped[f"without {' and '.join(lacks)}"] += 1

    def _text_in(self, language: str) -> str | None:
        """Return the text in the language itself, else in a variant of it."""
        fitting = [(tag, text) for tag, text in self._texts if language_matches(tag, language)]
        exact = [text for tag, text in fitting if len(tag) == len(language)]
        self.n_variants += len(fitting) > 1 and len(exact) != 1
        return next(iter(exact or [text for _, text in fitting]), None)


class Entry:
    """One entry of a PO file."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.is_fuzzy = self.is_obsolete = False
        self.strings: dict[str, str] = {}
        """By keyword: "msgid", "msgid_plural", "msgstr", "msgstr[0]", ..."""

    @property
    def translations(self) -> list[str]:
        """The translation, or those of a plural entry in the order of their numbers."""
        return [text for keyword, text in self.strings.items() if keyword.startswith("msgstr")]


def po(path: Path, *, src_lang: str, tgt_lang: str, notes: Notes) -> Iterator[tuple[str, str]]:
    """Yield the source and target of each finished entry of a gettext PO file.

    Fuzzy, obsolete and untranslated entries are left out. A plural entry gives two pairs: singular with
    the first form, plural with the last. Where the header says that the file translates into `src_lang`,
    source and target change places. DataError: the file is no PO, or translates into another language.
    """
    swapped = False
    n_plural = 0
    for entry in _entries(path):
        if entry.strings["msgid"] == "" and "msgctxt" not in entry.strings:
            swapped = _is_reversed(path, entry, src_lang=src_lang, tgt_lang=tgt_lang)
            if swapped:
                notes.remarks.append(f"translates into {src_lang}; source and target change places")
            continue
        notes.n_read += 1
        if entry.is_obsolete or entry.is_fuzzy or not all(entry.translations):
            state = "obsolete" if entry.is_obsolete else "fuzzy" if entry.is_fuzzy else "untranslated"
            notes.skipped[state] += 1
            continue
        pairs = [(entry.strings["msgid"], entry.translations[0])]
        if "msgid_plural" in entry.strings:
            n_plural += 1
            pairs.append((entry.strings["msgid_plural"], entry.translations[-1]))
        for pair in pairs:
            src, tgt = map(one_line, pair)
            yield (tgt, src) if swapped else (src, tgt)
    if n_plural:
        notes.remarks.append(f"{n_plural} entries with plural forms give two pairs each")


_KEYWORD = re.compile(r"(msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)\s*(?=\"|$)")
_STRINGS = re.compile(r'(?:"(?:[^"\\]|\\.)*"\s*)+')
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPES = re.compile(r"(?:\\(?:x[0-9A-Fa-f]{2}|[0-7]{3}))+|\\.")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def _entries(path: Path) -> Iterator[Entry]:
    """Yield the entries of a PO file, the header and the obsolete ones included."""
    entry, keyword = Entry(1), ""
    for n, text in enumerate(map(str.strip, open_lines(path)), start=1):
        is_obsolete, line = text.startswith("#~"), text.removeprefix("#~").strip()
        if (not line or line.startswith(("#", "|", "msgid", "msgctxt"))) and entry.translations:
            yield _checked(path, entry)
            entry, keyword = Entry(n), ""
        if line.startswith("#"):
            entry.is_fuzzy |= line.startswith("#,") and "fuzzy" in re.split(r"[,\s]+", line)
        elif line and not line.startswith("|"):  # obsolete entries keep their previous text behind "#~|"
            entry.is_obsolete |= is_obsolete
            keyword = _add(entry, keyword, line, path, n)
    if entry.strings:
        yield _checked(path, entry)


def _add(entry: Entry, keyword: str, line: str, path: Path, n: int) -> str:
    """Add line `n` to an entry: a keyword and its text, or more text of the last `keyword`; the keyword."""
    match = _KEYWORD.match(line)
    strings = line[match.end() :] if match else line
    if match:
        keyword = match[1]
        if keyword in entry.strings:
            raise DataError(f"{path} line {n}: a second {keyword} in one entry; {_REMEDY}")
        entry.line = entry.line if entry.strings else n
        entry.strings[keyword] = ""
    if not keyword or (strings and not _STRINGS.fullmatch(strings)):
        raise DataError(f"{path} line {n}: neither a comment nor a text in quotes; {_REMEDY}")
    entry.strings[keyword] += _unescaped("".join(_STRING.findall(strings)), path, n)
    if len(entry.strings[keyword]) > (most := longest_line()):
        raise too_long(f"{path} line {n}", most)
    return keyword


_REMEDY = "check the file with: msgfmt --check"


def _checked(path: Path, entry: Entry) -> Entry:
    """Return the entry. DataError: it is only a part of one."""
    for keyword, is_there in (("msgid", "msgid" in entry.strings), ("msgstr", entry.translations)):
        if not is_there:
            raise DataError(f"{path} line {entry.line}: an entry without {keyword}; {_REMEDY}")
    return entry


def _unescaped(text: str, path: Path, n: int) -> str:
    """Return the text that stands in quotes in line `n`, with the escapes of C replaced."""

    def replace(match: re.Match[str]) -> str:
        escape = match[0][1:]
        if len(match[0]) == 2:
            return _ESCAPED.get(escape, escape)
        numbers = [int(part[1:], 16) if part[0] == "x" else int(part, 8) for part in escape.split("\\")]
        return bytes(number % 256 for number in numbers).decode()

    try:
        return _ESCAPES.sub(replace, text) if "\\" in text else text
    except UnicodeDecodeError as error:
        raise DataError(f"{path} line {n}: an escape that is not UTF-8; {_REMEDY}") from error


def _is_reversed(path: Path, header: Entry, *, src_lang: str, tgt_lang: str) -> bool:
    """Whether the file translates into `src_lang`. DataError: into neither of the languages."""
    match = re.search(r"^Language: *([A-Za-z]{2,3}(?:[_@-]\w+)*) *$", header.translations[0], re.MULTILINE)
    language = match[1].replace("@", "-") if match else tgt_lang
    if language_matches(language, tgt_lang) or language_matches(tgt_lang, language):
        return False
    if language_matches(language, src_lang) or language_matches(src_lang, language):
        return True
    raise DataError(
        f"{path}: translates into {language}, by its header, which is neither {src_lang} nor {tgt_lang}; "
        "give another file (data.src_lang, data.tgt_lang)"
    )


class Segment(NamedTuple):
    """A text of an IWSLT file. `id` is "" in training files, which have none."""

    id: str
    text: str


def is_iwslt(path: Path) -> bool:
    """By its name, an official file of IWSLT: train.tags.en-de.en, or IWSLT17.TED.tst2010.en-de.en.xml."""
    return path.name.startswith("train.tags.") or format_suffix(path.name) == ".xml"


def has_segment_ids(path: Path) -> bool:
    """Whether an official file of IWSLT is one with <seg id="...">."""
    return format_suffix(path.name) == ".xml"


def iwslt_segments(path: Path, notes: Notes) -> Iterator[Segment]:
    """Yield the texts of an IWSLT file: what stands in <seg>, or in training files on lines without tags.

    They look like XML and are not always: they are read line by line. The tags that describe talks are
    left out. DataError: a <seg> that does not end on its line.
    """
    return _test_segments(path, notes) if has_segment_ids(path) else _training_segments(path, notes)


_TALK = re.compile(
    r"\s*<(\?xml|!|/?(mteval|refset|srcset|doc|url|keywords|speaker|talkid|title|description|reviewer|"
    r"translator|transcript|content)\b)",
    re.IGNORECASE,
)
_SEGMENT = re.compile(r"<seg\s+id\s*=\s*\"?([^\s\">]*)\"?\s*>(.*?)</seg>", re.IGNORECASE)
_ENTITY = re.compile(r"&(amp|lt|gt|quot|apos|#\d{1,7}|#x[0-9A-Fa-f]{1,6});")
_ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


def _training_segments(path: Path, notes: Notes) -> Iterator[Segment]:
    for line in open_lines(path):
        notes.n_read += 1
        if _TALK.match(line):
            notes.skipped["that describe talks"] += 1
        else:
            yield Segment("", _decoded(line))


def _test_segments(path: Path, notes: Notes) -> Iterator[Segment]:
    for n, line in enumerate(open_lines(path), start=1):
        notes.n_read += 1
        tags = line.lower().count("<seg"), line.lower().count("</seg>")
        segments = _SEGMENT.findall(line) if tags[0] == tags[1] else []  # never slow, even on a hostile line
        if len(segments) != max(tags):
            raise DataError(
                f"{path} line {n}: a <seg> that has no id, or does not end on its line; "
                "give an official file of IWSLT, or two plain text files"
            )
        if not segments:
            notes.skipped["that describe talks"] += 1
        for segment_id, text in segments:
            yield Segment(segment_id, _decoded(text))


def _decoded(text: str) -> str:
    """Return the text with the entities of XML replaced, without the white space around it."""

    def replace(match: re.Match[str]) -> str:
        name = match[1]
        if name in _ENTITIES:
            return _ENTITIES[name]
        code = int(name.removeprefix("#").replace("x", "0x"), 0 if "x" in name else 10)
        is_character = 0 < code < 0x110000 and not 0xD800 <= code < 0xE000
        return chr(code) if is_character else match[0]

    return _ENTITY.sub(replace, text).strip()
