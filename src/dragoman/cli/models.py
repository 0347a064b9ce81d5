"""`dragoman models` and `dragoman get`: trained models of a mirror, or of the hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.app import command_line, say
from dragoman.cli.downloads import progress_bars

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.interop.mirror import PublishedModel, PublishedScore
    from dragoman.runs import Run

From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="URL|FOLDER",
        help="Mirror: an http(s) address, or a folder, with models.json.",
        show_default="$DRAGOMAN_MODELS",
    ),
]


def models(
    source: From = None,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON array with all details.")] = False,
) -> None:
    """List the trained models of a mirror: task, score, licence and size."""
    from dragoman.interop.mirror import Mirror

    found = Mirror.open(source).models
    if json_:
        records = [model.model_dump(mode="json") for model in found]
        typer.echo(json.dumps(records, indent=2, ensure_ascii=False))
    else:
        _print_table(found)


def get(
    name: Annotated[
        str,
        typer.Argument(help="Name of a model, see dragoman models; or hf:user/model.", show_default=False),
    ],
    out: Annotated[
        Path | None, typer.Option(help="New run folder.", show_default="runs/ and the name")
    ] = None,
    source: From = None,
) -> None:
    """Download a trained model of a mirror, or of the Hugging Face hub, and print its run folder.

    The SHA-256 of the archive is checked, and the folder appears when all is in it. The same command
    continues an interrupted download.
    """
    from dragoman.interop.mirror import get_model

    with progress_bars() as progress:
        run = get_model(name, out, source=source, progress=progress)
    typer.echo(run.path)
    say(f"next: {next_command(run)}")


def next_command(run: Run) -> str:
    """Return the command that uses a run."""
    directions = run.config.directions
    to = ["--to", "-".join(directions[0])] if len(directions) > 1 else []
    return command_line(run.config.names.verb, run.path, "input.txt", *to)


def _print_table(found: Sequence[PublishedModel]) -> None:
    from dragoman.cli.console import print_table

    rows = [
        (m.name, m.task, m.subject, _score(m.scores), m.licence, f"{m.archive.size / 1e6:,.1f}")
        for m in found
    ]
    print_table(("name", "task", "languages", "score", "licence", ">MB"), rows)


def _score(scores: Sequence[PublishedScore]) -> str:
    """Return the score of one test set with its interval, or the range over several with the same metric."""
    from dragoman.metrics.score import value_text

    alike = [score for score in scores if score.metric == scores[0].metric]
    if not alike:
        return "–"
    values = [score.value for score in alike]
    if len(alike) > 1:
        return f"{alike[0].metric} {min(values):.1f} – {max(values):.1f} ({len(alike)} test sets)"
    return f"{alike[0].metric} {value_text(values[0], alike[0].interval)}"
