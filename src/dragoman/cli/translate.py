"""`dragoman translate`: translate lines, files and documents."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.app import FILE_OR_STDOUT, say
from dragoman.cli.bulk import run_job
from dragoman.cli.file_translation import (
    Content,
    FileOptions,
    FileTranslation,
    encoding_of,
    plan,
    translate_document_file,
    translate_lines,
)
from dragoman.cli.options import (
    BEAM,
    BatchSentences,
    BeamSize,
    CoveragePenalty,
    Device,
    EngineName,
    Ensemble,
    LengthPenalty,
    Method,
    NoRepeatedNgram,
    Precision,
    RayAddress,
    RunPath,
    To,
    Workers,
)
from dragoman.errors import ConfigError
from dragoman.files import room_for

if TYPE_CHECKING:
    from dragoman.predict.protection import Protection

SAMPLING, CONTENT, DOCUMENTS, BULK = "Sampling", "Constraints", "Documents", "Large files"
"""Panels of the help page."""


def translate(
    run: RunPath,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Sentences, one per line, or documents; - = stdin. .gz, .xz and .zst are decompressed.",
            show_default="-",
        ),
    ] = None,
    to: To = None,
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
    method: Method = None,
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
            help="Glossary file of terms and their required translations: .tsv, .csv or .tbx.",
            rich_help_panel=CONTENT,
        ),
    ] = None,
    inflect: Annotated[
        bool,
        typer.Option(
            "--inflect",
            help="Accept inflected forms of what --glossary and --required ask for.",
            rich_help_panel=CONTENT,
        ),
    ] = False,
    document: Annotated[
        bool | None,
        typer.Option(
            "--document/--lines",
            help="Treat each line as a paragraph of several sentences, with white space and line ends; or as "
            "a sentence, whatever file it is in. Default: documents are .srt, .tmx, .docx and .html.",
            rich_help_panel=DOCUMENTS,
        ),
    ] = None,
    protect: Annotated[
        str | None,
        typer.Option(
            metavar="KIND,…",
            help="Copy these unchanged: numbers, urls, emails, tags, placeholders, or all.",
            rich_help_panel=DOCUMENTS,
        ),
    ] = None,
    protect_pattern: Annotated[
        list[str] | None,
        typer.Option(
            help="Copy matches of this regular expression unchanged; repeatable.", rich_help_panel=DOCUMENTS
        ),
    ] = None,
    align: Annotated[
        bool,
        typer.Option("--align", help="Add the word alignment to --json.", rich_help_panel=DOCUMENTS),
    ] = False,
    pharaoh: Annotated[
        Path | None,
        typer.Option(
            metavar=FILE_OR_STDOUT,
            help='Write the word alignment of each line to this file, as "0-0 1-2".',
            rich_help_panel=DOCUMENTS,
        ),
    ] = None,
    mbr: Annotated[
        bool,
        typer.Option(
            "--mbr",
            help="Minimum Bayes risk: choose the candidate (--n-best, or the whole beam) closest to the "
            "others.",
            rich_help_panel=DOCUMENTS,
        ),
    ] = False,
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
    from dragoman.bulk.job import Job
    from dragoman.bulk.output import Lines, as_line, json_line
    from dragoman.data.readers.files import find_file
    from dragoman.predict.model import translation_config
    from dragoman.predict.request import TranslationRequest
    from dragoman.runs import Run
    from dragoman.tasks.translation.task import check_precision, load_translator

    if inflect and not (glossary or required):
        raise ConfigError("--inflect is for the phrases of --glossary and --required; give one of them")
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
        more_inputs=(prefixes, required, glossary), runs=(run, *(ensemble or ())),
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
    config = config.towards(config.direction(to))
    settings = request.search(config.search)
    config.search.changed(settings, where="translate")  # complains before a model is loaded, or converted
    encodings = {work.file: encoding_of(work, encoding, config.data.src_lang) for work in works}
    for work in in_bulk:
        check_precision(precision)
        assert work.out is not None
        lines = Lines(json_line if json_ else as_line)
        job = Job(
            run, find_file(work.file), work.out, lines, settings, device, precision, skip_long,
            encodings[work.file], to=to,
        )  # fmt: skip
        with room_for(job.out):
            run_job(job, n_workers=workers, ray=ray)
    if len(in_bulk) == len(works):
        return
    content = Content(
        prefixes=prefixes, required=required, glossary=glossary, languages=config.languages, inflect=inflect
    )
    request = replace(request, glossary=content.glossary)
    extras = replace(extras, request=request)
    for remark in content.remarks:
        say(remark)
    translator = load_translator(
        run, device=device, precision=precision, ensemble=ensemble or (), engine=engine
    ).towards(to)
    for work in works:
        if work in in_bulk:
            continue
        start = time.monotonic()
        translation = FileTranslation(translator, work, encodings[work.file], content, extras)
        with room_for(work.out):
            if work.ending:
                n = translate_document_file(translation)
            else:
                n = translate_lines(translation, pharaoh=pharaoh, as_json=json_)
        if work.out is not None:
            unit = "sentences" if work.ending else "lines"
            say(f"{work.out}: {n:,} {unit} in {time.monotonic() - start:.1f} s")
    if glossary and not content.n_terms:
        say(f"{glossary}: none of its terms occurs in the text; they are looked for as whole words")


def protection_of(kinds: str | None, patterns: Sequence[str]) -> Protection | None:
    """Return what --protect and --protect-pattern ask for. ConfigError: there is no such kind."""
    if kinds is None and not patterns:
        return None
    from dragoman.predict.protection import Protection
    from dragoman.text.slots import PATTERNS

    names = [kind.strip() for kind in (kinds or "").split(",") if kind.strip()]
    return Protection(PATTERNS if names == ["all"] else names, patterns)
