"""`dragoman push` and `dragoman card`: publish a run."""

from __future__ import annotations

from typing import Annotated

import typer

from dragoman.cli.app import command_line, say
from dragoman.cli.options import RunPath

Licence = Annotated[
    str | None,
    typer.Option("--license", help="Licence id of the hub, such as cc-by-4.0.", show_default="unknown"),
]


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
    name: Annotated[str, typer.Argument(help="Name on the hub: user/model.", show_default=False)],
    public: Annotated[bool, typer.Option("--public", help="Create a new model as public.")] = False,
    licence: Licence = None,
    message: Annotated[
        str, typer.Option(help="Commit message.", show_default="the run's name and languages")
    ] = "",
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
