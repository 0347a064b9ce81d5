"""`dragoman translate`: translate lines, files and documents. `dragoman classify`: classify texts."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli import options
from dragoman.cli.app import FILE_OR_STDOUT, check_folders, check_outputs, say
from dragoman.cli.bulk import run_job
from dragoman.errors import ConfigError
from dragoman.files import room_for

if TYPE_CHECKING:
    from dragoman.bulk.job import Job
    from dragoman.predict.classifier import Classification
    from dragoman.predict.protection import Protection

BEAM, SAMPLING, CONTENT, DOCUMENTS, BULK = options.BEAM, "Sampling", "Constraints", "Documents", "Large files"
"""Panels of the help page."""


def translate(
    run: options.RunPath,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Sentences, one per line, or documents; - = stdin. .gz, .xz and .zst are decompressed.",
            show_default="-",
        ),
    ] = None,
    to: options.To = None,
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
    ensemble: options.Ensemble = None,
    batch_sentences: options.BatchSentences = None,
    device: options.Device = "auto",
    precision: options.Precision = "auto",
    engine: options.EngineName = "native",
    method: options.Method = None,
    no_repeat_ngram: options.NoRepeatedNgram = None,
    beam_size: options.BeamSize = None,
    length_penalty: options.LengthPenalty = None,
    coverage_penalty: options.CoveragePenalty = None,
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
        str | None, typer.Option(help="File with a target prefix for each line.", rich_help_panel=CONTENT)
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
        bool, typer.Option("--align", help="Add the word alignment to --json.", rich_help_panel=DOCUMENTS)
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
    workers: options.Workers = 1,
    ray: options.RayAddress = None,
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
    from dragoman.bulk.input import Input
    from dragoman.bulk.job import TERMS, Job, ModelSpec
    from dragoman.bulk.output import as_line, as_sentence, json_line
    from dragoman.predict.flow import TranslationRequest
    from dragoman.predict.glossary import Glossary
    from dragoman.tasks.task import check_precision

    if n_best > 1 and not (json_ or mbr):
        raise ConfigError("--n-best is for --json and --mbr; without them a line has one translation")
    if align and not json_:
        raise ConfigError("--align is for --json; for a file of links say --pharaoh links.txt")
    if inflect and not (glossary or required):
        raise ConfigError("--inflect is for the phrases of --glossary and --required; give one of them")
    model = ModelSpec(run, tuple(ensemble or ()), to, device, precision, engine)
    config, out = model.config(), None if out == Path("-") else out
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
    jobs = []
    for name, place in outputs_of(files or ["-"], out, out_dir):
        source = Input.of(
            name, out=place, as_document=document, languages=config.languages, prefixes=prefixes,
            required=required,
        )  # fmt: skip
        write = as_sentence if source.ending else json_line if json_ else as_line
        jobs.append(Job(model, source, place, write, request, skip_long, inflect, align, pharaoh))
        check_document(jobs[-1], as_json=json_)
    if len(jobs) > 1 and (prefixes or required or pharaoh):
        raise ConfigError("--prefixes, --required and --pharaoh have a line for each of one FILE")
    check_outputs(
        *(job.out for job in jobs), *filter(None, [pharaoh]),
        files=[glossary, *(path for job in jobs for path in job.input.files)], runs=model.runs,
    )  # fmt: skip
    check_folders(out, pharaoh)
    config.search.changed(request.search(config.search), where="translate")  # complains before the loading
    if engine == "native":
        check_precision(precision)
    inputs = [job.input.encoded(encoding, config.languages[0]) for job in jobs]
    for source in inputs:
        if encoding is None and source.encoding != "utf-8":
            read_as = f"read as {source.encoding} and written as UTF-8 (--encoding says otherwise)"
            say(f"{source.name}: is not UTF-8; {read_as}")
    if glossary is not None:
        terms = Glossary.load(glossary, config.languages, inflect=inflect)
        request = replace(request, glossary=terms)
        for remark in terms.remarks:
            say(remark)
    n_chunks_with_terms = 0
    for job, source in zip(jobs, inputs, strict=True):
        with room_for(job.out):
            summary = run_job(replace(job, input=source, request=request), n_workers=workers, ray=ray)
            n_chunks_with_terms += summary.counts.get(TERMS, 0)
    if glossary and not n_chunks_with_terms:
        say(f"{glossary}: none of its terms occurs in the text; they are looked for as whole words")


def outputs_of(files: list[str], out: Path | None, out_dir: Path | None) -> list[tuple[str, Path | None]]:
    """Pair each input file with its output. ConfigError: options conflict."""
    if out is not None and out_dir is not None:
        raise ConfigError("--out is one file, --out-dir the folder of several; give one of them")
    if out_dir is None:
        if len(files) > 1:
            raise ConfigError("several files need --out-dir DIR; each translation has its file's name there")
        return [(files[0], out)]
    if "-" in files:
        raise ConfigError("--out-dir is for files, whose names the translations have; stdin has none")
    if os.path.lexists(out_dir) and not out_dir.is_dir():
        raise ConfigError(f"--out-dir {out_dir}: is not a folder; name another place")
    return [(file, out_dir / Path(file).name) for file in files]


def check_document(job: Job, *, as_json: bool) -> None:
    """ConfigError: the job is not possible for a document, or for protected text."""
    is_document = job.input.ending is not None
    if is_document and (as_json or job.pharaoh is not None):
        raise ConfigError("--json and --pharaoh are for lines, not for documents; omit them")
    if is_document and job.skip_long:
        raise ConfigError("--skip-long is for lines; a document needs all of its sentences; omit it")
    if job.input.beside and (is_document or job.request.protection):
        raise ConfigError(
            "--prefixes and --required are for lines as they are: not with documents or --protect"
        )


def protection_of(kinds: str | None, patterns: Sequence[str]) -> Protection | None:
    """Return what --protect and --protect-pattern ask for. ConfigError: there is no such kind."""
    if kinds is None and not patterns:
        return None
    from dragoman.predict.protection import Protection
    from dragoman.text.slots import PATTERNS

    names = [kind.strip() for kind in (kinds or "").split(",") if kind.strip()]
    return Protection(PATTERNS if names == ["all"] else names, patterns)


def classify(
    run: options.RunPath,
    file: Annotated[
        str, typer.Argument(help="Texts, one per line; - = stdin. .gz, .xz and .zst are decompressed.")
    ] = "-",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar=FILE_OR_STDOUT,
            help="Write to this file at the end, not to stdout; .gz, .xz and .zst are compressed.",
        ),
    ] = None,
    json_: Annotated[
        bool,
        typer.Option("--json", help="Write one JSON object per line: text, labels, label probabilities."),
    ] = False,
    top: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1_000_000,
            help="Number of labels per line, most likely first.",
            show_default="1; all with --json",
        ),
    ] = None,
    device: options.Device = "auto",
    precision: options.Precision = "auto",
) -> None:
    """Classify texts: one line in, one line out.

    Each output line is: label, tab, probability. Several labels of a text, and their probabilities, have
    the separator of the training file between them. Texts may have any length. Empty lines stay empty.
    Lines from a pipe are classified as they arrive.
    """
    from dragoman.bulk.input import AS_THEY_COME, SOON, Input
    from dragoman.bulk.output import write_output
    from dragoman.tasks.classification.evaluation import load_classifier

    out = None if out == Path("-") else out
    texts = Input.of(file, out=out)
    check_outputs(out, files=texts.files, runs=[run])
    check_folders(out)
    classifier = load_classifier(run, device=device, precision=precision)
    separator = classifier.labelling.separator
    lines: list[str] = []
    n_texts = n_cut_texts = n_cut_tokens = 0
    for chunk in texts.chunks(chunk_lines=AS_THEY_COME if texts.is_stream else SOON):
        results = classifier.classify(chunk.lines)
        n_texts += len(results)
        n_cut_texts += sum(c.n_cut > 0 for c in results)
        n_cut_tokens += sum(c.n_cut for c in results)
        lines += [f"{label_json(c, top) if json_ else label_line(c, top, separator)}\n" for c in results]
        if out is None:
            write_output(None, "".join(lines))
            lines.clear()
    if out is not None:
        write_output(out, "".join(lines))
        say(f"{out}: {n_texts:,} texts")
    if n_cut_texts:
        say(f"cut {n_cut_tokens:,} tokens off {n_cut_texts:,} of {n_texts:,} texts (data.max_windows)")


def label_line(classification: Classification, top: int | None, separator: str) -> str:
    """Return the labels given, joined, and their probabilities; or the `top` labels, separated by tabs.

    An empty line for an empty text.
    """
    likely = classification.probabilities
    if not likely:
        return ""
    if top is None:
        shares = (f"{likely[label]:.4f}" for label in classification.labels)
        return f"{separator.join(classification.labels)}\t{separator.join(shares)}"
    return "\t".join(f"{label}\t{likely[label]:.4f}" for label in list(likely)[:top])


def label_json(classification: Classification, top: int | None) -> str:
    """Return a classification as one line of JSON; the label of an empty text is null."""
    likely = list(classification.probabilities.items())[:top]
    record = {
        "text": classification.text,
        "label": classification.label or None,
        "labels": list(classification.labels),
        "probabilities": dict(likely),
        "n_cut": classification.n_cut,
    }
    return json.dumps(record, ensure_ascii=False)
