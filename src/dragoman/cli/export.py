"""`dragoman export`: convert a run for another runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.app import say
from dragoman.cli.options import RunPath


def export(
    run: RunPath,
    to: Annotated[
        str,
        typer.Option(
            help="Target format: ctranslate2, onnx, huggingface, browser or argos.", show_default=False
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="Output folder: new, empty, or an earlier export.", show_default=False)
    ],
    compute_type: Annotated[
        str,
        typer.Option(
            help="Type of the weights: float32, or int8 (ctranslate2, onnx, argos; browser always).",
            show_default=False,
        ),
    ] = "",
    onnxruntime_web: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the npm package onnxruntime-web, for browser. Default: download it once.",
            show_default=False,
        ),
    ] = None,
    sentences: Annotated[
        int, typer.Option(min=1, max=100_000, help="Validation sentences used to verify the export.")
    ] = 200,
) -> None:
    """Export a run to a folder for CTranslate2, onnxruntime, transformers, a browser or Argos Translate.

    Before the folder is written, outputs and probabilities are compared with the run's on validation data.
    The exported README.md contains a script that runs without Dragoman; for a browser it says how to serve
    the folder, for Argos Translate how to install the package. Classifiers support onnx only.
    """
    from dragoman.cli.console import progress_bar
    from dragoman.interop.exporting import export_run

    with progress_bar("comparing with the run", total=sentences) as progress:
        report = export_run(
            run,
            out,
            to=to,
            compute_type=compute_type,
            onnxruntime_web=onnxruntime_web,
            n_sentences=sentences,
            progress=progress,
        )
    for name, value in report.describe().items():
        typer.echo(f"{name:<42}{value}")
    for note in report.notes:
        say(note)
    say(f"next: see {out / 'README.md'}")
