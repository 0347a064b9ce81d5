"""Documents, protected text, word alignment and MBR reranking for `dragoman translate`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NamedTuple

import typer

from dragoman.cli.app import FILE_OR_STDOUT, check_outputs, invite, say
from dragoman.errors import ConfigError, DataError, escape_control_characters, require

if TYPE_CHECKING:
    from dragoman.predict.alignment import Link
    from dragoman.predict.protection import Outcome, Protection
    from dragoman.predict.request import TranslationRequest
    from dragoman.predict.translator import Translate, Translation, Translator

PANEL = "Documents"

MOST_BYTES = 256 << 20
"""Maximum bytes of a decompressed document."""

DOCUMENT_ENDINGS = (".srt", ".tmx", ".docx", ".html")
"""File endings of document formats; other files are plain text."""

AsDocument = Annotated[
    bool,
    typer.Option(
        "--document",
        help="Treat each line as a paragraph of several sentences; keep white space and line ends. "
        "Implied by .srt, .tmx, .docx and .html, whose formatting is kept.",
        rich_help_panel=PANEL,
    ),
]
Align = Annotated[
    bool,
    typer.Option("--align", help="Add the word alignment to --json.", rich_help_panel=PANEL),
]
Pharaoh = Annotated[
    Path | None,
    typer.Option(
        metavar=FILE_OR_STDOUT,
        help='Write the word alignment of each line to this file, as "0-0 1-2".',
        rich_help_panel=PANEL,
    ),
]
Protect = Annotated[
    str | None,
    typer.Option(
        metavar="KIND,…",
        help="Copy these unchanged: numbers, urls, emails, tags, placeholders, or all.",
        rich_help_panel=PANEL,
    ),
]
ProtectPattern = Annotated[
    list[str] | None,
    typer.Option(
        help="Copy matches of this regular expression unchanged; repeatable.", rich_help_panel=PANEL
    ),
]
Consensus = Annotated[
    bool,
    typer.Option(
        "--mbr",
        help="Minimum Bayes risk: choose the candidate (--n-best, or the whole beam) closest to the others.",
        rich_help_panel=PANEL,
    ),
]


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

    def translate(
        self,
        translator: Translator,
        texts: Sequence[str],
        *,
        search: Translate,
        lines: Sequence[int],
        noun: str = "line",
    ) -> list[Translation]:
        """Translate `texts`, which have these line numbers; report problems on stderr.

        `noun` is the unit in messages: "line", "cue", ….
        """

        def report(i: int, outcome: Outcome) -> None:
            if outcome == "untranslated":
                say(f"{noun} {lines[i]}: left untranslated; no candidate keeps its protected text")

        translations = self.request.translate(translator, texts, search=search, report=report)
        limit = translator.max_positions
        for line, translation in zip(lines, translations, strict=True):
            if translation.parts:
                say(
                    f"{noun} {line} is longer than the model's {limit} tokens: "
                    f"translated in {len(translation.parts)} parts"
                )
        return translations

    def links(
        self, translator: Translator, translations: Sequence[Translation], *, lines: Sequence[int]
    ) -> list[list[Link]]:
        """Return the word alignment of each translation."""
        from dragoman.predict.alignment import align_translations

        found = align_translations(translator, translations)
        for line, translation, links in zip(lines, translations, found, strict=True):
            if translation.text.strip() and not links:
                say(f"line {line}: is too long for the model to align its words")
        return found


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
    as_document: bool,
    others: Iterable[str | None] = (),
    runs: Iterable[Path] = (),
) -> list[Work]:
    """Pair each input file with its output, and check both before anything is translated.

    `links` is a second output; `others` are further inputs; `runs` are the models, which must not be
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
    for path in written:
        if path is not None and path.suffix == ".zst":
            require("zstandard", extra="zst", purpose=f"writing {path.name}")
    for file in files:
        if file != "-":
            find_file(file, copied=False)  # complains
    check_outputs(*written, files=[*files, *others], runs=runs)
    for path in (out, links):  # before anything is translated
        if path is not None and not path.parent.is_dir():
            raise ConfigError(f"{path}: there is no folder {path.parent}; make it, or name another place")
    return works


def document_ending(file: str, out: Path | None, *, as_document: bool) -> str | None:
    """Return the ending of the document format of `file` and `out`; None = plain lines.

    A file is a document if its suffix says so, or with `as_document`.

    Raises:
        ConfigError: the two formats differ, or a binary format would go to a terminal.
        DataError: the document format is not supported.
        MissingExtraError: a package for the format is not installed.
    """
    from dragoman.data.readers.files import format_suffix
    from dragoman.documents.files import SAVED_AS, DocumentFile

    ending = format_suffix(file)
    is_named = ending in DOCUMENT_ENDINGS or ending in SAVED_AS
    ending = ending if is_named else ".txt"
    if is_named or as_document:
        DocumentFile.check_ending(file, ending)
    target = format_suffix(out.name) if out is not None else ending
    if target != ending and (ending != ".txt" or target in DOCUMENT_ENDINGS):
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
        except (LookupError, ValueError):  # ValueError: a name that is not even text
            raise ConfigError(f"--encoding {encoding}: is unknown; try cp1252, latin-1 or gb18030") from None
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


def translate_document_file(
    translator: Translator,
    work: Work,
    extras: FileOptions,
    search: Callable[..., list[Translation]],
    *,
    encoding: str,
) -> int:
    """Translate and write a document; return the number of its sentences.

    `search` takes the sentences and a callback `progress`, which receives the number of finished sentences.
    DataError: the file is missing, damaged, or not in the format of its name.
    """
    from dragoman.documents.files import DocumentFile

    name, content = "stdin" if work.file == "-" else work.file, read_bytes(work.file)
    if encoding != "utf-8":
        try:
            content = content.decode(encoding).encode()
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}: is not {encoding} ({error.reason}); choose another --encoding"
            ) from None
    document = DocumentFile.read(name, content, translator.config.languages, ending=work.ending)
    kept = document.protection(extras.request.protection)
    extras = replace(extras, request=replace(extras.request, protection=kept))
    with _bar(len(document.sentences)) as progress:
        translations = extras.translate(
            translator,
            document.sentences,
            search=lambda sentences: search(sentences, progress=progress),
            lines=document.places,
            noun=document.noun,
        )
    write_document(work.out, document.written([translation.text for translation in translations]))
    return len(document.sentences)


def read_bytes(name: str) -> bytes:
    """Read a whole file, decompressed by suffix, or stdin ("-"). DataError: it is missing or too large."""
    from dragoman.data.readers.files import find_file, open_bytes

    if name == "-":
        content = bytearray()
        for block in stream_blocks("-", invitation="type or paste text"):
            content += block
            if len(content) > MOST_BYTES:
                break
    else:
        with open_bytes(find_file(name)) as file:
            content = bytearray(file.read(MOST_BYTES + 1))
    if len(content) > MOST_BYTES:
        raise DataError(f"{name}: is larger than {MOST_BYTES >> 20} MiB; cut it into several documents")
    return bytes(content)


def stream_blocks(name: str, *, invitation: str) -> Iterator[bytes]:
    """Yield the bytes of a pipe or of stdin ("-") as they arrive. DataError: it cannot be read."""
    from dragoman.data.readers.files import find_file

    try:
        if name == "-":
            invite(invitation)
            yield from _blocks(sys.stdin.buffer)
        else:
            with find_file(name, copied=False).open("rb") as stream:
                yield from _blocks(stream)
    except OSError as error:
        raise DataError(
            f"{'stdin' if name == '-' else name}: cannot be read ({error.strerror}); name a file to read"
        ) from None


def _blocks(stream: BinaryIO) -> Iterator[bytes]:
    return iter(lambda: stream.read1(1 << 16) if isinstance(stream, BufferedReader) else stream.read(), b"")


def write_document(path: Path | None, content: bytes) -> None:
    """Write a document to stdout, or atomically to a file that is compressed according to its suffix."""
    if path is not None:
        from dragoman.data.readers.files import compressed
        from dragoman.files import write_atomically

        write_atomically(path, compressed(content, path.name))
    elif sys.stdout.isatty():
        from dragoman.documents.plain import decoded

        sys.stdout.write(escape_control_characters(decoded("output", content)[0]))
    else:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()


def link_record(link: Link) -> dict[str, Any]:
    """A link as a JSON object: half-open character spans, and the weight."""
    return {
        "source": [link.source_start, link.source_end],
        "target": [link.target_start, link.target_end],
        "weight": round(link.weight, 4),
    }


def pharaoh_line(links: Sequence[Link], translation: Translation) -> str:
    """The word alignment of a translation as a line in Pharaoh format."""
    from dragoman.predict.alignment import pharaoh

    return pharaoh(links, translation.source, translation.text) + "\n"


def protection_of(kinds: str | None, patterns: Sequence[str]) -> Protection | None:
    """Return what --protect and --protect-pattern ask for. ConfigError: there is no such kind."""
    if kinds is None and not patterns:
        return None
    from dragoman.predict.protection import PATTERNS, Protection

    names = [kind.strip() for kind in (kinds or "").split(",") if kind.strip()]
    return Protection(PATTERNS if names == ["all"] else names, patterns)


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar of sentences on stderr; sentences that are translated twice count once."""
    from rich.progress import Progress

    from dragoman.cli.console import Console

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("sentences", total=total)
        most = 0

        def progress(n_done: int) -> None:
            nonlocal most
            most = max(most, n_done)
            bar.update(task, completed=most)

        yield progress
