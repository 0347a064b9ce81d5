"""What the functions of one call of `train` share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from dragoman.config import Config
from dragoman.runs import Run
from dragoman.training.listener import TrainingListener
from dragoman.training.parallel.processes import Processes
from dragoman.training.state import TrainState
from dragoman.training.task import Task


@dataclass(frozen=True)
class TrainingContext:
    """One call of `train`."""

    config: Config
    run: Run
    device: torch.device
    task: Task[Any]
    state: TrainState
    module: nn.Module
    """The task's loss, shared between the processes where there are several."""
    listener: TrainingListener
    processes: Processes
    deadline: float = math.inf
    """When it has to end, in seconds of `time.monotonic`."""
