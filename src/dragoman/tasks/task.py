"""The interface of a task: everything above training that depends on what is learnt."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from dragoman.config import Config, load_recipe, read_settings
from dragoman.data.named import PLACES, located
from dragoman.errors import ConfigError
from dragoman.runs import Run
from dragoman.tasks.request import EvaluationRequest, Say, TrainingRequest

if TYPE_CHECKING:
    from dragoman.data.records import Corpus
    from dragoman.report.comparison import Comparison
    from dragoman.report.curves import Curves
    from dragoman.report.page import Page
    from dragoman.training.objective import Objective

Opener = Callable[[Sequence[str]], "Corpus"]
"""Opens the corpus in some files."""
Languages = tuple[str | None, str | None]

SPLIT_SEED = 1
"""`data.split_seed` of trainings on files: runs of different seeds then hold out the same text."""


PRECISIONS = ("auto", "fp32", "bf16", "int8")


def check_precision(precision: str, choices: Sequence[str] = PRECISIONS) -> None:
    """ConfigError: `precision` is not among the choices."""
    if precision not in choices:
        *names, last = (f'"{choice}"' for choice in choices)
        there_are = f"{', '.join(names)} and {last}"
        raise ConfigError(f"--precision {precision}: is not a precision; there are {there_are}")


class Evaluation(Protocol):
    """One test set with a model's outputs and their scores."""

    @property
    def name(self) -> str:
        """The name of the test set."""

    def record(self) -> dict[str, Any]:
        """Return what scores.json keeps."""

    def describe(self) -> str:
        """Return the scores as lines of text."""

    def lines(self) -> Iterable[str]:
        """Return the outputs, one line for each input."""


class DemoTable(NamedTuple):
    """A table that a demo prints. A cell may name a colour: ("text", "green")."""

    title: str
    heading: tuple[str, ...]
    """">" before the heading of a column that holds figures."""
    rows: Sequence[Sequence[str | tuple[str, str]]]


class Task(ABC):
    """A kind of model by what it is for."""

    foreign: ClassVar[tuple[str, ...]]
    """Fields of `EvaluationRequest` that mean nothing for this task."""
    noun: ClassVar[str]
    """The model, in a message."""

    @property
    @abstractmethod
    def objective(self) -> Callable[..., Objective[Any]]:
        """Makes what is trained of a config, a run, a device and a listener: its data read, its model fresh.

        `static`: its batches have few shapes. It imports PyTorch, which who only translates does not need.
        """

    @abstractmethod
    def config_for(self, request: TrainingRequest) -> Config:
        """Return the configuration for the files of `request`; errors as for `dragoman.config_for`."""

    @abstractmethod
    def opener(self, files: Sequence[str], reading: TrainingRequest) -> tuple[Opener, Languages]:
        """Return what opens corpora that are like the one in `files`, and the languages of its sides.

        ConfigError: `reading` has parts of another task, or languages are missing.
        """

    def check(self, request: EvaluationRequest) -> None:
        """ConfigError: `request` has an option that means nothing for this task."""
        defaults = {field.name: field.default for field in fields(request)}
        names = [name for name in self.foreign if getattr(request, name) != defaults[name]]
        if names:
            options = ", ".join(f"--{name.replace('_', '-')}" for name in names)
            raise ConfigError(f"{options}: not for a {self.noun}; leave it away")

    def directions(self, run: Run, request: EvaluationRequest) -> Sequence[Run]:
        """Return the run once for each direction that `request` means, each as a run of this one.

        ConfigError: it has not the direction.
        """
        return [run]

    @abstractmethod
    def tests(self, run: Run, request: EvaluationRequest) -> Mapping[str, Any]:
        """Return the corpora to score, by name.

        ConfigError: options contradict one another, or there are none. DataError: a file is missing.
        """

    @abstractmethod
    def evaluate(
        self, run: Run, tests: Mapping[str, Any], request: EvaluationRequest
    ) -> Iterator[Evaluation]:
        """Score the run on each of `tests`; errors as for loading a run and reading its text."""

    def score_validation(self, run: Run, say: Say) -> Iterator[Evaluation]:
        """Score a run that was just trained on its validation text, if that is worth the time."""
        yield from ()

    @abstractmethod
    def report(self, run: Run, request: EvaluationRequest, figures: Path, reference: Curves | None) -> Page:
        """Return the page of `dragoman report`; its figures are written into the folder `figures`.

        `reference` are the curves of the recipe's reference run. ConfigError, DataError, RunError: the split
        that `request` names cannot be had, or a file is damaged. MissingExtraError: matplotlib is missing.
        """

    @abstractmethod
    def compare(self, runs: Mapping[str, Run], request: EvaluationRequest) -> Sequence[Comparison]:
        """Compare runs on the same test sets.

        ConfigError: they have none in common. DataError: two sets of one name differ.
        """

    @abstractmethod
    def demo_settings(self, src: str | None, tgt: str | None) -> dict[str, Any]:
        """Return the settings of the demo. ConfigError: the embedded corpus has no such languages."""

    @abstractmethod
    def demo_results(self, run: Run, say: Say) -> tuple[list[DemoTable], str, Sequence[str]]:
        """Score the demo's run and keep its scores.

        Return tables to print, an example to try, and commands to try next, without the program's name.
        """


def open_run(path: str | Path, say: Say) -> Run:
    """Open a run to score: its corpora are found from any folder, as `named.located` does."""
    run = Run.open(path)
    return replace(run, config=located(run.config, run.text_hashes().get(PLACES, {}), say))


def split_as_before(config: Config, out: Path) -> Config:
    """Return `config`, held out by `seed` if the run in `out` was begun by a version without split_seed."""
    began = (out / "config.toml").exists() and Run.open(out).config.data.split_seed < 0
    if not began or config.data.split_seed != SPLIT_SEED:
        return config
    return config.model_copy(update={"data": config.data.model_copy(update={"split_seed": -1})})


def name_of(file: str) -> str:
    """Return a file's name without endings and what the name of a run or corpus cannot hold; "" = nothing."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", PurePath(file).name.split(".")[0]).strip("-_")


def read_recipe(request: TrainingRequest, recipe: Path) -> Config:
    """Return the configuration in `recipe`. ConfigError: it is damaged, or for another task."""
    if request.robust and read_settings(recipe).get("task") == "classification":
        raise ConfigError(f"{recipe}: is a recipe for classification; --robust is for translators")
    config = load_recipe(recipe, request.overrides)
    if request.task is not None and config.task != request.task:
        raise ConfigError(f"{recipe}: is a recipe for {config.task}; leave --task away")
    return config
