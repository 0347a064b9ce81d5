"""`dragoman forecast`: what more text would score, and what a training costs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.app import check_folders, check_outputs, say
from dragoman.cli.corpus_options import (
    Columns,
    Src,
    SrcLang,
    Tgt,
    TgtLang,
    Tsv,
    ValidSrc,
    ValidTgt,
    ValidTsv,
    two_columns,
)
from dragoman.cli.options import Overrides
from dragoman.cli.train import PresetName, run_training
from dragoman.errors import require

if TYPE_CHECKING:
    from dragoman.metrics.extrapolation import Prediction
    from dragoman.training.forecasting import Forecast


def forecast(
    recipe: Annotated[
        Path | None,
        typer.Argument(help="A recipe.toml, or a file of pairs, as for --tsv.", show_default=False),
    ] = None,
    src: Src = None,
    tgt: Tgt = None,
    tsv: Tsv = None,
    columns: Columns = None,
    valid_src: ValidSrc = None,
    valid_tgt: ValidTgt = None,
    valid_tsv: ValidTsv = None,
    src_lang: SrcLang = None,
    tgt_lang: TgtLang = None,
    preset: PresetName = None,
    overrides: Overrides = None,
    minutes: Annotated[
        float,
        typer.Option(
            help="Minutes of the half's training, without validations; smaller parts take less.",
            min=0.01,
            max=1e6,
        ),
    ] = 5.0,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the four runs.", show_default="runs/<name>-forecast")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the forecast into this .svg, .png or .pdf.", show_default=False)
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check/--no-check", help="Refuse text with equal or shifted sides; --no-check warns only."
        ),
    ] = True,
) -> None:
    """Forecast the score of a translator on more text: train on an eighth, a quarter and a half of it.

    Prints BLEU, loss and minutes for the whole, twice and four times the text, with intervals of 90 %, after
    as many passes over it. Scores are on the validation pairs. The same command resumes an interrupted
    forecast.
    """
    from dragoman.report.forecast import plot_forecast
    from dragoman.tasks import config_for
    from dragoman.training.forecasting import forecast as forecast_text

    if plot is not None:
        require("matplotlib", extra="plots", purpose="--plot")
    config = config_for(
        recipe,
        src=src or (),
        tgt=tgt or (),
        tsv=tsv or (),
        columns=two_columns(columns),
        valid_src=valid_src or (),
        valid_tgt=valid_tgt or (),
        valid_tsv=valid_tsv or (),
        src_lang=src_lang,
        tgt_lang=tgt_lang,
        preset=preset,
        overrides=overrides or (),
        say=say,
    )
    named = [str(recipe) if recipe else None, *(file for _, files in config.data.files() for file in files)]
    check_outputs(plot, files=named, runs=())
    check_folders(plot)
    found = forecast_text(
        config,
        out or Path("runs") / f"{config.name}-forecast",
        minutes=minutes,
        train=lambda part, path: run_training(part, path, check=check),
        say=say,
    )
    for line in table_lines(found):
        typer.echo(line)
    if plot is not None:
        plot_forecast(found, plot)
        say(f"picture: {plot}")


def table_lines(found: Forecast) -> Iterator[str]:
    """Yield the lines of the table, and what a full training costs."""
    yield f"{'text':<15} {'pairs':>11}  {'BLEU (90 %)':<19} {'nats/character':<21} {'minutes':>7}"
    for row in found.rows:
        score, loss = _with_interval(row.score, 1), _with_interval(row.loss, 3)
        kind = "measured" if row.measured else "forecast"
        yield f"{row.text:<15} {row.n_pairs:>11,}  {score:<19} {loss:<21} {row.minutes:>7.1f}  {kind}"
    yield (
        f"All after {found.plan.passes:.1f} passes. The settings' own {found.full_steps:,} updates "
        f"take about {found.full_minutes:,.0f} minutes here."
    )


def _with_interval(found: Prediction, digits: int) -> str:
    """Format a value, and its interval where it has one."""
    low, high = found.interval
    value = f"{found.value:.{digits}f}"
    return value if low == high else f"{value} ({low:.{digits}f}–{high:.{digits}f})"
