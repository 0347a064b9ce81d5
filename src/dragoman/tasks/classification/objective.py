"""Classification as a task: labelled texts, an encoder with a head, accuracy."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dragoman.config import ClassificationConfig
from dragoman.data.document_batching import ClassificationBatch, make_classification_batch, plan_documents
from dragoman.data.named import open_labelled_split
from dragoman.data.records import Corpus
from dragoman.data.store import LabelledStore, keep_only
from dragoman.errors import RunError, counted
from dragoman.files import replacing_folder
from dragoman.hardware import choose_dtype
from dragoman.metrics.classification import (
    balanced_weights,
    expected_calibration_error,
    fit_mixture,
    fit_temperature,
    mixed,
    negative_log_likelihood,
    simplest_mixture,
    softmax,
)
from dragoman.metrics.labelling import Labelling, Labels, labelling_of
from dragoman.metrics.score import Score
from dragoman.model.classifier import TransformerClassifier
from dragoman.model.copies import inference_copy
from dragoman.predict.classifier import (
    CALIBRATION,
    LABELS,
    TOKENIZER,
    check_labels,
    class_logits,
    load_labels,
    max_tokens,
)
from dragoman.predict.networks import NetworkClassifier, build_classifier
from dragoman.runs import Run
from dragoman.tasks.classification.votes import Votes, solve_votes
from dragoman.tensors import tensor_shapes
from dragoman.text.tokenizer import Tokenizer, load_tokenizer, train_tokenizer
from dragoman.training.checkpoints import newest_checkpoint
from dragoman.training.objective import BatchResult, Objective, Sample, Validation, Weights, sampled
from dragoman.training.trainer import TrainingListener

Floats = npt.NDArray[np.float64]


class ClassificationObjective(Objective[ClassificationBatch]):
    """Learns to classify as a configuration says."""

    item = "text"
    model: TransformerClassifier

    def __init__(
        self,
        config: ClassificationConfig,
        run: Run,
        device: torch.device,
        listener: TrainingListener,
        *,
        static: bool = False,
    ) -> None:
        """Read, tokenizes and store the corpora; train the tokenizer where the run has none yet."""
        assert not static  # ClassificationTrainingConfig.wants_free_steps
        self.config, self.run = config, run
        self.labelling = labelling_of(config.data.label_separator)
        self.train_corpus, valid_corpus = open_labelled_split(config)
        self.labels = prepare_labels(run, self.train_corpus)
        self.tokenizer = prepare_tokenizer(config, run, self.train_corpus, listener)
        self.epoch_store = self.first_store = store = self.store(epoch=0)
        self.valid_store = self._prepare(valid_corpus, "valid")
        counts = self.labelling.counts(store.labels, store.labels, len(self.labels)).there.tolist()
        balanced = config.training.class_weights == "balanced"
        weights = balanced_weights(counts) if balanced else [1.0] * len(counts)
        self.class_weights = torch.tensor(weights, device=device)
        listener.message(
            f"{counted(len(store), 'training text')} ({counted(store.lengths.sum(), 'token')}), "
            f"{counted(len(self.valid_store), 'validation text')}"
        )
        can_balance = not self.labelling.separator
        listener.message(describe_labels(self.labels, counts, balanced=balanced, can_balance=can_balance))
        for note in (*self.train_corpus.notes(), *store.notes()):
            listener.message(note)
        self.model = build_classifier(config, self.tokenizer, n_classes=len(self.labels), device=device)
        if self.model.votes is not None:
            check_votes(run)
        self.logits_of_votes: Floats | None = None
        self.listener = listener

    def begin(self) -> None:
        """Solve for the votes of n-grams; the encoder is trained by itself, and `finish` weighs both."""
        if self.model.votes is None:
            return
        n_texts = len(self.epoch_store)

        def describe(votes: Votes) -> None:
            of = "" if votes.n_texts == n_texts else f" of {votes.n_texts:,} texts, drawn from {n_texts:,},"
            self.listener.message(
                f"n-grams{of} by themselves, regularised with C = {votes.strength:.2g}: "
                f"validation loss {votes.valid_loss:.3f} nats/text"
            )

        words = self.tokenizer.pieces() if self.config.tokenizer.kind == "words" else None
        self.listener.message("solving for the votes of n-grams")
        votes = solve_votes(
            self.epoch_store,
            self.valid_store,
            self.config,
            words,
            n_classes=len(self.labels),
            weights=self.class_weights.cpu(),
            tried=describe,
            labelling=self.labelling,
        )
        self.model.votes.table.copy_(votes.table)
        self.model.votes.bias.copy_(votes.bias)

    def store(self, *, epoch: int) -> LabelledStore:
        """Return the training tokens of `epoch`: always the same ones, or with BPE-dropout a fresh draw."""
        drawn = (self.config.seed, epoch) if self.config.draws_epochs else None
        return self._prepare(self.train_corpus, "train", dropout=drawn)

    def _prepare(self, corpus: Corpus, name: str, **drawing: Any) -> LabelledStore:
        return LabelledStore.prepare(
            corpus,
            self.tokenizer,
            labels=self.labels,
            max_tokens=max_tokens(self.config),
            cache=self.run.path / "cache" / name,
            **drawing,
        )

    def plan(self, epoch: int) -> list[npt.NDArray[np.int64]]:
        if self.config.draws_epochs:  # else it has been open from the beginning
            self.epoch_store = self.store(epoch=epoch)
            keep_only([self.first_store, self.epoch_store], self.run.path / "cache" / "train")
        return plan_documents(
            self.epoch_store.lengths.astype(np.int64),
            max_length=self.config.data.max_length,
            batch_tokens=self.config.training.batch_tokens,
            seed=self.config.seed,
            epoch=epoch,
        )

    def batch(self, indices: npt.NDArray[np.int64], device: torch.device) -> ClassificationBatch:
        return make_classification_batch(self.epoch_store, indices, self.config).to(device)

    def memory(self, indices: npt.NDArray[np.int64]) -> float:
        lengths = self.epoch_store.lengths[indices]
        return float(len(indices) * lengths.max())

    def n_items(self, batch: ClassificationBatch) -> float:
        return float(self.labelling.text_weights(batch.labels, self.class_weights).sum())

    def loss(self, batch: ClassificationBatch) -> BatchResult:
        smoothing = self.config.training.label_smoothing
        loss = classification_loss(
            self.model, batch, self.class_weights, smoothing=smoothing, labelling=self.labelling
        )
        return BatchResult(loss, batch.documents.n_tokens)

    def validate(self, weights: Weights) -> Validation:
        parts, labels = self._valid_logits(weights), self.valid_store.labels
        outcomes = self.labelling.outcomes(labels)
        logits = parts[0]
        if len(parts) > 1:
            logits = mixed(parts, fit_mixture(self.labelling.decisions(parts), outcomes))
        predicted, scores = self._score(logits)
        n_each = len(outcomes) / len(labels)
        loss = negative_log_likelihood(self.labelling.decisions(logits), outcomes)
        record = {
            "valid_loss": loss * n_each,  # nats a text, without smoothing
            **{key: score.value for key, score in scores.items()},
        }
        metric = self.config.training.metric
        score = -record["valid_loss"] if metric == "loss" else record[metric]
        names = [self.labelling.names(each, self.labels) for each in (labels, predicted)]
        expected, chosen = names
        samples = tuple(
            Sample(self.tokenizer.decode(self.valid_store.text[i].tolist()), expected[i], chosen[i])
            for i in sampled(len(chosen))
        )
        return Validation(record, score, suspicions(*names), samples)

    def _score(self, logits: Floats) -> tuple[Labels, dict[str, Score]]:
        """Return the labels given to the validation texts at the best threshold, and their scores."""
        labels, n_classes = self.valid_store.labels, len(self.labels)
        probabilities = self.labelling.probabilities(logits)
        threshold = self.labelling.fit_threshold(probabilities, labels)
        predicted = self.labelling.give(probabilities, threshold)
        return predicted, self.labelling.scores(labels, predicted, n_classes, n_bootstrap=0)

    def finish(self, weights: Weights) -> dict[str, float]:
        """Weigh n-grams and encoder, and fit the temperature (Guo et al. 2017), both on validation texts.

        And the threshold, where texts have several labels.
        """
        parts, labels = self._valid_logits(weights), self.valid_store.labels
        outcomes = self.labelling.outcomes(labels)
        n_each = len(outcomes) // len(labels)
        logits, record = parts[0], {}
        if len(parts) > 1:
            each = self.labelling.decisions(parts)
            together = fit_mixture(each, outcomes)
            factors = simplest_mixture(each, outcomes, together, n_each=n_each)
            logits = mixed(parts, factors)
            self.run.save_weights({**weights, "mixture": torch.tensor(factors, dtype=torch.float32)})
            record = self._describe_mixture([*parts, mixed(parts, together)], factors)
        decisions = self.labelling.decisions(logits)
        temperature = fit_temperature(decisions, outcomes)
        probabilities = self.labelling.probabilities(logits, temperature=temperature)
        before, after = (softmax(decisions, temperature=t) for t in (1.0, temperature))
        calibration = {
            "temperature": temperature,
            "threshold": self.labelling.fit_threshold(probabilities, labels),
            "n": len(labels),
            "loss_before": n_each * negative_log_likelihood(decisions, outcomes),
            "loss_after": n_each * negative_log_likelihood(decisions, outcomes, temperature=temperature),
            "ece_before": expected_calibration_error(before, outcomes),
            "ece_after": expected_calibration_error(after, outcomes),
        }
        self.run.write_json(CALIBRATION, calibration | record)
        return {}

    def _describe_mixture(self, logits: list[Floats], factors: Floats) -> dict[str, Any]:
        """Say what n-grams, encoder and both are worth, whose `logits` are given, and return it."""
        key = self.labelling.score_keys[0]
        scores = {
            name: self._score(part)[1][key]
            for name, part in zip(("n-grams", "encoder", "both"), logits, strict=True)
        }
        used = "both" if factors.all() else "n-grams" if factors[0] else "encoder"
        shown = ", ".join(f"{name} {score.value:.1f} %" for name, score in scores.items())
        why = "" if used == "both" else ", for the validation texts do not show that both are better"
        self.listener.message(f"validation {scores['both'].name}: {shown}; used: {used}{why}")
        return {key: {name: score.value for name, score in scores.items()}, "used": used}

    def _valid_logits(self, weights: Weights) -> Floats:
        """(K, N, C): the logits of the n-grams, if there are votes, and of the encoder."""
        if self.model.votes is None:
            return self._logits_of(weights)[None]
        if self.logits_of_votes is None:  # training does not change them
            self.logits_of_votes = self._logits_of({**weights, "mixture": torch.tensor([1.0, 0.0])})
        encoder = {**weights, "mixture": torch.tensor([0.0, 1.0])}
        return np.stack([self.logits_of_votes, self._logits_of(encoder)])

    def _logits_of(self, weights: Weights) -> Floats:
        """(N, C): the logits of the validation texts."""
        device = self.model.device
        dtype = choose_dtype(self.config.training.precision, device)
        texts = [self.valid_store.text[i] for i in range(len(self.valid_store))]
        network = NetworkClassifier(inference_copy(self.model, dtype, weights=weights), self.config)
        return class_logits(network, texts, self.config)


def classification_loss(
    model: TransformerClassifier,
    batch: ClassificationBatch,
    class_weights: Tensor,
    *,
    smoothing: float,
    labelling: Labelling,
) -> Tensor:
    """Return the encoder's summed smoothed cross-entropy in nats, texts weighted by their labels."""
    logits = batch.documents.read(model)  # (B, C)
    losses = labelling.losses(logits, batch.labels, smoothing=smoothing)
    return (losses * labelling.text_weights(batch.labels, class_weights)).sum()


def check_votes(run: Run) -> None:
    """RunError: the training was begun by version 0.1, which learnt votes that are solved for today."""
    newest = newest_checkpoint(run)
    if newest is not None and "votes.ratio" in tensor_shapes(newest / "model.safetensors"):
        raise RunError(
            f"{run.path}: its training was begun by Dragoman 0.1, which learnt the votes of n-grams "
            "in another way, and cannot be continued; it classifies as it did. Train on the same text "
            "in another folder"
        )


def suspicions(expected: list[str], predicted: list[str]) -> dict[str, str]:
    """Return warnings about a validation, given the labels of each text: all were given the same."""
    if len(set(predicted)) > 1 or len(set(expected)) < 2:
        return {}
    advice = 'try a lower training.learning_rate, or training.class_weights = "balanced" for rare labels'
    return {
        "one label": f"every validation text is given the label {predicted[0]!r}; "
        f"if that does not change, {advice}"
    }


def describe_labels(labels: list[str], counts: list[int], *, balanced: bool, can_balance: bool = True) -> str:
    """How often each label occurs, in one line, and how much more often the first than the last."""
    ranked = sorted(zip(labels, counts, strict=True), key=lambda pair: (-pair[1], pair[0]))
    shown = ", ".join(f"{label} {count:,}" for label, count in ranked[:10])
    more = f" and {len(ranked) - 10} more" * (len(ranked) > 10)
    line = f"{len(labels)} labels: {shown}{more}"
    if balanced:
        return f"{line}; all count the same (training.class_weights)"
    if can_balance and ranked[0][1] >= 5 * ranked[-1][1]:
        return f'{line}; for rare labels to count as much: training.class_weights = "balanced"'
    return line


def prepare_labels(run: Run, corpus: Corpus) -> list[str]:
    """Return the class names in alphabetical order: the run's, or those of `corpus`, then kept in the run."""
    if not (run.path / LABELS).exists():
        counts = corpus.count_labels(Counter(example.label for example in corpus.examples()))
        check_labels(sorted(counts), where="training text")
        run.write_json(LABELS, {"labels": sorted(counts)})
    return load_labels(run)


def prepare_tokenizer(
    config: ClassificationConfig, run: Run, corpus: Corpus, listener: TrainingListener
) -> Tokenizer:
    """Return the run's tokenizer, learnt from `corpus` where it has none yet."""
    folder = run.tokenizer_folder
    if not folder.exists():
        listener.message("training the tokenizer")
        tokenizer = train_tokenizer((example.text for example in corpus.examples()), config.tokenizer)
        with replacing_folder(folder) as unfinished:
            tokenizer.save(unfinished / TOKENIZER)
    return load_tokenizer(folder / TOKENIZER)
