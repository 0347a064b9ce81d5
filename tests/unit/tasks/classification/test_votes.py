"""The regression of n-grams: it is solved, and rare words learn from those that are spelt alike."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from dragoman.config import ClassificationConfig, parse_config
from dragoman.data.labelled import open_labelled
from dragoman.data.store import LabelledStore
from dragoman.metrics.labelling import Exclusive, Several
from dragoman.model.classifier import NgramVotes
from dragoman.model.ngrams import bags_of_ngrams
from dragoman.tasks.classification import votes as subject
from dragoman.tasks.classification.votes import Votes, log_count_ratio, solve_votes, thinned
from dragoman.text.tokenizer import Tokenizer, train_tokenizer
from tiny import TINY_CLASSIFIER

SETTINGS: dict[str, Any] = {
    "task": "classification",
    "name": "tiny",
    "data": {"train": ["train.tsv"], "valid": ["valid.tsv"]},
    "tokenizer": {"kind": "words", "min_frequency": 1},
}
LABELS = ("blame", "praise")


def tiny_config(*overrides: str) -> ClassificationConfig:
    wide = ("model.ngrams=2", "model.ngram_bits=14", "tokenizer.min_frequency=1")
    config = parse_config(SETTINGS, overrides=(*TINY_CLASSIFIER, *wide, *overrides))
    assert config.task == "classification"
    return config


Rows = list[tuple[str, str]]


class Corpus:
    """Training and validation texts as ids."""

    def __init__(self, folder: Path, train: Rows, valid: Rows) -> None:
        self.config = tiny_config()
        self.tokenizer: Tokenizer = train_tokenizer((text for _, text in train), self.config.tokenizer)
        self.train, self.valid = (
            self._store(folder, name, rows) for name, rows in (("train", train), ("valid", valid))
        )

    def _store(self, folder: Path, name: str, rows: Rows) -> LabelledStore:
        path = folder / f"{name}.tsv"
        path.write_text("".join(f"{label}\t{text}\n" for label, text in rows), encoding="utf-8")
        corpus = open_labelled([str(path)], text_column=1, label_column=0)
        return LabelledStore.prepare(
            corpus, self.tokenizer, labels=LABELS, max_tokens=0, cache=folder / f"{name}-cache"
        )

    def solved(self, *, letters: bool = False) -> Votes:
        words = self.tokenizer.pieces() if letters else None
        return solve_votes(
            self.train, self.valid, self.config, words,
            n_classes=2, weights=torch.ones(2), labelling=Exclusive(),
        )  # fmt: skip

    def logits(self, votes: Votes, *texts: str) -> torch.Tensor:
        module = NgramVotes(self.config.model, n_classes=2)
        module.table.data, module.bias.data = votes.table, votes.bias
        ids = self.tokenizer.encode_batch(texts)
        lengths = np.array([len(row) for row in ids])
        return module(bags_of_ngrams(np.concatenate(ids), lengths, self.config.model))


def reviews(n: int, *, seed: int, noise: float = 0.2) -> Rows:
    """Labelled texts whose first word tells the label, but for a share of them."""
    rng = random.Random(seed)
    rows = []
    for _ in range(n):
        label = rng.choice(LABELS)
        told = label if rng.random() >= noise else rng.choice(LABELS)
        word = rng.choice(("good", "fine") if told == "praise" else ("bad", "dull"))
        rows.append((label, f"{word} {rng.choice('abcdef')} {rng.choice('ghijkl')}"))
    return rows


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return Corpus(tmp_path, reviews(200, seed=1), reviews(100, seed=2))


def test_ratios_are_those_of_naive_bayes() -> None:
    """By the definition of NB-SVM, for three classes, one against the others."""
    counts = torch.randint(0, 9, (50, 3), generator=torch.Generator().manual_seed(0)).float()
    ratio = log_count_ratio(counts, counts.sum(1, keepdim=True), Exclusive())
    for c in range(3):
        others = [k for k in range(3) if k != c]
        ours = (counts[:, c] + 1) / counts[:, c].sum()
        rest = (counts[:, others].sum(1) + 2) / counts[:, others].sum()
        torch.testing.assert_close(ratio[:, c], (ours / rest).log())


def test_ratios_of_several_labels_are_those_of_each_label_by_itself() -> None:
    """A text may have both labels or neither: it is the texts without the one that count against it."""
    rng = np.random.default_rng(0)
    grams, labels = rng.integers(2, size=(40, 6)), rng.integers(2, size=(40, 3))
    counts, n_texts = torch.tensor(grams.T @ labels), torch.tensor(grams.sum(0)[:, None])
    together = log_count_ratio(counts.float(), n_texts.float(), Several("|"))
    for c in range(3):
        own = np.stack([grams.T @ labels[:, c], grams.T @ (1 - labels[:, c])], 1)
        alone = log_count_ratio(torch.tensor(own).float(), n_texts.float(), Exclusive())
        torch.testing.assert_close(together[:, c], alone[:, 0])


@pytest.mark.slow
def test_what_is_found_is_what_scikit_learn_finds(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two weights of a pair of classes, each held back, are one that is held back half as much."""
    from sklearn.linear_model import LogisticRegression

    monkeypatch.setattr(subject, "MAX_TRIALS", 0)
    found = corpus.solved()
    assert found.strength == subject.STRENGTH
    buckets, counts = subject._bags(corpus.train, np.arange(200), corpus.config)
    texts = np.repeat(np.arange(len(counts)), counts)
    dense = np.zeros((len(counts), 2**14))
    dense[texts, buckets] = np.repeat(counts**-0.5, counts)
    of_class = [dense[corpus.train.labels == k] for k in (0, 1)]
    occurring = torch.tensor(np.stack([(x > 0).sum(0) for x in of_class], 1)).float()
    ratio = log_count_ratio(occurring, occurring.sum(1, keepdim=True), Exclusive()).numpy()
    theirs = LogisticRegression(C=2 * subject.STRENGTH, tol=1e-8, max_iter=10_000)
    # Columns of both classes: praise's and, with the opposite sign, blame's.
    features = np.hstack([dense * ratio[:, 1], -dense * ratio[:, 0]])
    theirs.set_params(C=subject.STRENGTH).fit(features, corpus.train.labels)
    expected = theirs.decision_function(features)
    rows = [corpus.tokenizer.decode(corpus.train.text[i].tolist()) for i in range(len(corpus.train))]
    ours = corpus.logits(found, *rows)
    assert (ours[:, 1] - ours[:, 0]).tolist() == pytest.approx(expected.tolist(), abs=0.02)


def test_rare_words_learn_from_words_that_are_spelt_alike(tmp_path: Path) -> None:
    """Words that stand once on either side say nothing by themselves; their letters do."""
    told = (("praise", "wonderful"), ("blame", "horrible"))
    rows = [(label, f"{word} tree") for label, word in told] * 30
    rows += [(label, f"{word} {rare}") for label, word in told for rare in ("wonderfully", "horribly")]
    corpus = Corpus(tmp_path, rows, rows)

    def said(*, letters: bool) -> list[float]:
        logits = corpus.logits(corpus.solved(letters=letters), "wonderfully", "horribly")
        return (logits[:, 1] - logits[:, 0]).tolist()

    assert said(letters=False) == pytest.approx([0.0, 0.0], abs=0.05)
    praise, blame = said(letters=True)
    assert praise > 0.3
    assert blame < -0.3


def test_noise_is_regularised_more_than_what_is_clear(tmp_path: Path) -> None:
    strengths = []
    for name, noise in (("clear", 0.0), ("noise", 1.0)):
        (tmp_path / name).mkdir()
        texts = reviews(200, seed=1, noise=noise), reviews(200, seed=2, noise=noise)
        strengths.append(Corpus(tmp_path / name, *texts).solved().strength)
    assert strengths[0] > subject.STRENGTH > strengths[1]


def test_of_very_many_texts_as_many_are_drawn_as_can_be_read() -> None:
    lengths = np.full(1000, 10, dtype=np.int32)
    assert thinned(lengths, most=10_000, seed=1).tolist() == [*range(1000)]
    read = thinned(lengths, most=2_500, seed=1).tolist()
    assert len(read) == len(set(read)) == 250
    assert read == thinned(lengths, most=2_500, seed=1).tolist()
    assert 80 < sum(i % 2 for i in read) < 170, "labels that alternate are drawn alike"


def test_the_loss_that_is_said_is_that_of_the_model_and_equal_texts_give_equal_votes(corpus: Corpus) -> None:
    found, again = corpus.solved(letters=True), corpus.solved(letters=True)
    assert torch.equal(found.table, again.table)
    assert torch.equal(found.bias, again.bias)
    rows = [corpus.tokenizer.decode(corpus.valid.text[i].tolist()) for i in range(len(corpus.valid))]
    labels = torch.from_numpy(corpus.valid.labels.astype(np.int64))
    assert F.cross_entropy(corpus.logits(found, *rows), labels).item() == pytest.approx(
        found.valid_loss, rel=1e-4
    )
