"""Corpora as the doctor reads them: with the numbers of lines, as far as they can be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import NamedTuple

from dragoman.data.corpora import AlignedFiles, Corpus, TableCorpus, Talks, has_text
from dragoman.data.labelled import Labelled, LabelledCorpus, LabelledTable
from dragoman.data.readers.tables import Notes
from dragoman.errors import DataError

CHUNK = 4096
CHUNK_CHARACTERS = 1_000_000
"""Texts that are looked at together, at most, and about how many characters."""


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


def numbered_pairs(corpus: Corpus) -> Iterator[Numbered]:
    """Every pair, those with an empty side included. DataError: as `Corpus.pairs`."""
    if not isinstance(corpus, TableCorpus):
        for number, pair in enumerate(corpus.pairs(), start=1):
            yield Numbered(number, pair)
        return
    has_pairs = False
    for number, pair in corpus.numbered():
        has_pairs = has_pairs or has_text(pair)
        yield Numbered(number, pair)
    if not has_pairs:
        for _ in corpus.pairs():  # which complains
            pass


def pair_numbers(corpus: Corpus) -> Iterator[int]:
    """Yield the numbers of `numbered_pairs`; without an end where they need no reading."""
    return (one.number for one in numbered_pairs(corpus)) if isinstance(corpus, TableCorpus) else count(1)


def numbered_examples(corpus: LabelledCorpus) -> Iterator[Numbered]:
    """Every text and label, those without included. DataError: a file cannot be read, or has no examples."""
    if not isinstance(corpus, LabelledTable):
        for number, example in enumerate(corpus.examples(), start=1):
            yield Numbered(number, example)
        return
    table, (text_column, label_column) = corpus.table, corpus.columns
    has_examples = False
    for number, cells in table.rows(corpus.columns, Notes("examples")):
        text = table.text(cells[0], number, text_column)
        label = table.label(cells[1], number, label_column)
        has_examples = has_examples or bool(text.strip() and label)
        yield Numbered(number, Labelled(text, label))
    if not has_examples:
        for _ in corpus.examples():  # which complains
            pass


class Reading:
    """Reads once, in chunks. Where a corpus breaks off, `trouble` says why, and what came before counts."""

    def __init__(self, numbered: Iterator[Numbered]) -> None:
        self._numbered = numbered
        self.trouble: DataError | None = None
        self.n_read = 0

    def chunks(self) -> Iterator[list[Numbered]]:
        """Everything that can be read. DataError: nothing can, or there is no text."""
        chunk: list[Numbered] = []
        has_text, n_characters = False, 0
        while self.trouble is None:
            try:
                one = next(self._numbered)
            except StopIteration:
                break
            except DataError as error:
                if not has_text:
                    raise
                self.trouble = error
                break
            has_text = has_text or all(text.strip() for text in one.texts)
            chunk.append(one)
            self.n_read += 1
            n_characters += sum(map(len, one.texts))
            if len(chunk) == CHUNK or n_characters >= CHUNK_CHARACTERS:
                yield chunk
                chunk, n_characters = [], 0
        if chunk:
            yield chunk


def chosen(numbered: Iterable[Numbered], indices: Iterable[int]) -> dict[int, Numbered]:
    """Those at some indices, counted from 0. Reads no further than it must."""
    requested = set(indices)
    last = max(requested, default=-1)
    records = {}
    for index, one in enumerate(numbered):
        if index > last:
            break
        if index in requested:
            records[index] = one
            if index == last:
                break
    return records
