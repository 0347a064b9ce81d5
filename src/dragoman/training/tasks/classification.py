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
    count_ngrams,
    make_classification_batch,
    plan_documents,
)
from dragoman.data.labelled import LabelledCorpus, split_labelled
from dragoman.data.labelled_store import LabelledStore
from dragoman.data.named import open_text
from dragoman.files import replacing_folder
from dragoman.hardware import choose_dtype
from dragoman.metrics.classification import (
    accuracy,
    balanced_weights,
    confusion_matrix,
    expected_calibration_error,
    fit_temperature,
    macro_f1,
    negative_log_likelihood,
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
from dragoman.text.tokenizer import Tokenizer, load_tokenizer, train_tokenizer
from dragoman.training.task import BatchResult, Sample, Task, Validation, Weights, sampled
from dragoman.training.trainer import TrainingListener


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
            counts_by_class = count_ngrams(store, config, n_classes=len(self.labels))
            self.model.votes.count(torch.from_numpy(counts_by_class))

    def store(self, *, epoch: int) -> LabelledStore:
        """Return the training tokens of `epoch`: always the same ones, or with BPE-dropout a fresh draw."""
        drawn = self.config.draws_epochs
        return self._prepare(self.train_corpus, "train", dropout=drawn, draw=epoch if drawn else 0)

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
        logits, labels = self._valid_logits(weights), self.valid_store.labels.astype(np.int64)
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
        """Fit the temperature of the probabilities on the validation texts (Guo et al. 2017)."""
        logits, labels = self._valid_logits(weights), self.valid_store.labels.astype(np.int64)
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
            },
        )

    def _valid_logits(self, weights: Weights) -> npt.NDArray[np.float64]:
        device = next(self.model.parameters()).device
        dtype = choose_dtype(self.config.training.precision, device)
        return class_logits(
            inference_copy(self.model, dtype, weights=weights),
            [self.valid_store.text[i] for i in range(len(self.valid_store))],
            self.config,
        )


def classification_loss(
    model: TransformerClassifier, batch: ClassificationBatch, class_weights: Tensor, *, smoothing: float
) -> Tensor:
    """Return the summed smoothed cross-entropy of a batch in nats, texts weighted by their labels."""
    logits = batch.documents.logits(model)  # (B, C)
    losses = F.cross_entropy(logits, batch.labels, label_smoothing=smoothing, reduction="none")
    return (losses * class_weights[batch.labels]).sum()


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
