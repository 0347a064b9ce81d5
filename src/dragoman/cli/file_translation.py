"""Translate files: pair inputs with outputs, read constraints, and translate lines and documents."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dragoman.cli.app import check_folders, check_outputs, say
from dragoman.cli.reading import file_chunks, read_bytes, stream_chunks, write_output
from dragoman.errors import ConfigError, DataError

if TYPE_CHECKING:
    from dragoman.predict.flow import Flow
    from dragoman.predict.request import TranslationRequest
    from dragoman.predict.results import Translation
    from dragoman.predict.translator import Translator


class Content:
    """Constraints read in step with the sentences."""

    def __init__(
        self,
        *,
        prefixes: str | None,
        required: str | None,
        glossary: str | None,
        languages: tuple[str, str],
        inflect: bool,
    ) -> None:
        """Open the files; `prefixes` and `required` have one line for each sentence.

        `languages` are source and target of the glossary. With `inflect`, phrases may take other endings.

        Raises:
            DataError: a file is missing, or the glossary is malformed.
        """
        from dragoman.predict.glossary import Glossary
        from dragoman.predict.inflection import Inflectable

        self._phrase = Inflectable if inflect else str
        self.glossary = None if glossary is None else Glossary.load(glossary, languages, inflect=inflect)
        self._prefixes = None if prefixes is None else AlignedLines(prefixes)
        self._required = None if required is None else AlignedLines(required)
        self.remarks = [] if self.glossary is None else self.glossary.remarks
        """What the glossary's file holds that was skipped."""
        self.n_terms = 0
        """How often a term of the glossary occurred."""

    def take(self, sentences: Sequence[str]) -> dict[str, Any]:
        """Return the constraints of the next sentences, as keyword arguments of `flow.translated`.

        Raises:
            DataError: a file has fewer lines than there are sentences.
        """
        constraints: dict[str, Any] = {}
        if self._prefixes is not None:
            constraints["prefixes"] = self._prefixes.take(len(sentences))
        if self._required is not None:
            lines = self._required.take(len(sentences))
            constraints["required"] = [
                [self._phrase(phrase) for phrase in line.split("\t") if phrase.strip()] for line in lines
            ]
        if self.glossary is not None:
            self.n_terms += sum(len(self.glossary.required(sentence)) for sentence in sentences)
        return constraints

    def close(self, n_sentences: int) -> None:
        """Check that all lines were used. DataError: a file has more lines than there were sentences."""
        for lines in (self._prefixes, self._required):
            if lines is not None:
                lines.close(n_sentences)


class AlignedLines:
    """A file with one line, possibly empty, for each sentence."""

    def __init__(self, name: str) -> None:
        from dragoman.data.readers.files import find_file, open_lines

        self._name = name
        self._lines = open_lines(find_file(name))
        self._n_read = 0

    def take(self, n: int) -> list[str]:
        """Return the next `n` lines. DataError: there are fewer."""
        lines = list(islice(self._lines, n))
        self._n_read += len(lines)
        if len(lines) < n:
            raise DataError(
                f"{self._name} has {self._n_read} lines and there are more sentences; "
                "write one line for each sentence, an empty one if there is no constraint"
            )
        return lines

    def close(self, n_sentences: int) -> None:
        """Check that all lines were used. DataError: there are lines left."""
        if next(self._lines, None) is not None:
            raise DataError(
                f"{self._name} has more than {n_sentences} lines for {n_sentences} sentences; "
                "write one line for each sentence"
            )


class Work(NamedTuple):
    """An input file, its output and its document format."""

    file: str
    """"-" = stdin."""
    out: Path | None
    """None = stdout."""
    ending: str | None
    """Ending of the document format; None = lines."""

    @property
    def comes_once(self) -> bool:
        """Whether lines are translated as they arrive: from stdin, or from a pipe to stdout."""
        from dragoman.data.readers.files import find_file, is_stream

        return self.file == "-" or (self.out is None and is_stream(find_file(self.file, copied=False)))


def plan(
    files: Sequence[str],
    *,
    out: Path | None,
    out_dir: Path | None,
    links: Path | None,
    as_document: bool | None,
    more_inputs: Iterable[str | None] = (),
    runs: Iterable[Path] = (),
) -> list[Work]:
    """Pair each input file with its output, and check both before anything is translated.

    `links` is a second output; `more_inputs` are checked only; `runs` are the models, which must not be
    overwritten.

    Raises:
        ConfigError: options conflict, or an output is an input or of another format.
        DataError: an input is missing, or its document format is not supported.
        MissingExtraError: a package for a document format is not installed.
    """
    from dragoman.data.readers.files import find_file

    out = None if out == Path("-") else out
    if out is not None and out_dir is not None:
        raise ConfigError("--out is one file, --out-dir the folder of several; give one of them")
    if out_dir is None:
        if len(files) > 1:
            raise ConfigError("several files need --out-dir DIR; each translation has its file's name there")
        outs = [out]
    else:
        if "-" in files:
            raise ConfigError("--out-dir is for files, whose names the translations have; stdin has none")
        outs = [out_dir / Path(file).name for file in files]
        if os.path.lexists(out_dir) and not out_dir.is_dir():
            raise ConfigError(f"--out-dir {out_dir}: is not a folder; name another place")
    works = [
        Work(file, to, document_ending(file, to, as_document=as_document))
        for file, to in zip(files, outs, strict=True)
    ]
    written = [*outs, *([links] if links else [])]
    for file in files:
        if file != "-":
            find_file(file, copied=False)  # complains
    check_outputs(*written, files=[*files, *more_inputs], runs=runs)
    check_folders(out, links)
    return works


def document_ending(file: str, out: Path | None, *, as_document: bool | None) -> str | None:
    """Return the ending of the document format of `file` and `out`; None = plain lines.

    `as_document` says which it is; None = a document if its suffix says so.

    Raises:
        ConfigError: the two formats differ, or a binary format would go to a terminal.
        DataError: the document format is not supported, or the suffix is of a file of more than text.
        MissingExtraError: a package for the format is not installed.
    """
    from dragoman.data.readers.files import format_suffix
    from dragoman.documents.files import FORMATS, SAVED_AS, STRUCTURED, DocumentFile

    if as_document is False:
        return None
    ending = format_suffix(file)
    if ending in STRUCTURED:
        raise DataError(
            f"{file}: the lines of {ending} files are not plain text, and a translation would damage them; "
            "extract the text, or translate each line as it is with --lines"
        )
    is_named = ending in SAVED_AS or (ending in FORMATS and ending != ".txt")
    ending = ending if is_named else ".txt"
    if is_named or as_document:
        DocumentFile.check_ending(file, ending)
    target = format_suffix(out.name) if out is not None else ending
    if target != ending and (ending != ".txt" or target in FORMATS):
        raise ConfigError(f"--out {out}: a document keeps its format; give a name that ends in {ending}")
    if ending == ".docx" and out is None and sys.stdout.isatty():
        raise ConfigError(f"{file}: cannot write a Word document to a terminal; give --out FILE.docx")
    return ending if is_named or as_document else None


def encoding_of(work: Work, encoding: str | None, language: str) -> str:
    """Return the encoding of a file: `encoding` if given, else a guess from the first MiB.

    A guess other than UTF-8 is reported on stderr. ConfigError: unknown encoding, or the format has its own.
    """
    from dragoman.data.readers.files import find_file, guess_encoding, open_bytes

    if encoding is not None:
        try:
            one_byte = "\n".encode(encoding) == b"\n"
        except (LookupError, ValueError) as error:  # ValueError: a name that is not even text
            raise ConfigError(f"--encoding {encoding}: is unknown; try cp1252, latin-1 or gb18030") from error
        if work.ending not in (None, ".txt", ".srt") or not (one_byte or work.ending):
            raise ConfigError(
                f"--encoding {encoding}: is not for {work.file}, which says itself how it is encoded"
                if work.ending
                else f"--encoding {encoding}: has no line ends of one byte; convert the text to UTF-8"
            )
        return encoding
    if work.comes_once or work.ending not in (None, ".txt", ".srt"):
        return "utf-8"
    with open_bytes(find_file(work.file)) as stream:
        start = stream.read(1 << 20)
    guessed = guess_encoding(start, language)
    if guessed != "utf-8":
        say(f"{work.file}: is not UTF-8; read as {guessed} and written as UTF-8 (--encoding says otherwise)")
    return guessed


@dataclass(frozen=True)
class FileOptions:
    """What is wanted of a file beside its translation: word alignment, and the form of a document."""

    request: TranslationRequest
    document: bool
    align: bool
    pharaoh: Path | None

    @classmethod
    def parse(
        cls, request: TranslationRequest, *, document: bool, align: bool, pharaoh: Path | None, as_json: bool
    ) -> FileOptions:
        """Check the command's options. ConfigError: two options conflict."""
        if document and (as_json or pharaoh is not None):
            raise ConfigError("--json and --pharaoh are for lines, not for documents; omit them")
        if align and not as_json:
            raise ConfigError("--align is for --json; for a file of links say --pharaoh links.txt")
        return cls(request, document, align, pharaoh)

    @property
    def changes_lines(self) -> bool:
        """Whether lines need more than plain translation."""
        return self.wants_links or self.request.protection is not None or self.request.consensus

    @property
    def wants_links(self) -> bool:
        return self.align or self.pharaoh is not None


class FileTranslation(NamedTuple):
    """A translator with the file, settings and constraints of one translation."""

    translator: Translator
    work: Work
    encoding: str
    content: Content
    extras: FileOptions

    @property
    def name(self) -> str:
        """The file's name in messages."""
        return "stdin" if self.work.file == "-" else self.work.file

    def finish(
        self,
        flow: Flow[list[Translation]],
        *,
        lines: Sequence[int],
        noun: str = "line",
        progress: Callable[[int], None] | None = None,
    ) -> list[Translation]:
        """Return the result of a flow for texts that have these line numbers; report problems on stderr.

        `noun` is the unit in messages: "line", "cue", …. DataError: as the flow, with the file's name.
        """
        from dragoman.predict.threads import finish

        try:
            translations = finish(flow, progress)
        except DataError as error:
            raise DataError(f"{self.name}: {error}") from error
        limit = self.translator.max_positions
        for line, translation in zip(lines, translations, strict=True):
            if translation.outcome == "untranslated":
                say(f"{noun} {line}: left untranslated; no candidate keeps its protected text")
            if translation.parts:
                say(
                    f"{noun} {line} is longer than the model's {limit} tokens: "
                    f"translated in {len(translation.parts)} parts"
                )
        return translations


def translate_lines(job: FileTranslation, *, pharaoh: Path | None, as_json: bool) -> int:
    """Translate a file line by line and return the number of lines.

    Lines for stdout are written as they are translated; files are written at the end. `as_json`: each line is
    a JSON object with the alternatives of the request.
    """
    from dragoman.bulk.output import as_line, json_line
    from dragoman.predict.alignment import pharaoh as pharaoh_line
    from dragoman.predict.flow import aligned as links_of
    from dragoman.predict.flow import translated
    from dragoman.predict.threads import finish

    extras, (file, out, _), encoding = job.extras, job.work, job.encoding
    written: list[str] = []
    aligned: list[str] = []
    n_lines = 0
    for chunk in stream_chunks(file, encoding) if job.work.comes_once else file_chunks(file, encoding):
        numbers = range(n_lines + 1, n_lines + 1 + len(chunk))
        n_lines += len(chunk)
        flow = translated(
            job.translator, chunk, extras.request, **job.content.take(chunk), first_number=numbers[0]
        )
        translations = job.finish(flow, lines=numbers)
        if extras.wants_links:
            links = finish(links_of(job.translator, translations))
            for number, t, alignment in zip(numbers, translations, links, strict=True):
                if t.text.strip() and not alignment:
                    say(f"line {number}: is too long for the model to align its words")
                aligned.append(f"{pharaoh_line(alignment, t.source, t.text)}\n")
        if as_json:
            n_best = extras.request.n_best
            shown = [t._replace(alternatives=t.alternatives[:n_best]) for t in translations]
            each = links if extras.align else [None] * len(shown)
            written += [f"{json_line(t, alignment)}\n" for t, alignment in zip(shown, each, strict=True)]
        else:
            written += [f"{as_line(t)}\n" for t in translations]
        if out is None:
            write_output(None, "".join(written))
            written.clear()
    job.content.close(n_lines)
    if out is not None:
        write_output(out, "".join(written))
    if pharaoh is not None:
        write_output(pharaoh, "".join(aligned))
    return n_lines


def translate_document_file(job: FileTranslation) -> int:
    """Translate and write a document; return the number of its sentences.

    Raises:
        DataError: the file is missing, damaged, or not in the format of its name.
    """
    from dragoman.cli.console import progress_bar
    from dragoman.documents.files import DocumentFile
    from dragoman.documents.plain import decoded

    content = read_bytes(job.work.file)
    if job.encoding != "utf-8":
        content = decoded(job.name, content, job.encoding)[0].encode()
    document = DocumentFile.read(job.name, content, job.translator.config.languages, ending=job.work.ending)
    job.content.take(document.sentences)
    with progress_bar("sentences", total=len(document.sentences)) as show:
        flow = document.translations(job.translator, job.extras.request)
        translations = job.finish(flow, lines=document.places, noun=document.noun, progress=show)
    write_output(job.work.out, document.written([translation.text for translation in translations]))
    for note in document.notes:
        say(f"{job.name}: {note}")
    return len(document.sentences)
