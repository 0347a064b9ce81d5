"""Which layer and step of the decoder align words best: the agreement with a statistical aligner.

    python benchmarks/alignment.py runs/multi30k-en-de      # corpora of the run from $DRAGOMAN_DATA

For each layer, the mean of all, and this contrasted (as `align` does it), and for the step that predicts a
token and the one that has it as input: the share of target words that are linked with the same source word
as by IBM model 1 (Brown et al. 1993) with fast_align's preference for the diagonal (Dyer et al. 2013), learnt
from training and validation text. Only words count that it links both ways, from source to target and back.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dragoman.data.named import open_text
from dragoman.data.records import Pair
from dragoman.predict.alignment import contrasted, word_attention, words_of
from dragoman.predict.translator import Translator

N_ROUNDS = 5
DIAGONAL = 4.0
"""How much the statistical aligner prefers words at the same relative position (fast_align's start value)."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Combinations(NamedTuple):
    """Every source word of every pair beside every target word of it, flat."""

    src: Ints
    tgt: Ints
    src_slot: Ints
    """The place of the source word in the corpus."""
    tgt_slot: Ints
    prior: Floats


def main(path: str) -> None:
    translator = Translator.load(path)
    data = translator.config.data
    train, valid = (list(open_text(data, files).pairs()) for files in (data.train, data.valid))
    standard = statistical_links(train + valid)[len(train) :]
    n_links = sum(map(len, standard))
    print(f"{len(valid)} pairs, {n_links} links of the statistical aligner\n")
    print("| layer | step that predicts the token | step that has it as input |\n|---|--:|--:|")
    n_layers = len(translator.model.decoder)
    names = [*(f"{k + 1} of {n_layers}" for k in range(n_layers)), "mean of all", "mean, contrasted"]
    agreements = [agreement(translator, valid, standard, step=step) for step in (0, 1)]
    for name, predicts, has in zip(names, *agreements, strict=True):
        print(f"| {name} | {100 * predicts:.1f} % | {100 * has:.1f} % |")


def agreement(
    translator: Translator, pairs: Sequence[Pair], standard: Sequence[dict[int, int]], *, step: int
) -> Floats:
    """Return the share of the links in `standard` that attention finds: by layer, mean, contrasted mean."""
    sources, targets = [pair.src for pair in pairs], [pair.tgt for pair in pairs]
    n_found = np.zeros(len(translator.model.decoder) + 2)
    for i, weights in word_attention(translator, sources, targets, step=1 if step else 0):
        tgt, src = (
            np.array(side, dtype=np.int64) for side in (list(standard[i]), list(standard[i].values()))
        )
        mean = weights.mean(0, keepdims=True)
        best = np.concatenate([weights, mean, contrasted(mean)]).argmax(-1)
        n_found += (best[:, tgt] == src).sum(-1)
    return n_found / sum(map(len, standard))


def statistical_links(pairs: Sequence[Pair]) -> list[dict[int, int]]:
    """For each pair, the source word of each target word that is linked both ways."""
    sides = [numbered([pair[side] for pair in pairs]) for side in (0, 1)]
    forward = best_partners(combine(sides[0], sides[1]))
    backward = best_partners(combine(sides[1], sides[0]))
    links: list[dict[int, int]] = []
    src_start = tgt_start = 0
    for src, tgt in zip(*sides, strict=True):
        partners = ((j, forward[tgt_start + j] - src_start) for j in range(len(tgt)) if len(src))
        links.append({j: int(i) for j, i in partners if backward[src_start + i] == tgt_start + j})
        src_start, tgt_start = src_start + len(src), tgt_start + len(tgt)
    return links


def numbered(texts: Sequence[str]) -> list[list[int]]:
    """Return the words of each text, lower-cased, as numbers."""
    numbers: dict[str, int] = {}
    return [
        [numbers.setdefault(text[start:end].lower(), len(numbers)) for start, end in words_of(text)]
        for text in texts
    ]


def combine(src: list[list[int]], tgt: list[list[int]]) -> Combinations:
    """All combinations of words of a pair."""
    columns: list[list[npt.NDArray[np.generic]]] = [[], [], [], [], []]
    src_start = tgt_start = 0
    for s, t in zip(src, tgt, strict=True):
        i, j = (index.ravel() for index in np.meshgrid(np.arange(len(s)), np.arange(len(t))))
        off_diagonal = np.abs((i + 0.5) / max(1, len(s)) - (j + 0.5) / max(1, len(t)))
        words = np.array(s, dtype=np.int64)[i], np.array(t, dtype=np.int64)[j]
        row = (*words, i + src_start, j + tgt_start, np.exp(-DIAGONAL * off_diagonal))
        for column, values in zip(columns, row, strict=True):
            column.append(values)
        src_start, tgt_start = src_start + len(s), tgt_start + len(t)
    return Combinations(*(np.concatenate(column) for column in columns))


def best_partners(all_: Combinations) -> Ints:
    """For each place of a target word, the place of the source word that explains it best."""
    keys = all_.src * (int(all_.tgt.max()) + 1) + all_.tgt
    _, kind = np.unique(keys, return_inverse=True)
    translation = np.ones(kind.max() + 1)
    for _ in range(N_ROUNDS):
        posterior = all_.prior * translation[kind]
        posterior /= np.bincount(all_.tgt_slot, posterior)[all_.tgt_slot]
        mass = np.bincount(all_.src, posterior)
        translation = np.bincount(kind, posterior / mass[all_.src])
    score = all_.prior * translation[kind]
    order = np.lexsort((-score, all_.tgt_slot))
    slots, first = np.unique(all_.tgt_slot[order], return_index=True)
    partners = np.full(int(slots.max()) + 1, -1)
    partners[slots] = all_.src_slot[order][first]
    return partners


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", help="a run")
    main(parser.parse_args().run)
