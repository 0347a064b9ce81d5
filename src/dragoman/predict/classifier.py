"""Load a trained run and classify texts."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from dragoman.config import ClassificationConfig
from dragoman.data.document_batching import plan_by_length
from dragoman.errors import DataError, RunError, optional
from dragoman.hardware import choose_precision, on_processor
from dragoman.metrics.labelling import Labelling, Labels, labelling_of
from dragoman.model.compiled import why_not_compiled
from dragoman.model.compiled_classifier import CompiledClassifier
from dragoman.notebook import Cell, Shown, table
from dragoman.predict.loading import Pretrained, classifier_weights
from dragoman.runs import Run
from dragoman.text.tokenizer import UNK_ID, Tokenizer, load_tokenizer

LABELS = "labels.json"
"""Where a run keeps the names of its classes, in the order of their numbers."""

CALIBRATION = "calibration.json"
"""Where a run keeps the temperature and the threshold of its probabilities, once training is finished."""

TOKENIZER = "text.json"
"""The tokenizer's file in the run's tokenizer folder."""

Floats = npt.NDArray[np.float64]
Compute: TypeAlias = Callable[[Sequence[npt.NDArray[np.int64]]], npt.NDArray[Any]]
"""A model: the tokens of texts, one or more each, to their logits (B, C)."""


class Classification(NamedTuple):
    """The labels of a text, and how likely each label is."""

    text: str
    label: str
    """The most likely one; "" for a text that is empty."""
    probabilities: dict[str, float]
    """Of every label, the most likely first. Where a text has one label, they add up to 1. Empty for a text
    that is empty."""
    n_cut: int = 0
    """Tokens at the text's end that were not read, because of data.max_windows."""
    labels: tuple[str, ...] = ()
    """The labels given, the most likely first: `label` alone, or, where a text has any number of labels,
    those whose probability is above the threshold."""

    def notebook_row(self) -> dict[str, Cell]:
        """Return the row of a notebook's table."""
        sure = ", ".join(f"{100 * self.probabilities[label]:.1f} %" for label in self.labels)
        return {"text": self.text, "label": ", ".join(self.labels), "probability": sure}

    def _repr_html_(self) -> str:
        rows = [(label, 100 * p) for label, p in self.probabilities.items()]
        return table(("label", "probability, %"), rows, caption=self.text)


class Logits(NamedTuple):
    """What a model says about texts, before the temperature."""

    values: Floats
    """(N, C)."""
    n_cut: npt.NDArray[np.int64]
    """(N,): tokens at the end of each text that were not read, because of data.max_windows."""
    is_empty: npt.NDArray[np.bool_]
    """(N,): whether a text has no token."""


def classification_config(run: Run) -> ClassificationConfig:
    """Return the configuration of a run that classifies. RunError: it is a translator."""
    if run.config.task != "classification":
        raise RunError(f"{run.path}: is a translator; try: dragoman translate {shlex.quote(str(run.path))}")
    return run.config


@dataclass(eq=False, repr=False)
class Classifier(Pretrained):
    """Text in, label out: a model with its tokenizer, its labels and its calibration."""

    compute: Compute
    precision: str
    """What the products of `compute` are in."""
    tokenizer: Tokenizer
    labels: tuple[str, ...]
    config: ClassificationConfig
    temperature: float
    threshold: float

    @cached_property
    def labelling(self) -> Labelling:
        """Whether a text has one label, or any number of them."""
        return labelling_of(self.config.data.label_separator)

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto", precision: str = "auto") -> Classifier:
        """Load the classifier in the folder `path`. Its temperature is 1 until its training is finished.

        RunError: no run is there, training has not yet written weights, or a file is damaged.
        """
        run = Run.open(path)
        config, labels = classification_config(run), tuple(load_labels(run))
        tokenizer = load_tokenizer(run.tokenizer_folder / TOKENIZER)
        weights = classifier_weights(run, config, tokenizer.vocab_size, len(labels))
        calibration = load_calibration(run)
        kind: Any = choose_precision(precision) if on_processor(device) else None
        reason = "is for processors" if kind is None else why_not_compiled(config.model, kind)
        if config.training.kernels == "fast" and not reason:
            compute: Compute = partial(
                CompiledClassifier(weights, config.model, kind=kind), max_length=config.data.max_length
            )
        else:
            optional("torch", extra="train", purpose=f"classifying ({reason})")
            from dragoman.predict.networks import load_classifier

            compute = load_classifier(weights, config, tokenizer, device=device, precision=precision)
            kind = compute.precision
        return cls(compute, kind, tokenizer, labels, config, *calibration)

    def classify(
        self, texts: Sequence[str], *, progress: Callable[[int], None] | None = None
    ) -> list[Classification]:
        """Return the labels of each text, in order. Texts may be of any length; an empty one has no label.

        `progress` is called with the number of texts finished.
        """
        if isinstance(texts, str):
            raise DataError("classify takes a list of texts; for a single one write classify([text])")
        logits, n_cut, is_empty = self.logits(texts, progress=progress)
        probabilities = self.labelling.probabilities(logits, temperature=self.temperature)
        order = np.argsort(-probabilities, axis=1, kind="stable").tolist()
        label_numbers = self.labelling.numbers(self.give(logits))
        results = Shown(Classification(text, "", {}) for text in texts)
        for i in (~is_empty).nonzero()[0].tolist():
            likely = {self.labels[number]: float(probabilities[i, number]) for number in order[i]}
            labels = tuple(self.labels[number] for number in order[i] if number in label_numbers[i])
            results[i] = Classification(texts[i], next(iter(likely)), likely, int(n_cut[i]), labels)
        return results

    def give(self, logits: Floats) -> Labels:
        """Return the labels (N,), or (N, C) of several, that texts of these logits (N, C) are given."""
        probabilities = self.labelling.probabilities(logits, temperature=self.temperature)
        return self.labelling.give(probabilities, self.threshold)

    def logits(self, texts: Sequence[str], *, progress: Callable[[int], None] | None = None) -> Logits:
        """Return the logits of each text; of one that is empty, those of an unknown token."""
        limit = max_tokens(self.config) or None
        ids = self.tokenizer.encode_batch(texts)
        read = [np.array(each[:limit] or [UNK_ID], np.int64) for each in ids]
        values = class_logits(self.compute, read, self.config, progress=progress)
        values = values.reshape(len(texts), len(self.labels))  # where there are no texts, too
        n_cut = [len(each[limit:]) if limit else 0 for each in ids]
        return Logits(values, np.array(n_cut, np.int64), np.array([not each for each in ids], np.bool_))


def class_logits(
    compute: Compute,
    texts: Sequence[npt.NDArray[Any]],
    config: ClassificationConfig,
    *,
    progress: Callable[[int], None] | None = None,
) -> Floats:
    """(N, C) logits of texts, one at least, of one token or more each."""
    lengths = np.array([len(ids) for ids in texts], dtype=np.int64)
    sizes = {"max_length": config.data.max_length, "batch_tokens": config.training.batch_tokens}
    rows: dict[int, npt.NDArray[Any]] = {}
    for batch in plan_by_length(lengths, **sizes):
        indices = batch.tolist()
        rows.update(zip(indices, compute([texts[i].astype(np.int64) for i in indices]), strict=True))
        if progress is not None:
            progress(len(rows))
    return np.array([rows[i] for i in range(len(texts))], np.float64)


def max_tokens(config: ClassificationConfig) -> int:
    """Tokens of a text that are read; 0: all of them."""
    return config.data.max_windows * config.data.max_length


def load_labels(run: Run) -> list[str]:
    """Return the names of the classes. RunError: there are none yet, or the file is damaged."""
    labels = run.read_json(LABELS).get("labels")
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels) or len(labels) < 2:
        raise RunError(f"{run.path / LABELS}: is damaged, for it holds no labels; train the run again")
    check_labels(labels, where=str(run.path / LABELS))
    return labels


def check_labels(labels: Sequence[str], *, where: str) -> None:
    """Check the labels of a run. RunError: a label occurs twice, or has control characters."""
    if len(set(labels)) < len(labels):
        raise RunError(f"{where}: is damaged, for it holds a label twice; train the run again")
    for label in labels:
        if any(character < " " or "\x7f" <= character < "\xa0" for character in label):
            raise RunError(
                f"{where}: the label {label[:40]!r} holds control characters; rename it and train again"
            )


class Calibration(NamedTuple):
    """What the probabilities of a finished run depend on beside its weights."""

    temperature: float = 1.0
    """Divisor of the logits."""
    threshold: float = 0.5
    """Of several labels, those are given whose probability is above it."""


def load_calibration(run: Run) -> Calibration:
    """Read temperature and threshold; the defaults = training is not finished.

    RunError: the file is damaged.
    """
    if not (run.path / CALIBRATION).exists():
        return Calibration()
    kept = {"threshold": 0.5, **run.read_json(CALIBRATION)}
    for name, highest in (("temperature", math.inf), ("threshold", 1.0)):
        if not isinstance(value := kept.get(name), float) or not 0 < value < highest:
            raise RunError(f"{run.path / CALIBRATION}: is damaged, for it holds no {name}; train again")
    return Calibration(kept["temperature"], kept["threshold"])
