"""Where a translator is good and where it is not: by length, and by its numbers.

The questions are those of compare-mt (Neubig et al. 2019), asked of one test set: sources, hypotheses and
references, line by line. Words are those that BLEU counts (`metrics.translation.words`). Single sentences are
analysed, too: their quality, differences from the reference, and faults.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple, TypeAlias

from dragoman.metrics.faults import COPIED, has_loop, similarity
from dragoman.metrics.score import Score
from dragoman.metrics.translation import bleu, chrf, words
from dragoman.report.page import Span

LENGTHS = (5, 10, 15, 20, 30, 50)
"""The longest source of each bucket but the last, in words."""

_NUMBER = re.compile(r"\d+(?:[.,:/]\d+)*")


class LengthBucket(NamedTuple):
    """Sentences with sources of `shortest` to `longest` words, and their quality."""

    shortest: int
    longest: int | None
    """None = no limit."""
    indices: tuple[int, ...]
    bleu: Score
    chrf: Score


class Recall(NamedTuple):
    """How much of something in the references is in the hypotheses, and the other way round, counted."""

    n_matched: int
    n_reference: int
    n_hypothesis: int

    @property
    def recall(self) -> float:
        """0–100; 0 where the references have none."""
        return 100 * self.n_matched / self.n_reference if self.n_reference else 0.0

    @property
    def precision(self) -> float:
        """0–100; 0 where the hypotheses have none."""
        return 100 * self.n_matched / self.n_hypothesis if self.n_hypothesis else 0.0


def by_length(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    src_lang: str,
    tgt_lang: str,
    n_bootstrap: int = 1000,
) -> list[LengthBucket]:
    """BLEU and chrF2 of the sentences in each bucket of source lengths; each is in one, none is empty."""
    by_bucket: dict[int, list[int]] = {}
    for i, source in enumerate(sources):
        by_bucket.setdefault(bisect_left(LENGTHS, len(words(source, lang=src_lang))), []).append(i)
    buckets = []
    for number, indices in sorted(by_bucket.items()):
        hyp, ref = ([texts[i] for i in indices] for texts in (hypotheses, references))
        scores = (m(hyp, ref, tgt_lang=tgt_lang, n_bootstrap=n_bootstrap) for m in (bleu, chrf))
        shortest = LENGTHS[number - 1] + 1 if number else 0
        longest = LENGTHS[number] if number < len(LENGTHS) else None
        buckets.append(LengthBucket(shortest, longest, tuple(indices), *scores))
    return buckets


def numbers(text: str) -> Counter[str]:
    """Return the numbers written in digits, such as 3, 1.000 or 12:30, and how often each is there."""
    return Counter(_NUMBER.findall(text))


def number_recall(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[Recall, list[int]]:
    """How many of the references' numbers are in their hypotheses, and the sentences that lose or invent one.

    Numbers are compared as they are written: "1,000" is not "1.000", and "three" is not a number.
    """
    both = list(zip(map(numbers, hypotheses), map(numbers, references), strict=True))
    n_matched = sum((made & expected).total() for made, expected in both)
    recall = Recall(n_matched, sum(e.total() for _, e in both), sum(made.total() for made, _ in both))
    return recall, [i for i, (made, expected) in enumerate(both) if made != expected]


Fault: TypeAlias = Literal["copied", "repeated", "empty", "too long"]
FAULTS: tuple[Fault, ...] = ("copied", "repeated", "empty", "too long")

MAX_LENGTH_RATIO, MAX_LENGTH_EXTRA = 2, 5
"""A hypothesis is too long if it has more words than RATIO × the words of the reference + EXTRA."""

_UNSPACED = r"\u3040-\u30ff\u3400-\u9fff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_PIECE = re.compile(rf"\s+|[{_UNSPACED}]|[^\W{_UNSPACED}]+|[^\w\s]")


def word_diff(reference: str, hypothesis: str) -> list[Span]:
    """Return the pieces of both texts in order, marked: "same", or only in one of them.

    Those that are "same" or "missing" make up the reference, those that are "same" or "extra" the
    hypothesis, white space included. Words are compared whole, those of scripts without spaces by letter;
    white space between two words that differ differs, too, so that phrases stay in one piece.
    """
    expected, made = _PIECE.findall(reference), _PIECE.findall(hypothesis)
    codes = SequenceMatcher(None, expected, made, autojunk=False).get_opcodes()
    differences: list[Span] = []
    missing = extra = ""
    for n, (operation, i1, i2, j1, j2) in enumerate(codes):
        here, other = "".join(expected[i1:i2]), "".join(made[j1:j2])
        between = 0 < n < len(codes) - 1 and here.isspace()
        if operation != "equal" or between:
            missing, extra = missing + here, extra + other
            continue
        differences += _changed(missing, extra)
        differences.append(Span("same", here))
        missing = extra = ""
    return differences + _changed(missing, extra)


def _changed(missing: str, extra: str) -> list[Span]:
    """Return the pieces that are in one text only, the reference's first."""
    pieces = (Span("missing", missing), Span("extra", extra))
    return [piece for piece in pieces if piece.text]


def extremes(scores: Sequence[float], n: int) -> tuple[list[int], list[int], list[int]]:
    """Return the `n` best sentences, best first, the `n` in the middle, and the `n` worst, worst first.

    By index, each in one of the lists. Of fewer than 3n sentences there are fewer of each. Ties are broken by
    the order of the sentences.
    """
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    n = min(n, -(-len(order) // 3))
    best, rest = order[:n], order[n:]
    worst = rest[max(0, len(rest) - n) :][::-1]
    between = rest[: len(rest) - len(worst)]
    start = max(0, (len(between) - n) // 2)
    return best, between[start : start + n], worst


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
