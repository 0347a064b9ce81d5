"""Move runs in and out: `dragoman import`, `export`, `card` and `push`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.app import command_line, say
from dragoman.cli.options import RunPath, with_options_of
from dragoman.interop import ImportOptions

if TYPE_CHECKING:
    from dragoman.runs import Run


@with_options_of(ImportOptions)
def import_model(
    model: Annotated[Path, typer.Argument(help="Folder of the model, or its checkpoint file.")],
    *,
    out: Annotated[Path, "Run folder, new or empty."],
    format_name: Annotated[str | None, "Format of the model. [default: detected from its files]"] = None,
    fields: dict[str, Any],
) -> None:
    """Convert a model of another toolkit to a run.

    No code of the model is executed, and nothing is unpickled. The result is a normal run: translate,
    evaluate, fine-tune with `dragoman train --from`, serve.
    """
    from dragoman.interop import importing

    say(f"reading {model}")
    run = importing.import_model(model, out, format_name=format_name, options=ImportOptions(**fields))
    for line in describe_import(run):
        say(line)
    say(f"next: {command_line('translate', run.path)}")
    typer.echo(run.path)


def describe_import(run: Run) -> Iterator[str]:
    """Describe an import line by line: files, architecture, and notes on what was not converted."""
    from dragoman.predict.model import translation_config

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


def export(
    run: RunPath,
    to: Annotated[
        str,
        typer.Option(metavar="NAME", help="Target format: ctranslate2, onnx, huggingface, browser or argos."),
    ],
    out: Annotated[Path, "Output folder: new, empty, or an earlier export."],
    compute_type: Annotated[
        str, "Type of the weights: float32, or int8 (ctranslate2, onnx, argos; browser always)."
    ] = "",
    onnxruntime_web: Annotated[
        Path | None, "Folder of the npm package onnxruntime-web, for browser. Default: download it once."
    ] = None,
    sentences: Annotated[int, "Validation sentences used to verify the export.", (1, 100_000)] = 200,
) -> None:
    """Export a run to a folder for CTranslate2, onnxruntime, transformers, a browser or Argos Translate.

    Before the folder is written, outputs and probabilities are compared with the run's on validation data.
    The folder holds a script that runs without Dragoman; the README.md of a browser export says how to serve
    the folder, for Argos Translate how to install the package. Classifiers support onnx only.
    """
    from dragoman.cli.console import progress_bar
    from dragoman.interop.exporting import export_run

    with progress_bar("comparing with the run", total=sentences) as progress:
        report = export_run(
            run, out, to=to, compute_type=compute_type, onnxruntime_web=onnxruntime_web,
            n_sentences=sentences, progress=progress,
        )  # fmt: skip
    for name, value in report.describe().items():
        typer.echo(f"{name:<42}{value}")
    for note in report.notes:
        say(note)
    say(f"next: see {out / 'README.md'}")


Licence = Annotated[str | None, "Licence id of the hub, such as cc-by-4.0. [default: unknown]"]


def card(run: RunPath, licence: Licence = None) -> None:
    """Print the model card of a run: model, training data and scores, from the run's files.

    To write your own card, edit the output: dragoman card RUN > RUN/README.md.
    """
    from dragoman.card import model_card
    from dragoman.runs import Run

    opened = Run.open(run)
    name = opened.origin.model if opened.origin else None
    typer.echo(model_card(opened, name=name, licence=licence), nl=False)


def push(
    run: RunPath,
    name: Annotated[str, typer.Argument(help="Name on the hub: user/model.")],
    public: Annotated[bool, "Create a new model as public."] = False,
    licence: Licence = None,
    message: Annotated[str, "Commit message. [default: the run's name and languages]"] = "",
) -> None:
    """Upload a run to the Hugging Face hub with its model card, and print its address.

    Only the files needed to use the run are uploaded: weights, tokenizer, settings without local paths, and
    scores. A new model is private unless --public is given. Log in first: hf auth login.
    """
    from dragoman.hub import HubName
    from dragoman.interop.publishing import push_to_hub
    from dragoman.runs import Run

    address = push_to_hub(run, name, private=not public, licence=licence, message=message)
    typer.echo(address)
    say(f"next: {command_line(Run.open(run).config.names.verb, HubName.parse(name))}")
