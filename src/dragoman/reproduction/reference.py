"""Compare a running training with the recorded one after every validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dragoman.config import Config
from dragoman.report.curves import Curves
from dragoman.reproduction.recipe import known_recipes
from dragoman.runs import Run
from dragoman.tasks.request import Say
from dragoman.training.objective import TITLES
from dragoman.training.state import TrainPosition
from dragoman.training.trainer import TrainingListener


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
