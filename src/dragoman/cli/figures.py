"""Figures that need no run: `dragoman show schedule`, `dragoman show positions` and `dragoman show masks`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import typer

from dragoman.cli.app import say
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.config import TrainingConfig
    from dragoman.report.schedule import ScheduleCurve

PLACEHOLDER = {
    "name": "schedule",
    "data": {"src_lang": "en", "tgt_lang": "de", "train": ["phrasebook:train"]},
}
"""The settings that every recipe needs; learning rates do not depend on them."""


def show_positions(recipe: Path | None, overrides: Sequence[str], out: Path | None) -> None:
    """Print the positional encodings of a recipe's model, and draw them into `out`."""
    from dragoman.config import load_recipe, parse_config
    from dragoman.report.positions import describe_positions, plot_positions

    if recipe is not None:
        model = load_recipe(recipe, overrides).model
    else:
        model = parse_config(PLACEHOLDER, overrides=overrides, where="dragoman show positions").model
    typer.echo("\n".join(describe_positions(model.d_model)))
    if out is not None:
        plot_positions(out, d_model=model.d_model)
        say(f"positions: {out}")


def show_masks(recipe: Path | None, overrides: Sequence[str], out: Path | None) -> None:
    """Print the attention masks of an example pair, and draw them into `out`.

    ConfigError: a recipe or settings are given; masks do not depend on them.
    """
    from dragoman.report.masks import describe_masks, masks_of, plot_masks

    if recipe is not None or overrides:
        raise ConfigError("masks are the same for every recipe; omit --recipe and --set")
    masks = masks_of()
    typer.echo("\n".join(describe_masks(masks)))
    if out is not None:
        plot_masks(masks, out)
        say(f"masks: {out}")


def show_schedule(recipe: Path | None, overrides: Sequence[str], out: Path | None) -> None:
    """Print the learning rates of a recipe, or of every schedule, and draw them into `out`."""
    from dragoman.config import TrainingConfig, load_recipe, parse_config
    from dragoman.report.schedule import plot_schedules

    if recipe is not None:
        config = load_recipe(recipe, overrides)
        title = config.name
        trainings: list[TrainingConfig] = [config.training]
    else:
        training = parse_config(PLACEHOLDER, overrides=overrides, where="dragoman show schedule").training
        title = "Learning-rate schedules"
        names = get_args(TrainingConfig.model_fields["schedule"].annotation)
        trainings = [training.model_copy(update={"schedule": name}) for name in names]
    curves = [curve_of(training) for training in trainings]
    for line in describe_schedules(title, curves, trainings):
        typer.echo(line)
    if out is not None:
        plot_schedules(curves, out, title=title)
        say(f"learning rates: {out}")


def curve_of(training: TrainingConfig) -> ScheduleCurve:
    """Return the learning rates of `training`, and the condition that they depend on."""
    from dragoman.report.schedule import ScheduleCurve
    from dragoman.training.updates.schedule import learning_rates

    note = ""
    if training.schedule == "plateau":
        note = f"if validation stalls\nfrom step {training.max_steps // 2:,} on"
    return ScheduleCurve(training.schedule, learning_rates(training), training.warmup_steps, note)


def describe_schedules(
    title: str, curves: Sequence[ScheduleCurve], trainings: Sequence[TrainingConfig]
) -> Iterator[str]:
    """Draw the curves in characters: a single curve as a chart, several as one line each."""
    from dragoman.report.schedule import rate_in_words, text_chart, text_line

    training = trainings[0]
    yield (
        f"{title} · peak {rate_in_words(training.learning_rate)} · "
        f"{training.warmup_steps:,} steps of warm-up · {training.max_steps:,} steps"
    )
    if len(curves) == 1:
        yield from text_chart(curves[0])
        yield f"{curves[0].name}, {_ending(curves[0])}"
    else:
        width = max(len(curve.name) for curve in curves)
        for curve in curves:
            yield f"{curve.name:<{width}}  {text_line(curve)}  {_ending(curve)}"
    for name, unit in (("max_epochs", "passes"), ("max_minutes", "minutes"), ("patience", "validations")):
        if limit := getattr(training, name):
            yield f"may end earlier: training.{name} = {limit:g} {unit}"


def _ending(curve: ScheduleCurve) -> str:
    """Describe the final learning rate, and the condition that it depends on."""
    from dragoman.report.schedule import rate_in_words

    note = f", {' '.join(curve.note.split())}" if curve.note else ""
    return f"ends at {rate_in_words(curve.rates[-1])}{note}"
