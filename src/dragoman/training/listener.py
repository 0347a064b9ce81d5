"""The callback interface of a training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dragoman.config import Config
from dragoman.training.state import Position
from dragoman.training.task import Sample


class TrainingListener:
    """Is told what happens during a training. This one says nothing; override what you want to hear."""

    def message(self, text: str) -> None:
        """Receive a sentence for the user."""

    def started(self, position: Position, config: Config, n_parameters: int) -> None:
        """Handle the start, before the first update of this call."""

    def stepped(self, position: Position) -> None:
        """One update was made."""

    def logged(self, record: dict[str, Any]) -> None:
        """Receive a record that was added to history.jsonl."""

    def validating(self) -> None:
        """Training pauses for a validation."""

    def sampled(self, step: int, samples: Sequence[Sample]) -> None:
        """Receive the outputs for some validation examples, always the same ones."""
