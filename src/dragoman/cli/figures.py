"""`dragoman show positions` and `dragoman show masks`: positional encodings and attention masks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from dragoman.cli.app import say
from dragoman.cli.schedule import PLACEHOLDER
from dragoman.errors import ConfigError


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
