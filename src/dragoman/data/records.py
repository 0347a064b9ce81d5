"""Records of two texts: a sentence and its translation, or a text and its label. Views, and a split of them.

Whatever is wrong with a source of records is a `DataError` of one line that names the file, the line and the
remedy. What a reader leaves out is counted, and told by `Corpus.notes`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from dragoman.data.readers.files import ReadOffset, hash_strings, hash_text
from dragoman.data.readers.tables import Notes
from dragoman.errors import DataError, counted
from dragoman.text.normalisation import plain

LABEL_SETTING = "--text-column and --label-column, or data.text_column and data.label_column"
MANY_LABELS = 1000


class Pair(NamedTuple):
    """A sentence and its translation, as they stand in the corpus."""

    src: str
    tgt: str


class Labelled(NamedTuple):
    """A text and the name of its class."""

    text: str
    label: str
    """The cell as it is written; of a corpus with a separator, `labels_of` has its labels."""


class Numbered(NamedTuple):
    """A record and its number, from 1: the line it begins on, where its corpus has lines."""

    number: int
    texts: tuple[str, ...]


def has_text(record: Sequence[str]) -> bool:
    """Both texts hold more than white space."""
    return bool(record[0].strip() and record[1].strip())


def labels_of(cell: str, separator: str) -> tuple[str, ...]:
    """Return the labels in a cell, each once, without blanks around them; without a separator, the cell."""
    if not separator:
        return (cell,)
    return tuple(dict.fromkeys(label for part in cell.split(separator) if (label := part.strip())))


class Corpus(ABC):
    """Records that can be read again and again: what a model reads, and what it should answer.

    `name` says in messages where they come from.
    """

    name: str
    separator: str | None = None
    """Of the labels in the second text, "" = it is one label. None: it is a translation."""
    unit = "pair"
    """What `numbered` counts: "line", "pair", "example" or the like."""
    has_slots: bool = False
    """Whether `SLOTS` in its pairs are tokens: Dragoman has put them there."""
    position = ReadOffset()
    """How far its first file has been read; it stays at 0 for formats that cannot tell."""
    _notes = Notes("records")

    def records(self, *, skip: int = 0) -> Iterator[Any]:
        """Every record in order, without the first `skip`.

        Pairs with an empty side are among them. Of labelled texts these are the examples that have a text
        and, unless there is a separator, a label; `notes` counts the others.

        DataError, when it is met: a file cannot be read or does not fit the other, or has no such columns; at
        the end: there was no record, no pair with text on both sides, or the labels are no classes.
        """
        if skip:
            yield from self._read_after(skip)
            return
        n = n_usable = 0
        labels: dict[str, None] = {}
        for n, record in enumerate(self._read(), start=1):
            if self.separator is None:
                n_usable += has_text(record)
            else:
                labels.update(dict.fromkeys(labels_of(record.label, self.separator)))
                if len(labels) > MANY_LABELS:
                    self._check_labels(n, labels)
            yield record
        if self.separator is not None:
            self._check_labels(n, labels)
        elif not n:
            raise DataError(
                f"{self.name}: empty corpus{self._because()}; give files with one sentence a line"
            )
        elif not n_usable:
            raise DataError(
                f"{self.name}: none of the {n} pairs has text on both sides{self._because()}; "
                "check that the files, languages and columns are the right ones"
            )

    def pairs(self) -> Iterator[Pair]:
        """Every record of parallel text. DataError: as `records`."""
        return self.records()

    def examples(self) -> Iterator[Labelled]:
        """Every record of labelled text. DataError: as `records`."""
        return self.records()

    def numbered(self) -> Iterator[Numbered]:
        """Yield every record, those that `records` skips included. DataError: as `records`."""
        return map(Numbered._make, enumerate(self.records(), start=1))

    @property
    def is_labelled(self) -> bool:
        """Whether the second text of a record is the label of a class, or several."""
        return self.separator is not None

    @abstractmethod
    def _read(self) -> Iterator[Any]:
        """Every record in order."""

    def _read_after(self, n: int) -> Iterator[Any]:
        """Every record after the first `n`, in order."""
        return islice(self._read(), n, None)

    def _check_labels(self, n: int, labels: Collection[str]) -> None:
        """DataError: the labels of `n` examples are no classes."""
        first = next(iter(labels), "")
        if not n:
            raise DataError(f"{self.name}: no example{self._because()}; give a file of texts and labels")
        if len(labels) == 1 and not self.separator:
            raise DataError(
                f"{self.name}: all {n} examples have the label {first!r}; "
                f"give a file with two labels or more, or name another column ({LABEL_SETTING})"
            )
        if n >= 10 and len(labels) > n / 2:
            raise DataError(
                f"{self.name}: {len(labels)} different labels in {n} examples, such as {first[:40]!r}; "
                f"are text and label the right columns? ({LABEL_SETTING})"
            )

    def count_labels(self, cells: Mapping[str, int]) -> Counter[str]:
        """Return how many examples have each label, given how many have each cell.

        DataError: the separator is in no cell, or separates fewer than two labels.
        """
        counts: Counter[str] = Counter()
        for cell, n in cells.items():
            counts.update(dict.fromkeys(labels_of(cell, self.separator or ""), n))
        if self.separator and not any(self.separator in cell for cell in cells):
            raise DataError(
                f"{self.name}: no label has the separator {self.separator!r}, as in "
                f"{next(iter(cells))[:40]!r}; give the one that is in the file, or none where each text has "
                "one label (data.label_separator)"
            )
        if self.separator and len(counts) < 2:
            raise DataError(
                f"{self.name}: {len(counts)} label between separators {self.separator!r}; "
                "give a file with two labels or more (data.label_separator)"
            )
        return counts

    def notes(self) -> list[str]:
        """Return a line for each kind of records skipped in the last reading."""
        return self._notes.lines(self.name)

    def _because(self) -> str:
        """Describe skipped records, for an error about the rest."""
        skipped = "; ".join(note.removeprefix(f"{self.name}: ") for note in self.notes())
        return skipped and f" ({skipped})"

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a hash of the content: corpora of equal hash hold the same records."""

    def hashes(self) -> dict[str, str]:
        """Return a hash of each file, or other source, that it is read from."""
        return {self.name: self.fingerprint()}


class JoinedCorpora(Corpus):
    """Parallel corpora that are read one after the other, as one."""

    def __init__(self, corpora: Sequence[Corpus]) -> None:
        self.corpora = corpora
        self.name = ", ".join(corpus.name for corpus in corpora)
        self._counts: list[int] = []

    def _read(self) -> Iterator[Pair]:
        self._counts = counts = []
        for corpus in self.corpora:
            counts.append(0)
            for pair in corpus.pairs():
                counts[-1] += 1
                yield pair

    def notes(self) -> list[str]:
        read = list(zip(self.corpora, self._counts, strict=False))
        sizes = [f"{corpus.name}: {counted(n, 'pair')}" for corpus, n in read]
        notes = [note for corpus in self.corpora for note in corpus.notes()]
        return [*sizes, *notes] if len(read) == len(self.corpora) else notes

    def fingerprint(self) -> str:
        return hash_strings("several", *(corpus.fingerprint() for corpus in self.corpora))

    def hashes(self) -> dict[str, str]:
        return {file: digest for corpus in self.corpora for file, digest in corpus.hashes().items()}


class View(Corpus):
    """What `read` makes of the records of another corpus: from the same files, with the same notes."""

    def __init__(
        self,
        corpus: Corpus,
        read: Callable[[Iterator[Any]], Iterator[Any]],
        kind: str,
        *facts: object,
        name: str = "",
    ) -> None:
        """`kind` and `facts` tell views of one corpus from one another; so does `name`, in messages."""
        self.corpus, self._transform, self._kind, self._facts = corpus, read, kind, facts
        self.name = f"{corpus.name} ({name})" if name else corpus.name
        self.separator = corpus.separator
        self.unit = "pair" if self.separator is None else "example"

    def _read(self) -> Iterator[Any]:
        return self._transform(self.corpus.records())

    def notes(self) -> list[str]:
        return self.corpus.notes()

    def fingerprint(self) -> str:
        return hash_strings(self._kind, self.corpus.fingerprint(), *map(str, self._facts))

    def hashes(self) -> dict[str, str]:
        return self.corpus.hashes()


def turned_round(corpus: Corpus) -> Corpus:
    """Return a corpus whose sources are the targets of `corpus`."""
    return View(corpus, lambda pairs: (Pair(tgt, src) for src, tgt in pairs), "reversed")


class HeldOut(View):
    """The records of a corpus whose first text is among the held-out ones, or those whose text is not."""

    def __init__(
        self, corpus: Corpus, held_out: frozenset[int], *, seed: int, name: str, inside: bool
    ) -> None:
        self.held_out, self.seed, self.inside = held_out, seed, inside
        super().__init__(corpus, self._chosen, "part", seed, inside, *sorted(held_out), name=name)

    def _chosen(self, records: Iterator[Any]) -> Iterator[Any]:
        for record in records:
            if (hash_text(record[0], seed=self.seed) in self.held_out) == self.inside:
                yield record

    def _check_labels(self, n: int, labels: Collection[str]) -> None:
        """Nothing: the whole corpus has been checked, and a part may be small."""

    def taken_from(self, other: Corpus) -> Corpus:
        """Return `other` without the pairs whose sources are held out here."""
        name = f"without pairs held out of {self.corpus.name}"
        return HeldOut(other, self.held_out, seed=self.seed, name=name, inside=False)


class Unseen(View):
    """The pairs of a corpus of which no side is a held-out text, but for case, punctuation and spaces."""

    def __init__(self, corpus: Corpus, held_out: tuple[frozenset[int], frozenset[int]]) -> None:
        """Take the `hash_plain` of held-out texts in the languages of source and target."""
        digests = (hash_strings(*map(str, sorted(held))) for held in held_out)
        super().__init__(corpus, self._unseen, "unseen", *digests)
        self.held_out = held_out
        self._n_pairs = self._n_left_out = 0

    def _unseen(self, pairs: Iterator[Pair]) -> Iterator[Pair]:
        self._n_pairs = self._n_left_out = 0
        for pair in pairs:
            self._n_pairs += 1
            if any(hash_plain(text) in held for text, held in zip(pair, self.held_out, strict=True)):
                self._n_left_out += 1
            else:
                yield pair

    def notes(self) -> list[str]:
        note = f"{self.name}: left out {self._n_left_out:,} of {self._n_pairs:,} pairs: a side is held out"
        return [*self.corpus.notes(), *([note] if self._n_left_out else [])]


def hash_plain(text: str) -> int:
    """64 random-looking bits of the letters and digits of a text, whatever their case."""
    return hash_text(plain(text), seed=0)


def part_of(corpus: Corpus, part: tuple[float, float], *, seed: int) -> Corpus:
    """Return a random part of a parallel corpus, between two shares: (0, 0.25) lies within (0, 0.5).

    Pairs with the same source stay together. The choice depends on `seed` and the text alone.
    """
    if part == (0.0, 1.0):
        return corpus
    low, high = (share * 2**64 for share in part)

    def chosen(pairs: Iterator[Pair]) -> Iterator[Pair]:
        n_pairs = 0
        for pair in pairs:
            if low <= hash_text(pair.src, seed=~seed) < high:  # not the hashes that hold text out
                n_pairs += 1
                yield pair
        if not n_pairs:
            raise DataError(f"{view.name}: holds no pair; take a larger part (data.part)")

    view = View(corpus, chosen, "range", seed, *part, name=f"part {part[0]:g} to {part[1]:g}")
    return view


def split_held_out(corpus: Corpus, *, n_held_out: int, seed: int) -> tuple[HeldOut, HeldOut]:
    """Split off about `n_held_out` random records, at most a tenth: return the rest, and the held-out ones.

    Records with the same first text stay together, so that no held-out text is also trained on. Every label
    has its share in both parts; a text with several counts for the rarest. The choice depends on `seed` and
    the text alone, not on the order of lines. DataError: too few different texts.
    """
    if corpus.is_labelled:
        held_out, n = _choose_texts(corpus, n_held_out=n_held_out, seed=seed)
        unit, what, remedy = "examples", f"{n} examples", "a data.valid file"
    else:
        usable = filter(has_text, corpus.pairs())
        hashes = np.fromiter((hash_text(pair.src, seed=seed) for pair in usable), dtype=np.uint64)
        limit = min(n_held_out, max(1, len(hashes) // 10))
        sources, counts = np.unique(hashes, return_counts=True)  # in order of hash: a random one
        sources, counts = sources[counts <= limit], counts[counts <= limit]
        held_out, n = frozenset(sources[np.cumsum(counts) <= limit].tolist()), len(hashes)
        unit, what, remedy = "pairs", f"{n} usable pairs", "data.valid files"
    if not held_out or n < 2:
        raise DataError(
            f"{corpus.name}: {what} are too few, or too alike, to hold some out; give {remedy} of its own"
        )
    return (
        HeldOut(corpus, held_out, seed=seed, name=f"without held-out {unit}", inside=False),
        HeldOut(corpus, held_out, seed=seed, name=f"held-out {unit}", inside=True),
    )


def _choose_texts(corpus: Corpus, *, n_held_out: int, seed: int) -> tuple[frozenset[int], int]:
    """Return the hashes of the labelled texts to hold out, and the number of examples.

    They are chosen label by label: those of the lowest hashes, which are random. A text that stands with
    several labels counts as one of the first of them in the alphabet. One text of each label is always left.
    """
    cell_numbers: dict[str, int] = {}
    examples = np.fromiter(
        (
            (hash_text(text, seed=seed), cell_numbers.setdefault(cell, len(cell_numbers)))
            for text, cell in corpus.examples()
        ),
        dtype=[("text", np.uint64), ("cell", np.int64)],
    )
    n_of_cell = dict(zip(cell_numbers, np.bincount(examples["cell"]).tolist(), strict=True))
    cells = {cell: labels_of(cell, corpus.separator or "") for cell in n_of_cell}
    n_of_label: Counter[str] = Counter()
    for cell, labels in cells.items():
        n_of_label.update(dict.fromkeys(labels, n_of_cell[cell]))
    ranks = {label: (n, label) for label, n in n_of_label.items()}
    # The rarest label of each cell; "" for one without labels.
    strata = [min(labels, key=ranks.__getitem__, default="") for labels in cells.values()]
    stratum = np.unique(strata, return_inverse=True)[1][examples["cell"]]  # numbered as in the alphabet
    order = np.lexsort((stratum, examples["text"]))
    unique, first, counts = np.unique(examples["text"][order], return_index=True, return_counts=True)
    stratum_of = stratum[order][first]
    total = min(n_held_out, max(1, len(examples) // 10))
    n_strata = int(stratum.max(initial=-1)) + 1
    sizes = np.bincount(stratum_of, weights=counts, minlength=n_strata).astype(np.float64)
    # In proportion to the sizes: rounded down, then one more for the largest remainders.
    exact = sizes * total / max(sizes.sum(), 1)
    quotas = np.floor(exact).astype(np.int64)
    quotas[np.argsort(quotas - exact, kind="stable")[: total - int(quotas.sum())]] += 1
    held_out: list[int] = []
    for number, quota in enumerate(quotas):
        members = np.flatnonzero(stratum_of == number)[:-1]  # in order of hash
        members = members[counts[members] <= quota]
        held_out += unique[members[np.cumsum(counts[members]) <= quota]].tolist()
    return frozenset(held_out), len(examples)
