"""`dragoman merge`: a run between two others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.app import command_line, say


def merge(
    first: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)],
    second: Annotated[
        Path,
        typer.Argument(metavar="RUN", help="A run that was fine-tuned from it.", show_default=False),
    ],
    out: Annotated[Path, typer.Option(help="Run folder of the result; a new one.", show_default=False)],
    weight: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Share of the second run, from 0 to 1.",
            show_default="the best on the validation text of both",
        ),
    ] = None,
) -> None:
    """Merge two runs: weights between those of a run and of one that was fine-tuned from it.

    The result keeps more of what the first run knew than the second does. Both need the same vocabulary and
    shape.
    """
    from dragoman.evaluation.merging import merge as merge_runs

    found = merge_runs(first, second, out, weight=weight, say=say)
    if found:
        say(f"chosen: weight {found[0].weight:g}, mean BLEU {found[0].mean:.1f}")
    say(f"next: {command_line('evaluate', out)}")
    typer.echo(out)
