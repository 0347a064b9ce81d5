"""`dragoman translate`: translate lines, files and documents. `dragoman classify`: classify texts."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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

SEARCH_SETTINGS = (
    "method", "beam_size", "length_penalty", "coverage_penalty", "no_repeat_ngram", "diversity_groups",
    "diversity_penalty", "temperature", "top_k", "top_p", "seed", "batch_sentences",
)  # fmt: skip
"""Options that change a setting of [search] by the same name."""


@dataclass(frozen=True, kw_only=True)
class TranslateCommand:
    """The options of `dragoman translate`, in the order of its help."""

    to: options.To = None
    out: Annotated[
        Path | None,
        typer.Option(
            metavar=FILE_OR_STDOUT,
            help="Write to this file, not to stdout; .gz, .xz and .zst are compressed.",
        ),
    ] = None
    out_dir: Annotated[Path | None, "Write the translation of each FILE to DIR/FILE."] = None
    encoding: Annotated[
        str | None,
        "Encoding of the input, such as cp1252; the output is UTF-8. "
        "[default: UTF-8, else the Windows code page of the language, with a note]",
    ] = None
    json: Annotated[bool, "Write one JSON object per line: source, translation, score, alternatives."] = False
    n_best: Annotated[int, "Number of alternatives (or samples) in --json, best first.", (1, None)] = 1
    ensemble: options.Ensemble = None
    batch_sentences: options.BatchSentences = None
    device: options.Device = "auto"
    precision: options.Precision = "auto"
    method: options.Method = None
    no_repeat_ngram: options.NoRepeatedNgram = None
    beam_size: options.BeamSize = None
    length_penalty: options.LengthPenalty = None
    coverage_penalty: options.CoveragePenalty = None
    diversity_groups: Annotated[int | None, "Groups of diverse beam search.", (1, None)] = None
    diversity_penalty: Annotated[
        float | None, "Penalty in nats for a token of an earlier group.", (0.0, None)
    ] = None
    temperature: Annotated[float | None, "Sampling temperature; below 1 = less random."] = None
    top_k: Annotated[int | None, "Sample from the k most likely tokens; 0 = all.", (0, None)] = None
    top_p: Annotated[float | None, "Sample from the most likely tokens with this total probability."] = None
    seed: Annotated[int | None, "Random seed of the samples.", (0, None)] = None
    glossary: Annotated[
        str | None, "Glossary file of terms and their required translations: .tsv, .csv or .tbx."
    ] = None
    inflect: Annotated[bool, "Accept inflected forms of what --glossary asks for."] = False
    document: Annotated[
        bool | None,
        "Treat each line as a paragraph of several sentences, with white space and line ends; or as "
        "a sentence, whatever file it is in. Default: documents are .srt, .tmx, .docx and .html.",
    ] = None
    protect: Annotated[
        str | None, "Copy these unchanged: numbers, urls, emails, tags, placeholders, or all."
    ] = None
    protect_pattern: Annotated[
        Sequence[str], "Copy matches of this regular expression unchanged; repeatable."
    ] = ()
    align: Annotated[bool, "Add the word alignment to --json."] = False
    pharaoh: Annotated[Path | None, 'Write the word alignment of each line to this file, as "0-0 1-2".'] = (
        None
    )
    workers: options.Workers = 1
    ray: options.RayAddress = None
    skip_long: Annotated[
        bool, "Skip lines that are too long for the model: write empty lines and count them."
    ] = False

    def search(self) -> dict[str, Any]:
        """Return the settings of [search] by name; None: as the run has them."""
        return {name: getattr(self, name) for name in SEARCH_SETTINGS}

    def protection(self) -> Protection | None:
        """Return what is to be copied. ConfigError: there is no such kind."""
        if self.protect is None and not self.protect_pattern:
            return None
        from dragoman.predict.protection import Protection
        from dragoman.text.slots import PATTERNS

        names = [kind.strip() for kind in (self.protect or "").split(",") if kind.strip()]
        return Protection(PATTERNS if names == ["all"] else names, self.protect_pattern)


@options.with_options_of(TranslateCommand)
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
    *,
    fields: dict[str, Any],
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

    command = TranslateCommand(**fields)
    glossary, pharaoh = command.glossary, command.pharaoh
    if command.n_best > 1 and not command.json:
        raise ConfigError("--n-best is for --json; without it a line has one translation")
    if command.align and not command.json:
        raise ConfigError("--align is for --json; for a file of links say --pharaoh links.txt")
    if command.inflect and not glossary:
        raise ConfigError("--inflect is for the terms of --glossary; give one")
    model = ModelSpec(run, tuple(command.ensemble or ()), command.to, command.device, command.precision)
    config, out = model.config(), None if command.out == Path("-") else command.out
    request = TranslationRequest(
        settings=command.search(), n_best=command.n_best, protection=command.protection()
    )
    # 1. What each file is, and where its translation goes: all is refused before anything is loaded.
    jobs = []
    for name, place in outputs_of(files or ["-"], out, command.out_dir):
        source = Input.of(name, out=place, as_document=command.document, languages=config.languages)
        write = as_sentence if source.ending else json_line if command.json else as_line
        job = Job(model, source, place, write, request, command.skip_long, command.align, pharaoh)
        check_document(job, as_json=command.json)
        jobs.append(job)
    if len(jobs) > 1 and pharaoh:
        raise ConfigError("--pharaoh has a line for each of one FILE")
    check_outputs(
        *(job.out for job in jobs), *filter(None, [pharaoh]),
        files=[glossary, *(path for job in jobs for path in job.input.files)], runs=model.runs,
    )  # fmt: skip
    check_folders(out, pharaoh)
    config.search.changed(request.search(config.search), where="translate")
    check_precision(command.precision)
    # 2. Encodings and terms, which take a look into the files.
    inputs = [job.input.encoded(command.encoding, config.languages[0]) for job in jobs]
    for source in inputs:
        if command.encoding is None and source.encoding != "utf-8":
            read_as = f"read as {source.encoding} and written as UTF-8 (--encoding says otherwise)"
            say(f"{source.name}: is not UTF-8; {read_as}")
    if glossary is not None:
        terms = Glossary.load(glossary, config.languages, inflect=command.inflect)
        request = replace(request, glossary=terms)
        for remark in terms.remarks:
            say(remark)
    # 3. One job after another: workers share the machine, and each file is whole before the next.
    n_chunks_with_terms = 0
    for job, source in zip(jobs, inputs, strict=True):
        with room_for(job.out):
            job_with_terms = replace(job, input=source, request=request)
            status = run_job(job_with_terms, n_workers=command.workers, ray=command.ray)
            n_chunks_with_terms += status.counts.get(TERMS, 0)
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
    """ConfigError: the job is not possible for a document."""
    is_document = job.input.ending is not None
    if is_document and (as_json or job.pharaoh is not None):
        raise ConfigError("--json and --pharaoh are for lines, not for documents; omit them")
    if is_document and job.skip_long:
        raise ConfigError("--skip-long is for lines; a document needs all of its sentences; omit it")


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
    json_: Annotated[bool, "Write one JSON object per line: text, labels, label probabilities."] = False,
    top: Annotated[
        int | None,
        "Number of labels per line, most likely first. [default: 1; all with --json]",
        (1, 1_000_000),
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
