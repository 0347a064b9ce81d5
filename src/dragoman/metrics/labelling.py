"""What the labels of a text are: one of several classes, or any number of them.

Everything in which the two differ is behind `Labelling`. The labels of N texts are an array: class numbers
(N,) where a text has one label, or 0 and 1 (N, C) where it may have several. C is the number of classes.
What is trained is in tensors; who only classifies needs no PyTorch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from dragoman.metrics.classification import (
    Counts,
    Floats,
    Ids,
    confusion_matrix,
    counts_of,
    f1_score,
    mean_f1,
    micro_f1,
    resampled_confusions,
    share_right,
    sigmoid,
    softmax,
)
from dragoman.metrics.score import SEED, Score

if TYPE_CHECKING:
    from torch import Tensor

Labels = npt.NDArray[Any]
"""Class numbers (N,), or 0 and 1 (N, C)."""


class Loss(NamedTuple):
    """A loss of logits (N, C), and its gradient."""

    value: Tensor
    """(N,): nats of each text."""
    gradient: Tensor
    """(N, C)."""


class Mistake(NamedTuple):
    """A kind of mistake. A label alone was missed; a given label alone was wrong."""

    n: int
    label: int | None
    given: int | None


class Labelling(ABC):
    """What the labels of a text are. Texts are rows, probabilities (N, C) are calibrated."""

    separator: str
    """Between the labels of a text."""
    score_keys: ClassVar[tuple[str, ...]]
    """The keys of scores in records of validations, the main one first."""
    share_name: ClassVar[str]
    """The name of the share of texts that are right."""
    decided: ClassVar[str]
    """What has a confidence, in words."""

    @abstractmethod
    def encode(self, numbers: Sequence[Sequence[int]], n_classes: int) -> Labels:
        """Return the labels of texts, given the class numbers of each."""

    @abstractmethod
    def numbers(self, labels: Labels) -> list[list[int]]:
        """Return the class numbers of each text: what `encode` was given, in order of number."""

    @abstractmethod
    def targets(self, labels: Labels, n_classes: int) -> Tensor:
        """Return float32 (N, C): 1 where a text has the label."""

    @abstractmethod
    def text_weights(self, labels: Tensor, class_weights: Tensor) -> Tensor:
        """Return (N,): the weight of each text, given those of the classes (C,)."""

    @abstractmethod
    def losses(self, logits: Tensor, labels: Tensor, *, smoothing: float) -> Tensor:
        """Return (N,): nats of each text, with a gradient; `smoothing` is spread over all answers."""

    @abstractmethod
    def loss(self, logits: Tensor, targets: Tensor) -> Loss:
        """Return the loss of logits (N, C) and its gradient; `targets` are (N, C)."""

    @abstractmethod
    def counts_of_others(self, counts: Tensor, n_texts: Tensor) -> Tensor:
        """Return how many texts of the other classes have each n-gram, with pseudo-counts (U, C).

        `counts` (U, C) are those of the class, `n_texts` (U, 1) those of all texts.
        """

    @abstractmethod
    def decisions(self, logits: Floats) -> Floats:
        """Return logits (..., N, C) as those of decisions between classes of which one holds (..., M, K).

        A text of one label is one decision among C; a text of several is C decisions between no and yes.
        """

    @abstractmethod
    def outcomes(self, labels: Labels) -> Ids:
        """Return (M,): the class number of each of the `decisions`."""

    @abstractmethod
    def probabilities(self, logits: Floats, *, temperature: float = 1.0) -> Floats:
        """Return the probability (N, C) of each label."""

    @abstractmethod
    def log_odds(self, logits: Floats, number: int) -> Floats:
        """Return log p/(1 - p) (N,) of the class `number`, in nats."""

    @abstractmethod
    def give(self, probabilities: Floats, threshold: float) -> Labels:
        """Return the labels that texts are given."""

    @abstractmethod
    def fit_threshold(self, probabilities: Floats, labels: Labels) -> float:
        """Return the threshold under which `labels` are given best; 0.5 where there is nothing to choose."""

    @abstractmethod
    def confidence(self, probabilities: Floats, predicted: Labels) -> Floats:
        """Return (N,): how likely it is that all `predicted` labels of a text are right, and no other."""

    @abstractmethod
    def worst(self, probabilities: Floats, labels: Labels, predicted: Labels) -> tuple[Ids, Floats]:
        """Return the class number (N,) of the most confident mistake of each text, and its confidence (N,).

        The confidence is below 0 for a text without a mistake.
        """

    @abstractmethod
    def counts(self, labels: Labels, predicted: Labels, n_classes: int) -> Counts:
        """Return how often each class (C,) is right, given, and there."""

    @abstractmethod
    def resampled(
        self, labels: Labels, predicted: Labels, n_classes: int, *, n_bootstrap: int = 1000
    ) -> Counts:
        """Return `counts` (R, C) of resamples of the texts."""

    @abstractmethod
    def confusion(self, labels: Labels, predicted: Labels, n_classes: int) -> Ids | None:
        """Return (C, C): texts of the row's class that were given the column's; None for several labels."""

    @abstractmethod
    def mistakes(self, labels: Labels, predicted: Labels, n_classes: int) -> list[Mistake]:
        """Return the kinds of mistakes, the most frequent ones first."""

    def scores(
        self, labels: Labels, predicted: Labels, n_classes: int, *, n_bootstrap: int = 1000
    ) -> dict[str, Score]:
        """Return the scores of `predicted` labels, the main one first, by their keys in records."""
        counts = self.counts(labels, predicted, n_classes)
        samples = self.resampled(labels, predicted, n_classes, n_bootstrap=n_bootstrap)
        n = len(labels)
        n_right = int((labels == predicted).reshape(n, -1).all(1).sum())
        scores = {
            "micro_f1": f1_score("micro-F1", micro_f1, counts, samples, n),
            "macro_f1": f1_score("macro-F1", mean_f1, counts, samples, n),
            "accuracy": share_right(self.share_name, n_right, n),
        }
        return {key: scores[key] for key in self.score_keys}

    def names(self, labels: Labels, names: Sequence[str]) -> list[str]:
        """Return the labels of each text as one cell, given the names of the classes."""
        return [self.separator.join(names[i] for i in chosen) for chosen in self.numbers(labels)]


class Exclusive(Labelling):
    """Each text has one label."""

    separator = ""
    score_keys = ("accuracy", "macro_f1")
    share_name = "accuracy"
    decided = "the label given to a text"

    def encode(self, numbers: Sequence[Sequence[int]], n_classes: int) -> Labels:
        return np.array([number for (number,) in numbers], dtype=np.int32)

    def numbers(self, labels: Labels) -> list[list[int]]:
        return [[number] for number in labels.tolist()]

    def targets(self, labels: Labels, n_classes: int) -> Tensor:
        import torch

        return torch.nn.functional.one_hot(torch.from_numpy(labels.astype(np.int64)), n_classes).float()

    def text_weights(self, labels: Tensor, class_weights: Tensor) -> Tensor:
        return class_weights[labels]

    def losses(self, logits: Tensor, labels: Tensor, *, smoothing: float) -> Tensor:
        from torch.nn import functional as F

        return F.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="none")

    def loss(self, logits: Tensor, targets: Tensor) -> Loss:
        log_probs = logits.log_softmax(1)
        return Loss(-(targets * log_probs).sum(1), log_probs.exp() - targets)

    def counts_of_others(self, counts: Tensor, n_texts: Tensor) -> Tensor:
        return n_texts - counts + (counts.shape[1] - 1)

    def decisions(self, logits: Floats) -> Floats:
        return logits

    def outcomes(self, labels: Labels) -> Ids:
        return labels.astype(np.int64)

    def probabilities(self, logits: Floats, *, temperature: float = 1.0) -> Floats:
        return softmax(logits, temperature=temperature)

    def log_odds(self, logits: Floats, number: int) -> Floats:
        other_logits = np.delete(logits, number, axis=1)
        highest = other_logits.max(1)
        total = highest + np.log(np.exp(other_logits - highest[:, None]).sum(1))
        return np.asarray(logits[:, number] - total, dtype=np.float64)

    def give(self, probabilities: Floats, threshold: float) -> Labels:
        return np.asarray(probabilities.argmax(1), dtype=np.int64)

    def fit_threshold(self, probabilities: Floats, labels: Labels) -> float:
        return 0.5

    def confidence(self, probabilities: Floats, predicted: Labels) -> Floats:
        return np.asarray(probabilities[np.arange(len(predicted)), predicted], dtype=np.float64)

    def worst(self, probabilities: Floats, labels: Labels, predicted: Labels) -> tuple[Ids, Floats]:
        return predicted, np.where(labels == predicted, -1.0, self.confidence(probabilities, predicted))

    def counts(self, labels: Labels, predicted: Labels, n_classes: int) -> Counts:
        return counts_of(self.confusion(labels, predicted, n_classes))

    def resampled(
        self, labels: Labels, predicted: Labels, n_classes: int, *, n_bootstrap: int = 1000
    ) -> Counts:
        confusion = self.confusion(labels, predicted, n_classes)
        return counts_of(resampled_confusions(confusion, n_bootstrap=n_bootstrap))

    def confusion(self, labels: Labels, predicted: Labels, n_classes: int) -> Ids:
        return confusion_matrix(labels.astype(np.int64), predicted, n_classes=n_classes)

    def mistakes(self, labels: Labels, predicted: Labels, n_classes: int) -> list[Mistake]:
        confusion = self.confusion(labels, predicted, n_classes)
        pairs = zip(*(axis.tolist() for axis in np.nonzero(confusion)), strict=True)
        return sorted(
            (Mistake(int(confusion[i, j]), i, j) for i, j in pairs if i != j),
            key=lambda mistake: (-mistake.n, mistake[1:]),
        )


class Several(Labelling):
    """Each text has any number of labels: all whose probability is above the threshold."""

    score_keys = ("micro_f1", "macro_f1", "accuracy")
    share_name = "exact match"
    decided = "a decision: whether a text has a label, for each text and each label"

    def __init__(self, separator: str) -> None:
        self.separator = separator

    def encode(self, numbers: Sequence[Sequence[int]], n_classes: int) -> Labels:
        labels = np.zeros((len(numbers), n_classes), dtype=np.uint8)
        for row, classes in zip(labels, numbers, strict=True):
            row[list(classes)] = 1
        return labels

    def numbers(self, labels: Labels) -> list[list[int]]:
        return [np.flatnonzero(row).tolist() for row in labels]

    def targets(self, labels: Labels, n_classes: int) -> Tensor:
        import torch

        return torch.from_numpy(labels.astype(np.float32))

    def text_weights(self, labels: Tensor, class_weights: Tensor) -> Tensor:
        return class_weights.new_ones(len(labels))

    def losses(self, logits: Tensor, labels: Tensor, *, smoothing: float) -> Tensor:
        from torch.nn import functional as F

        targets = labels.to(logits.dtype) * (1 - smoothing) + smoothing / 2
        return F.binary_cross_entropy_with_logits(logits, targets, reduction="none").sum(1)

    def loss(self, logits: Tensor, targets: Tensor) -> Loss:
        from torch.nn import functional as F

        losses = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        return Loss(losses.sum(1), logits.sigmoid() - targets)

    def counts_of_others(self, counts: Tensor, n_texts: Tensor) -> Tensor:
        return n_texts - counts + 1

    def decisions(self, logits: Floats) -> Floats:
        flat = logits.reshape(*logits.shape[:-2], -1)
        return np.stack([np.zeros_like(flat), flat], axis=-1)

    def outcomes(self, labels: Labels) -> Ids:
        return labels.astype(np.int64).ravel()

    def probabilities(self, logits: Floats, *, temperature: float = 1.0) -> Floats:
        return sigmoid(logits / temperature)

    def log_odds(self, logits: Floats, number: int) -> Floats:
        return logits[:, number]

    def give(self, probabilities: Floats, threshold: float) -> Labels:
        return (probabilities > threshold).astype(np.uint8)

    def fit_threshold(self, probabilities: Floats, labels: Labels) -> float:
        """Return the threshold of the best micro-F1: halfway between two probabilities that occur."""
        flat, is_label = probabilities.ravel(), labels.ravel()
        order = np.argsort(-flat, kind="stable")
        ranked, right = flat[order], np.cumsum(is_label[order], dtype=np.int64)
        if not len(ranked) or not right[-1]:
            return 0.5
        f1 = 2 * right / (np.arange(1, len(ranked) + 1) + right[-1])
        next_one = np.append(ranked[1:], 0.0)
        f1[ranked == next_one] = -1.0  # equal probabilities are given together
        best = int(f1.argmax())
        middle = (ranked[best] + next_one[best]) / 2
        return float(middle if middle < ranked[best] else next_one[best])

    def confidence(self, probabilities: Floats, predicted: Labels) -> Floats:
        likelihoods = np.where(predicted, probabilities, 1 - probabilities)
        return np.asarray(likelihoods.prod(1), dtype=np.float64)

    def worst(self, probabilities: Floats, labels: Labels, predicted: Labels) -> tuple[Ids, Floats]:
        sure = np.where(predicted, probabilities, 1 - probabilities)
        confidence = np.where(labels == predicted, -1.0, sure)
        return confidence.argmax(1), confidence.max(1)

    def counts(self, labels: Labels, predicted: Labels, n_classes: int) -> Counts:
        return Counts(*(x.sum(0, dtype=np.int64) for x in (labels & predicted, predicted, labels)))

    def resampled(
        self, labels: Labels, predicted: Labels, n_classes: int, *, n_bootstrap: int = 1000
    ) -> Counts:
        rng = np.random.default_rng(SEED)
        each = np.concatenate([labels & predicted, predicted, labels], axis=1).astype(np.float64)  # (N, 3 C)
        n = len(labels)
        rows = [np.bincount(rng.integers(n, size=n), minlength=n) @ each for _ in range(n_bootstrap)]
        counts = np.reshape(rows, (n_bootstrap, 3, n_classes)).astype(np.int64)
        return Counts(counts[:, 0], counts[:, 1], counts[:, 2])

    def confusion(self, labels: Labels, predicted: Labels, n_classes: int) -> None:
        return None

    def mistakes(self, labels: Labels, predicted: Labels, n_classes: int) -> list[Mistake]:
        missed, wrong = ((a > b).sum(0).tolist() for a, b in ((labels, predicted), (predicted, labels)))
        mistakes = [Mistake(n, i, None) for i, n in enumerate(missed)]
        mistakes += [Mistake(n, None, i) for i, n in enumerate(wrong)]
        return sorted((m for m in mistakes if m.n), key=lambda m: -m.n)


def labelling_of(separator: str) -> Labelling:
    """Return what the labels of texts are: several of them with a separator, one without."""
    return Several(separator) if separator else Exclusive()
