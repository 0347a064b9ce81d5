"""Analyse single sentences of a test set: quality, differences from the reference, faults."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple, TypeAlias

from dragoman.metrics.faults import COPIED, has_loop, similarity
from dragoman.metrics.translation import words

Fault: TypeAlias = Literal["copied", "repeated", "empty", "too long"]
FAULTS: tuple[Fault, ...] = ("copied", "repeated", "empty", "too long")

MAX_LENGTH_RATIO, MAX_LENGTH_EXTRA = 2, 5
"""A hypothesis is too long if it has more words than RATIO × the words of the reference + EXTRA."""

_UNSPACED = r"\u3040-\u30ff\u3400-\u9fff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_PIECE = re.compile(rf"\s+|[{_UNSPACED}]|[^\W{_UNSPACED}]+|[^\w\s]")


class Difference(NamedTuple):
    """A piece of a hypothesis beside its reference: in both, only in the reference, or only in the other."""

    kind: Literal["same", "missing", "extra"]
    text: str


def word_diff(reference: str, hypothesis: str) -> list[Difference]:
    """Return the pieces of both texts in order, marked.

    Those that are "same" or "missing" make up the reference, those that are "same" or "extra" the
    hypothesis, white space included. Words are compared whole, those of scripts without spaces by letter;
    white space between two words that differ differs, too, so that phrases stay in one piece.
    """
    expected, made = _PIECE.findall(reference), _PIECE.findall(hypothesis)
    codes = SequenceMatcher(None, expected, made, autojunk=False).get_opcodes()
    differences: list[Difference] = []
    missing = extra = ""
    for n, (operation, i1, i2, j1, j2) in enumerate(codes):
        here, other = "".join(expected[i1:i2]), "".join(made[j1:j2])
        between = 0 < n < len(codes) - 1 and here.isspace()
        if operation != "equal" or between:
            missing, extra = missing + here, extra + other
            continue
        differences += _changed(missing, extra)
        differences.append(Difference("same", here))
        missing = extra = ""
    return differences + _changed(missing, extra)


def _changed(missing: str, extra: str) -> list[Difference]:
    """Return the pieces that are in one text only, the reference's first."""
    pieces = (Difference("missing", missing), Difference("extra", extra))
    return [piece for piece in pieces if piece.text]


class Extremes(NamedTuple):
    """Indices of sentences; none is in two of the lists."""

    best: tuple[int, ...]
    median: tuple[int, ...]
    worst: tuple[int, ...]


def extremes(scores: Sequence[float], n: int) -> Extremes:
    """Return the `n` best sentences, best first, the `n` in the middle, and the `n` worst, worst first.

    Of fewer than 3n sentences there are fewer of each. Ties are broken by the order of the sentences.
    """
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    n = min(n, -(-len(order) // 3))
    best, rest = order[:n], order[n:]
    worst = rest[max(0, len(rest) - n) :][::-1]
    between = rest[: len(rest) - len(worst)]
    start = max(0, (len(between) - n) // 2)
    return Extremes(tuple(best), tuple(between[start : start + n]), tuple(worst))


def faults(
    sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str], *, tgt_lang: str
) -> dict[Fault, list[int]]:
    """Return the indices of sentences with each fault, most interesting first.

    A fault that the reference shares does not count. "copied": as similar to the source as COPIED.
    "repeated": a loop. "empty": only white space. "too long": see MAX_LENGTH_RATIO.
    """
    by_fault: dict[Fault, list[int]] = {fault: [] for fault in FAULTS}
    for i, (src, hyp, ref) in enumerate(zip(sources, hypotheses, references, strict=True)):
        if not hyp.strip():
            by_fault["empty"].append(i)
            continue
        if similarity(src, hyp) >= COPIED > similarity(src, ref):
            by_fault["copied"].append(i)
        if has_loop(hyp) and not has_loop(ref):
            by_fault["repeated"].append(i)
        limit = MAX_LENGTH_RATIO * len(words(ref, lang=tgt_lang)) + MAX_LENGTH_EXTRA
        if len(words(hyp, lang=tgt_lang)) > limit:
            by_fault["too long"].append(i)
    return by_fault
