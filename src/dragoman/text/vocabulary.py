"""Special tokens and training samples, common to all vocabularies."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeVar

from dragoman.errors import DataError

PAD_ID, BOS_ID, EOS_ID, UNK_ID = 0, 1, 2, 3
SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")
UNKNOWN = "\ufffd"
"""How an unknown word or character is written; never a piece itself, so that it stays unknown when read."""

SYNTHETIC = "<synthetic>"
"""The reserved token before a source that a machine has written."""
MARK = re.compile(rf"<2[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)*>|{SYNTHETIC}")
"""Reserved tokens before a source: of a target language, as "<2de>" (Johnson et al. 2017), and SYNTHETIC.

Text never becomes one of them, whatever a user writes.
"""

MAX_TEXTS = 500_000
"""Maximum texts to learn a vocabulary from; a larger corpus is sampled at random."""

Item = TypeVar("Item")


def language_mark(language: str) -> str:
    """Return the reserved token of a target language."""
    return f"<2{language}>"


def draw_sample(items: Iterable[Item], n: int) -> list[Item]:
    """All items, or `n` of them where there are more, each as likely as any other; always the same ones.

    One pass, in the memory of `n` items (Vitter 1985, algorithm R).
    """
    rng = random.Random(0)
    sample: list[Item] = []
    for i, item in enumerate(items):
        if i < n:
            sample.append(item)
        elif (place := rng.randrange(i + 1)) < n:
            sample[place] = item
    return sample


def sample_of_text(texts: Iterable[str], normalise: Callable[[str], str]) -> list[str]:
    """Return the normal forms of a sample of the texts, without empty ones. DataError: no text."""
    sample = [text for text in map(normalise, draw_sample(texts, MAX_TEXTS)) if text]
    if not sample:
        raise DataError("no text to learn a vocabulary from: every line is empty; check the corpus")
    return sample


def most_frequent(counts: Counter[str], n: int, *, min_frequency: int) -> list[str]:
    """Return the `n` most frequent pieces with at least `min_frequency` occurrences; ties by code point."""
    kept = [
        piece
        for piece, count in counts.items()
        if count >= min_frequency and piece not in (UNKNOWN, *SPECIAL_TOKENS) and not MARK.fullmatch(piece)
    ]
    return sorted(kept, key=lambda piece: (-counts[piece], piece))[:n]
