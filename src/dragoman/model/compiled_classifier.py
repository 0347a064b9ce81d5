"""A classifier without PyTorch: its encoder by compiled code, the rest, which is little, by NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dragoman.config import ClassifierConfig
from dragoman.model.compiled import CompiledModel, Kind
from dragoman.model.ngrams import bags_of_ngrams
from dragoman.model.weights import Floats, Weights, in_fp32
from dragoman.model.windows import Ids, window_widths


class CompiledClassifier:
    """The packed weights of a classifier: the tokens of texts to one vector of logits a text."""

    def __init__(self, weights: Weights, config: ClassifierConfig, *, kind: Kind) -> None:
        """Pack `weights`, by their names in a run's file, for which there must be no `why_not_compiled`."""
        self.config = config
        self._head = in_fp32(weights["head.weight"]), in_fp32(weights["head.bias"])
        self._mixture = in_fp32(weights["mixture"]) if config.ngrams else np.ones(2, np.float32)
        self._votes: tuple[npt.NDArray[np.generic], Floats] | None = None
        if config.ngrams:
            self._votes = weights["votes.table"], in_fp32(weights["votes.bias"])
        self._encoder = CompiledModel(weights, config, kind=kind) if self._mixture[1] else None

    @property
    def n_classes(self) -> int:
        """C, the length of a vector of logits."""
        return len(self._head[1])

    def __call__(self, texts: Sequence[Ids], *, max_length: int) -> Floats:
        """Return the logits (B, C) of texts of one token or more, each read in windows of `max_length`.

        All are computed together: memory is taken for their tokens and those of their n-grams.
        """
        tokens, lengths = np.concatenate(texts), np.array([len(text) for text in texts], np.int64)
        logits = np.zeros((len(texts), self.n_classes), np.float32)
        if self._encoder is not None:
            logits += self._mixture[1] * self._read(self._encoder, tokens, lengths, max_length=max_length)
        if self._votes is not None:
            table, bias = self._votes
            bags = bags_of_ngrams(tokens, lengths, self.config)
            votes = np.add.reduceat(in_fp32(table[bags.buckets]), _starts(bags.counts))
            logits += self._mixture[0] * (votes / np.sqrt(bags.counts.astype(np.float32))[:, None] + bias)
        return logits

    def _read(self, encoder: CompiledModel, tokens: Ids, lengths: Ids, *, max_length: int) -> Floats:
        """Return the logits (B, C) of the encoder alone."""
        _, widths = window_widths(lengths, max_length=max_length)
        encoded = encoder.encode(tokens, widths)  # (T, D): the windows of a text tile it
        starts = _starts(lengths)
        pooled = []
        for name in self.config.pooling.split("+"):
            if name == "max":
                pooled.append(np.maximum.reduceat(encoded, starts))
            else:
                pooled.append(np.add.reduceat(encoded, starts) / lengths.astype(np.float32)[:, None])
        weight, bias = self._head
        logits: Floats = np.concatenate(pooled, axis=1) @ weight.T + bias
        return logits


def _starts(lengths: Ids) -> Ids:
    """Return where each of texts of these lengths begins, one after the other."""
    starts: Ids = np.cumsum(lengths) - lengths
    return starts
