"""Train and evaluate a recipe, beside the recorded training, and judge its scores."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dragoman.bulk.running import translate_file
from dragoman.config import Config, file_names
from dragoman.distillation.distilling import describe_lessons, take_tokenizer
from dragoman.distillation.teaching import Translate, teach
from dragoman.errors import ConfigError
from dragoman.evaluation.scores import keep_scores
from dragoman.predict.model import translation_config
from dragoman.report.curves import Curves
from dragoman.reproduction.recipe import (
    OF_SEED,
    Distillation,
    Expectation,
    ExpectedScore,
    Recipe,
    check_data,
    known_recipes,
    provide_data,
    version_of_run,
    version_option,
)
from dragoman.runs import Run, only_writer
from dragoman.tasks import task_of
from dragoman.tasks.request import EvaluationRequest, Say
from dragoman.tasks.translation.robustness import OF_SET
from dragoman.training.objective import TITLES
from dragoman.training.state import TrainPosition
from dragoman.training.trainer import Listeners, TrainingListener, is_finished

REPRODUCTION = "reproduction.json"
"""What a run keeps of the comparison."""


class Verdict(NamedTuple):
    """One score beside what was expected."""

    expected: ExpectedScore
    value: float | None
    """None where the run has no such score."""
    problem: str
    """Why it fails, in words; "" where it passes."""
    note: str = ""
    """What else is to be said of it."""

    @property
    def passed(self) -> bool:
        return not self.problem


@dataclass(frozen=True)
class Reproduction:
    """A run of a recipe, and what has become of its expectation."""

    run: Path
    expectation: Expectation
    verdicts: tuple[Verdict, ...]
    minutes: float
    """Of training, validation included."""
    differences: tuple[str, ...]
    """In which versions and machine the run was made, where they are others than recorded."""

    @property
    def passed(self) -> bool:
        return all(verdict.passed for verdict in self.verdicts)

    def record(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        return {
            "run": str(self.run),
            "passed": self.passed,
            "minutes": self.minutes,
            "expected_minutes": self.expectation.minutes,
            "differences": list(self.differences),
            "scores": [
                {
                    "test_set": verdict.expected.test_set,
                    "metric": verdict.expected.metric,
                    "value": verdict.value,
                    "expected": verdict.expected.value,
                    "tolerance": verdict.expected.tolerance,
                    "passed": verdict.passed,
                    "problem": verdict.problem or None,
                }
                for verdict in self.verdicts
            ],
        }


def reproduce(
    recipe: Recipe,
    version: str,
    *,
    out: Path,
    overrides: Sequence[str] = (),
    fetch: bool = True,
    listener: TrainingListener | None = None,
    translate: Translate = translate_file,
) -> Reproduction:
    """Train a version of a recipe into `out`, or continue there; evaluate its test sets and judge the scores.

    The runs that it starts from or learns from, if any, are trained and judged first; `translate` runs the
    jobs of those it learns from.

    ConfigError: nothing is expected of this version. DataError: its data is not to be had, or is not what
    the scores were measured on. RunError: `out` holds another run.
    """
    from dragoman.tasks.training import report_on_text, train

    listener = listener or TrainingListener()
    expectation, config = recipe.expectation(version), recipe.config(version, overrides)
    distillation = recipe.distillation(version)
    at_hand = text_at_hand(config, distillation)
    provide_data(at_hand, fetch=fetch, say=listener.message)
    check_data(at_hand, expectation.data)
    for first in runs_before(config, distillation):
        reproduce_first(first, fetch=fetch, listener=listener, translate=translate)
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
        recorded = Run(recipe.results(version), config).history()  # empty where none is kept
        metric, max_steps = config.training.metric, expectation.max_steps
        reference = ReferenceListener(recorded, listener.message, metric=metric, max_steps=max_steps)
        train(config, out, listener=Listeners([listener, reference]))
    robustness = any(score.test_set.endswith(OF_SET) for score in expectation.scores)
    records = evaluate_run(run, listener, robustness=robustness)
    keep_scores(run, records)
    result = Reproduction(
        run.path,
        expectation,
        tuple(judge(expectation.scores, records)),
        float(run.read_json("report.json")["minutes"]),
        tuple(environment_differences(expectation, run.read_json("environment.json"))),
    )
    run.write_json(REPRODUCTION, result.record())
    return result


def start_of(config: Config) -> Path | None:
    """Return the folder of the run that a training with these settings starts from."""
    start = config.training.start_from if config.task == "translation" else ""
    return Path(start) if start else None


def runs_before(config: Config, distillation: Distillation | None) -> list[Path]:
    """Return the folders of the runs that a training starts from or learns from, each once."""
    start = start_of(config)
    runs = [start] if start else []
    if distillation:
        runs += distillation.lessons.runs(Path(distillation.teacher))
    return list(dict.fromkeys(runs))


def text_at_hand(config: Config, distillation: Distillation | None) -> Config:
    """Return the same without the training and validation text that a distillation writes."""
    if distillation is None:
        return config
    data = config.data.model_copy(update={"train": (), "valid": ()})
    return config.model_copy(update={"data": data})


def reproduce_first(out: Path, *, fetch: bool, listener: TrainingListener, translate: Translate) -> None:
    """Reproduce the version and seed of a recipe that the folder `out` is called after, unless it is there.

    ConfigError: no recipe has runs of this name.
    """
    if (out / REPRODUCTION).exists():
        return
    recipe, version, seed = version_of_run(out.name)
    listener.message(f"{recipe.name}{version_option(version)} comes first: the training needs it; run: {out}")
    reproduce(
        recipe, version, out=out, overrides=[] if seed is None else [f"seed={seed}"], fetch=fetch,
        listener=listener, translate=translate,
    )  # fmt: skip


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
    taught_by = translation_config(Run.open(teacher))
    with only_writer(folder.parent):
        taught = teach(teacher, taught_by, folder, lessons=distillation.lessons, translate=translate)
    say(describe_lessons(taught))


def with_seed(config: Config, seed: int) -> list[str]:
    """Return the overrides that give `config`, and what it starts from, another seed."""
    start = start_of(config)
    overrides = [f"seed={seed}"]
    if start is not None:
        overrides.append(f'training.start_from="{start.as_posix()}{OF_SEED}{seed}"')
    return overrides


def evaluate_run(run: Run, listener: TrainingListener, *, robustness: bool) -> list[dict[str, Any]]:
    """Return the records of every test set that the run names, searched and scored as its settings say.

    With `robustness` those of altered text as well.
    """
    task, device = task_of(run.config), run.config.training.device
    request = EvaluationRequest(split="test", device=device, robustness=robustness, say=listener.message)
    return [one.record() for one in task.evaluate(run, task.tests(run, request), request)]


def judge(expected: Sequence[ExpectedScore], records: Sequence[Mapping[str, Any]]) -> Iterator[Verdict]:
    """Yield a verdict on every score that is expected, from the records of the test sets."""
    scores = {
        (record["name"], score["name"]): score for record in records for score in record.get("scores", [])
    }
    for one in expected:
        score = scores.get((one.test_set, one.metric), {})
        value = score.get("value")
        if value is None or not math.isfinite(value):
            yield Verdict(one, None, "the run has no such score")
            continue
        worse, problem, note = (value - one.value) * (1 if one.better == "lower" else -1), "", ""
        if score["signature"] != one.signature:
            # Scored in another way, figures cannot be compared.
            ours, theirs = (
                dict(part.partition(":")[::2] for part in signature.split("|"))
                for signature in (score["signature"], one.signature)
            )
            names = [name for name in {**theirs, **ours} if ours.get(name) != theirs.get(name)]
            parts = [f"{n} {ours.get(n, 'not there')}, expected {theirs.get(n, 'none')}" for n in names]
            problem = f"scored in another way: {'; '.join(parts)}"
        elif worse > one.tolerance + 1e-9:
            problem = f"{worse:.1f} worse, and {one.tolerance:g} allowed"
        elif -worse > one.tolerance:
            note = f"{-worse:.1f} better than expected"
        yield Verdict(one, value, problem, note)


def environment_differences(expectation: Expectation, environment: Mapping[str, Any]) -> Iterator[str]:
    """Describe differences from the machine that recorded the expected scores."""
    for name, version in expectation.versions.items():
        if environment.get(name) != version:
            yield f"{name} {environment.get(name) or 'unknown'}, recorded with {version}"
    machine = expectation.machine
    for name, value in (("cpu", machine.cpu), ("n_threads", machine.n_threads)):
        if environment.get(name) != value:
            words = {"cpu": "processor", "n_threads": "threads"}[name]
            yield f"{words}: {environment.get(name) or 'unknown'}, recorded with {value}"
    if environment.get("gpus"):
        yield f"with {environment['gpus'][0]}"


class ReferenceListener(TrainingListener):
    """Says after every validation where a recorded training stood."""

    def __init__(self, history: Sequence[dict[str, Any]], say: Say, *, metric: str, max_steps: int) -> None:
        """`metric` is training.metric of the recipe, `max_steps` training.max_steps of the recorded run."""
        self.key = "valid_loss" if metric == "loss" else metric  # in history.jsonl
        self.max_steps, self._say = max_steps, say
        self._training_steps = 1
        records = [r for r in history if r.get("kind") == "valid" and r.get(self.key) is not None]
        self.points = sorted((record["step"], float(record[self.key])) for record in records)

    def at(self, step: float) -> float | None:
        """Return the reference's score at a step, interpolated; after the end, the last one.

        None before the first.
        """
        if not self.points or step < self.points[0][0]:
            return None
        steps, values = zip(*self.points, strict=True)
        return float(np.interp(step, steps, values))

    def compare(self, record: dict[str, Any], *, max_steps: int) -> str:
        """Describe a validation beside the reference; "" = there is nothing to compare it with.

        At the same step, or, where the schedule has another length, at the same share of the steps.
        """
        value = record.get(self.key)
        same_length = max_steps == self.max_steps
        reference = self.at(record["step"] if same_length else record["step"] * self.max_steps / max_steps)
        if value is None or reference is None:
            return ""
        digits = 2 if self.key == "valid_loss" else 1
        lead = round(reference, digits) - round(value, digits)
        lead = lead if self.key == "valid_loss" else -lead
        place = f"step {record['step']:,}" if same_length else f"{100 * record['step'] / max_steps:.0f} %"
        place += "" if same_length else " of the steps"
        verdict = f"{abs(lead):.{digits}f} {'ahead' if lead > 0 else 'behind'}"
        return (
            f"{TITLES.get(self.key, 'loss')} {value:.{digits}f}, reference {reference:.{digits}f} "
            f"at {place}: {verdict if abs(lead) >= 0.5 * 10**-digits else 'the same'}"
        )

    def started(self, position: TrainPosition, config: Config, n_parameters: int) -> None:
        self._training_steps = config.training.max_steps

    def logged(self, record: dict[str, Any]) -> None:
        if record["kind"] == "valid" and (text := self.compare(record, max_steps=self._training_steps)):
            self._say(text)


def reference_curves(run: Run) -> Curves | None:
    """Return the curves of the recipe that the run is of, where Dragoman comes with them.

    A run is of a recipe that has its name and its task; of the recipe's versions it is the one of as many
    steps, or else the full one.
    """
    config = run.config
    for recipe in known_recipes():
        versions = recipe.recorded()
        fitting = [
            version
            for version in versions
            if (other := recipe.config(version)).name == config.name and other.subject == config.subject
        ]
        fitting.sort(key=lambda version: versions[version].max_steps != config.training.max_steps)
        for version in fitting:
            history = Run(recipe.results(version), recipe.config(version)).history()
            if any(record.get("kind") == "valid" for record in history):
                name = "recipe's reference" if version == "full" else f"recipe's reference ({version})"
                return Curves(name, history, versions[version].max_steps)
    return None
