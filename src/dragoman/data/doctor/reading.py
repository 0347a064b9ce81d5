"""A corpus as the doctor reads it: numbered records, in chunks and windows, as far as it can be read."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from dragoman.data.corpora import AlignedFiles, Corpus, TableCorpus, Talks
from dragoman.data.labelled import LabelledCorpus, LabelledTable
from dragoman.errors import DataError

CHUNK = 4096
CHUNK_CHARACTERS = 1_000_000
"""Texts that are looked at together, at most, and about how many characters."""
WINDOW = 131_072
"""Pairs that are judged together: by the lengths, letters and words that are usual among them.

Twice as many teach no better, for a lexicon is learnt from some of them only, and take 0.2 GB more.
"""
TAIL = 16_384
"""Minimum pairs of the last of several windows, and how many more than WINDOW it may have."""

Progress = Callable[[str, int], None]
"""Told what is being done, and how many records have been read."""


class Numbered(NamedTuple):
    """A pair or example and its number, from 1: the line it begins on, where its corpus has lines."""

    number: int
    texts: tuple[str, ...]


def unit_of(corpus: Corpus | LabelledCorpus) -> str:
    """Return the unit of the numbers: "line", "pair", "example" or the like."""
    if isinstance(corpus, TableCorpus | LabelledTable):
        return corpus.table.unit
    if isinstance(corpus, AlignedFiles) and not isinstance(corpus, Talks):
        return "line"
    return "pair" if isinstance(corpus, Corpus) else "example"


def numbered(corpus: Corpus | LabelledCorpus) -> Iterator[Numbered]:
    """Every pair or example, those without text included.

    DataError: a file cannot be read, or no record has text in both parts.
    """
    if not isinstance(corpus, TableCorpus | LabelledTable):
        records = corpus.pairs() if isinstance(corpus, Corpus) else corpus.examples()
        yield from map(Numbered._make, enumerate(records, start=1))
        return
    is_empty = True
    for number, texts in corpus.numbered():
        is_empty = is_empty and not all(map(str.strip, texts))
        yield Numbered(number, texts)
    if is_empty:
        for _ in corpus.sources():  # which complains
            pass


def read(
    records: Iterator[Numbered], progress: Progress, troubles: list[DataError]
) -> Iterator[list[Numbered]]:
    """Yield all that can be read, in chunks; why a corpus breaks off is added to `troubles`.

    DataError: nothing can be read, or there is no text.
    """
    chunk: list[Numbered] = []
    has_text, n_characters, n_read = False, 0, 0
    try:
        for one in records:
            has_text = has_text or all(text.strip() for text in one.texts)
            chunk.append(one)
            n_read += 1
            n_characters += sum(map(len, one.texts))
            if len(chunk) == CHUNK or n_characters >= CHUNK_CHARACTERS:
                yield chunk
                progress("reading", n_read)
                chunk, n_characters = [], 0
    except DataError as error:
        if not has_text:
            raise
        troubles.append(error)
    if chunk:
        yield chunk
        progress("reading", n_read)


class Window:
    """Consecutive pairs, packed: a third of the memory, and of what travels to another process."""

    def __init__(self) -> None:
        self._packed: deque[bytes] = deque()
        self.n = 0

    def append(self, chunk: list[Numbered]) -> None:
        """Add a chunk behind the others."""
        self._packed.append(json.dumps(chunk).encode("ascii"))
        self.n += len(chunk)

    def chunks(self) -> Iterator[list[Numbered]]:
        """Yield chunk by chunk, and forget each."""
        while self._packed:
            yield [Numbered(number, tuple(texts)) for number, texts in json.loads(self._packed.popleft())]


def windows(chunks: Iterable[list[Numbered]]) -> Iterator[Window]:
    """Cut into windows of WINDOW pairs; the last of several has at least TAIL."""
    window, following = Window(), Window()
    for chunk in chunks:
        (window if window.n < WINDOW else following).append(chunk)
        if following.n >= TAIL:
            yield window
            window, following = following, Window()
    for chunk in following.chunks():
        window.append(chunk)
    if window.n:
        yield window
