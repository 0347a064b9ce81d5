"""BPE-dropout (Provilkov et al. 2020) from a seed: merges of a word are left out at random.

The generator of `tokenizers` takes no seed, and a training must be repeatable. So text is cut into words by
`tokenizers`, and the words are merged here: before each merge every merge that could be made is left out with
the probability `dropout`, and the first of those that stay, in the order they were learnt in, is made (the
paper's algorithm 1, as in subword-nmt).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import tokenizers

MOST_WORDS = 1_000_000
"""Words that are kept cut into characters."""

Pair = tuple[int, int]


class Word(NamedTuple):
    """A word, and how it is merged."""

    path: list[list[int]]
    """Its ids before each merge that is made where none is left out, and after the last: first those of its
    characters, or of their bytes where the vocabulary lacks them."""
    chance: float
    """Probability that none of these merges is left out."""


class DroppingBpe:
    """Byte-pair encoding that leaves out merges."""

    def __init__(self, model: Mapping[str, Any], splitter: tokenizers.pre_tokenizers.PreTokenizer) -> None:
        """Take the `model` of a tokenizer's file and what cuts text into words. ValueError: its dropout."""
        if not isinstance(model["dropout"], float) or not 0 < model["dropout"] < 1:
            raise ValueError(f"dropout is {model['dropout']!r}")
        vocab: dict[str, int] = model["vocab"]
        self._vocab, self._splitter, self._dropout = vocab, splitter, model["dropout"]
        self._merges: dict[Pair, tuple[int, int]] = {}
        for rank, (first, second) in enumerate(model["merges"]):
            self._merges[vocab[first], vocab[second]] = rank, vocab[first + second]
        self._words: dict[str, Word] = {}

    def encode_batch(self, texts: Sequence[str], generator: np.random.Generator) -> list[list[int]]:
        """Return the ids of normalised texts, as `generator` has it."""
        rows = [[word for word, _ in self._splitter.pre_tokenize_str(text)] for text in texts]
        draws = iter(generator.random(sum(map(len, rows))).tolist())
        return [[i for word in row for i in self._ids(word, next(draws), generator)] for row in rows]

    def _ids(self, text: str, draw: float, generator: np.random.Generator) -> list[int]:
        """Return the ids of a word; `draw`, from 0 to 1, decides which merge is left out first, if any."""
        word = self._words.get(text)
        if word is None:
            if len(self._words) >= MOST_WORDS:
                self._words.clear()
            ids: list[int] = []
            for character in text:
                if character in self._vocab:
                    ids.append(self._vocab[character])
                else:
                    ids += [self._vocab[f"<0x{byte:02X}>"] for byte in character.encode()]
            path = [ids]
            while mergeable := self._mergeable(path[-1]):
                _, merged, i = min(mergeable)
                path.append([*path[-1][:i], merged, *path[-1][i + 2 :]])
            word = self._words[text] = Word(path, (1 - self._dropout) ** (len(path) - 1))
        if draw < word.chance:
            return word.path[-1]
        # That the first merge left out is one of the first k has the probability 1 - (1 - dropout)^k.
        first = int(math.log(1 - (draw - word.chance)) / math.log(1 - self._dropout))
        first = min(first, len(word.path) - 2)
        return self._merged(list(word.path[first]), generator)

    def _mergeable(self, ids: list[int]) -> list[tuple[int, int, int]]:
        """Return the merges that can be made: rank, what they make, and where."""
        merges = self._merges
        pairs = enumerate(pairwise(ids))
        return [(*merges[pair], i) for i, pair in pairs if pair in merges]

    def _merged(self, ids: list[int], generator: np.random.Generator) -> list[int]:
        """Merge in place, but leave out the merge that would be made first."""
        n = 1
        while True:
            mergeable = self._mergeable(ids)
            # How many of the first are left out, one after the other, is geometrically distributed.
            n += int(math.log(1 - generator.random()) / math.log(self._dropout))
            if n >= len(mergeable):
                return ids
            _, merged, i = sorted(mergeable)[n] if n else min(mergeable)
            ids[i : i + 2] = [merged]
            n = 0
