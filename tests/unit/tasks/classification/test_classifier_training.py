"""Classification as a task: what is minimised, what is counted, what a run then holds."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.config import ClassificationConfig, parse_config
from dragoman.data.document_batching import (
    ClassificationBatch,
    lay_out,
    make_classification_batch,
)
from dragoman.data.labelled import open_labelled
from dragoman.data.store import LabelledStore
from dragoman.errors import DataError
from dragoman.metrics.classification import fit_temperature, negative_log_likelihood
from dragoman.metrics.labelling import Exclusive
from dragoman.model.classifier import TransformerClassifier
from dragoman.predict.classifier import CALIBRATION, LABELS, Classifier
from dragoman.runs import Run
from dragoman.tasks.classification.objective import (
    ClassificationObjective,
    classification_loss,
    suspicions,
)
from dragoman.tasks.training import train
from dragoman.text.tokenizer import train_tokenizer
from recording import Recorder
from tiny import TINY_CLASSIFIER, write_labelled

SETTINGS: dict[str, Any] = {
    "task": "classification",
    "name": "tiny",
    "data": {"train": ["train.tsv"], "valid": ["valid.tsv"], "max_length": 4},
    "tokenizer": {"kind": "words"},
    "model": {"ngrams": 2, "word_dropout": 0.2},
}


def tiny_config(*overrides: str, settings: dict[str, Any] = SETTINGS) -> ClassificationConfig:
    config = parse_config(settings, overrides=(*TINY_CLASSIFIER, *overrides))
    assert config.task == "classification"
    return config


@pytest.fixture(autouse=True)
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_labelled(tmp_path, "train", 120, seed=1)
    write_labelled(tmp_path, "valid", 24, seed=2)


def learn(*overrides: str) -> tuple[Run, list[str]]:
    listener = Recorder()
    return Run.open(train(tiny_config(*overrides), "run", listener=listener)), listener.messages


def make_store(*, max_tokens: int = 0, labels: tuple[str, ...] = ("blame", "praise")) -> LabelledStore:
    corpus = open_labelled(["train.tsv"])
    tokenizer = train_tokenizer((e.text for e in corpus.examples()), tiny_config().tokenizer)
    return LabelledStore.prepare(corpus, tokenizer, labels=labels, max_tokens=max_tokens, cache=Path("cache"))


# The store


def test_the_store_holds_every_token_and_label_and_counts_what_is_cut() -> None:
    whole, cut = make_store(), make_store(max_tokens=4)
    examples = list(open_labelled(["train.tsv"]).examples())
    assert whole.labels.tolist() == [int(example.label == "praise") for example in examples]
    assert whole.lengths.tolist() == [len(example.text.split()) for example in examples]
    assert whole.notes() == []
    assert cut.lengths.tolist() == [min(4, n) for n in whole.lengths.tolist()]
    n_tokens = sum(max(0, n - 4) for n in whole.lengths.tolist())
    n_texts = sum(n > 4 for n in whole.lengths.tolist())
    assert cut.notes() == [f"cut {n_tokens:,} tokens off {n_texts} of 120 texts (data.max_windows)"]
    assert all(whole.text[i][:4].tolist() == cut.text[i].tolist() for i in range(120))


def test_a_label_that_is_not_known_is_named() -> None:
    with pytest.raises(DataError, match=r"train.tsv: the label 'praise' is not in the training data \('bla"):
        make_store(labels=("blame", "neutral"))


# Batches


def test_word_dropout_leaves_every_text_a_token_and_follows_pytorch_s_random_state() -> None:
    store = make_store()
    most, config = tiny_config("model.word_dropout=0.99"), tiny_config("model.word_dropout=0.5")
    torch.manual_seed(0)
    batch = make_classification_batch(store, np.arange(120), config).documents
    assert 0.4 < batch.n_tokens / store.lengths.sum() < 0.6
    for i in range(120):  # what is left stands in its order
        left = iter(store.text[i].tolist())
        rows = batch.document == i
        assert all(token in left for token in batch.ids[rows][batch.real[rows]].tolist())
    documents = make_classification_batch(store, np.arange(120), most).documents
    assert torch.bincount(documents.document, minlength=120).min() == 1
    assert documents.real.any(1).all()
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(make_classification_batch(store, np.arange(120), config).documents.ids.tolist())
    assert drawn[0] == drawn[1] != drawn[2]


# The loss


@pytest.mark.slow
def test_the_loss_is_a_weighted_sum_over_texts() -> None:
    """So that it does not matter how texts are cut into batches; by the definition, for smoothing 0.2."""
    config = tiny_config("model.ngrams=0")
    torch.manual_seed(0)
    model = TransformerClassifier(config.model, vocab_size=300, n_classes=3).eval()
    torch.nn.init.normal_(model.head.weight)
    lengths, labels = np.array([3, 5, 2]), torch.tensor([0, 2, 2])
    tokens, weights = np.arange(10, 20), torch.tensor([2.0, 1.0, 0.5])
    documents = lay_out(tokens, lengths, max_length=4)
    batch = ClassificationBatch(documents, labels)
    loss = classification_loss(model, batch, weights, smoothing=0.2, labelling=Exclusive())
    log_p = documents.logits(model).log_softmax(1)
    expected = 0.0
    for i, label in enumerate(labels.tolist()):
        expected -= weights[label] * (0.8 * log_p[i, label] + 0.2 * log_p[i].mean())
    torch.testing.assert_close(loss, expected)


def test_rare_labels_count_as_much_where_that_is_asked_for() -> None:
    """With 90 texts of one label and 30 of the other, each text of the other counts three times as much."""
    lines = [f"praise\tgood {i}\n" for i in range(90)] + [f"blame\tbad {i}\n" for i in range(30)]
    Path("train.tsv").write_text("".join(lines), encoding="utf-8")

    for setting, expected in (("none", [1.0, 1.0]), ("balanced", [2.0, 2 / 3])):
        config = tiny_config(f"training.class_weights={setting}")
        task = ClassificationObjective(config, Run.create(setting, config), torch.device("cpu"), Recorder())
        made = task.batch(task.plan(0)[0], torch.device("cpu"))
        assert task.n_items(made) == pytest.approx(task.class_weights[made.labels].sum().item())
        assert task.class_weights.tolist() == pytest.approx(expected)


# Runs


def test_what_is_validated_is_what_the_classifier_then_says_and_its_temperature_is_fitted_on() -> None:
    run, messages = learn("training.average=none", "training.precision=fp32")
    assert any("120 training texts" in message and "24 validation texts" in message for message in messages)
    assert any("2 labels: blame 60, praise 60" in message for message in messages)
    classifier = Classifier.load(run.path, precision="fp32")
    examples = list(open_labelled(["valid.tsv"]).examples())
    values = classifier.logits([example.text for example in examples]).values
    labels = np.array([classifier.labels.index(example.label) for example in examples])
    best = [record for record in run.history() if record.get("best")][-1]
    assert best["accuracy"] == pytest.approx(100 * (values.argmax(1) == labels).mean())
    assert best["macro_f1"] > 0
    assert best["valid_loss"] == pytest.approx(negative_log_likelihood(values, labels), rel=1e-5)
    calibration = run.read_json(CALIBRATION)
    assert calibration["temperature"] == pytest.approx(fit_temperature(values, labels), rel=1e-3)
    assert calibration["loss_after"] <= calibration["loss_before"]
    assert classifier.temperature == calibration["temperature"]


@pytest.mark.slow
def test_an_interrupted_classifier_continues_to_the_bit() -> None:
    overrides = ["training.update_freq=2", "training.ema_decay=0.9", "training.max_steps=12"]
    whole = train(tiny_config(*overrides), "whole")
    with pytest.raises(KeyboardInterrupt):
        train(tiny_config(*overrides), "cut", listener=Recorder(stop_at=7))
    cut = train(tiny_config(*overrides), "cut")
    for name in ("model.safetensors", LABELS, CALIBRATION):
        assert (cut / name).read_bytes() == (whole / name).read_bytes(), name


def test_bpe_dropout_draws_other_segmentations_every_epoch() -> None:
    config = tiny_config(settings={**SETTINGS, "tokenizer": {"kind": "bpe", "dropout": 0.3}})
    task = ClassificationObjective(config, Run.create("run", config), torch.device("cpu"), Recorder())
    assert task.store(epoch=0).text.ids.tolist() == task.store(epoch=0).text.ids.tolist()
    assert task.store(epoch=0).text.ids.tolist() != task.store(epoch=1).text.ids.tolist()


# What is said


def test_a_model_that_gives_one_label_only_is_suspicious() -> None:
    both, blame = ["blame", "praise"], ["blame", "blame"]
    warning = suspicions(both, blame)["one label"]
    assert "every validation text is given the label 'blame'" in warning
    assert "training.learning_rate" in warning
    assert suspicions(both, both) == {}
    assert suspicions(blame, blame) == {}  # as it should be
