"""`dragoman reproduce`: train a recipe and check its scores."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.app import INTERRUPTED, USER_ERROR, as_called, command_line, say
from dragoman.cli.options import AsJson
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.reproduction.recipe import Expectation, Recipe
    from dragoman.reproduction.running import Reproduction


def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="Name or folder of a recipe; omit it to list all.")
    ] = None,
    quick: Annotated[bool, "Train the quick version (minutes), which has its own scores."] = False,
    variant: Annotated[str | None, "Another recipe of the folder: NAME for NAME.toml."] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**63 - 1, help="Random seed.", show_default="the recipe's")
    ] = None,
    out: Annotated[Path | None, "Run folder. [default: runs/<name>, -quick or -seed-<n>]"] = None,
    no_fetch: Annotated[bool, "Do not download missing data."] = False,
    dry_run: Annotated[bool, "Print the expected scores and the missing data; do not train."] = False,
    as_json: AsJson = False,
) -> None:
    """Train a recipe, score it, and print PASS or FAIL.

    Missing data is downloaded. A score passes if it is at most the tolerance of expected.json below the
    expected value. The exit code is 0 for PASS and 1 for FAIL. The same command continues an interrupted
    training.
    """
    from dragoman.reproduction.recipe import find_recipe

    if name is None:
        typer.echo("\n".join(list_recipes()))
        return
    if quick and variant is not None:
        raise ConfigError("give --quick or --variant, not both")
    recipe = find_recipe(name, "quick" if quick else variant or "full", seed)
    if dry_run:
        typer.echo("\n".join(describe_plan(recipe)))
    else:
        result = _run(recipe, out=out, fetch=not no_fetch)
        if as_json:
            typer.echo(json.dumps(result.record(), indent=2, ensure_ascii=False))
        else:
            typer.echo("\n".join(describe(result)))
        if not result.passed:
            raise typer.Exit(USER_ERROR)


def _run(recipe: Recipe, *, out: Path | None, fetch: bool) -> Reproduction:
    """Reproduce a recipe with log lines and a progress bar on stderr, and draw the learning curves."""
    from dragoman.cli.bulk import run_job
    from dragoman.cli.listener import TerminalListener
    from dragoman.cli.train import draw_curves
    from dragoman.reproduction.running import reproduce as train_and_judge
    from dragoman.runs import Run

    path = out or Path("runs") / recipe.run_name
    minutes = recipe.expectation().minutes
    say(f"{recipe.name}: about {minutes:g} minutes on the machine where it was recorded; run: {path}")
    try:
        with TerminalListener() as listener:
            result = train_and_judge(
                recipe, out=path, fetch=fetch, listener=listener,
                translate=partial(run_job, n_workers=1, ray=None),
            )  # fmt: skip
    except KeyboardInterrupt as error:
        say(f"to continue: {command_line()}")
        raise typer.Exit(INTERRUPTED) from error
    draw_curves(Run.open(result.run))
    return result


def list_recipes() -> Iterator[str]:
    """List each recipe with its first expected score and its training time."""
    from dragoman.reproduction.recipe import known_recipes

    recipes = known_recipes()
    width = max((len(recipe.name) for recipe in recipes), default=0)
    for recipe in recipes:
        recorded = recipe.recorded()
        for version, expectation in recorded.items():
            first, option = expectation.scores[0], replace(recipe, version=version).option
            yield (
                f"{recipe.name:<{width}}  {first.test_set} {first.metric} {first.value:.1f} ± "
                f"{first.tolerance:g} in {expectation.minutes:g} minutes{option}"
            )
        if not recorded:
            yield f"{recipe.name:<{width}}  nothing recorded yet"


def describe_plan(recipe: Recipe) -> Iterator[str]:
    """Describe a recipe: expected scores, and which data files are missing."""
    expectation = recipe.expectation()
    yield f"{recipe.name} · {recipe.config.subject} · {recipe.folder}"
    yield from describe_expectation(expectation)
    if first := recipe.runs_before():
        yield f"first     {', '.join(map(str, first))}: reproduced where they are not there"
    missing = recipe.missing_files()
    for name, files in missing.items():
        remedy = f"dragoman data fetch {name}" if name else "not in the catalogue: put it into $DRAGOMAN_DATA"
        yield as_called(f"missing   {', '.join(files)} ({remedy})")
    for problem in recipe.differing_files():
        yield f"other     {problem}"
    if not missing:
        n_files = len(recipe.files())
        yield (f"data      {n_files} files, all here" if n_files else "data      embedded, or of the hub")


def describe_expectation(expectation: Expectation) -> Iterator[str]:
    """Describe the expected scores, their source, and the training time."""
    from dragoman.evaluation.scores import aligned

    machine = expectation.machine
    rows = [
        ("test set", "metric", "expected", "tolerance", "from"),
        *(
            (score.test_set, score.metric, f"{score.value:.1f}", f"{score.tolerance:g}", score.tolerance_from)
            for score in expectation.scores
        ),
    ]
    yield from aligned(rows, text_columns=(0, 1, 4))
    yield (
        f"minutes   {expectation.minutes:g} on {machine.cpu}, threads: {machine.n_threads} on "
        f"{machine.n_cores} cores, {expectation.date}"
    )


def describe(result: Reproduction) -> Iterator[str]:
    """Describe the scores of a reproduction, and PASS or FAIL."""
    from dragoman.evaluation.scores import aligned

    rows = [("test set", "metric", "score", "expected", "tolerance", "")]
    for verdict in result.scores:
        value = "–" if verdict.value is None else f"{verdict.value:.1f}"
        mark = ": ".join(
            filter(None, ["PASS" if verdict.passed else "FAIL", verdict.problem or verdict.note])
        )
        limits = f"{verdict.expected:.1f}", f"{verdict.tolerance:g}"
        rows.append((verdict.test_set, verdict.metric, value, *limits, mark))
    rows.append(("training", "minutes", f"{result.minutes:.1f}", f"{result.expected_minutes:g}", "", ""))
    yield from aligned(rows, text_columns=(0, 1, 5))
    for difference in result.differences:
        yield f"differs: {difference}"
    n_failed = sum(not verdict.passed for verdict in result.scores)
    yield "PASS" if result.passed else f"FAIL: {n_failed} of {len(result.scores)} scores"
