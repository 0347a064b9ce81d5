"""`dragoman backtranslate`: pairs for training, out of text in one language."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.app import FILE_OR_STDOUT, finite
from dragoman.cli.bulk import RayAddress, Workers, carry_out
from dragoman.cli.train import Overrides
from dragoman.cli.translate import (
    BatchSentences,
    BeamSize,
    Device,
    LengthPenalty,
    Precision,
    RunPath,
    check_precision,
    search_overrides,
)
from dragoman.errors import ConfigError


def register(app: typer.Typer) -> None:
    app.command()(backtranslate)


def backtranslate(
    run: RunPath,
    mono: Annotated[
        str,
        typer.Argument(help="Text in the language that RUN reads, a sentence a line.", show_default=False),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar=FILE_OR_STDOUT,
            help="The pairs: translation<TAB>text a line, as .tsv, .tsv.gz, .tsv.xz or .tsv.zst.",
        ),
    ],
    tag: Annotated[str, typer.Option(help='Stands before every translation; "" for none.')] = "<BT>",
    max_ratio: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=1e6,
            callback=finite,
            help="Leave out pairs of more unequal lengths, in tokens; 0: none.",
        ),
    ] = 3.0,
    method: Annotated[
        str | None, typer.Option(help="How to search, as in sampling.", show_default="the run's")
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
    """Make training pairs of text in one language: back-translation (Sennrich et al. 2016).

    RUN translates from the language of the text, MONO, into the one that a new model is to read. What is
    written is the new model's text: a made-up source with a tag before it (Caswell et al. 2019), a tab, and
    the real sentence. Empty and degenerate translations are left out and counted. The same command
    continues after a kill.
    """
    from dragoman.bulk.job import Job
    from dragoman.bulk.output import SyntheticPairs
    from dragoman.data.readers.files import find_file

    check_precision(precision)
    if ".tsv" not in out.suffixes and out != Path("-"):
        raise ConfigError(f"--out {out}: pairs are read by their name; end it in .tsv, .tsv.gz or .tsv.zst")
    if tag != " ".join(tag.split()):
        raise ConfigError(f"--tag {tag!r}: white space would be lost; give one or several words")
    others = [override for override in overrides or [] if not override.startswith("search.")]
    if others:
        raise ConfigError(
            f"--set {others[0]}: a trained run has settings of [search] only, as search.beam_size"
        )
    given = search_overrides(
        method=method,
        beam_size=beam_size,
        length_penalty=length_penalty,
        batch_sentences=batch_sentences,
        n_best=1,
    )
    output = SyntheticPairs(tag, max_ratio)
    job = Job(
        run, find_file(mono), out, output, (*given, *(overrides or [])), device, precision, skip_long=True
    )
    carry_out(job, n_workers=workers, ray=ray)
