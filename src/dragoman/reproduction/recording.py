"""Write expected.json and the results of a recipe from finished runs."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from dragoman.config import Config, is_own_search, parse_config, read_settings
from dragoman.errors import RunError
from dragoman.files import write_atomically
from dragoman.reproduction import requirements
from dragoman.reproduction.expected import (
    Expectation,
    ExpectedScore,
    Machine,
    better_direction,
    expected_json,
    tolerance_of,
)
from dragoman.reproduction.recipe import Recipe, version_option
from dragoman.reproduction.running import text_at_hand
from dragoman.runs import Run, differences, saved_scores

NEEDED = ("history.jsonl", "report.json", "scores.json", "environment.json", "config.toml")
"""What is copied of the first run into the recipe's results; the curves too, where they were drawn."""
OPTIONAL = ("curves.svg",)
VERSIONS = ("dragoman", "torch", "numpy", "tokenizers", "sacrebleu", "python")
FREE = ("name", "seed")
FREE_TRAINING = ("device", "n_threads", "start_from")
"""Settings in which a recorded run may differ from its recipe."""

FROM_SCRATCH = "record without --add, all seeds at once"


def record(
    recipe: Recipe,
    version: str,
    paths: Sequence[Path],
    *,
    add: bool = False,
    today: datetime.date | None = None,
) -> Expectation:
    """Write what runs of a version scored into the recipe's expected.json, and the first one's files.

    With `add`, they join the seeds that are there already, whose files and minutes stay.

    RunError: a run is not finished, was not evaluated, has other settings than the recipe (or with `add`
    those that are there have), or a seed that another one has too.
    """
    runs = [Run.open(path) for path in paths]
    config = recipe.config(version)
    for run in runs:
        _check(run, config)
    by_seed = {run.config.seed: run for run in runs}
    if len(by_seed) < len(runs):
        raise RunError(f"{_all(runs)}: two of them have the same seed; give runs of different seeds")
    scores = tuple(_scores({str(seed): run for seed, run in by_seed.items()}))
    if add:
        expectation = _added(recipe, version, config, scores)
    else:
        expectation = _first(recipe, version, config, runs[0], scores, today)
    write_atomically(recipe.expected_path, expected_json(recipe.expected().updated(version, expectation)))
    return expectation


def _first(
    recipe: Recipe,
    version: str,
    config: Config,
    run: Run,
    scores: tuple[ExpectedScore, ...],
    today: datetime.date | None,
) -> Expectation:
    """Return what is expected by these runs alone; copy the files of one of them."""
    environment, report = run.read_json("environment.json"), run.read_json("report.json")
    _copy_results(run, recipe.results(version))
    return Expectation(
        scores=scores,
        minutes=round(float(report["minutes"]), 1),
        max_steps=config.training.max_steps,
        machine=Machine(
            cpu=environment["cpu"], n_cores=environment["n_cores"], n_threads=environment["n_threads"]
        ),
        versions={name: str(environment.get(name)) for name in VERSIONS},
        data=requirements.recorded_data(text_at_hand(config, recipe.distillation(version))),
        command=f"dragoman reproduce {recipe.name}{version_option(version)}",
        date=(today or datetime.date.today()).isoformat(),
    )


def _added(recipe: Recipe, version: str, config: Config, scores: tuple[ExpectedScore, ...]) -> Expectation:
    """Return what is expected by the recorded seeds and those of `scores`, which replace equal ones."""
    recorded, results = recipe.expectation(version), recipe.results(version)
    trained = parse_config(read_settings(results / "config.toml"), where=str(results / "config.toml"))
    changed = _changed(trained, config)
    if changed:
        raise RunError(
            f"{results}: the recorded runs had other settings ({'; '.join(changed)}); {FROM_SCRATCH}"
        )
    former = {(score.test_set, score.metric): score for score in recorded.scores}
    new = {(score.test_set, score.metric): score for score in scores}
    if former.keys() != new.keys() or any(former[k].signature != new[k].signature for k in former):
        raise RunError(f"{results}: the recorded runs were scored in another way; {FROM_SCRATCH}")
    joined = [
        _expected(*key, {**former[key].seeds, **new[key].seeds}, signature=new[key].signature) for key in new
    ]
    return recorded.model_copy(update={"scores": tuple(joined)})


def _check(run: Run, config: Config) -> None:
    """RunError: the run is not a finished and evaluated one of this recipe."""
    missing = [name for name in NEEDED if not (run.path / name).exists()]
    if missing:
        what = "evaluate it first" if missing == ["scores.json"] else "train it to its end first"
        raise RunError(f"{run.path}: has no {missing[0]}; {what}")
    changed = _changed(run.config, config)
    if changed:
        raise RunError(
            f"{run.path}: was trained with other settings than the recipe ({'; '.join(changed)}); "
            "record runs of the recipe as it is"
        )


def _changed(trained: Config, config: Config) -> list[str]:
    """Return what makes a run trained as `trained` another one than the recipe `config` asks for.

    What "auto" means is the machine's: a recipe that leaves its precision to it has runs of any.
    """
    free = {*FREE_TRAINING, *(["precision"] if config.training.precision == "auto" else [])}

    def compared(of: Config) -> dict[str, Any]:
        settings = {name: value for name, value in of.model_dump().items() if name not in FREE}
        training = {name: value for name, value in settings["training"].items() if name not in free}
        return {**settings, "training": training}

    return list(differences(compared(trained), compared(config)))


def _scores(runs: Mapping[str, Run]) -> list[ExpectedScore]:
    """Every score of every test set, from the runs of different seeds."""
    found = {seed: _figures(run) for seed, run in runs.items()}
    first = next(iter(found.values()))
    for seed, figures in found.items():
        same = figures.keys() == first.keys() and all(figures[k][1] == first[k][1] for k in first)
        if not same:
            raise RunError(
                f"{runs[seed].path}: was scored in another way than {_all(list(runs.values())[:1])}; "
                "evaluate both again with the same versions"
            )
    return [
        _expected(
            *key, {seed: round(figures[key][0], 2) for seed, figures in found.items()}, signature=signature
        )
        for key, (_, signature) in first.items()
    ]


def _expected(test_set: str, metric: str, values: dict[str, float], *, signature: str) -> ExpectedScore:
    """Return the mean and the tolerance of the scores by seed."""
    tolerance, reason = tolerance_of(values)
    return ExpectedScore(
        test_set=test_set,
        metric=metric,
        value=round(fmean(values.values()), 2),
        tolerance=tolerance,
        tolerance_from=reason,
        better=better_direction(metric),
        seeds=values,
        signature=signature,
    )


def _figures(run: Run) -> dict[tuple[str, str], tuple[float, str]]:
    """(value, signature) by (test set, metric). RunError: a test set was not scored with the run's search."""
    config = run.config
    records = {r["name"]: r for r in saved_scores(run) if is_own_search(config, r)}
    missing = [name for name in config.tests if name not in records]
    if missing or not config.tests:
        which = f"of {missing[0]} with the recipe's search" if missing else "of any test set"
        raise RunError(
            f"{run.path}: holds no scores {which}; run dragoman evaluate {shlex.quote(str(run.path))}"
        )
    return {
        (name, score["name"]): (float(score["value"]), score["signature"])
        for name in config.tests
        for score in records[name]["scores"]
    }


def _copy_results(run: Run, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*NEEDED, *OPTIONAL):
        if (run.path / name).exists():
            write_atomically(folder / name, (run.path / name).read_bytes())


def _all(runs: Sequence[Run]) -> str:
    return ", ".join(str(run.path) for run in runs)
