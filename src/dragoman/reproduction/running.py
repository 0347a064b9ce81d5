"""Train and evaluate a recipe, beside the recorded training, and judge its scores."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.config import Config, file_names
from dragoman.distillation.distilling import take_tokenizer
from dragoman.distillation.teaching import Material, Translate, teach
from dragoman.errors import ConfigError
from dragoman.evaluation.scores import keep_scores
from dragoman.predict.model import translation_config
from dragoman.report.curves import Curves
from dragoman.reproduction.recipe import (
    FULL,
    Distillation,
    Expectation,
    ExpectedScore,
    Recipe,
    known_recipes,
    recipe_of_run,
    start_of,
)
from dragoman.runs import Run, differences, only_writer
from dragoman.tasks import task_of
from dragoman.tasks.request import EvaluationRequest, Say
from dragoman.tasks.translation.robustness import OF_SET
from dragoman.training.objective import TITLES
from dragoman.training.trainer import Listeners, TrainingListener, is_finished

REPRODUCTION = "reproduction.json"
"""What a run keeps of the comparison."""


class Verdict(NamedTuple):
    """One score beside what was expected."""

    test_set: str
    metric: str
    value: float | None
    """None where the run has no such score."""
    expected: float
    tolerance: float
    passed: bool
    problem: str | None
    """Why it fails, in words."""
    note: str = ""
    """What else is to be said of it."""


class Reproduction(NamedTuple):
    """A run of a recipe, and what has become of its expectation."""

    run: str
    passed: bool
    minutes: float
    """Of training, validation included."""
    expected_minutes: float
    differences: list[str]
    """In which versions and machine the run was made, where they are others than recorded."""
    scores: list[Verdict]

    def record(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        return {**self._asdict(), "scores": [score._asdict() for score in self.scores]}


def reproduce(
    recipe: Recipe, *, out: Path, fetch: bool, listener: TrainingListener, translate: Translate
) -> Reproduction:
    """Train a recipe into `out`, or continue there; evaluate its test sets and judge the scores.

    The runs that it starts from or learns from, if any, are trained and judged first; `translate` runs the
    jobs of those it learns from. Missing data is downloaded if `fetch` says so.

    Raises:
        ConfigError: nothing is expected of this version; no recipe has a run that it needs.
        DataError: its data is not to be had, or is not what the scores were measured on.
        RunError: `out` holds another run.
    """
    from dragoman.tasks.training import report_on_text, train

    expectation, config, distillation = recipe.expectation(), recipe.config, recipe.distillation
    recipe.provide_data(fetch=fetch, say=listener.message)
    for path in recipe.runs_before():
        if not (path / REPRODUCTION).exists():
            first = recipe_of_run(path.name)
            listener.message(f"{first.name}{first.option} comes first: the training needs it; run: {path}")
            reproduce(first, out=path, fetch=fetch, listener=listener, translate=translate)
    if distillation is not None:
        write_lessons(config, distillation, translate=translate, say=listener.message)
    report_on_text(config, out, listener.message, check=False)
    with only_writer(out):
        run = Run.create(out, config)
        if distillation and not start_of(config):
            take_tokenizer(Path(distillation.teacher), run)
    if is_finished(run):
        listener.message(f"{run.path} is trained; evaluating it")
    else:
        recorded = Run(recipe.results, config).history()  # empty where none is kept
        reference = ReferenceListener(recorded, listener.message, metric=config.training.metric)
        train(config, out, listener=Listeners([listener, reference]))
    request = EvaluationRequest(
        split="test",
        device=run.config.training.device,
        robustness=any(score.test_set.endswith(OF_SET) for score in expectation.scores),
        say=listener.message,
    )
    task = task_of(run.config)
    records = [one.record() for one in task.evaluate(run, task.tests(run, request), request)]
    keep_scores(run, records)
    verdicts = list(judge(expectation.scores, records))
    result = Reproduction(
        run=str(run.path),
        passed=all(verdict.passed for verdict in verdicts),
        minutes=float(run.read_json("report.json")["minutes"]),
        expected_minutes=expectation.minutes,
        differences=list(environment_differences(expectation, run.read_json("environment.json"))),
        scores=verdicts,
    )
    run.write_json(REPRODUCTION, result.record())
    return result


def write_lessons(config: Config, distillation: Distillation, *, translate: Translate, say: Say) -> None:
    """Let runs write the text that `config` learns from, where its data.train says, or finish that.

    ConfigError: data.train names other files than lessons are.
    """
    files = list(map(Path, file_names(config.data.train)))
    if [file.name for file in files] != ["train.src.gz", "train.tgt.gz"]:
        raise ConfigError(
            "[distillation] writes train.src.gz and train.tgt.gz, and data.train names other files; name "
            "these two, in one folder"
        )
    folder, teacher = files[0].parent, Path(distillation.teacher)
    material = Material(teacher, translation_config(Run.open(teacher)), distillation.lessons)
    with only_writer(folder.parent):
        teach(material, folder, translate=translate, say=say)


def judge(expected: Sequence[ExpectedScore], records: Sequence[Mapping[str, Any]]) -> Iterator[Verdict]:
    """Yield a verdict on every score that is expected, from the records of the test sets."""
    scores = {
        (record["name"], score["name"]): score for record in records for score in record.get("scores", [])
    }
    for one in expected:
        score, problem, note = scores.get((one.test_set, one.metric), {}), None, ""
        value = score.get("value")
        if value is None or not math.isfinite(value):
            value, problem = None, "the run has no such score"
        elif score["signature"] != one.signature:
            # Scored in another way, figures cannot be compared.
            theirs, ours = (
                dict(part.partition(":")[::2] for part in signature.split("|"))
                for signature in (one.signature, score["signature"])
            )
            problem = f"scored in another way: {'; '.join(differences(theirs, ours))}"
        else:
            worse = (value - one.value) * (1 if one.better == "lower" else -1)
            if worse > one.tolerance + 1e-9:
                problem = f"{worse:.1f} worse, and {one.tolerance:g} allowed"
            elif -worse > one.tolerance:
                note = f"{-worse:.1f} better than expected"
        yield Verdict(
            one.test_set, one.metric, value, one.value, one.tolerance, problem is None, problem, note
        )


def environment_differences(expectation: Expectation, environment: Mapping[str, Any]) -> Iterator[str]:
    """Describe differences from the machine that recorded the expected scores."""
    machine = {"cpu": expectation.machine.cpu, "n_threads": expectation.machine.n_threads}
    for name, value in {**expectation.versions, **machine}.items():
        if environment.get(name) != value:
            yield f"{name} {environment.get(name) or 'unknown'}, recorded with {value}"
    if environment.get("gpus"):
        yield f"with {environment['gpus'][0]}"


class ReferenceListener(TrainingListener):
    """Says after every validation where a recorded training stood at the same step."""

    def __init__(self, history: Sequence[dict[str, Any]], say: Say, *, metric: str) -> None:
        """`metric` is training.metric of the recipe."""
        self.key = "valid_loss" if metric == "loss" else metric  # in history.jsonl
        self.values = {r["step"]: r[self.key] for r in history if r["kind"] == "valid" and self.key in r}
        self._say = say

    def logged(self, record: dict[str, Any]) -> None:
        value, reference = record.get(self.key), self.values.get(record["step"])
        if record["kind"] != "valid" or value is None or reference is None:
            return
        digits, sign = (2, -1) if self.key == "valid_loss" else (1, 1)
        lead = sign * (round(value, digits) - round(reference, digits))
        verdict = f"{abs(lead):.{digits}f} {'ahead' if lead > 0 else 'behind'}"
        self._say(
            f"{TITLES.get(self.key, 'loss')} {value:.{digits}f}, reference {reference:.{digits}f} at step "
            f"{record['step']:,}: {verdict if abs(lead) >= 0.5 * 10**-digits else 'the same'}"
        )


def reference_curves(run: Run) -> Curves | None:
    """Return the curves of the recipe that the run is of, where Dragoman comes with them.

    A run is of a recipe that has its name and its task; of the recipe's versions it is the one of as many
    steps, or else the first.
    """
    recorded = [replace(recipe, version=name) for recipe in known_recipes() for name in recipe.recorded()]
    fitting = [
        recipe
        for recipe in recorded
        if (recipe.config.name, recipe.config.subject) == (run.config.name, run.config.subject)
    ]
    fitting.sort(key=lambda recipe: recipe.config.training.max_steps != run.config.training.max_steps)
    for recipe in fitting:
        history = Run(recipe.results, recipe.config).history()
        if any(record.get("kind") == "valid" for record in history):
            of_version = "" if recipe.version == FULL else f" ({recipe.version})"
            return Curves(f"recipe's reference{of_version}", history, recipe.config.training.max_steps)
    return None
