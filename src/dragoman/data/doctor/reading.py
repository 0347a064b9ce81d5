"""Corpora as the doctor reads them: with the numbers of lines, in windows, as far as they can be read."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count, islice
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
        for number, texts in enumerate(records, start=1):
            yield Numbered(number, texts)
        return
    is_empty = True
    for number, texts in corpus.numbered():
        is_empty = is_empty and not all(map(str.strip, texts))
        yield Numbered(number, texts)
    if is_empty:
        for _ in corpus.sources():  # which complains
            pass


def pair_numbers(corpus: Corpus) -> Iterator[int]:
    """Yield the numbers of `numbered`; without an end where they need no reading."""
    return (one.number for one in numbered(corpus)) if isinstance(corpus, TableCorpus) else count(1)


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


def chosen(numbered: Iterable[Numbered], indices: Iterable[int]) -> dict[int, Numbered]:
    """Those at some indices, counted from 0. Reads no further than it must."""
    requested = set(indices)
    first = islice(numbered, max(requested, default=-1) + 1)
    return {index: one for index, one in enumerate(first) if index in requested}


class Texts:
    """The pairs of a window, packed: a third of the memory, and of what travels to another process."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self.n = 0

    def append(self, chunk: Sequence[Numbered]) -> None:
        self._chunks.append(json.dumps(chunk).encode("ascii"))
        self.n += len(chunk)

    def chunks(self) -> Iterator[list[Numbered]]:
        """Yield chunk by chunk, and forget each."""
        while self._chunks:
            yield [Numbered(number, tuple(texts)) for number, texts in json.loads(self._chunks.popleft())]

    def clear(self) -> None:
        """Forget all of them."""
        self._chunks.clear()


def windows(chunks: Iterable[list[Numbered]]) -> Iterator[Texts]:
    """Cut into windows of WINDOW pairs; the last of several has at least TAIL."""
    window, waiting = Texts(), deque[list[Numbered]]()
    n_waiting = 0
    for chunk in chunks:
        waiting.append(chunk)
        n_waiting += len(chunk)
        while n_waiting - len(waiting[0]) >= TAIL:
            n_waiting -= len(waiting[0])
            window.append(waiting.popleft())
            if window.n >= WINDOW:
                yield window
                window = Texts()
    for chunk in waiting:
        window.append(chunk)
    if window.n:
        yield window
