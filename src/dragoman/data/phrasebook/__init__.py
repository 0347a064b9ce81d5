"""The embedded corpus: sentences in English, German, Polish and Chinese, and reviews in English with labels.

A small grammar wrote them (tools/phrasebook, tools/make_phrasebook.py). No sentence occurs twice in any
language. Half of each test combines a word and a construction that train never puts together.
"""

from __future__ import annotations

import hashlib
import lzma
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import NamedTuple

LANGUAGES = ("en", "de", "pl", "zh")
LABELS = ("positive", "negative")
SPLITS = ("train", "valid", "test")
N_TEST, N_VALID = 1000, 1000
N_TEST_REVIEWS, N_VALID_REVIEWS = 1000, 500


class PhrasebookEntry(NamedTuple):
    """One sentence in every language."""

    en: str
    de: str
    pl: str
    zh: str


def phrases(split: str) -> tuple[PhrasebookEntry, ...]:
    """Return the sentences of a split, one of SPLITS, in a fixed order."""
    return _sentences()[split]


def pairs(split: str, src_lang: str, tgt_lang: str) -> Iterator[tuple[str, str]]:
    """Return source and target of every sentence of a split; the languages are among LANGUAGES."""
    src, tgt = LANGUAGES.index(src_lang), LANGUAGES.index(tgt_lang)
    return iter([(phrase[src], phrase[tgt]) for phrase in phrases(split)])


def unseen_phrases() -> tuple[PhrasebookEntry, ...]:
    """Return the half of the test whose combinations of word and construction never occur in train."""
    return phrases("test")[N_TEST // 2 :]


def reviews(split: str) -> list[tuple[str, str]]:
    """Return label and text of every review of a split, as many positive as negative ones."""
    rows = [(label, text) for label, text in (line.split("\t") for line in _lines("reviews.xz"))]
    valid_end = N_TEST_REVIEWS + N_VALID_REVIEWS
    places = {"test": (0, N_TEST_REVIEWS), "valid": (N_TEST_REVIEWS, valid_end), "train": (valid_end, None)}
    return rows[slice(*places[split])]


def unseen_reviews() -> list[tuple[str, str]]:
    """Return the half of the test whose combinations of construction and adjective never occur in train."""
    return reviews("test")[N_TEST_REVIEWS // 2 :]


@cache
def _sentences() -> dict[str, tuple[PhrasebookEntry, ...]]:
    lines = _lines("sentences.xz")
    n = len(lines) // len(LANGUAGES)
    columns = (lines[start : start + n] for start in range(0, len(lines), n))
    rows = [PhrasebookEntry(*texts) for texts in zip(*columns, strict=True)]
    test, valid, train = rows[:N_TEST], rows[N_TEST : N_TEST + N_VALID], rows[N_TEST + N_VALID :]
    train.sort(key=lambda phrase: hashlib.sha256(f"1 {phrase.en}".encode()).digest())  # mixed, for good
    return {"test": tuple(test), "valid": tuple(valid), "train": tuple(train)}


@cache
def _lines(name: str) -> list[str]:
    content = resources.files(__package__).joinpath(name).read_bytes()
    return lzma.decompress(content).decode().splitlines()
