"""Words of a translation: those of the source that they stand for, and how probable they are."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dragoman.errors import DataError, check_texts
from dragoman.predict.model import TranslationModel
from dragoman.predict.results import Link
from dragoman.predict.scoring import score_pairs
from dragoman.text.spans import token_shares, words_of
from dragoman.text.tokenizer import EOS_ID

Floats = npt.NDArray[np.float32]

LEAST_ATTENTION = 0.001
"""Added to the mean attention to a source word: below it, differences are noise."""


class WordAlignment(NamedTuple):
    """How much each word of a translation is linked with each of its source, and the links that follow."""

    weights: Floats
    """(T, S): the shares that `align` decides by; rows add up to 1."""
    src_words: tuple[str, ...]
    tgt_words: tuple[str, ...]
    links: tuple[tuple[int, int], ...]
    """The word of the source and the one of the translation, counted from 0, in the target's order."""


def align(model: TranslationModel, sources: Sequence[str], targets: Sequence[str]) -> list[list[Link]]:
    """Align the words of each source and its translation; links are in the order of the target's words.

    Every word of the target is linked with the word of the source that it attends to most; `WORD` says what
    is one. Offsets are those of the text as it was given, before it was normalised. A pair of which a side
    is empty, or has more tokens than the model accepts, has no links. DataError: the numbers of texts differ.

    The translation is given to the decoder. What counts is the attention of all its heads and layers,
    averaged, at the step that predicts a token, and less where all words look, as at a full stop
    (`contrasted`). docs/documents.md compares layers and steps with a statistical aligner.
    """
    check_texts(sources, what="source")
    check_texts(targets, what="target")
    if len(sources) != len(targets):
        raise DataError(
            f"there are {len(sources)} sources and {len(targets)} translations; aligning needs pairs"
        )
    links: list[list[Link]] = [[] for _ in sources]
    for i, shares in word_attention(model, sources, targets):
        src_words, tgt_words = words_of(sources[i]), words_of(targets[i])
        links[i] = [Link(*src_words[s], *tgt_words[t], float(shares[t, s])) for s, t in _links(shares)]
    return links


def align_words(model: TranslationModel, source: str, target: str) -> WordAlignment:
    """Return the links of `align` for a pair, with the weights between all words.

    DataError: a side is empty, or has more tokens than the model accepts.
    """
    attention = dict(word_attention(model, [source], [target]))
    if not attention:
        raise DataError(
            f"there is nothing to align: a side is empty, or has {model.max_positions} tokens or more; "
            "take one sentence and its translation"
        )
    src_words, tgt_words = (tuple(text[a:b] for a, b in words_of(text)) for text in (source, target))
    return WordAlignment(attention[0], src_words, tgt_words, tuple(_links(attention[0])))


def pharaoh(links: Sequence[Link], source: str, target: str) -> str:
    """Return the links in Pharaoh format, such as "0-0 1-2": word numbers of `source` and `target`, sorted.

    Words are what white space separates, counted from 0, as tools that read this format have it.
    """
    starts = [[word.start() for word in re.finditer(r"\S+", text)] for text in (source, target)]
    pairs = {
        (bisect_right(starts[0], link.source_start) - 1, bisect_right(starts[1], link.target_start) - 1)
        for link in links
    }
    return " ".join(f"{i}-{j}" for i, j in sorted(pairs))


def word_attention(
    model: TranslationModel, sources: Sequence[str], targets: Sequence[str]
) -> Iterator[tuple[int, Floats]]:
    """Yield the shares that `align` decides by: the index of a pair, and (target words, source words) of it.

    The words are those of `words_of`. Heads and layers are averaged. The row of a word is the mean of its
    tokens', each from the step that predicts the token; the column is the sum of its tokens'. What is on the
    end token is left out. Pairs that `align` leaves without links are left out, too.
    """
    tokenizers, limit = model.tokenizers, model.max_positions
    src, tgt = tokenizers.src.encode_batch(sources), tokenizers.tgt.encode_batch(targets)
    usable = [i for i in range(len(src)) if 0 < len(src[i]) < limit and 0 < len(tgt[i]) < limit]
    usable.sort(key=lambda i: (len(src[i]), len(tgt[i])))
    size = model.config.search.batch_sentences
    for start in range(0, len(usable), size):
        chosen = usable[start : start + size]
        attention = model.engine.attention([[*src[i], EOS_ID] for i in chosen], [tgt[i] for i in chosen])
        for looks, i in zip(attention, chosen, strict=True):  # (layers, T, S)
            src_shares = token_shares(tokenizers.src, sources[i])
            tgt_shares = token_shares(tokenizers.tgt, targets[i])
            tgt_shares /= np.maximum(tgt_shares.sum(0), 1e-9)
            weights = tgt_shares.T @ looks[:, : len(tgt[i]), : len(src[i])] @ src_shares
            yield i, contrasted(weights.astype(np.float32).mean(0))


def contrasted(weights: Floats) -> Floats:
    """(..., target words, source words): shares of a target word's attention, each over its column's mean.

    Rows add up to 1. Attention that has nothing else to look at rests on a few tokens, such as the full stop;
    a source word that all target words look at says nothing about any of them.
    """
    relative = weights / (weights.mean(-2, keepdims=True) + LEAST_ATTENTION)
    shares: Floats = relative / np.maximum(relative.sum(-1, keepdims=True), 1e-9)
    return shares


def _links(weights: Floats) -> list[tuple[int, int]]:
    """Return the links (source word, target word) of weights (target words, source words) not all 0."""
    return [(int(row.argmax()), t) for t, row in enumerate(weights) if row.max() > 0]


def joined_links(before: Sequence[Link], after: Sequence[Link]) -> list[Link]:
    """Return links from source to target, from those to and from a text between: where both meet a word.

    Each word of the target has one link, with the product of the weights.
    """
    links = []
    for link in after:
        meeting = [x for x in before if x.target_start < link.source_end and link.source_start < x.target_end]
        if meeting:
            best = max(meeting, key=lambda x: x.weight)
            links.append(Link(*best[:2], *link[2:4], best.weight * link.weight))
    return links


class WordProbability(NamedTuple):
    """A word of a translation, by its characters, and its probability after what stands before it."""

    start: int
    end: int
    probability: float


def word_probabilities(
    model: TranslationModel, sources: Sequence[str], targets: Sequence[str]
) -> list[list[WordProbability]]:
    """Return the probability of each word of each target: the product of those of its tokens.

    A token that is part of several words counts for each by its share (`alignment.token_shares`), and one
    that is white space alone for the word behind it, or the last. Words are those of `alignment.words_of`.
    A pair that cannot be scored, since a side is empty or longer than the model accepts, has none. DataError:
    there are not as many targets as sources.

    The model's own opinion: what it finds improbable is not always wrong, nor the other way round.
    """
    probabilities: list[list[WordProbability]] = []
    for target, score in zip(targets, score_pairs(model, sources, targets), strict=True):
        words = words_of(target) if score.log_probs else []
        probabilities.append([])
        if not words:
            continue
        shares = token_shares(model.tokenizers.tgt, target)
        word = len(words) - 1
        for row in reversed(shares):
            if row.any():
                word = int(row.argmax())
            else:
                row[word] = 1.0
        of_words = np.exp(np.minimum(np.array(score.log_probs[:-1]) @ shares, 0.0)).tolist()
        probabilities[-1] += [WordProbability(*span, p) for span, p in zip(words, of_words, strict=True)]
    return probabilities
