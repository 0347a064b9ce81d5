"""Faults of a single translation that need no reference: copies and repetitions."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

COPIED = 0.8
"""Similarity from which a translation counts as a copy of its source."""

_UNSPACED = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_TOKEN = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")


def similarity(a: str, b: str) -> float:
    """How alike two texts are, 0 to 1: Dice's coefficient of their pairs of neighbouring characters."""
    first, second = _bigrams(a), _bigrams(b)
    total = first.total() + second.total()
    return 2 * (first & second).total() / total if total else 0.0


def has_loop(text: str) -> bool:
    """Whether a word stands four times on end, or a phrase of up to eight words three times."""
    tokens = _TOKEN.findall(text.casefold())
    for n in range(1, 9):
        matching, most = 0, 3 if n == 1 else 2 * n
        for here, before in zip(tokens[n:], tokens, strict=False):
            matching = matching + 1 if here == before else 0
            if matching >= most:
                return True
    return False


def _bigrams(text: str) -> Counter[str]:
    text = f" {' '.join(text.casefold().split())} "
    return Counter(a + b for a, b in pairwise(text)) if text.strip() else Counter()
