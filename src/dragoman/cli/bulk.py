"""Large files: `dragoman backtranslate` and `score-model`, and the progress of every such job."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli import options
from dragoman.cli.app import FILE_OR_STDOUT, INTERRUPTED, check_outputs, command_line, say
from dragoman.errors import ConfigError, counted

if TYPE_CHECKING:
    from dragoman.bulk.job import Job
    from dragoman.bulk.running import Status


def backtranslate(
    run: options.RunPath,
    mono: Annotated[str, typer.Argument(help="Text in RUN's source language, one sentence per line.")],
    out: Annotated[
        Path,
        typer.Option(
            metavar=FILE_OR_STDOUT,
            help="Output: translation<TAB>text per line, as .tsv, .tsv.gz, .tsv.xz or .tsv.zst.",
        ),
    ],
    to: options.To = None,
    tag: Annotated[str, 'Tag before every translation; "" = no tag.'] = "<BT>",
    max_ratio: options.MaxRatio = 3.0,
    method: options.Method = None,
    beam_size: options.BeamSize = None,
    length_penalty: options.LengthPenalty = None,
    batch_sentences: options.BatchSentences = None,
    overrides: options.Overrides = None,
    device: options.Device = "auto",
    precision: options.Precision = "auto",
    workers: options.Workers = 1,
    ray: options.RayAddress = None,
) -> None:
    """Make training pairs from monolingual text (back-translation).

    RUN translates MONO into the source language of a new model (Sennrich et al. 2016). Each output line is
    a training pair of the new model: a tag (Caswell et al. 2019), the synthetic source, a tab, and the real
    sentence. Empty and degenerate translations are skipped and counted. The same command continues an
    interrupted run.
    """
    from dragoman.bulk.input import Input
    from dragoman.bulk.job import Job, ModelSpec
    from dragoman.bulk.output import SyntheticPairs
    from dragoman.config import TranslationConfig, parse_section
    from dragoman.predict.flow import TranslationRequest
    from dragoman.tasks.task import check_precision

    check_precision(precision)
    if ".tsv" not in out.suffixes and out != STDOUT:
        raise ConfigError(f"--out {out}: pairs are read by their name; end it in .tsv, .tsv.gz or .tsv.zst")
    if tag != " ".join(tag.split()):
        raise ConfigError(f"--tag {tag!r}: white space would be lost; give one or several words")
    refused = [override for override in overrides or [] if not override.startswith("search.")]
    if refused:
        raise ConfigError(
            f"--set {refused[0]}: a trained run has settings of [search] only, as search.beam_size"
        )
    model = ModelSpec(run, to=to, device=device, precision=precision)
    config = model.config()
    settings = {"method": method, "beam_size": beam_size, "length_penalty": length_penalty,
                "batch_sentences": batch_sentences, "n_best": 1}  # fmt: skip
    configured = config.model_copy(update={"search": config.search.changed(settings, where="backtranslate")})
    where = f"translating with {run}"
    changed = parse_section(
        TranslationConfig, configured.model_dump(), overrides=overrides or (), where=where
    )
    request = TranslationRequest(settings=changed.search.model_dump(), n_best=changed.search.n_best)
    pairs = SyntheticPairs(tag, max_ratio)
    run_job(
        Job(model, Input.of(mono, out=out), out, pairs, request, skip_long=True), n_workers=workers, ray=ray
    )


STDOUT = Path("-")


def score_model(
    run: options.RunPath,
    files: Annotated[
        list[str],
        typer.Argument(help="Sources and their translations: two aligned files, or one file of pairs."),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar=FILE_OR_STDOUT,
            help="Output, compressed by its suffix; the same command continues after an interruption.",
        ),
    ] = STDOUT,
    mean: Annotated[bool, "Write one number per pair: the mean log-probability of its tokens."] = False,
    json_: Annotated[bool, "Write one JSON object per pair, with its tokens, not a table."] = False,
    columns: options.Columns = None,
    batch_tokens: Annotated[int, "Tokens per batch.", (1, 10**9)] = 2048,
    to: options.To = None,
    ensemble: options.Ensemble = None,
    device: options.Device = "auto",
    precision: options.Precision = "auto",
    workers: options.Workers = 1,
    ray: options.RayAddress = None,
) -> None:
    """Score given translations by the model's own probabilities (forced decoding).

    Each output line has, separated by tabs: number of the pair, log-probability in nats, perplexity per
    token, number of tokens. The end token counts. Pairs that cannot be scored, since a side is empty or too
    long, have empty cells (with --mean an empty line) and are counted. A summary goes to stderr. The corpus
    is read as a stream, of any size.
    """
    from dragoman.bulk import scoring
    from dragoman.bulk.job import ModelSpec
    from dragoman.data.corpora import DEFAULT_COLUMNS
    from dragoman.data.readers.columns import by_name
    from dragoman.tasks.task import check_precision

    check_precision(precision)
    if precision == "int8":
        raise ConfigError('--precision int8: is for search only; score translations in "fp32" or "bf16"')
    if mean and json_:
        raise ConfigError("--mean writes a number per pair; omit --json")
    write = scoring.as_json if json_ else scoring.as_mean if mean else scoring.as_row
    model = ModelSpec(run, tuple(ensemble or ()), to, device, precision)
    check_outputs(out, files=files, runs=model.runs)
    pair_columns = options.two_columns(columns)
    pairs = scoring.PairsInput.of_files(
        *files, languages=model.config().languages,
        columns=by_name(files[0], pair_columns) if pair_columns else DEFAULT_COLUMNS,
    )  # fmt: skip
    place = None if out == STDOUT else out
    if place is not None:
        deque(pairs.corpus().pairs(), maxlen=0)  # complains now rather than after hours
    job = scoring.ScoringJob(model, pairs, place, write=write, batch_tokens=batch_tokens)
    run_job(job, n_workers=workers, ray=ray)


LINE_EVERY = 30.0
"""Seconds between progress lines if stderr is not a terminal."""


def run_job(job: Job, *, n_workers: int, ray: str | None) -> Status:
    """Do a job with a progress bar; if interrupted, print the command that continues."""
    from dragoman.bulk.running import translate_file

    is_watched = job.noun == "pairs" or job.out is not None or job.input.ending is not None
    try:
        with file_progress(job.noun) if is_watched else nullcontext(lambda status: None) as show:
            summary = translate_file(job, n_workers=n_workers, ray=ray, watch=show, say=say)
    except KeyboardInterrupt as error:
        if not job.has_journal:
            raise
        say(f"to continue: {command_line()}")
        raise typer.Exit(INTERRUPTED) from error
    for line in describe_summary(summary, job):
        say(line)
    return summary


def describe_summary(summary: Status, job: Job) -> list[str]:
    """Describe a finished job: lines, speed, and skipped lines by reason."""
    remarks = job.remarks(summary.counts, n_lines=summary.n_lines)
    if job.out is None:
        return remarks
    if not job.has_journal:
        unit = "lines" if job.input.ending is None else "sentences"
        return [f"{job.out}: {summary.n_lines:,} {unit} in {summary.seconds:.1f} s", *remarks]
    speed = summary.n_new / max(summary.seconds, 1e-9)
    return [
        f"{job.out}: {counted(summary.n_lines, 'line')}"
        + (f", {summary.n_earlier:,} of them earlier" if summary.n_earlier else "")
        + f"; {summary.n_new:,} in {summary.seconds:.1f} s, {speed:.1f} {job.noun}/s with loading",
        *remarks,
    ]


@contextmanager
def file_progress(noun: str) -> Iterator[Callable[[Status], None]]:
    """Show the progress of a file: a bar on a terminal, otherwise a line on stderr every 30 s.

    `noun` is the unit of the speed, such as "sentences".
    """
    from rich.progress import BarColumn, Progress, TextColumn

    from dragoman.cli.console import Console

    console = Console(stderr=True)
    columns = (BarColumn(), TextColumn("{task.description}"))
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal, redirect_stdout=False
    ) as bar:
        task, told = bar.add_task("loading", total=1.0), time.monotonic()

        def show(status: Status) -> None:
            nonlocal told
            line = describe_status(status, noun)
            bar.update(task, completed=status.share, description=line)
            if not console.is_terminal and time.monotonic() - told >= LINE_EVERY:
                say(line)
                told = time.monotonic()

        yield show


def describe_status(status: Status, noun: str = "sentences") -> str:
    """Describe progress: share of the input read, lines, speed and time left."""
    seconds = status.seconds_left
    return " · ".join(
        [
            *([f"{100 * status.share:.1f} % read"] if status.share else []),
            f"{counted(status.n_lines, 'line')}",
            f"{status.lines_per_second:.1f} {noun}/s",
            *([] if seconds is None else [f"{duration(seconds)} left"]),
        ]
    )


def duration(seconds: float) -> str:
    """Format a duration: "42 s", "3 min", "5.2 h", "2.1 days"."""
    for unit, length, form in (("days", 86400, ".1f"), ("h", 3600, ".1f"), ("min", 60, ".0f")):
        if seconds >= 1.5 * length:
            return f"{seconds / length:{form}} {unit}"
    return f"{seconds:.0f} s"
