"""`dragoman backtranslate`: make synthetic training pairs from monolingual text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.app import FILE_OR_STDOUT
from dragoman.cli.bulk import run_job
from dragoman.cli.options import (
    BatchSentences,
    BeamSize,
    Device,
    LengthPenalty,
    MaxRatio,
    Overrides,
    Precision,
    RayAddress,
    RunPath,
    To,
    Workers,
)
from dragoman.errors import ConfigError


def backtranslate(
    run: RunPath,
    mono: Annotated[
        str,
        typer.Argument(help="Text in RUN's source language, one sentence per line.", show_default=False),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar=FILE_OR_STDOUT,
            help="Output: translation<TAB>text per line, as .tsv, .tsv.gz, .tsv.xz or .tsv.zst.",
        ),
    ],
    to: To = None,
    tag: Annotated[str, typer.Option(help='Tag before every translation; "" = no tag.')] = "<BT>",
    max_ratio: MaxRatio = 3.0,
    method: Annotated[
        str | None, typer.Option(help="Search method: beam or sampling.", show_default="the run's")
    ] = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    batch_sentences: BatchSentences = None,
    overrides: Overrides = None,
    device: Device = "auto",
    precision: Precision = "auto",
    workers: Workers = 1,
    ray: RayAddress = None,
) -> None:
    """Make training pairs from monolingual text (back-translation).

    RUN translates MONO into the source language of a new model (Sennrich et al. 2016). Each output line is
    a training pair of the new model: a tag (Caswell et al. 2019), the synthetic source, a tab, and the real
    sentence. Empty and degenerate translations are skipped and counted. The same command continues an
    interrupted run.
    """
    from dragoman.bulk.job import Job
    from dragoman.bulk.output import SyntheticPairs
    from dragoman.config import TranslationConfig, parse_section
    from dragoman.data.readers.files import find_file
    from dragoman.predict.translator import translation_config
    from dragoman.runs import Run
    from dragoman.tasks.translation.task import check_precision

    check_precision(precision)
    if ".tsv" not in out.suffixes and out != Path("-"):
        raise ConfigError(f"--out {out}: pairs are read by their name; end it in .tsv, .tsv.gz or .tsv.zst")
    if tag != " ".join(tag.split()):
        raise ConfigError(f"--tag {tag!r}: white space would be lost; give one or several words")
    refused = [override for override in overrides or [] if not override.startswith("search.")]
    if refused:
        raise ConfigError(
            f"--set {refused[0]}: a trained run has settings of [search] only, as search.beam_size"
        )
    config = translation_config(Run.open(run))
    config.direction(to)  # complains
    settings = {"method": method, "beam_size": beam_size, "length_penalty": length_penalty,
             "batch_sentences": batch_sentences, "n_best": 1}  # fmt: skip
    configured = config.model_copy(update={"search": config.search.changed(settings, where="backtranslate")})
    where = f"translating with {run}"
    changed = parse_section(
        TranslationConfig, configured.model_dump(), overrides=overrides or (), where=where
    )
    search = changed.search.model_dump()
    job = Job(
        run, find_file(mono), out, SyntheticPairs(tag, max_ratio), search, device, precision, skip_long=True,
        to=to,
    )  # fmt: skip
    run_job(job, n_workers=workers, ray=ray)
