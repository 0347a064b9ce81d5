"""Classification as a task: labelled texts, an encoder with a head, accuracy."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.config import ClassificationConfig
from dragoman.data.document_batching import (
    ClassificationBatch,
    make_classification_batch,
    plan_documents,
)
from dragoman.data.labelled import LabelledCorpus, split_labelled
from dragoman.data.labelled_store import LabelledStore
from dragoman.data.named import open_text
from dragoman.errors import RunError
from dragoman.files import replacing_folder
from dragoman.hardware import choose_dtype
from dragoman.metrics.classification import (
    accuracy,
    balanced_weights,
    confusion_matrix,
    expected_calibration_error,
    fit_mixture,
    fit_temperature,
    macro_f1,
    mixed,
    negative_log_likelihood,
    simplest_mixture,
    softmax,
)
from dragoman.model.classifier import TransformerClassifier
from dragoman.predict.classifier import (
    CALIBRATION,
    LABELS,
    TOKENIZER,
    check_labels,
    class_logits,
    load_labels,
    max_tokens,
)
from dragoman.predict.loading import build_classifier, inference_copy
from dragoman.runs import Run
from dragoman.tensors import tensor_shapes
from dragoman.text.tokenizer import Tokenizer, load_tokenizer, train_tokenizer
from dragoman.training.checkpoints import newest_checkpoint
from dragoman.training.task import BatchResult, Sample, Task, Validation, Weights, sampled
from dragoman.training.tasks.votes import Votes, solve_votes
from dragoman.training.trainer import TrainingListener

Ids = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class ClassificationTask(Task[ClassificationBatch]):
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
        self.train_corpus, valid_corpus = open_labelled_corpora(config)
        self.labels = prepare_labels(run, self.train_corpus)
        self.tokenizer = prepare_tokenizer(config, run, self.train_corpus, listener)
        self.epoch_store = store = self.store(epoch=0)
        self.valid_store = self._prepare(valid_corpus, "valid")
        counts = np.bincount(store.labels, minlength=len(self.labels)).tolist()
        balanced = config.training.class_weights == "balanced"
        weights = balanced_weights(counts) if balanced else [1.0] * len(counts)
        self.class_weights = torch.tensor(weights, device=device)
        listener.message(
            f"{len(store):,} training texts ({store.lengths.sum():,} tokens), "
            f"{len(self.valid_store):,} validation texts"
        )
        listener.message(describe_labels(self.labels, counts, balanced=balanced))
        for note in (*self.train_corpus.notes(), *store.notes()):
            listener.message(note)
        self.model = build_classifier(config, self.tokenizer, n_classes=len(self.labels), device=device)
        if self.model.votes is not None:
            check_votes(run)
        self.listener = listener

    def begin(self) -> None:
        """Solve for the votes of n-grams; the encoder is trained by itself, and `finish` weighs both."""
        if self.model.votes is None:
            return
        words = self.tokenizer.pieces() if self.config.tokenizer.kind == "words" else None
        self.listener.message("solving for the votes of n-grams")
        votes = solve_votes(
            self.epoch_store,
            self.valid_store,
            self.config,
            words,
            n_classes=len(self.labels),
            weights=self.class_weights.cpu(),
            tried=self._describe_votes,
        )
        self.model.votes.table.copy_(votes.table)
        self.model.votes.bias.copy_(votes.bias)

    def _describe_votes(self, votes: Votes) -> None:
        self.listener.message(
            f"n-grams by themselves, regularised with C = {votes.strength:.2g}: "
            f"validation loss {votes.valid_loss:.3f} nats/text"
        )

    def store(self, *, epoch: int) -> LabelledStore:
        """Return the training tokens of `epoch`: always the same ones, or with BPE-dropout a fresh draw."""
        drawn = (self.config.seed, epoch) if self.config.draws_epochs else None
        return self._prepare(self.train_corpus, "train", dropout=drawn)

    def _prepare(self, corpus: LabelledCorpus, name: str, **drawing: Any) -> LabelledStore:
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
        return float(self.class_weights[batch.labels].sum())

    def loss(self, batch: ClassificationBatch) -> BatchResult:
        smoothing = self.config.training.label_smoothing
        loss = classification_loss(self.model, batch, self.class_weights, smoothing=smoothing)
        return BatchResult(loss, batch.documents.n_tokens)

    def validate(self, weights: Weights) -> Validation:
        parts, labels = self._valid_logits(weights), self.valid_store.labels.astype(np.int64)
        logits = mixed(parts, fit_mixture(parts, labels)) if len(parts) > 1 else parts[0]
        confusion = confusion_matrix(labels, logits.argmax(1), n_classes=len(self.labels))
        record = {
            "valid_loss": negative_log_likelihood(logits, labels),  # nats a text, without smoothing
            "accuracy": accuracy(confusion).value,
            "macro_f1": macro_f1(confusion, n_bootstrap=0).value,
        }
        metric = self.config.training.metric
        score = -record["valid_loss"] if metric == "loss" else record[metric]
        return Validation(record, score, suspicions(confusion, self.labels), self._samples(logits.argmax(1)))

    def _samples(self, found: npt.NDArray[np.int64]) -> tuple[Sample, ...]:
        """Return some validation texts as the model reads them, with their label and the one `found`."""
        store = self.valid_store
        return tuple(
            Sample(
                self.tokenizer.decode(store.text[i].tolist()),
                self.labels[store.labels[i]],
                self.labels[found[i]],
            )
            for i in sampled(len(found))
        )

    def finish(self, weights: Weights) -> None:
        """Weigh n-grams and encoder, and fit the temperature (Guo et al. 2017), both on validation texts."""
        parts, labels = self._valid_logits(weights), self.valid_store.labels.astype(np.int64)
        logits, found = parts[0], {}
        if len(parts) > 1:
            factors = simplest_mixture(parts, labels)
            logits = mixed(parts, factors)
            self.run.save_weights({**weights, "mixture": torch.tensor(factors, dtype=torch.float32)})
            found = self._describe_mixture(parts, factors, labels)
        temperature = fit_temperature(logits, labels)
        self.run.write_json(
            CALIBRATION,
            {
                "temperature": temperature,
                "n": len(labels),
                "loss_before": negative_log_likelihood(logits, labels),
                "loss_after": negative_log_likelihood(logits, labels, temperature=temperature),
                "ece_before": expected_calibration_error(softmax(logits), labels),
                "ece_after": expected_calibration_error(softmax(logits, temperature=temperature), labels),
                **found,
            },
        )

    def _describe_mixture(self, parts: Floats, factors: Floats, labels: Ids) -> dict[str, Any]:
        """Say what encoder and n-grams are worth alone and together, and return it."""
        together = mixed(parts, fit_mixture(parts, labels))
        scores = {
            name: accuracy(confusion_matrix(labels, logits.argmax(1), n_classes=len(self.labels))).value
            for name, logits in zip(("n-grams", "encoder", "both"), (*parts, together), strict=True)
        }
        used = "both" if factors.all() else "n-grams" if factors[0] else "encoder"
        shown = ", ".join(f"{name} {score:.1f} %" for name, score in scores.items())
        why = "" if used == "both" else ", for the validation texts do not show that both are better"
        self.listener.message(f"validation accuracy: {shown}; used: {used}{why}")
        return {"accuracy": scores, "used": used}

    def _valid_logits(self, weights: Weights) -> Floats:
        """(K, N, C): the logits of the n-grams, if there are votes, and of the encoder."""
        device = next(self.model.parameters()).device
        dtype = choose_dtype(self.config.training.precision, device)
        texts = [self.valid_store.text[i] for i in range(len(self.valid_store))]
        parts: list[Weights] = [{}]
        if self.model.votes is not None:
            parts = [{"mixture": torch.tensor(only)} for only in ([1.0, 0.0], [0.0, 1.0])]
        return np.stack(
            [
                class_logits(
                    inference_copy(self.model, dtype, weights={**weights, **part}), texts, self.config
                )
                for part in parts
            ]
        )


def classification_loss(
    model: TransformerClassifier, batch: ClassificationBatch, class_weights: Tensor, *, smoothing: float
) -> Tensor:
    """Return the encoder's summed smoothed cross-entropy in nats, texts weighted by their labels."""
    logits = batch.documents.read(model)  # (B, C)
    losses = F.cross_entropy(logits, batch.labels, label_smoothing=smoothing, reduction="none")
    return (losses * class_weights[batch.labels]).sum()


def check_votes(run: Run) -> None:
    """RunError: the training was begun by version 0.1, which learnt votes that are solved for today."""
    newest = newest_checkpoint(run)
    if newest is not None and "votes.ratio" in tensor_shapes(newest / "model.safetensors"):
        raise RunError(
            f"{run.path}: its training was begun by Dragoman 0.1, which learnt the votes of n-grams "
            "in another way, and cannot be continued; it classifies as it did. Train on the same text "
            "in another folder"
        )


def suspicions(confusion: npt.NDArray[np.int64], labels: list[str]) -> dict[str, str]:
    """Return warnings about a validation: all texts have one label."""
    given = np.flatnonzero(confusion.sum(0))
    if len(given) > 1 or np.count_nonzero(confusion.sum(1)) < 2:
        return {}
    advice = 'try a lower training.learning_rate, or training.class_weights = "balanced" for rare labels'
    return {
        "one label": f"every validation text is given the label {labels[given[0]]!r}; "
        f"if that does not change, {advice}"
    }


def describe_labels(labels: list[str], counts: list[int], *, balanced: bool) -> str:
    """How often each label occurs, in one line, and how much more often the first than the last."""
    ranked = sorted(zip(labels, counts, strict=True), key=lambda pair: (-pair[1], pair[0]))
    shown = ", ".join(f"{label} {count:,}" for label, count in ranked[:10])
    more = f" and {len(ranked) - 10} more" * (len(ranked) > 10)
    line = f"{len(labels)} labels: {shown}{more}"
    if balanced:
        return f"{line}; all count the same (training.class_weights)"
    if ranked[0][1] >= 5 * ranked[-1][1]:
        return f'{line}; for rare labels to count as much: training.class_weights = "balanced"'
    return line


def open_labelled_corpora(config: ClassificationConfig) -> tuple[LabelledCorpus, LabelledCorpus]:
    """Return the texts to train on and those to validate on: held out of the former where none are named."""
    data = config.data
    corpus = open_text(data, data.train)
    if data.valid:
        return corpus, open_text(data, data.valid)
    return split_labelled(corpus, n_held_out=data.n_held_out, seed=data.seed_of_split(config.seed))


def prepare_labels(run: Run, corpus: LabelledCorpus) -> list[str]:
    """Return the class names in alphabetical order: the run's, or those of `corpus`, then kept in the run."""
    if not (run.path / LABELS).exists():
        counts = Counter(example.label for example in corpus.examples())
        check_labels(sorted(counts), where="training text")
        run.write_json(LABELS, {"labels": sorted(counts)})
    return load_labels(run)


def prepare_tokenizer(
    config: ClassificationConfig, run: Run, corpus: LabelledCorpus, listener: TrainingListener
) -> Tokenizer:
    """Return the run's tokenizer, learnt from `corpus` where it has none yet."""
    folder = run.tokenizer_folder
    if not folder.exists():
        listener.message("training the tokenizer")
        tokenizer = train_tokenizer((example.text for example in corpus.examples()), config.tokenizer)
        with replacing_folder(folder) as unfinished:
            tokenizer.save(unfinished / TOKENIZER)
    return load_tokenizer(folder / TOKENIZER)
