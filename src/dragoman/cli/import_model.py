"""`dragoman import`: convert a model of another toolkit to a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.app import command_line, say

if TYPE_CHECKING:
    from dragoman.runs import Run


def import_model(
    model: Annotated[
        Path, typer.Argument(help="Folder of the model, or its checkpoint file.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(help="Run folder, new or empty.", show_default=False)],
    format_name: Annotated[
        str | None,
        typer.Option("--format", help="Format of the model.", show_default="detected from its files"),
    ] = None,
    src_lang: Annotated[
        str | None, typer.Option(help="Source language.", show_default="from the model")
    ] = None,
    tgt_lang: Annotated[
        str | None, typer.Option(help="Target language.", show_default="from the model")
    ] = None,
    src_spm: Annotated[
        Path | None, typer.Option(help="SentencePiece model of the source, if outside the folder.")
    ] = None,
    tgt_spm: Annotated[
        Path | None,
        typer.Option(help="SentencePiece model of the target.", show_default="same as the source"),
    ] = None,
    codes: Annotated[Path | None, typer.Option(help="BPE codes of subword-nmt.")] = None,
) -> None:
    """Convert a model of another toolkit to a run (docs/migrating.md).

    No code of the model is executed, and nothing is unpickled. The result is a normal run: translate,
    evaluate, fine-tune with `dragoman train --from`, serve.
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
    """Describe an import line by line: files, architecture, and notes on what was not converted."""
    from dragoman.predict.translator import translation_config

    config = translation_config(run)
    origin = run.read_json("report.json")["imported"]
    sizes = ", ".join(f"{name} ({file['bytes'] / 1e6:,.1f} MB)" for name, file in origin["files"].items())
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
