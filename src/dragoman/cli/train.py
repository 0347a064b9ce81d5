"""`dragoman train`: train a run from a recipe or from files. `dragoman demo`: try it with a small model."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.app import INTERRUPTED, PAUSED, TERMINATED, command_line, say
from dragoman.cli.options import Overrides, with_options_of
from dragoman.errors import MissingExtraError, require
from dragoman.tasks.request import TrainingRequest

if TYPE_CHECKING:
    from dragoman.config import Config
    from dragoman.runs import Run


@with_options_of(TrainingRequest, out="preset")
def train(
    recipe: Annotated[
        Path | None,
        typer.Argument(
            help="A recipe.toml, or a file of pairs, as for --tsv; with --task, a file of labelled texts."
        ),
    ] = None,
    *,
    fields: dict[str, Any],
    out: Annotated[Path | None, "Run folder. [default: runs/<name>]"] = None,
    max_hours: Annotated[
        float, "Save and exit with code 75 after this number of hours; 0 = no limit.", (0.0, 1e6)
    ] = 0.0,
    processes: Annotated[int, "Number of processes on this machine (data parallel).", (1, 1024)] = 1,
    allow_changed_data: Annotated[bool, "Resume although the training text has changed."] = False,
    check: Annotated[bool, "Refuse text with equal or shifted sides; --no-check warns only."] = True,
    tensorboard: Annotated[bool, "Log to TensorBoard, in the run's folder tensorboard/."] = False,
    wandb: Annotated[str | None, "Log to this project of Weights & Biases."] = None,
) -> None:
    """Train a translator or a classifier: from a recipe, or from files.

    Without a recipe, architecture, vocabulary and steps are chosen by the size of the corpus and written
    to the run's config.toml. The same command resumes an interrupted training.
    """
    from dragoman.evaluation.scores import keep_scores
    from dragoman.runs import Run
    from dragoman.tasks import config_for, task_of
    from dragoman.tasks.task import split_as_before

    if tensorboard:
        require("tensorboard", extra="tensorboard", purpose="--tensorboard")
    if wandb:
        require("wandb", extra="wandb", purpose="--wandb")
    config = config_for(recipe, say=say, **fields)
    out = out or Path("runs") / config.name
    config = split_as_before(config, out)
    if processes > 1:
        options = ["--tensorboard"] * tensorboard + (["--wandb", wandb] if wandb else [])
        options += ["--allow-changed-data"] * allow_changed_data
        train_together(processes, config, out, max_hours=max_hours, options=options, check=check)
        return
    path = run_training(
        config,
        out,
        max_hours=max_hours,
        allow_changed_data=allow_changed_data,
        check=check,
        tensorboard=tensorboard,
        wandb=wandb,
    )
    if not speaks():
        return
    run = Run.open(path)
    for evaluation in task_of(config).score_validation(run, say):
        keep_scores(run, [evaluation.record()])
        for line in evaluation.describe().splitlines():
            say(line)
    say(f"next: {command_line('evaluate', path)}")
    targets = [tgt for _, tgt in config.directions]
    to = ["--to", targets[0]] if len(set(targets)) > 1 else []
    say(f"      {command_line(config.names.verb, path, *to)}")
    typer.echo(path)


def train_together(
    processes: int, config: Config, out: Path, *, max_hours: float, options: Sequence[str], check: bool
) -> None:
    """Train with several processes on this machine; only rank 0 prints."""
    from dragoman.runs import Run, only_writer
    from dragoman.tasks.training import report_on_text
    from dragoman.training.parallel.launching import launch
    from dragoman.training.parallel.processes import device_of_process

    device_of_process(config.training.device, 0, n_processes=processes)  # complains before there is a run
    report_on_text(config, out, say, check=check)
    with only_writer(out):  # complains before processes are started, which hold the lock themselves
        run = Run.create(out, config)
    if code := launch(processes, run, max_hours=max_hours, options=options, say=say):
        if code in (PAUSED, INTERRUPTED, TERMINATED):
            say(f"to continue: {command_line()}")
        raise typer.Exit(code)


def speaks() -> bool:
    """Return whether this process prints: rank 0, or the only process."""
    return os.environ.get("RANK", "0") == "0"


def run_training(
    config: Config,
    out: Path,
    *,
    max_hours: float = 0.0,
    allow_changed_data: bool = False,
    check: bool = True,
    tensorboard: bool = False,
    wandb: str | None = None,
) -> Path:
    """Train with a progress bar on stderr, draw the learning curves, and return the run's path."""
    from dragoman.cli.listener import TensorBoardListener, TerminalListener, WandbListener
    from dragoman.errors import PausedError
    from dragoman.runs import Run
    from dragoman.tasks.training import train
    from dragoman.training.trainer import Listeners, TrainingListener

    try:
        with TerminalListener() as terminal:
            listeners: list[TrainingListener] = [terminal]
            if speaks() and tensorboard:
                listeners.append(TensorBoardListener(out / "tensorboard"))
            if speaks() and wandb:
                listeners.append(WandbListener(wandb, out))
            path = train(
                config,
                out,
                listener=Listeners(listeners),
                max_hours=max_hours,
                allow_changed_data=allow_changed_data,
                check=check,
            )
    except (KeyboardInterrupt, PausedError) as stop:
        if "RANK" not in os.environ:  # else what has started several processes says it
            say(f"to continue: {command_line()}")
        if isinstance(stop, PausedError):
            raise
        raise typer.Exit(INTERRUPTED) from stop
    if speaks():
        draw_curves(Run.open(path))
    return path


def draw_curves(run: Run) -> None:
    """Draw the learning curves into the run; without matplotlib, print how to install it."""
    from dragoman.report.curves import CURVES, plot_learning_curves

    try:
        plot_learning_curves(run, run.path / CURVES)
        say(f"learning curves: {run.path / CURVES}")
    except MissingExtraError as error:
        say(str(error))


def demo(
    task: Annotated[str, "Task: translation or classification."] = "translation",
    src: Annotated[
        str | None,
        typer.Option(metavar="LANGUAGE", help="Source language: en, de, pl or zh.", show_default="en"),
    ] = None,
    tgt: Annotated[
        str | None,
        typer.Option(metavar="LANGUAGE", help="Target language: en, de, pl or zh.", show_default="de"),
    ] = None,
    minutes: Annotated[float | None, "Maximum minutes of training. [default: no limit]", (0.0, 1e7)] = None,
    out: Annotated[
        Path | None, "Run folder. [default: runs/demo, runs/demo-<src>-<tgt> or runs/demo-reviews]"
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
