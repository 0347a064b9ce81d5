"""`dragoman import`: a model of another toolkit becomes a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.app import command_line, say

if TYPE_CHECKING:
    from dragoman.runs import Run


def register(app: typer.Typer) -> None:
    app.command("import")(import_model)


def import_model(
    model: Annotated[
        Path, typer.Argument(help="The folder of the model, or its checkpoint.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(help="The run's folder, new or empty.", show_default=False)],
    format_name: Annotated[
        str | None, typer.Option("--format", help="What it is.", show_default="by the files that are there")
    ] = None,
    src_lang: Annotated[
        str | None, typer.Option(help="Language of the source.", show_default="what the model says")
    ] = None,
    tgt_lang: Annotated[
        str | None, typer.Option(help="Language of the target.", show_default="what the model says")
    ] = None,
    src_spm: Annotated[
        Path | None, typer.Option(help="The source's sentencepiece model, where it is elsewhere.")
    ] = None,
    tgt_spm: Annotated[
        Path | None, typer.Option(help="The target's.", show_default="as the source's")
    ] = None,
    codes: Annotated[Path | None, typer.Option(help="Byte-pair codes of subword-nmt.")] = None,
) -> None:
    """Make a run of a model of another toolkit (docs/migrating.md).

    Nothing of the model is executed: no pickle, no code of its own. The run translates, is scored, trained
    further with `dragoman train --from` and served like any other.
    """
    from dragoman.interop import importing
    from dragoman.interop.foreign import Options

    options = Options(src_lang, tgt_lang, src_spm, tgt_spm, codes)
    say(f"reading {model}")
    run = importing.import_model(model, out, format_name=format_name, options=options)
    for line in describe_import(run):
        say(line)
    say(f"next: {command_line('translate', run.path)}")
    typer.echo(run.path)


def describe_import(run: Run) -> Iterator[str]:
    """What was read, what it became, and what did not carry over, line by line."""
    config = run.config
    assert config.task == "translation"
    origin = run.read_json("report.json")["imported"]
    sizes = ", ".join(f"{name} ({found['bytes'] / 1e6:,.1f} MB)" for name, found in origin["files"].items())
    yield f"read      {origin['format']}: {sizes}"
    model, search = config.model, config.search
    yield (
        f"model     {config.subject}, {model.n_encoder_layers} + {model.n_decoder_layers} layers of "
        f"{model.d_model}, {model.norm}-norm, {model.activation}, positions {model.positions}; "
        f"{origin['n_parameters'] / 1e6:,.1f} million parameters"
    )
    tokenizer = config.tokenizer
    vocabularies = "one vocabulary" if tokenizer.shared else "a vocabulary for each language"
    yield f"tokens    {tokenizer.vocab_size:,}, {vocabularies}, {' and '.join(sorted(tokenizer.kinds))}"
    yield f"search    beam_size {search.beam_size}, length_penalty {search.length_penalty:g}"
    yield from (f"note      {note}" for note in origin["notes"])
