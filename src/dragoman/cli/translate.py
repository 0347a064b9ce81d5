"""`dragoman translate`: translate lines, files and documents."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from dragoman.cli.app import FILE_OR_STDOUT, say
from dragoman.cli.bulk import RayAddress, Workers, run_job
from dragoman.cli.content import Content
from dragoman.cli.translating import (
    Align,
    AsDocument,
    Consensus,
    FileOptions,
    Pharaoh,
    Protect,
    ProtectPattern,
    Work,
    encoding_of,
    link_record,
    pharaoh_line,
    plan,
    protection_of,
    stream_blocks,
    translate_document_file,
)
from dragoman.errors import ConfigError, DataError, escape_control_characters
from dragoman.files import room_for

if TYPE_CHECKING:
    from dragoman.bulk.job import Job
    from dragoman.predict.alignment import Link
    from dragoman.predict.translator import Translation, Translator

CHUNK = 1000
"""Lines of a file that are translated together; output starts after the first chunk."""

BEAM, SAMPLING, CONTENT = "Beam search", "Sampling", "Constraints"
BULK = "Large files"

RunPath = Annotated[Path, typer.Argument(help="Run folder, or hf:user/model.", show_default=False)]
BeamSize = Annotated[
    int | None,
    typer.Option(min=1, help="Beam size; 1 = greedy.", show_default="the run's", rich_help_panel=BEAM),
]
LengthPenalty = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        help="Length penalty; 0 favours short translations.",
        show_default="the run's",
        rich_help_panel=BEAM,
    ),
]
CoveragePenalty = Annotated[
    float | None,
    typer.Option(min=0.0, help="Penalty for source tokens without attention.", rich_help_panel=BEAM),
]
NoRepeatedNgram = Annotated[
    int | None, typer.Option(min=0, help="Block repeated n-grams of this size; 0 = off.")
]
EngineName = Annotated[str, typer.Option(help="Inference engine: native or ctranslate2.")]
BatchSentences = Annotated[
    int | None, typer.Option(min=1, help="Sentences per batch.", show_default="the run's")
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")]
Precision = Annotated[str, typer.Option(help="fp32, bf16 or int8; auto = chosen for the device.")]
Ensemble = Annotated[
    list[Path] | None,
    typer.Option(help="Add a run with the same vocabulary to an ensemble; repeatable."),
]


def register(app: typer.Typer) -> None:
    app.command()(translate)


def translate(
    run: RunPath,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE ...]",
            help="Sentences, one per line, or documents; - = stdin. .gz, .xz and .zst are decompressed.",
            show_default="-",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar=FILE_OR_STDOUT,
            help="Write to this file, not to stdout; .gz, .xz and .zst are compressed.",
        ),
    ] = None,
    out_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the translation of each FILE to DIR/FILE.")
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option(
            help="Encoding of the input, such as cp1252; the output is UTF-8.",
            show_default="UTF-8, else the Windows code page of the language, with a note",
        ),
    ] = None,
    json_: Annotated[
        bool,
        typer.Option(
            "--json", help="Write one JSON object per line: source, translation, score, alternatives."
        ),
    ] = False,
    n_best: Annotated[
        int, typer.Option(min=1, help="Number of alternatives (or samples) in --json, best first.")
    ] = 1,
    ensemble: Ensemble = None,
    batch_sentences: BatchSentences = None,
    device: Device = "auto",
    precision: Precision = "auto",
    engine: EngineName = "native",
    method: Annotated[
        str | None, typer.Option(help="Search method: beam or sampling.", show_default="the run's")
    ] = None,
    no_repeat_ngram: NoRepeatedNgram = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    coverage_penalty: CoveragePenalty = None,
    diversity_groups: Annotated[
        int | None, typer.Option(min=1, help="Groups of diverse beam search.", rich_help_panel=BEAM)
    ] = None,
    diversity_penalty: Annotated[
        float | None,
        typer.Option(min=0.0, help="Penalty in nats for a token of an earlier group.", rich_help_panel=BEAM),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(help="Sampling temperature; below 1 = less random.", rich_help_panel=SAMPLING),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(min=0, help="Sample from the k most likely tokens; 0 = all.", rich_help_panel=SAMPLING),
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(
            help="Sample from the most likely tokens with this total probability.", rich_help_panel=SAMPLING
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Random seed of the samples.", rich_help_panel=SAMPLING)
    ] = None,
    prefixes: Annotated[
        str | None,
        typer.Option(help="File with a target prefix for each line.", rich_help_panel=CONTENT),
    ] = None,
    required: Annotated[
        str | None,
        typer.Option(
            help="File with the required phrases of each line, separated by tabs.", rich_help_panel=CONTENT
        ),
    ] = None,
    glossary: Annotated[
        str | None,
        typer.Option(
            help="Glossary file: source phrase, tab, required translation.", rich_help_panel=CONTENT
        ),
    ] = None,
    document: AsDocument = False,
    protect: Protect = None,
    protect_pattern: ProtectPattern = None,
    align: Align = False,
    pharaoh: Pharaoh = None,
    mbr: Consensus = False,
    workers: Workers = 1,
    ray: RayAddress = None,
    skip_long: Annotated[
        bool,
        typer.Option(
            "--skip-long",
            help="Skip lines that are too long for the model: write empty lines and count them.",
            rich_help_panel=BULK,
        ),
    ] = False,
) -> None:
    """Translate sentences: one line in, one line out.

    Empty lines stay empty. Lines from a pipe are translated as they arrive. With --out, a file may be of any
    size, and the same command continues an interrupted translation. A line with more tokens than the model
    accepts is split and translated in parts.

    Subtitles (.srt), translation memories (.tmx), Word documents (.docx) and web pages (.html) keep their
    format. With --document, a line of plain text may hold several sentences. Search options default to the
    run's [search] settings.
    """
    from dragoman.predict.request import TranslationRequest
    from dragoman.predict.translator import translation_config
    from dragoman.runs import Run
    from dragoman.tasks.translation.task import load_translator

    if n_best > 1 and not (json_ or mbr):
        raise ConfigError("--n-best is for --json and --mbr; without them a line has one translation")
    request = TranslationRequest(
        settings={
            "method": method, "beam_size": beam_size, "length_penalty": length_penalty,
            "coverage_penalty": coverage_penalty, "no_repeat_ngram": no_repeat_ngram,
            "diversity_groups": diversity_groups, "diversity_penalty": diversity_penalty,
            "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed,
            "batch_sentences": batch_sentences,
        },
        n_best=n_best,
        protection=protection_of(protect, protect_pattern or ()),
        consensus=mbr,
    )  # fmt: skip
    works = plan(
        files or ["-"], out=out, out_dir=out_dir, links=pharaoh, as_document=document,
        others=(prefixes, required, glossary), runs=(run, *(ensemble or ())),
    )  # fmt: skip
    extras = FileOptions.parse(
        request, document=any(work.ending for work in works), align=align, pharaoh=pharaoh, as_json=json_
    )
    if (prefixes or required) and (extras.document or request.protection):
        raise ConfigError(
            "--prefixes and --required are for lines as they are: not with documents or --protect"
        )
    if (prefixes or required or pharaoh) and len(works) > 1:
        raise ConfigError("--prefixes, --required and --pharaoh have a line for each of one FILE")
    special = prefixes or required or glossary or ensemble or engine != "native" or extras.changes_lines
    in_bulk = [w for w in works if w.out and w.file != "-" and not w.ending and not special]
    if len(in_bulk) < len(works) and (workers > 1 or ray is not None or skip_long):
        raise ConfigError(
            "--workers, --ray and --skip-long are for a file and --out FILE, without --engine, --ensemble, "
            "and options for documents or constraints"
        )
    config = translation_config(Run.open(run))
    settings = request.search(config.search)
    config.search.changed(settings, where="translate")  # complains before a model is loaded, or converted
    encodings = {work.file: encoding_of(work, encoding, config.data.src_lang) for work in works}
    for work in in_bulk:
        job = bulk_job(
            run, work, settings, encoding=encodings[work.file], as_json=json_, device=device,
            precision=precision, skip_long=skip_long,
        )  # fmt: skip
        with room_for(job.out):
            run_job(job, n_workers=workers, ray=ray)
    if len(in_bulk) == len(works):
        return
    content = Content(prefixes=prefixes, required=required, glossary=glossary)
    translator = load_translator(
        run, device=device, precision=precision, ensemble=ensemble or (), engine=engine
    )
    for work in works:
        if work in in_bulk:
            continue
        start = time.monotonic()
        translation = FileTranslation(translator, work, encodings[work.file], settings, content, extras)
        with room_for(work.out):
            if work.ending:
                n = translate_document_file(
                    translator, work, extras, translation.search, encoding=translation.encoding
                )
            else:
                n = translate_lines(
                    translation, pharaoh=pharaoh, alternatives=n_best if json_ else None, align=align
                )
        if work.out is not None:
            unit = "sentences" if work.ending else "lines"
            say(f"{work.out}: {n:,} {unit} in {time.monotonic() - start:.1f} s")


class FileTranslation(NamedTuple):
    """A translator with the file, settings and constraints of one translation."""

    translator: Translator
    work: Work
    encoding: str
    settings: dict[str, Any]
    content: Content
    extras: FileOptions

    def search(
        self, texts: Sequence[str], *, first_number: int = 1, progress: Callable[[int], None] | None = None
    ) -> list[Translation]:
        """Translate the next texts of the file. DataError: as `Translator.translate`, with its name."""
        said = self.content.take(texts)
        try:
            return self.translator.translate(
                texts, **said, first_number=first_number, progress=progress, **self.settings
            )
        except DataError as error:
            name = "stdin" if self.work.file == "-" else self.work.file
            raise DataError(f"{name}: {error}") from None


def translate_lines(
    job: FileTranslation, *, pharaoh: Path | None, alternatives: int | None, align: bool
) -> int:
    """Translate a file line by line and return the number of lines.

    Lines for stdout are written as they are translated; files are written at the end. With `alternatives`,
    each line is a JSON object with up to that number of alternatives.
    """
    extras, (file, out, _), encoding = job.extras, job.work, job.encoding
    written: list[str] = []
    aligned: list[str] = []
    n_lines = 0
    for chunk in stream_chunks(file, encoding) if job.work.comes_once else file_chunks(file, encoding):
        numbers = range(n_lines + 1, n_lines + 1 + len(chunk))
        n_lines += len(chunk)
        search = partial(job.search, first_number=numbers[0])
        translations = extras.translate(job.translator, chunk, search=search, lines=numbers)
        if extras.wants_links:
            links = extras.links(job.translator, translations, lines=numbers)
            aligned += [pharaoh_line(*pair) for pair in zip(links, translations, strict=True)]
        if alternatives is not None:
            shown = [t._replace(alternatives=t.alternatives[:alternatives]) for t in translations]
            each = links if align else [None] * len(shown)
            written += [f"{json_line(t, found)}\n" for t, found in zip(shown, each, strict=True)]
        else:
            written += [f"{as_line(t)}\n" for t in translations]
        if out is None:
            write_results(None, written)
            written.clear()
    job.content.close(n_lines)
    if out is not None:
        write_results(out, written)
    if pharaoh is not None:
        write_results(pharaoh, aligned)
    return n_lines


def write_results(path: Path | None, pieces: Sequence[str]) -> None:
    """Write text to stdout, or atomically to a file that is compressed according to its suffix."""
    if path is None:
        text = "".join(pieces)
        sys.stdout.write(escape_control_characters(text) if sys.stdout.isatty() else text)
        sys.stdout.flush()
    else:
        from dragoman.data.readers.files import compressed
        from dragoman.files import write_atomically

        write_atomically(path, compressed("".join(pieces).encode(), path.name))


def bulk_job(
    run: Path,
    work: Work,
    settings: Mapping[str, Any],
    *,
    encoding: str,
    as_json: bool,
    device: str,
    precision: str,
    skip_long: bool,
) -> Job:
    """Describe the chunked translation of a file.

    Raises:
        ConfigError: unknown precision.
        DataError: the file does not exist.
    """
    from dragoman.bulk.job import Job
    from dragoman.bulk.output import Lines
    from dragoman.data.readers.files import find_file
    from dragoman.tasks.translation.task import check_precision

    check_precision(precision)
    write = json_line if as_json else as_line
    overrides = search_overrides(**settings)
    assert work.out is not None
    source = find_file(work.file)
    return Job(run, source, work.out, Lines(write), overrides, device, precision, skip_long, encoding)


def search_overrides(**settings: float | str | None) -> tuple[str, ...]:
    """Settings of [search] as configuration overrides; settings that are None are omitted."""
    return tuple(f"search.{name}={value}" for name, value in settings.items() if value is not None)


def as_line(translation: Translation) -> str:
    """The text of a translation."""
    return translation.text


def json_line(translation: Translation, links: Sequence[Link] | None = None) -> str:
    """A translation as one line of JSON, with its word alignment if `links` are given."""
    record: dict[str, Any] = {
        "source": translation.source,
        "translation": translation.text,
        "score": translation.score,
        "alternatives": [{"translation": a.text, "score": a.score} for a in translation.alternatives],
    }
    if links is not None:
        record["alignment"] = [link_record(link) for link in links]
    return json.dumps(record, ensure_ascii=False)


def file_chunks(name: str, encoding: str = "utf-8") -> Iterator[list[str]]:
    """Read a file in chunks of lines, so that sentences of similar length can share a batch.

    Raises:
        DataError: the file is missing, or not in this encoding.
    """
    from dragoman.data.readers.files import find_file, open_lines

    lines = open_lines(find_file(name), encoding=encoding)
    while chunk := list(islice(lines, CHUNK)):
        yield chunk


def stream_chunks(name: str, encoding: str = "utf-8") -> Iterator[list[str]]:
    """Read a pipe or stdin ("-") in chunks: the lines that have arrived so far.

    Raises:
        DataError: a line is not in this encoding, or the stream cannot be read.
    """
    blocks = stream_blocks(name, invitation="type a sentence")
    return line_chunks(blocks, name="stdin" if name == "-" else name, encoding=encoding)


def line_chunks(blocks: Iterable[bytes], *, name: str, encoding: str = "utf-8") -> Iterator[list[str]]:
    """Split blocks of bytes into lines; yield those that each block completes.

    Only "\\n" ends a line. The lines have no "\\n" or "\\r\\n".
    """
    from dragoman.data.readers.files import longest_line, too_long

    n_lines, unfinished, most = 0, b"", longest_line()
    for block in blocks:
        *lines, last = block.split(b"\n")
        unfinished = unfinished + lines[0] if lines else unfinished + last
        if len(unfinished) > most + 1:  # with "\r"
            raise too_long(f"{name}, line {n_lines + 1}", most)
        if lines:
            yield _decode([unfinished, *lines[1:]], name=name, encoding=encoding, n_before=n_lines)
            n_lines, unfinished = n_lines + len(lines), last
    if unfinished:
        yield _decode([unfinished], name=name, encoding=encoding, n_before=n_lines)


def _decode(lines: list[bytes], *, name: str, encoding: str, n_before: int) -> list[str]:
    """Decode lines, without the byte order mark of the first one."""
    from dragoman.data.readers.files import longest_line, too_long

    texts, most = [], longest_line()
    for number, line in enumerate(lines, start=n_before + 1):
        content = line.removesuffix(b"\r")
        if len(content) > most:
            raise too_long(f"{name}, line {number}", most)
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}, line {number}: is not {encoding.upper()} (byte {error.start + 1}); convert it, or "
                "say how it is encoded, as in --encoding cp1252"
            ) from None
        texts.append(text.removeprefix("\ufeff") if number == 1 else text)
    return texts
