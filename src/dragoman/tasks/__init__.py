"""What Dragoman learns: translation and classification, each behind the interface `tasks.task.Task`.

A task owns everything that depends on it: what is trained, scored, compared and reported. Training, the
command line and reproductions ask the task and do not branch. `TASKS` is where a new one is registered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, ParamSpec

from dragoman.errors import ConfigError
from dragoman.tasks.request import TrainingRequest

if TYPE_CHECKING:
    from dragoman.config import Config
    from dragoman.tasks.task import Task

P = ParamSpec("P")

TASKS = {
    "translation": "dragoman.tasks.translation.task:TranslationTask",
    "classification": "dragoman.tasks.classification.task:ClassificationTask",
}
"""The class of each task by the name it has in config.toml; imported on first use."""


def task_named(name: str) -> Task:
    """Return the task of this name. ConfigError: there is none."""
    if name not in TASKS:
        raise ConfigError(f"--task {name}: is unknown; give {' or '.join(TASKS)}")
    module, _, cls = TASKS[name].partition(":")
    task: Task = getattr(import_module(module), cls)()
    return task


def task_of(config: Config) -> Task:
    """Return the task that `config` describes."""
    return task_named(config.task)


def _by_keywords(
    make: Callable[P, TrainingRequest],
) -> Callable[[Callable[[TrainingRequest], Config]], Callable[P, Config]]:
    """Return a decorator that turns a function of a request into one of the request's keywords."""

    def decorate(function: Callable[[TrainingRequest], Config]) -> Callable[P, Config]:
        @wraps(function)
        def call(*args: P.args, **named: P.kwargs) -> Config:
            return function(make(*args, **named))

        call.__signature__ = signature(make).replace(return_annotation="Config")  # type: ignore[attr-defined]
        return call

    return decorate


@_by_keywords(TrainingRequest)
def config_for(request: TrainingRequest) -> Config:
    """Return the configuration of a training on files, as `dragoman train` chooses it.

    Architecture, vocabulary and steps follow from the size of the corpus. With `file` a recipe.toml, return
    that recipe; with `start`, one that goes on from a trained run. The signature describes each keyword.

    Raises:
        ConfigError: files or settings contradict one another, or languages are missing.
        DataError: a file is missing or damaged.
        RunError: `start` is not a run.
    """
    from dragoman.data.readers.columns import by_name

    task = task_named(request.task or "translation")
    first = next((files[0] for files in request.corpora["train"] if len(files) == 1), "")
    if request.columns is not None:
        request = replace(request, columns=by_name(first, request.columns))
    if request.text_column is not None and request.label_column is not None:
        text, label = by_name(first, (request.text_column, request.label_column))
        request = replace(request, text_column=text, label_column=label)
    return task.config_for(request)
