"""`dragoman push` and `dragoman card`: a run for others."""

from __future__ import annotations

from typing import Annotated

import typer

from dragoman.cli.app import command_line, say
from dragoman.cli.translate import RunPath

Licence = Annotated[
    str | None,
    typer.Option("--license", help="One of the hub's, such as cc-by-4.0.", show_default="unknown"),
]


def register(app: typer.Typer) -> None:
    app.command()(card)
    app.command()(push)


def card(run: RunPath, licence: Licence = None) -> None:
    """Print the model card of a run: what it is, what it learnt from, how good it is.

    It says what the run's files say. For one of your own: dragoman card RUN > RUN/README.md, and edit it.
    """
    from dragoman.card import model_card
    from dragoman.runs import Run

    opened = Run.open(run)
    name = opened.origin.model if opened.origin else None
    typer.echo(model_card(opened, name=name, licence=licence), nl=False)


def push(
    run: RunPath,
    name: Annotated[str, typer.Argument(help="Its name there: user/model.", show_default=False)],
    public: Annotated[
        bool, typer.Option("--public", help="Let everybody see a model that is new there.")
    ] = False,
    licence: Licence = None,
    message: Annotated[
        str, typer.Option(help="What is new.", show_default="the run's name and languages")
    ] = "",
) -> None:
    """Put a run on the Hugging Face hub, with its model card, and print its address.

    Only what the run needs to be used is sent: weights, tokenizer, settings without the folders of this
    machine, scores. A model that is new there can be seen by you alone unless --public is given. Log in
    before with: hf auth login.
    """
    from dragoman.hub import HubName
    from dragoman.interop.publishing import push_to_hub

    address = push_to_hub(run, name, private=not public, licence=licence, message=message)
    typer.echo(address)
    say(f"next: {command_line('translate', HubName.parse(name))}")
