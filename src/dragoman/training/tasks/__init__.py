"""What training needs of each task: its data, its loss and its measure, behind the interface `task.Task`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from dragoman.config import Config
    from dragoman.runs import Run
    from dragoman.training.task import Objective
    from dragoman.training.trainer import TrainingListener

TASKS = {
    "translation": "dragoman.training.tasks.translation:TranslationObjective",
    "classification": "dragoman.training.tasks.classification:ClassificationObjective",
}
"""The class of each task by the name it has in config.toml; imported on first use."""


def make_task(
    config: Config, run: Run, device: torch.device, listener: TrainingListener, *, static: bool = False
) -> Objective[Any]:
    """Return the task that `config` describes: its data read, its model fresh, in the type for training.

    `static`: batches have few shapes.
    """
    module, _, cls = TASKS[config.task].partition(":")
    task: Objective[Any] = getattr(import_module(module), cls)(config, run, device, listener, static=static)
    return task
