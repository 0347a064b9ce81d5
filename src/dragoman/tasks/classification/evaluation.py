"""Evaluate a classifier on labelled test sets, beside a baseline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter, ValidationError

from dragoman.config import ClassificationConfig
from dragoman.data.labelled import class_numbers, numbers_of
from dragoman.data.named import changed_files, hashes_of, open_labelled_split, open_text
from dragoman.data.readers.files import hash_strings
from dragoman.data.records import Corpus, Labelled
from dragoman.errors import DataError, MissingExtraError, counted
from dragoman.evaluation.scores import aligned, scores_table
from dragoman.metrics.classification import (
    ClassIntervals,
    ClassScore,
    Counts,
    ReliabilityBin,
    class_intervals,
    expected_calibration_error,
    negative_log_likelihood,
    per_class,
    reliability,
    softmax,
)
from dragoman.metrics.labelling import Exclusive, Labelling, Labels
from dragoman.metrics.score import Score
from dragoman.notebook import Cell, table, table_of
from dragoman.predict.classifier import Classifier, classification_config
from dragoman.runs import Run
from dragoman.tasks.classification.baseline import NAME, SETTINGS, Baseline
from dragoman.tasks.task import PRECISIONS, check_precision

Ids = npt.NDArray[np.int64]

N_CONFUSED = 10
"""Classes, at most, whose confusions are printed as a matrix; of more, the most frequent ones as a list."""

ONE_LABEL = Exclusive()

NONE = "–"
"""Written where a mistake has a label on one side alone."""


class ConfidentMistake(NamedTuple):
    """A text whose labels are not right."""

    text: int
    """Its index."""
    label: str
    """The label that it was most confidently given or, of several, denied."""
    confidence: float
    """The probability of that, 0–1."""


@dataclass(frozen=True)
class ClassificationScores:
    """What a classifier made of one test set, and how good that is. Classes go by their numbers."""

    name: str
    labels: tuple[str, ...]
    """The names of the classes."""
    expected: Labels
    """The labels of each text: (N,), or (N, C) where they are several."""
    logits: npt.NDArray[np.float64]
    """(N, C): before the temperature."""
    temperature: float
    seconds: float
    """Time spent on classifying, scoring excluded."""
    n_cut: Ids
    """(N,): tokens of each text that were not read."""
    baseline: BaselineResult | None = None
    no_baseline: str = ""
    """Why there is no baseline."""
    texts: tuple[str, ...] = ()
    threshold: float = 0.5
    labelling: Labelling = ONE_LABEL
    files: tuple[str, ...] = ()
    """As the run names them; none for texts that were held out."""

    @property
    def provenance(self) -> str:
        """What the figures about it were computed on, in words."""
        files = " + ".join(self.files) or "the training text, held out"
        return f"{self.name}: {len(self.texts):,} texts with {len(self.labels)} labels, of {files}"

    @cached_property
    def found(self) -> Labels:
        """The labels that each text was given: as `expected`."""
        return self.labelling.give(self.probabilities(), self.threshold)

    @property
    def right(self) -> npt.NDArray[np.bool_]:
        """(N,): whether all labels of each text are right."""
        return np.asarray((self.expected == self.found).reshape(len(self.expected), -1).all(1))

    @property
    def confidence(self) -> npt.NDArray[np.float64]:
        """(N,): how sure it is that all labels of each text are right."""
        return self.labelling.confidence(self.probabilities(), self.found)

    @property
    def expected_names(self) -> list[str]:
        """The labels of each text, as one cell."""
        return self.labelling.names(self.expected, self.labels)

    @property
    def found_names(self) -> list[str]:
        """The labels that each text was given, as one cell."""
        return self.labelling.names(self.found, self.labels)

    @property
    def texts_per_second(self) -> float:
        return len(self.expected) / max(self.seconds, 1e-9)

    @cached_property
    def confusion(self) -> Ids | None:
        """(C, C): texts of the row's class that were given the column's; None for several labels."""
        return self.labelling.confusion(self.expected, self.found, len(self.labels))

    @cached_property
    def scores(self) -> tuple[Score, ...]:
        """Accuracy and macro-F1, or micro-F1, macro-F1 and exact match, with their intervals."""
        return tuple(self.labelling.scores(self.expected, self.found, len(self.labels)).values())

    @cached_property
    def counts(self) -> Counts:
        """How often each class (C,) is right, given, and there."""
        return self.labelling.counts(self.expected, self.found, len(self.labels))

    @property
    def per_class(self) -> dict[str, ClassScore]:
        """Precision, recall, F1 and support of each class by its name."""
        return dict(zip(self.labels, per_class(self.counts), strict=True))

    @cached_property
    def by_class(self) -> list[tuple[str, ClassScore, ClassIntervals]]:
        """The name of each class, its scores and their intervals."""
        resampled = self.labelling.resampled(self.expected, self.found, len(self.labels))
        intervals = class_intervals(self.counts, resampled)
        return list(zip(self.labels, per_class(self.counts), intervals, strict=True))

    def mistakes(self, n: int = N_CONFUSED) -> list[tuple[str, str, int]]:
        """Return the `n` most frequent mistakes, at most: a label, the one given, and how many texts.

        NONE is in the place of a label for one that was missed or, where texts have several, wrongly given.
        """
        names: dict[int | None, str] = {None: NONE, **dict(enumerate(self.labels))}
        mistakes = self.labelling.mistakes(self.expected, self.found, len(self.labels))[:n]
        return [(names[mistake.label], names[mistake.given], mistake.n) for mistake in mistakes]

    def probabilities(self, *, calibrated: bool = True) -> npt.NDArray[np.float64]:
        """(N, C), after the temperature or before."""
        return self.labelling.probabilities(self.logits, temperature=self.temperature if calibrated else 1.0)

    def reliability(self, *, calibrated: bool = True) -> list[ReliabilityBin]:
        """How often decisions are right, by how sure it is: one a text, or one for each text and label."""
        logits, outcomes = self._decided(calibrated=calibrated)
        return reliability(softmax(logits), outcomes)

    def calibration_error(self, *, calibrated: bool = True) -> float:
        """How far confidence and accuracy of the same decisions are apart, 0–100."""
        logits, outcomes = self._decided(calibrated=calibrated)
        return expected_calibration_error(softmax(logits), outcomes)

    def loss(self, *, calibrated: bool = True) -> float:
        """-log p of the labels, in nats a text: of several, the sum over all that it has and has not."""
        logits, outcomes = self._decided(calibrated=calibrated)
        return negative_log_likelihood(logits, outcomes) * len(outcomes) / len(self.expected)

    def _decided(self, *, calibrated: bool) -> tuple[npt.NDArray[np.float64], Ids]:
        """Return the logits (M, K) of decisions, over the temperature, and their outcomes (M,)."""
        decisions = self.labelling.decisions(self.logits)
        return decisions / (self.temperature if calibrated else 1.0), self.labelling.outcomes(self.expected)

    def confident_mistakes(self, n: int) -> list[ConfidentMistake]:
        """Return up to `n` texts with a mistake, the most confident ones first."""
        classes, sure = self.labelling.worst(self.probabilities(), self.expected, self.found)
        wrong = np.flatnonzero(~self.right)
        ranked = wrong[np.argsort(-sure[wrong], kind="stable")][:n]
        return [ConfidentMistake(i, self.labels[classes[i]], float(sure[i])) for i in ranked.tolist()]

    def lines(self) -> Iterator[str]:
        """Yield for each text its labels, those it was given, the probability of these, and the text."""
        rows = zip(self.expected_names, self.found_names, self.confidence.tolist(), self.texts, strict=True)
        for expected, predicted, confidence, text in rows:
            yield f"{expected}\t{predicted}\t{confidence:.4f}\t{text}"

    def describe(self) -> str:
        """Return everything about it as text: scores, baseline, calibration, labels, confusions."""
        before, after = (self.calibration_error(calibrated=c) for c in (False, True))
        about_baseline = f"no baseline: {self.no_baseline}"
        if self.baseline is not None:
            ahead = self.scores[0].value - self.baseline.scores[0].value
            verdict = f"{abs(ahead):.1f} points {'above' if ahead >= 0 else 'BELOW'} it"
            n_train, name = f"{self.baseline.n_train:,}", self.scores[0].name
            about_baseline = (
                f"baseline: {NAME} on the same {n_train} texts; the classifier's {name} is {verdict}"
            )
        by_label = [("label", "precision", "recall", "F1", "texts")]
        for label, (precision, recall, f1, support) in self.per_class.items():
            by_label.append((label, f"{precision:.1f}", f"{recall:.1f}", f"{f1:.1f}", f"{support:,}"))
        if self.confusion is not None and len(self.labels) <= N_CONFUSED:
            rows = zip(self.labels, self.confusion.tolist(), strict=True)
            cells = [("", *self.labels), *((label, *(f"{n:,}" for n in row)) for label, row in rows)]
            mistakes = ["label in the row, given in the column", *aligned(cells)]
        else:
            mistakes = ["most frequent mistakes: label → given"]
            mistakes += (f"{n:>6,}  {label} → {predicted}" for label, predicted, n in self.mistakes())
        return "\n".join(
            [
                f"{self.name} · {counted(len(self.expected), 'text')} · {len(self.labels)} labels",
                scores_table(self._scores_beside()),
                f"  {about_baseline}",
                f"  calibration: ECE {before:.1f} before and {after:.1f} after temperature "
                f"{self.temperature:.2f}; loss {self.loss(calibrated=False):.3f} and "
                f"{self.loss():.3f} nats/text",
                *(f"  {line}" for line in (*aligned(by_label), *mistakes)),
            ]
        )

    def _scores_beside(self) -> list[Score]:
        """Return the classifier's scores, and then the baseline's."""
        baseline = self.baseline.scores if self.baseline else ()
        return [*self.scores, *(replace(score, name=f"baseline {score.name}") for score in baseline)]

    def _repr_html_(self) -> str:
        scores = self._scores_beside()
        error = self.calibration_error()
        caption = f"{self.name} · {counted(len(self.expected), 'text')} · calibration error {error:.1f}"
        if self.confusion is None:
            return table_of(scores, caption=caption) + table(("label", "given", "texts"), self.mistakes())
        matrix: list[list[Cell]] = [
            [label, *row] for label, row in zip(self.labels, self.confusion.tolist(), strict=True)
        ]
        return table_of(scores, caption=caption) + table(
            ("label in the row, given in the column", *self.labels), matrix
        )

    def record(self) -> dict[str, Any]:
        """Return the record for scores.json."""
        return {
            "name": self.name,
            "n_texts": len(self.expected),
            "seconds": self.seconds,
            "texts_per_second": self.texts_per_second,
            "scores": [asdict(score) for score in self.scores],
            "loss": self.loss(),
            "loss_uncalibrated": self.loss(calibrated=False),
            "temperature": self.temperature,
            "threshold": self.threshold,
            "ece": self.calibration_error(),
            "ece_uncalibrated": self.calibration_error(calibrated=False),
            "per_class": {label: score._asdict() for label, score in self.per_class.items()},
            "n_cut_texts": int((self.n_cut > 0).sum()),
            "n_cut_tokens": int(self.n_cut.sum()),
            "confusion": None if self.confusion is None else self.confusion.tolist(),
            "baseline": self.baseline.record() if self.baseline else None,
            "no_baseline": self.no_baseline or None,
        }


@dataclass(frozen=True)
class BaselineResult:
    """How good the baseline is on the same test set."""

    scores: tuple[Score, ...]
    """Accuracy and macro-F1, with their intervals."""
    n_train: int
    signature: str
    train: str
    """A hash of the texts it was trained on, and of its settings."""
    test: str
    """A hash of the texts it was scored on."""

    def record(self) -> dict[str, Any]:
        """Return the record for scores.json."""
        return {"name": NAME, **asdict(self)}


def load_classifier(run: str | Path, *, device: str = "auto", precision: str = "auto") -> Classifier:
    """Load the classifier in the folder `run`. ConfigError: unknown precision."""
    check_precision(precision, PRECISIONS[:-1])
    return Classifier.load(run, device=device, precision=precision)


def evaluate(classifier: Classifier, name: str, examples: Sequence[Labelled]) -> ClassificationScores:
    """Return the labels that `classifier` gives the texts of `examples`, scored against theirs.

    DataError: there is no example, or the classifier does not know a label.
    """
    if not examples:
        raise DataError(f"{name}: there is nothing to score: no text with a label")
    labelling, numbers = classifier.labelling, class_numbers(classifier.labels)
    expected = [
        numbers_of(example.label, numbers, separator=labelling.separator, where=f"{name}, text {i}")
        for i, example in enumerate(examples, start=1)
    ]
    start = time.perf_counter()
    texts = tuple(example.text for example in examples)
    logits, n_cut, _ = classifier.logits(texts)
    seconds = time.perf_counter() - start
    return ClassificationScores(
        name,
        classifier.labels,
        labelling.encode(expected, len(numbers)),
        logits,
        classifier.temperature,
        seconds,
        n_cut,
        texts=texts,
        threshold=classifier.threshold,
        labelling=labelling,
    )


class BaselineScorer:
    """Scores the baseline on test sets, training it once and only where its score is not known yet."""

    def __init__(self, run: Run, saved: Sequence[dict[str, Any]], say: Callable[[str], None]) -> None:
        """Take the records of the run's scores.json as `saved`; `say` hears when a baseline is trained."""
        self._run, self._config, self._say = run, classification_config(run), say
        self._balanced = self._config.training.class_weights == "balanced"
        self._known = [record["baseline"] for record in saved if record.get("baseline")]

    def beside(self, evaluation: ClassificationScores, examples: Sequence[Labelled]) -> ClassificationScores:
        """Evaluate `examples` and add the baseline's scores, or the reason why there are none."""
        test = hash_strings(*(part for example in examples for part in example))
        try:
            result = self._saved(test)
            if result is None:
                numbers, labelling = class_numbers(evaluation.labels), evaluation.labelling
                predicted = self._baseline.predict([example.text for example in examples])
                classes = [[numbers[label] for label in names] for names in predicted]
                encoded = labelling.encode(classes, len(numbers))
                scores = tuple(labelling.scores(evaluation.expected, encoded, len(numbers)).values())
                n_train, signature = self._baseline.n_texts, self._baseline.signature
                result = BaselineResult(scores, n_train, signature, self._train, test)
        except (MissingExtraError, DataError) as error:
            return replace(evaluation, no_baseline=str(error))
        return replace(evaluation, baseline=result)

    def _saved(self, test: str) -> BaselineResult | None:
        """Return the kept record of this test and these training texts, or of any if they are gone."""
        records = [record for record in self._known if record.get("test") == test]
        with suppress(DataError):
            records = [record for record in records if record.get("train") == self._train]
        try:
            return TypeAdapter(BaselineResult).validate_python(records[-1]) if records else None
        except ValidationError:
            return None  # written by another version

    @cached_property
    def _texts(self) -> Corpus:
        return open_labelled_split(self._config)[0]

    @cached_property
    def _train(self) -> str:
        return hash_strings(self._texts.fingerprint(), SETTINGS, str(self._balanced))

    @cached_property
    def _baseline(self) -> Baseline:
        if changed := changed_files(self._run.text_hashes(), hashes_of(self._config, ["train"])):
            raise DataError(f"{', '.join(changed[:3])} changed since the run was trained")
        train, separator = list(self._texts.examples()), self._config.data.label_separator
        self._say(f"training the baseline ({NAME}) on {counted(len(train), 'text')}")
        return Baseline.train(train, balanced=self._balanced, separator=separator)


def split_of(config: ClassificationConfig, split: str) -> Iterator[tuple[str, Corpus]]:
    """Yield the corpora of "test" or "valid" by name; without valid files, the part held out of train.

    DataError: a file is missing.
    """
    for name, files in (config.data.test if split == "test" else {"valid": config.data.valid}).items():
        yield name, open_text(config.data, files) if files else open_labelled_split(config)[1]
