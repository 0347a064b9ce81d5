"""Write a recipe's expected.json, and results/ from the first run, of finished and evaluated runs of it.

python tools/record_results.py recipes/multi30k-en-de runs/seed-1 runs/seed-2 runs/seed-3
python tools/record_results.py recipes/multi30k-en-de runs/seed-4 --add      # a seed more
python tools/record_results.py recipes/multi30k-en-de runs/quick --version quick
"""

from __future__ import annotations

import argparse
import datetime
import math
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.cli.reproduce import describe_expectation
from dragoman.config import Config, load_recipe
from dragoman.data import catalog
from dragoman.data.readers.files import find_file
from dragoman.errors import DragomanError, RunError
from dragoman.files import write_atomically
from dragoman.reproduction.recipe import (
    EXPECTED,
    Data,
    Expectation,
    ExpectedScore,
    Recipe,
    TimedMachine,
    describe_file,
    find_recipe,
)
from dragoman.runs import Run, differences, saved_scores

NEEDED = ("history.jsonl", "report.json", "scores.json", "environment.json", "config.toml")
"""What is copied of the first run into the recipe's results; the curves too, if they were drawn."""
VERSIONS = ("dragoman", "torch", "numpy", "tokenizers", "sacrebleu", "python")
LOWER_IS_BETTER = ("TER", "ECE")
"""Names of scores that count mistakes; a name that goes on after one of these, as in "TER (cased)", too."""
MIN_SEEDS = 3
"""Seeds from which a spread can be told."""
MIN_TOLERANCE = 0.5
"""Points for what other processors and versions change, even if seeds would allow less."""
DEFAULT_TOLERANCE = 1.0
"""Points, with fewer seeds."""


def main() -> None:
    """Record the runs and print what is expected now."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("recipe", help="Name or folder of a recipe.")
    parser.add_argument("runs", nargs="+", type=Path, help="Runs of different seeds.")
    parser.add_argument("--version", default="full", help="full, quick, or NAME for NAME.toml.")
    parser.add_argument("--add", action="store_true", help="Keep the seeds that are recorded already.")
    options = parser.parse_args()
    try:
        recipe = find_recipe(options.recipe, options.version)
        expectation = record(recipe, options.runs, add=options.add)
    except DragomanError as error:
        sys.exit(f"error: {error}")
    print("\n".join(describe_expectation(expectation)))


def record(recipe: Recipe, paths: Sequence[Path], *, add: bool = False) -> Expectation:
    """Write what runs of a recipe scored into its expected.json, and the first one's files.

    With `add` they join the recorded seeds, whose files and minutes stay.

    RunError: a run is not finished, was not evaluated, or has other settings than the recipe; two have the
    same seed, or were scored in different ways.
    """
    config, runs = recipe.config, [Run.open(path) for path in paths]
    if len({run.config.seed for run in runs}) < len(runs):
        raise RunError("two of the runs have the same seed; give runs of different seeds")
    seeds: dict[tuple[str, str, str], dict[str, float]] = {}  # by test set, metric and signature
    if add:
        check_settings(recipe.results, config)
        recorded = recipe.expectation()
        seeds = {(s.test_set, s.metric, s.signature): dict(s.seeds) for s in recorded.scores}
    for run in runs:
        for key, value in figures(run, config):
            seeds.setdefault(key, {})[str(run.config.seed)] = round(value, 2)
    if len(set(map(frozenset, seeds.values()))) > 1:
        raise RunError("the runs were scored in different ways; evaluate all with the same versions")
    scores = tuple(expected_score(*key, values) for key, values in seeds.items())
    if add:
        expectation = recorded.model_copy(update={"scores": scores})
    else:
        expectation = expectation_of(recipe, runs[0], scores)
        recipe.results.mkdir(parents=True, exist_ok=True)
        for name in (*NEEDED, "curves.svg"):
            if (runs[0].path / name).exists():
                write_atomically(recipe.results / name, (runs[0].path / name).read_bytes())
    content = EXPECTED.dump_json({**recipe.recorded(), recipe.version: expectation}, indent=2)
    write_atomically(recipe.expected_path, content + b"\n")
    return expectation


def expectation_of(recipe: Recipe, run: Run, scores: tuple[ExpectedScore, ...]) -> Expectation:
    """Return what is expected from now on, with machine, minutes and data of `run`."""
    environment, files = run.read_json("environment.json"), recipe.files()
    datasets = {dataset.name for dataset in map(catalog.providing, files) if dataset}
    texts = {file: describe_file(find_file(file)) for file in files}
    return Expectation(
        scores=scores,
        minutes=round(float(run.read_json("report.json")["minutes"]), 1),
        max_steps=recipe.config.training.max_steps,
        machine=TimedMachine(**{name: environment[name] for name in ("cpu", "n_cores", "n_threads")}),
        versions={name: str(environment.get(name)) for name in VERSIONS},
        data=Data(sets=tuple(sorted(datasets)), files=texts),
        command=f"dragoman reproduce {recipe.name}{recipe.option}",
        date=datetime.date.today().isoformat(),
    )


def check_settings(folder: Path, config: Config) -> None:
    """Check that the run in `folder` has the settings of the recipe, but for seed, device and threads.

    A recipe that leaves its precision to the machine ("auto") has runs of any.

    RunError: it has others.
    """
    free = {"device", "n_threads", "start_from"}
    free |= {"precision"} if config.training.precision == "auto" else set()
    hidden: dict[str, Any] = {"name": True, "seed": True, "training": free}
    old, new = (one.model_dump(exclude=hidden) for one in (load_recipe(folder / "config.toml"), config))
    if changed := "; ".join(differences(old, new)):
        raise RunError(f"{folder}: was trained with other settings than the recipe ({changed})")


def figures(run: Run, config: Config) -> Iterator[tuple[tuple[str, str, str], float]]:
    """Yield each score of a run: test set, metric and signature; value.

    RunError: the run is not finished, has other settings, or was not scored with the recipe's search.
    """
    if missing := [name for name in NEEDED if not (run.path / name).exists()]:
        raise RunError(f"{run.path}: has no {missing[0]}; train it to its end and evaluate it first")
    check_settings(run.path, config)
    records = {record["name"]: record for record in saved_scores(run) if is_own_search(run.config, record)}
    for test in run.config.tests:
        if test not in records:
            raise RunError(
                f"{run.path}: holds no scores of {test} with the recipe's search; evaluate it again"
            )
        for score in records[test]["scores"]:
            yield (test, score["name"], score["signature"]), float(score["value"])


def is_own_search(config: Config, record: Mapping[str, Any]) -> bool:
    """Whether a record of scores.json is of the search that the run has, without other models beside it."""
    search = getattr(config, "search", None)  # a classifier has none
    settings = {name: getattr(search, name) for name in ("beam_size", "length_penalty") if search}
    return settings.items() <= record.items() and not record.get("search")


def expected_score(test_set: str, metric: str, signature: str, seeds: dict[str, float]) -> ExpectedScore:
    """Return the mean and the tolerance of the scores by seed."""
    tolerance, reason = tolerance_of(seeds)
    return ExpectedScore(
        test_set=test_set,
        metric=metric,
        value=round(statistics.fmean(seeds.values()), 2),
        tolerance=tolerance,
        tolerance_from=reason,
        better="lower" if metric.split(" ")[0] in LOWER_IS_BETTER else "higher",
        seeds=seeds,
        signature=signature,
    )


def tolerance_of(seeds: Mapping[str, float]) -> tuple[float, str]:
    """How far off a score may be, in points, and why, from the scores of several seeds."""
    if len(seeds) < MIN_SEEDS:
        count = "1 seed" if len(seeds) == 1 else f"{len(seeds)} seeds"
        return DEFAULT_TOLERANCE, f"{count}, too few to tell the spread: {DEFAULT_TOLERANCE} by default"
    deviation = statistics.stdev(seeds.values())
    tolerance = max(MIN_TOLERANCE, math.ceil(300 * deviation) / 100)
    reason = f"3 standard deviations of {len(seeds)} seeds ({deviation:.2f}), at least {MIN_TOLERANCE}"
    return tolerance, reason


if __name__ == "__main__":
    main()
