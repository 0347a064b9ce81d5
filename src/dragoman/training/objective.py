"""What the training loop needs to know of the thing that is learnt."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from dragoman.model.transformer import Transformer

Weights: TypeAlias = "dict[str, Tensor]"
Batch = TypeVar("Batch")

TITLES = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "old_bleu": "old BLEU",
    "micro_f1": "micro-F1",
    "accuracy": "accuracy",
    "macro_f1": "macro-F1",
}
"""What people call the scores of a validation, in the order in which they are shown."""
N_SAMPLES = 3
"""Validation examples that are shown at each validation."""


class BatchResult(NamedTuple):
    """A batch's loss, and how much was read for it."""

    loss: Tensor
    """What is minimised, summed over the items, in nats; carries the gradient."""
    n_tokens: int
    """Tokens read, padding excluded; only speed is computed from it."""


class Sample(NamedTuple):
    """A validation example, and what a model makes of it."""

    source: str
    """The sentence to be translated, or the text to be classified."""
    reference: str
    """Its translation, or its label."""
    hypothesis: str
    """The model's translation, or the label that it gives."""


@dataclass(frozen=True)
class Validation:
    """Scores of one set of weights on the validation examples."""

    record: dict[str, Any]
    """What history.jsonl keeps: valid_loss in nats an item, and scores 0–100."""
    score: float
    """The number that chooses checkpoints; higher is better."""
    warnings: dict[str, str] = field(default_factory=dict)
    """What is suspicious, by a name under which it is said only once."""
    samples: tuple[Sample, ...] = ()
    """Some of the examples, always the same ones."""
    probe: str = ""
    """What the model computes with these weights, kept with them; "" of a model that has one code."""


class Objective(ABC, Generic[Batch]):
    """What is learnt: a model, its data and its measure.

    Everything that it does follows from its arguments and from PyTorch's random state, so that a training
    which is continued does the same as one that never stopped.
    """

    model: Transformer
    static: bool = False
    """Whether batches have few shapes, and say without a device's help how much they hold."""
    item: ClassVar[str]
    """What losses are an average over: "token" or "text"."""

    def begin(self) -> None:
        """Initialise the weights of a new training; by default they stay as the model made them."""

    @abstractmethod
    def plan(self, epoch: int) -> Sequence[npt.NDArray[np.int64]]:
        """Return the indices of each batch's examples, in the order of training: every example once."""

    @abstractmethod
    def batch(self, indices: npt.NDArray[np.int64], device: torch.device) -> Batch:
        """Return the examples at `indices`, as the epoch sees them that was planned last."""

    @abstractmethod
    def memory(self, indices: npt.NDArray[np.int64]) -> float:
        """Return the memory of the batch of the examples at `indices`, relative to other batches."""

    @abstractmethod
    def n_items(self, batch: Batch) -> float:
        """Return the number of items in the loss of `batch`: target tokens, or texts weighted by label."""

    @abstractmethod
    def loss(self, batch: Batch) -> BatchResult:
        """Return the loss of the model's predictions for `batch`."""

    @abstractmethod
    def validate(self, weights: Weights) -> Validation:
        """Score `weights` in the place of the model's own, which are left alone."""

    def passes(self, epoch: int, batch: int) -> dict[str, float]:
        """Return how often each of several corpora has been read before this batch of an epoch, for a log.

        The epoch is the one that was planned last, or the one behind it, of which nothing was read.
        """
        return {}

    def finish(self, weights: Weights) -> dict[str, float]:
        """Finish learning once the final weights are known, and return facts for the report."""
        return {}


def sampled(n_examples: int) -> list[int]:
    """Return the indices of the examples to show: N_SAMPLES, spread evenly, or all if there are fewer."""
    n = min(N_SAMPLES, n_examples)
    return [(2 * i + 1) * n_examples // (2 * n) for i in range(n)]
