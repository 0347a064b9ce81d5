"""What `dragoman translate` does beside translating lines: documents, protection, alignment, consensus."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.app import obeyed_by_nobody, say
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.predict.alignment import Link
    from dragoman.predict.protection import Outcome, Protection
    from dragoman.predict.translator import Translate, Translation, Translator

PANEL = "Documents"

DOCUMENT_ENDINGS = (".srt", ".tmx", ".docx", ".html")
"""Of documents that are no plain text; all others are."""

AsDocument = Annotated[
    bool,
    typer.Option(
        "--document",
        help="A line is a paragraph of any number of sentences. White space and line ends stay. "
        "Also for .srt, .tmx, .docx and .html, whose formatting is kept.",
        rich_help_panel=PANEL,
    ),
]
Align = Annotated[
    bool,
    typer.Option("--align", help="Add the links between words to --json.", rich_help_panel=PANEL),
]
Pharaoh = Annotated[
    Path | None,
    typer.Option(help='Write the links of each line here, as "0-0 1-2".', rich_help_panel=PANEL),
]
Protect = Annotated[
    str | None,
    typer.Option(
        metavar="KIND,…",
        help="Leave these as they are: numbers, urls, emails, tags, placeholders, or all.",
        rich_help_panel=PANEL,
    ),
]
ProtectPattern = Annotated[
    list[str] | None,
    typer.Option(help="Leave alone what this regular expression matches. Repeatable.", rich_help_panel=PANEL),
]
Consensus = Annotated[
    bool,
    typer.Option(
        "--mbr",
        help="Of the --n-best candidates, or the whole beam, take the one that agrees most with the others.",
        rich_help_panel=PANEL,
    ),
]


@dataclass(frozen=True)
class Extras:
    """What was asked for."""

    document: bool
    align: bool
    pharaoh: Path | None
    protection: Protection | None
    consensus: bool

    @classmethod
    def parse(
        cls,
        *,
        document: bool,
        align: bool,
        pharaoh: Path | None,
        protect: str | None,
        patterns: Sequence[str] | None,
        consensus: bool,
        as_json: bool,
    ) -> Extras:
        """The options of the command. ConfigError: two do not go together, or one is none that there is."""
        if document and (as_json or pharaoh is not None):
            raise ConfigError("--document gives text; leave --json and --pharaoh away, or cut it into lines")
        if align and not as_json:
            raise ConfigError("--align is for --json; for a file of links say --pharaoh links.txt")
        return cls(document, align, pharaoh, _protection(protect, patterns or ()), consensus)

    @property
    def any(self) -> bool:
        """Whether there is more to do than to translate lines."""
        return self.document or self.wants_links or self.protection is not None or self.consensus

    @property
    def wants_links(self) -> bool:
        return self.align or self.pharaoh is not None

    def n_candidates(self, n_best: int, beam_size: int) -> int:
        """The alternatives to ask the search for, where `n_best` are wanted."""
        if not self.consensus:  # of several, one may hold what is protected
            return n_best if self.protection is None else max(n_best, beam_size)
        if max(n_best, beam_size) < 2:
            raise ConfigError("--mbr chooses among candidates; give a --beam-size or --n-best of 2 or more")
        return n_best if n_best > 1 else beam_size

    def translate(
        self,
        translator: Translator,
        texts: Sequence[str],
        *,
        search: Translate,
        lines: Sequence[int],
        noun: str = "line",
    ) -> list[Translation]:
        """The translations of `texts`, which stand on these `lines`; what is unusual is said on stderr.

        `noun` is what a line is called.
        """
        translate = _by_consensus(search) if self.consensus else search
        if self.protection is None:
            translations = translate(texts)
        else:
            from dragoman.predict.protection import translate_protected

            def report(i: int, outcome: Outcome) -> None:
                if outcome == "untranslated":
                    say(f"{noun} {lines[i]}: left as it is; no translation keeps what is protected in it")

            translations = translate_protected(
                translator, texts, self.protection, translate=translate, report=report
            )
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
        """The links between the words of each translation and its source."""
        from dragoman.predict.alignment import align_translations

        found = align_translations(translator, translations)
        for line, translation, links in zip(lines, translations, found, strict=True):
            if translation.text.strip() and not links:
                say(f"line {line}: is too long for the model to align its words")
        return found


def document_ending(file: str, out: Path | None, *, as_document: bool) -> str:
    """The ending of the format in which `file` is read and `out` written: ".txt" if it is none of ours.

    ConfigError: it is not to be a document, the two are of different formats, or `out` is None, stdout is a
    terminal, and the format is not for terminals.
    """
    from dragoman.data.readers.files import format_suffix

    ending = format_suffix(file)
    ending = ending if ending in DOCUMENT_ENDINGS else ".txt"
    if not as_document:
        if ending != ".txt":
            raise ConfigError(
                f"{file}: is no text of a sentence a line; say --document, and its format is kept"
            )
        return ending
    from dragoman.predict.documents.files import DocumentFile

    DocumentFile.check_ending(file, ending)
    target = format_suffix(out.name) if out is not None else ending
    if target != ending and (ending != ".txt" or target in DOCUMENT_ENDINGS):
        raise ConfigError(f"--out {out}: a document keeps its format; give a name that ends in {ending}")
    if ending == ".docx" and out is None and sys.stdout.isatty():
        raise ConfigError(f"{file}: a Word document is nothing for a terminal; give --out FILE.docx")
    return ending


def translate_document_file(
    translator: Translator, file: str, extras: Extras, search: Callable[..., list[Translation]], ending: str
) -> bytes:
    """The document `file` in the other language. `search` takes sentences, and `progress` in their number.

    DataError: it is missing, damaged or of another format than `ending` says.
    """
    from dragoman.predict.documents.files import DocumentFile

    name = "stdin" if file == "-" else file
    document = DocumentFile.read(name, read_bytes(file), translator.config.languages, ending=ending)
    extras = replace(extras, protection=document.protection(extras.protection))
    with _bar(len(document.sentences)) as progress:
        translations = extras.translate(
            translator,
            document.sentences,
            search=lambda sentences: search(sentences, progress=progress),
            lines=document.places,
            noun=document.noun,
        )
    return document.written([translation.text for translation in translations])


def read_bytes(name: str) -> bytes:
    """The whole of a file, decompressed by its suffix, or of stdin for "-". DataError: it is missing."""
    from dragoman.data.readers.files import find_file, open_bytes

    if name == "-":
        return sys.stdin.buffer.read()
    with open_bytes(find_file(name)) as file:
        return file.read()


def write_document(path: Path | None, content: bytes) -> None:
    """Writes a document to a file, whole or not at all and compressed as its name says, or to stdout."""
    if path is not None:
        from dragoman.data.readers.files import compressed
        from dragoman.files import write_atomically

        write_atomically(path, compressed(content, path.name))
    elif sys.stdout.isatty():
        from dragoman.predict.documents.plain import decoded

        sys.stdout.write(obeyed_by_nobody(decoded("output", content)[0]))
    else:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()


def link_record(link: Link) -> dict[str, Any]:
    """A link as it stands in --json: spans of characters, first and one behind the last."""
    return {
        "source": [link.source_start, link.source_end],
        "target": [link.target_start, link.target_end],
        "weight": round(link.weight, 4),
    }


def pharaoh_line(links: Sequence[Link], translation: Translation) -> str:
    """The links of a translation as a line of a file."""
    from dragoman.predict.alignment import pharaoh

    return pharaoh(links, translation.source, translation.text) + "\n"


def _by_consensus(search: Translate) -> Translate:
    from dragoman.predict.reranking import minimum_risk

    return lambda texts: [minimum_risk(translation) for translation in search(texts)]


def _protection(kinds: str | None, patterns: Sequence[str]) -> Protection | None:
    if kinds is None and not patterns:
        return None
    from dragoman.predict.protection import PATTERNS, Protection

    names = [kind.strip() for kind in (kinds or "").split(",") if kind.strip()]
    return Protection(PATTERNS if names == ["all"] else names, patterns)


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int], None]]:
    """A bar of sentences on a terminal's stderr; it never goes back where some are translated twice."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("sentences", total=total)
        most = 0

        def progress(n_done: int) -> None:
            nonlocal most
            most = max(most, n_done)
            bar.update(task, completed=most)

        yield progress
