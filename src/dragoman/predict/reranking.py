"""Minimum-Bayes-risk reranking: choose the candidate closest to the others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.helpers import extract_all_char_ngrams

from dragoman.predict.results import Translation

Floats = npt.NDArray[np.float64]


def minimum_risk(translation: Translation) -> Translation:
    """Return `translation` with its alternatives sorted by expected chrF, highest first.

    Minimum Bayes risk (Kumar and Byrne 2004): each alternative is compared with all of them, which stand for
    what the translation might be. Each counts the same, as is right for samples (Eikema and Aziz 2020); equal
    samples make each other more probable. Scores stay those of the search, and so does the order of equals.

    Of a text in parts, the mean over its parts counts, by their lengths.
    """
    n = len(translation.alternatives)
    expected = np.zeros(n)
    for part in translation.parts or (translation,):
        texts = [alternative.text for alternative in part.alternatives[:n]]
        expected += pairwise_chrf(texts).mean(1) * (len(part.source) if translation.parts else 1)
    return _reordered(translation, np.argsort(-expected, kind="stable").tolist())


def _reordered(translation: Translation, order: Sequence[int]) -> Translation:
    """Return `translation` with these alternatives, in this order, and its parts likewise."""
    alternatives = tuple(translation.alternatives[i] for i in order)
    parts = tuple(_reordered(part, order) for part in translation.parts)
    ids = tuple(translation.ids[i] for i in order) if translation.ids else ()
    return translation._replace(alternatives=alternatives, parts=parts, ids=ids)


def pairwise_chrf(texts: Sequence[str]) -> Floats:
    """(N, N) sentence-level chrF2 of each text, row, against each, column, as sacreBLEU has it; 0–100.

    Its n-grams are counted once a text, and not once a pair.
    """
    distinct = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    rows = [distinct[text] for text in texts]
    metric = CHRF()
    n_grams = [extract_all_char_ngrams(text, metric.char_order, metric.whitespace) for text in distinct]
    precision = np.zeros((len(distinct), len(distinct)))
    n_orders = np.zeros_like(precision)
    for order in range(metric.char_order):
        numbers: dict[str, int] = {}
        for counts in n_grams:
            for n_gram in counts[order]:
                numbers.setdefault(n_gram, len(numbers))
        table = np.zeros((len(distinct), len(numbers)), dtype=np.int64)
        for i, counts in enumerate(n_grams):
            table[i, [numbers[n_gram] for n_gram in counts[order]]] = list(counts[order].values())
        n = table.sum(1)
        matches = np.stack([np.minimum(row, table).sum(1) for row in table])
        both = (n[:, None] > 0) & (n > 0)
        precision += np.where(both, matches / np.maximum(n, 1)[:, None], 0.0)
        n_orders += both
    precision /= np.maximum(n_orders, 1)
    recall = precision.T  # matches are the same both ways
    weight = metric.beta**2
    total = weight * precision + recall
    chrf = 100 * (1 + weight) * precision * recall / np.where(total > 0, total, 1.0)
    return chrf[np.ix_(rows, rows)]
