"""Word importance by occlusion: erase each word in turn and measure the change of the classifier's log-odds.

Occlusion: Zeiler and Fergus 2014; erasure of words: Li, Monroe and Jurafsky 2016; difference of log-odds:
the weight of evidence of Robnik-Šikonja and Kononenko 2008. Redundant words get low values: if either of two
words is enough, erasing one of them changes little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from dragoman.errors import DataError, check_texts
from dragoman.predict.classifier import Classifier
from dragoman.text.spans import LETTERS, WORD, words_of

MAX_PARTS = 100
"""Maximum parts of a text; in longer texts, several words are erased together."""

WHOLE_WORD = rf"{LETTERS}(?:['’]{LETTERS})+|{WORD}"
"""An apostrophe within a word does not divide it here."""


class WordImportance(NamedTuple):
    """The importance of a word, or of adjacent words, for a label."""

    start: int
    """Index of its first character in the text."""
    end: int
    """Index after its last character."""
    effect: float
    """Log-odds of the label with the word minus without it, in nats; above 0 = evidence for the label."""


class Explanation(NamedTuple):
    """A text, its label, and the importance of each of its words."""

    text: str
    label: str
    log_odds: float
    """log p/(1 - p) of the label, in nats, after the temperature."""
    effects: tuple[WordImportance, ...]
    """In text order, without overlap and without white space at their ends."""
    n_words_each: int
    """Number of words erased together."""


def word_importance(
    classifier: Classifier,
    texts: Sequence[str],
    *,
    labels: Sequence[str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Explanation]:
    """Return the contribution of each word of each text to a label, by default the predicted one.

    Every text is classified once for each of its words, without that word, in batches. `progress` is called
    with the number of classified texts.

    Raises:
        DataError: a label is unknown to the classifier, or the numbers of labels and texts differ.
    """
    check_texts(texts)
    if labels is not None and len(labels) != len(texts):
        raise DataError(f"there are {len(texts)} texts and {len(labels)} labels; give a label for every text")
    for n, label in enumerate(labels or (), start=1):
        if label not in classifier.labels:
            options = ", ".join(map(repr, classifier.labels[:10]))
            raise DataError(f"text {n}: the classifier knows no label {label!r}; there are {options}")
    parts = [parts_of(text) for text in texts]
    variants = [
        variant
        for text, (spans, _) in zip(texts, parts, strict=True)
        for variant in (text, *(_without(text, start, end) for start, end in spans))
    ]
    logits = iter(classifier.logits(variants, progress=progress).values / classifier.temperature)
    explanations = []
    for i, (text, (spans, n_each)) in enumerate(zip(texts, parts, strict=True)):
        scores = np.array([*islice(logits, 1 + len(spans))])
        number = int(scores[0].argmax()) if labels is None else classifier.labels.index(labels[i])
        whole, *without = classifier.labelling.log_odds(scores, number).tolist()
        effects = tuple(
            WordImportance(*span, whole - odds) for span, odds in zip(spans, without, strict=True)
        )
        explanations.append(Explanation(text, classifier.labels[number], whole, effects, n_each))
    return explanations


def parts_of(text: str, *, max_parts: int = MAX_PARTS) -> tuple[list[tuple[int, int]], int]:
    """Return the words of `text` as spans of characters, `max_parts` at most, and how many are in each."""
    words = words_of(text, WHOLE_WORD)
    n_each = max(1, -(-len(words) // max_parts))
    groups = [words[i : i + n_each] for i in range(0, len(words), n_each)]
    return [(group[0][0], group[-1][1]) for group in groups], n_each


def _without(text: str, start: int, end: int) -> str:
    """`text` without what stands from `start` to `end`, and without the space that this leaves double."""
    before, after = text[:start], text[end:]
    return before + after.lstrip() if not before or before[-1].isspace() else before + after
