"""Bags of n-grams: the wide part of a classifier, beside the deep one (Cheng et al. 2016).

Which words and short phrases occur says a lot about a text's class, and an encoder has to learn from its
embeddings what a count would tell it at once. So each n-gram of tokens is hashed into one of 2^bits buckets
(Weinberger et al. 2009), and every bucket votes for every class. How much is found by a regression
(tasks/classification/votes.py), not by gradient steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dragoman.config import ClassifierConfig
from dragoman.model.weights import Weights, in_fp32

Ids = npt.NDArray[np.int64]

# Odd constants with random-looking bits: 2^64 over the golden ratio, and two primes of xxHash.
MIX, SPREAD, LENGTH = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9


class NgramBags(NamedTuple):
    """The different buckets of the n-grams of texts, one text after the other."""

    buckets: Ids
    """(G,): in rising order within a text."""
    counts: Ids
    """(B,): how many of them each text has."""


def hash_ngrams(tokens: Ids, lengths: Ids, *, longest: int, bits: int) -> Ids:
    """tokens (T,) of texts one after the other, lengths (B,) -> (T, longest) buckets from 0 to 2^bits - 1.

    Column n - 1 holds the n-gram that ends at a token; before a text's first token stand zeros.
    """
    position = np.arange(len(tokens)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    buckets = np.empty((len(tokens), longest), dtype=np.int64)
    mixed = np.zeros(len(tokens), dtype=np.uint64)
    for n in range(1, longest + 1):
        back = np.zeros(len(tokens), dtype=np.uint64)
        back[n - 1 :] = tokens[: max(0, len(tokens) - n + 1)]
        back[position < n - 1] = 0
        mixed = (mixed + back + np.uint64(1)) * np.uint64(MIX)
        mixed ^= mixed >> np.uint64(29)
        spread = mixed * np.uint64(SPREAD) + np.uint64(n * LENGTH % 2**64)
        buckets[:, n - 1] = spread >> np.uint64(64 - bits)
    return buckets


def bags_of_ngrams(tokens: Ids, lengths: Ids, config: ClassifierConfig) -> NgramBags:
    """Return the bags of texts: tokens (T,) one text after the other, lengths (B,)."""
    bits = config.ngram_bits
    buckets = hash_ngrams(tokens, lengths, longest=config.ngrams, bits=bits)  # (T, n)
    document = np.repeat(np.arange(len(lengths)), lengths)  # (T,)
    keys = (document << bits)[:, None] + buckets
    distinct = np.unique(keys)
    counts = np.bincount(distinct >> bits, minlength=len(lengths))
    return NgramBags(distinct & (2**bits - 1), counts)


def of_older_run(weights: Weights, config: ClassifierConfig) -> Weights:
    """Return weights of version 0.1, whose votes were ratios times learnt weights, as those of today."""
    if "votes.ratio" not in weights:
        return weights
    kept = {name: array for name, array in weights.items() if not name.startswith("votes.")}
    scale = np.float32(config.ngram_rate) * np.exp(in_fp32(weights["votes.log_scale"]))
    table = scale * in_fp32(weights["votes.ratio"]) * in_fp32(weights["votes.weight.weight"])
    bias, mixture = np.zeros(table.shape[1], np.float32), np.ones(2, np.float32)
    return {**kept, "votes.table": table, "votes.bias": bias, "mixture": mixture}
