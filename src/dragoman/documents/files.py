"""A document to a document of the same format, chosen by the ending of its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import PurePath
from typing import Protocol

from dragoman.data.readers.files import longest_line, too_long
from dragoman.documents.budget import Budget, Check
from dragoman.documents.passages import CutPassage, Passage, Pieces, Tags, text_of
from dragoman.documents.plain import Encoding, TextFile
from dragoman.errors import DataError, check_texts, require
from dragoman.predict.flow import Flow, Source, TranslationRequest
from dragoman.predict.model import TranslationModel
from dragoman.predict.protection import Protection
from dragoman.predict.results import Translation
from dragoman.predict.threads import finish


class DocumentFormat(Protocol):
    """A file of some format, taken apart. It belongs to one thread; another one takes its own apart."""

    noun: str
    """What `Passage.place` counts."""

    @property
    def passages(self) -> Sequence[Passage]: ...

    def written(self, translations: Sequence[Pieces]) -> bytes:
        """Return the file with a translation in place of each passage, or beside it."""
        ...


_HOME = {".txt": "plain", ".srt": "subtitles", ".tmx": "memory", ".docx": "word"}
_HOME |= dict.fromkeys((".html", ".htm"), "hypertext")

FORMATS = tuple(_HOME)
"""The endings of the names of documents."""

SAVED_AS = {
    **dict.fromkeys((".doc", ".docm", ".odt", ".pages", ".pdf", ".ppt", ".pptx", ".rtf", ".wpd"), ".docx"),
    **dict.fromkeys((".epub", ".mht", ".ods", ".xhtml", ".xls", ".xlsx"), ".html"),
    **dict.fromkeys((".ass", ".lrc", ".sbv", ".smi", ".ssa", ".sub", ".ttml", ".vtt"), ".srt"),
    **dict.fromkeys((".sdlxliff", ".tbx", ".xlf", ".xliff"), ".tmx"),
}
"""Endings of documents that are not read, and the format to save such a document in."""

STRUCTURED = frozenset((
    ".adoc", ".arb", ".bib", ".csv", ".ini", ".ipynb", ".json", ".jsonl", ".markdown", ".md", ".ndjson",
    ".po", ".pot", ".properties", ".resx", ".rst", ".strings", ".svg", ".tex", ".toml", ".tsv", ".xml",
    ".yaml", ".yml",
))  # fmt: skip
"""Endings of files whose lines hold keys, codes or columns beside text."""


class DocumentFile:
    """A document as the sentences that are to be translated, and all that stands around them.

        document = DocumentFile.read("letter.docx", content, ("en", "de"))
        document.written(translations_of(document.sentences))  # bytes

    Written with its own `sentences`, it says what it said. It belongs to one thread.
    """

    def __init__(self, file: DocumentFormat, languages: tuple[str, str], budget: Budget) -> None:
        """Cut the passages of `file` into sentences. `languages`: source and target.

        DataError: a line is too long, or sentences are too many. MissingExtraError: sentencex is missing.
        """
        most = longest_line()
        for passage in file.passages:
            for k, line in enumerate(passage.text.split("\n")):
                if len(line) > most:
                    place = passage.place + k * (file.noun == "line")
                    raise too_long(f"{budget.name}, {file.noun} {place}", most)
        self.noun = file.noun
        """Such as "line" or "paragraph"."""
        self._file, self._languages, self._budget = file, languages, budget
        self._cut = [CutPassage.of(passage, languages[0], budget) for passage in file.passages]
        each = [sentence for cut in self._cut for sentence in cut.sentences]
        has_tags = any(not isinstance(piece, str) for sentence in each for piece in sentence.pieces)
        self.tags = Tags.apart_from((p.text for p in file.passages), is_used=has_tags)
        self.sentences = tuple(self.tags.marked(sentence.pieces) for sentence in each)
        """Each has a letter. Formatting and other things inside one are `tags`."""
        both = zip(file.passages, self._cut, strict=True)
        places = ((passage.place, sentence.line - 1) for passage, cut in both for sentence in cut.sentences)
        self.places = tuple(place + k * (self.noun == "line") for place, k in places)
        """Where each is, counted from 1 in units of `noun`."""
        self.n_characters = sum(len(text_of(sentence.pieces)) for sentence in each)
        """Those of all sentences, without tags."""
        self.notes, self.check = budget.notes, budget.check

    @staticmethod
    def check_ending(name: str, ending: str) -> None:
        """DataError: there is no such format. MissingExtraError: a package for it is not installed."""
        if ending not in _HOME:
            remedy = f"save it as {SAVED_AS[ending]} first; " if ending in SAVED_AS else ""
            raise DataError(
                f"{name}: {ending or 'a name without an ending'} is no format of documents; "
                f"{remedy}there are {', '.join(FORMATS)}"
            )
        require("sentencex", extra="documents", purpose=f"translating {ending} documents")

    @classmethod
    def read(
        cls,
        name: str,
        content: bytes,
        languages: tuple[str, str],
        *,
        ending: str | None = None,
        check: Check | None = None,
    ) -> DocumentFile:
        """Parse the document `content`, whose format is the suffix of `name`; `languages`: source and target.

        `ending` is one of `FORMATS`, for a name that does not end so. `check` is called now and then while
        the document is read, translated and written; an error that it raises ends that.

        DataError: there is no such format, or the file is damaged, hostile, too large or none of its format.
        MissingExtraError: a package for the format is not installed.
        """
        ending = ending or PurePath(name).suffix.lower()
        cls.check_ending(name, ending)
        if not isinstance(content, bytes):
            raise DataError(f"{name}: its content is of type {type(content).__name__}, and not bytes")
        module = import_module(f"dragoman.documents.{_HOME[ending]}")
        budget = Budget(name, check)
        budget.check()
        return cls(module.read(name, content, languages, budget), languages, budget)

    def written(self, translations: Sequence[str]) -> bytes:
        """Return the file with a translation in place of each sentence, even if tags were lost in it.

        A thing without its tag stands at the end of its sentence, and formatting without its tags is lost.
        Numbers of the source that a translation lacks are counted in `notes`.
        """
        if lacking := self.tags.lacking(self.sentences, translations):
            places = list(dict.fromkeys(str(self.places[i]) for i in lacking))
            where = f"{self.noun} {', '.join(places[:10])}{', …' * (len(places) > 10)}"
            self.notes.append(
                f"numbers of the source that the translation lacks: {lacking.total():,} ({where})"
            )
        texts = iter(translations)
        passages: list[Pieces] = []
        for passage in self._cut:
            self._budget.step(1 + len(passage.sentences))
            read = [self.tags.read(next(texts), sentence.pieces) for sentence in passage.sentences]
            passages.append(passage.written(read, self._languages))
        self._budget.check()
        return self._file.written(passages)

    def translations(self, model: Source, request: TranslationRequest) -> Flow[list[Translation]]:
        """Return the translation of each sentence: see `Tags`."""
        return self.tags.translations(model, self.sentences, request, check=self.check)


def translate_file(
    translator: TranslationModel,
    name: str,
    content: bytes,
    *,
    protection: Protection | None = None,
    progress: Callable[[int], None] | None = None,
    check: Check | None = None,
) -> bytes:
    """Translate the document `content`; format and formatting stay. The suffix of `name` is the format.

    A sentence is translated more than once where tags, numbers or what `protection` protects do not come out
    whole. `progress` is called with the number of sentences finished. `check` and errors as
    `DocumentFile.read`.
    """
    document = DocumentFile.read(name, content, translator.config.languages, check=check)

    def batch_done(n_sentences: int) -> None:
        document.check()
        if progress is not None:
            progress(n_sentences)

    flow = document.translations(translator, TranslationRequest(protection=protection))
    return document.written([translation.text for translation in finish(flow, batch_done)])


def translate_document(translator: TranslationModel, text: str) -> str:
    """`text` in the other language: paragraphs, empty lines, indents and line ends stay as they are.

    A line is a paragraph of any number of sentences. See `translate_file`, and for errors `DocumentFile`.
    """
    check_texts([text], what="document")
    file = TextFile(text, Encoding("utf-8", errors="surrogatepass"))
    document = DocumentFile(file, translator.config.languages, Budget("document"))
    translations = finish(document.translations(translator, TranslationRequest()))
    return document.written([each.text for each in translations]).decode("utf-8", "surrogatepass")
