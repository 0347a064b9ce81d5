"""`dragoman demo`: train and try a small model in some minutes."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.app import command_line, say
from dragoman.cli.options import Overrides
from dragoman.cli.train import run_training


def demo(
    task: Annotated[str, typer.Option(help="Task: translation or classification.")] = "translation",
    src: Annotated[
        str | None, typer.Option(help="Source language: en, de, pl or zh.", show_default="en")
    ] = None,
    tgt: Annotated[
        str | None, typer.Option(help="Target language: en, de, pl or zh.", show_default="de")
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=0.0, max=1e7, help="Maximum minutes of training.", show_default="no limit"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Run folder.", show_default="runs/demo, runs/demo-<src>-<tgt> or runs/demo-reviews"
        ),
    ] = None,
    overrides: Overrides = None,
) -> None:
    """Train a translator in two to four minutes, or a classifier in one, without network.

    The demo trains on the embedded corpus, scores held-out examples, and shows translations beside their
    references, or reviews beside their labels.
    """
    from dragoman.cli.console import print_table
    from dragoman.config import parse_config
    from dragoman.runs import Run
    from dragoman.tasks import task_named

    chosen = task_named(task)
    changes = [] if minutes is None else [f"training.max_minutes={minutes}"]
    config = parse_config(
        chosen.demo_settings(src, tgt), overrides=[*changes, *(overrides or ())], where="demo"
    )
    run = Run.open(run_training(config, out or Path("runs") / config.name))
    tables, example, commands = chosen.demo_results(run, say)
    for table in tables:
        print_table(table.heading, table.rows, title=table.title)
    say("")
    say("Try next:")
    say(f"  echo {shlex.quote(example)} | {command_line(config.names.verb, run.path)}")
    say(f"  {command_line('show', run.path)}")
    for command in commands:
        say(f"  dragoman {command}")
