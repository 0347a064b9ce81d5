"""Batches of whole texts; long texts are split into several windows, so that nothing is truncated.

A text of more than `max_length` tokens is split into the smallest number of adjacent windows, all of about
the same length. Every token is in exactly one window. PyTorch is imported where tensors are made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from dragoman.config import ClassificationConfig
from dragoman.model.ngrams import NgramBags, bags_of_ngrams
from dragoman.model.windows import window_widths, windows_needed
from dragoman.text.tokenizer import PAD_ID

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from dragoman.data.store import LabelledStore
    from dragoman.model.classifier import TransformerClassifier

Ids = npt.NDArray[np.int64]

POOL_BATCHES = 64
"""Size of a pool in batches. Texts are shuffled into pools and sorted by length within each pool."""


class Documents(NamedTuple):
    """Texts as windows: rows of int64 ids, filled up with PAD_ID; the windows of a text stand together."""

    ids: Tensor
    """(W, L): the tokens."""
    document: Tensor
    """(W,): the text, counted from 0, that each window belongs to."""
    n_documents: int
    ngrams: NgramBags | None = None
    """The n-grams of each text, for a model that reads them."""

    @property
    def real(self) -> Tensor:
        """(W, L): True at tokens, False at padding."""
        return self.ids != PAD_ID

    @property
    def n_tokens(self) -> int:
        """Tokens, padding excluded."""
        return int(self.real.sum())

    def logits(self, model: TransformerClassifier) -> Tensor:
        """(B, C) by `model`."""
        return model(self.ids, self.real, self.document, self.n_documents, self.ngrams)

    def read(self, model: TransformerClassifier) -> Tensor:
        """(B, C) by the encoder of `model` alone."""
        return model.read(self.ids, self.real, self.document, self.n_documents)

    def to(self, device: torch.device) -> Documents:
        """Return the same on `device`."""
        return self._replace(ids=self.ids.to(device), document=self.document.to(device))


class ClassificationBatch(NamedTuple):
    """Texts and their labels."""

    documents: Documents
    labels: Tensor
    """(B,): int64 class numbers; or (B, C): 0 and 1, of texts with several labels."""

    def to(self, device: torch.device) -> ClassificationBatch:
        """Return the same batch on `device`."""
        return ClassificationBatch(self.documents.to(device), self.labels.to(device))


def plan_documents(lengths: Ids, *, max_length: int, batch_tokens: int, seed: int, epoch: int) -> list[Ids]:
    """Return the indices of each batch's texts, in the order of training: every text once.

    A batch has at most `batch_tokens` tokens, padding included; a longer text is alone. The plan follows
    from `seed` and `epoch` alone.
    """
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(lengths))
    pools = (np.cumsum(lengths[order]) - 1) // (POOL_BATCHES * batch_tokens)
    batches = _cut(lengths, order, pools, max_length=max_length, batch_tokens=batch_tokens)
    return [batches[i] for i in rng.permutation(len(batches))]


def plan_by_length(lengths: Ids, *, max_length: int, batch_tokens: int) -> list[Ids]:
    """Return the same for predicting: batches of texts of similar length, the longest last."""
    order = np.arange(len(lengths))
    return _cut(lengths, order, np.zeros_like(order), max_length=max_length, batch_tokens=batch_tokens)


def _cut(lengths: Ids, order: Ids, pools: Ids, *, max_length: int, batch_tokens: int) -> list[Ids]:
    """Texts in `order`, sorted by length within each pool and cut into the largest batches that fit."""
    n_windows = windows_needed(lengths, max_length=max_length)
    widths = -(-lengths // n_windows)
    order = order[np.lexsort((widths[order], pools))]
    starts, rows, last_pool = [], 0, -1
    triples = zip(n_windows[order].tolist(), widths[order].tolist(), pools.tolist(), strict=True)
    for i, (n, width, pool) in enumerate(triples):  # widths rise within a pool
        if pool != last_pool or (rows + n) * width > batch_tokens:
            starts.append(i)
            rows, last_pool = 0, pool
        rows += n
    return np.split(order, starts[1:]) if starts else []


def lay_out(tokens: Ids, lengths: Ids, *, max_length: int) -> Documents:
    """Texts as windows. `tokens` are those of all texts one after the other, `lengths` how many each has."""
    import torch

    document, widths = window_widths(lengths, max_length=max_length)  # (W,) both
    is_token = np.arange(widths.max())[None, :] < widths[:, None]  # (W, L)
    ids = np.full(is_token.shape, PAD_ID, dtype=np.int64)
    ids[is_token] = tokens  # windows tile the texts in their order
    return Documents(torch.from_numpy(ids), torch.from_numpy(document), len(lengths))


def make_documents(tokens: Ids, lengths: Ids, config: ClassificationConfig) -> Documents:
    """Texts as the model of `config` reads them, with their n-grams; see `lay_out`."""
    ngrams = bags_of_ngrams(tokens, lengths, config.model) if config.model.ngrams else None
    return lay_out(tokens, lengths, max_length=config.data.max_length)._replace(ngrams=ngrams)


def make_classification_batch(
    store: LabelledStore, indices: Ids, config: ClassificationConfig
) -> ClassificationBatch:
    """Return the texts at `indices` of the store, in that order, as the encoder sees them in training.

    Word dropout hides tokens, as PyTorch's random state will have it; a text that would lose all of them
    keeps its first.
    """
    import torch

    tokens, lengths = store.gathered(indices)
    if config.model.word_dropout:
        keep = torch.rand(len(tokens)).numpy() >= config.model.word_dropout
        starts = np.cumsum(lengths) - lengths
        keep[starts] |= np.add.reduceat(keep, starts, dtype=np.int64) == 0
        tokens, lengths = tokens[keep], np.add.reduceat(keep, starts, dtype=np.int64)
    labels = torch.from_numpy(store.labels[indices].astype(np.int64))
    return ClassificationBatch(lay_out(tokens, lengths, max_length=config.data.max_length), labels)
