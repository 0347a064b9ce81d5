"""Labelled text, read as a stream: a text and the name of its class from two columns of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dragoman.config import file_names
from dragoman.data import phrasebook
from dragoman.data.corpora import HeldOut, TextSource
from dragoman.data.readers.columns import looks_like_names, match_labelled, open_table
from dragoman.data.readers.files import hash_strings, hash_text
from dragoman.data.readers.tables import Column, Notes, RecordTable, TabSeparated
from dragoman.errors import DataError

SETTING = "--text-column and --label-column, or data.text_column and data.label_column"
DEFAULT_COLUMNS = (1, 0)
"""Text and label, where nothing is said about a table without names: a label, a tab, a text."""
REVIEWS = "phrasebook:reviews-"
SAMPLE = 200_000
"""Records that are looked at to guess the columns of a table without telling names."""
MANY_LABELS = 1000


class Labelled(NamedTuple):
    """A text and the name of its class."""

    text: str
    label: str
    """The cell as it is written; of a corpus with a separator, `labels_of` has its labels."""


def labels_of(cell: str, separator: str) -> tuple[str, ...]:
    """Return the labels in a cell, each once, without blanks around them; without a separator, the cell."""
    if not separator:
        return (cell,)
    return tuple(dict.fromkeys(label for part in cell.split(separator) if (label := part.strip())))


def class_numbers(labels: Sequence[str]) -> dict[str, int]:
    """Return the number of each class by its name."""
    return {label: i for i, label in enumerate(labels)}


def numbers_of(cell: str, numbers: Mapping[str, int], *, separator: str, where: str) -> list[int]:
    """Return the class numbers of the labels in a cell. DataError: the classifier does not know one."""
    labels = labels_of(cell, separator)
    for label in labels:
        if label not in numbers:
            names = ", ".join(map(repr, [*numbers][:10])) + (", ..." if len(numbers) > 10 else "")
            raise DataError(
                f"{where}: the label {label!r} is not in the training data ({names}); "
                "correct it, or train with examples of it"
            )
    return [numbers[label] for label in labels]


class LabelledCorpus(TextSource):
    """Examples that can be read again and again."""

    separator: str = ""
    """Of the labels in a cell; "" = a cell is one label."""

    def records(self, *, skip: int = 0) -> Iterator[Labelled]:
        """Every example that has a text and a label, in order, without the first `skip`.

        `notes` counts the others.

        With a separator, an example may have no label.

        DataError, when it is met: a file cannot be read, or has no such columns; at the end: there was no
        example, all had the same label, or most had a label of their own.
        """
        if skip:
            yield from self._read_after(skip)
            return
        n = 0
        labels: dict[str, None] = {}
        for n, example in enumerate(self._read(), start=1):
            labels.update(dict.fromkeys(labels_of(example.label, self.separator)))
            if len(labels) > MANY_LABELS:
                self._check(n, labels)
            yield example
        self._check(n, labels)

    examples = records

    def _check(self, n: int, labels: Collection[str]) -> None:
        """DataError: the labels of `n` examples are no classes."""
        first = next(iter(labels), "")
        if not n:
            raise DataError(f"{self.name}: no example{self._because()}; give a file of texts and labels")
        if len(labels) == 1 and not self.separator:
            raise DataError(
                f"{self.name}: all {n} examples have the label {first!r}; "
                f"give a file with two labels or more, or name another column ({SETTING})"
            )
        if n >= 10 and len(labels) > n / 2:
            raise DataError(
                f"{self.name}: {len(labels)} different labels in {n} examples, such as {first[:40]!r}; "
                f"are text and label the right columns? ({SETTING})"
            )

    def count_labels(self, cells: Mapping[str, int]) -> Counter[str]:
        """Return how many examples have each label, given how many have each cell.

        DataError: the separator is in no cell, or separates fewer than two labels.
        """
        counts: Counter[str] = Counter()
        for cell, n in cells.items():
            counts.update(dict.fromkeys(labels_of(cell, self.separator), n))
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


class LabelledTable(LabelledCorpus):
    """Two columns of a table."""

    def __init__(
        self, table: RecordTable, *, text_column: Column, label_column: Column, separator: str = ""
    ) -> None:
        self.table, self.columns, self.separator = table, (text_column, label_column), separator
        self.name = table.name

    def numbered(self, notes: Notes | None = None) -> Iterator[tuple[int, Labelled]]:
        """Yield every text and label, those that are empty included, with the number of its record.

        DataError: a cell cannot be read.
        """
        table, (text, label) = self.table, self.columns
        for n, cells in table.rows(self.columns, notes or Notes("examples")):
            yield n, Labelled(table.text(cells[0], n, text), table.label(cells[1], n, label))

    def _read(self) -> Iterator[Labelled]:
        self._notes = notes = Notes("examples")
        first_label, n_first, n_bare = "", 0, 0
        for _, example in self.numbered(notes):
            text, label = example
            notes.n_read += 1
            first_label = first_label or label
            n_first += label == first_label
            n_bare += bool(text.strip()) and not label
            if text.strip() and (label or self.separator):
                yield example
            else:
                notes.skipped["without label" if text.strip() else "without text"] += 1
        if self.separator and n_bare:
            notes.remarks.append(f"{n_bare} of {notes.n_read} examples have none of the labels")
        is_headerless = isinstance(self.table, TabSeparated) and isinstance(self.columns[1], int)
        if is_headerless and n_first == 1 and notes.n_read >= 5:
            notes.remarks.append(
                f"the label {first_label!r} of line 1 occurs nowhere else; if that line holds the names of "
                f"columns, ask for columns by name ({SETTING})"
            )

    def fingerprint(self) -> str:
        separators = [self.separator] if self.separator else []
        return hash_strings("labelled", self.table.fingerprint(self.columns), *separators)


class Reviews(LabelledCorpus):
    """A split of the labelled reviews that come with Dragoman."""

    def __init__(self, split: str, *, separator: str = "") -> None:
        """DataError: there is no split of that name."""
        self.name = REVIEWS + split
        if split not in phrasebook.SPLITS:
            available = ", ".join(REVIEWS + name for name in phrasebook.SPLITS)
            raise DataError(f"{self.name}: no such split; there are {available}")
        self.split, self.separator = split, separator

    def _read(self) -> Iterator[Labelled]:
        return (Labelled(text, label) for label, text in phrasebook.reviews(self.split))

    def fingerprint(self) -> str:
        return hash_strings("reviews", *(part for example in self._read() for part in example))


class _HeldOutTexts(HeldOut, LabelledCorpus):
    """Examples by their texts."""

    def __init__(self, corpus: LabelledCorpus, *held_out: Any, **which: Any) -> None:
        super().__init__(corpus, *held_out, **which)
        self.separator = corpus.separator

    def _check(self, n: int, labels: Collection[str]) -> None:
        """Nothing: the whole corpus has been checked, and a part may be small."""


def open_labelled(
    files: Sequence[str] | Sequence[Sequence[str]],
    *,
    text_column: Column = DEFAULT_COLUMNS[0],
    label_column: Column = DEFAULT_COLUMNS[1],
    separator: str = "",
) -> LabelledCorpus:
    """Return the labelled corpus in a file, a data set "hf:owner/name:split", or "phrasebook:reviews-train".

    The file is read by its suffix: .csv, .jsonl (.ndjson, .json), .parquet, and anything else as
    tab-separated columns. Columns are numbers, counted from 0, or names; where both are left at the
    default, a file that names its columns is asked for those called "text" and "label", or the like.
    With a `separator`, a label cell holds any number of labels.
    DataError: the file is missing, has no columns, or does not tell which are meant.
    """
    names = file_names(files)
    if len(names) != 1:
        raise DataError(f"a labelled corpus of {len(names)} files; give one file of texts and labels")
    name = names[0]
    if name.startswith(REVIEWS):
        return Reviews(name.removeprefix(REVIEWS), separator=separator)
    for column in (text_column, label_column):
        if isinstance(column, int) and column < 0:
            raise DataError(f"{name}: column {column}; columns are counted from 0 ({SETTING})")
    if text_column == label_column:
        raise DataError(f"{name}: column {text_column!r} cannot be both text and label ({SETTING})")
    table = open_table(name, setting=SETTING)
    if not isinstance(table, TabSeparated) and (text_column, label_column) == DEFAULT_COLUMNS:
        text_column, label_column = _guess(table, separator)
    return LabelledTable(table, text_column=text_column, label_column=label_column, separator=separator)


def guess_labelled_columns(name: str, separator: str = "") -> tuple[Column, Column]:
    """Return the columns with text and label of the file or data set `name`.

    By their names, such as "review" and "sentiment"; or else by what is in them: the label is the column
    with few different values, the text the one with by far the longest. DataError: neither tells.
    """
    if name.startswith(REVIEWS):
        return DEFAULT_COLUMNS
    return _guess(open_table(name, setting=SETTING), separator)


def _guess(table: RecordTable, separator: str) -> tuple[Column, Column]:
    if isinstance(table, TabSeparated):
        cells = table.first_line()
        columns = match_labelled(cells) if looks_like_names(cells) else None
        return columns or _guess_by_content(table, range(len(cells)), separator)
    return match_labelled(table.fields()) or _guess_by_content(table, table.fields(), separator)


class _Content:
    """What a column holds: how many different values, and how long they are."""

    def __init__(self, separator: str) -> None:
        self.separator = separator
        self.values: set[str] = set()
        self.n = self.n_characters = 0
        self.example = ""

    def add(self, cell: object) -> None:
        """Count a cell in; a list or an object counts as a value of its own."""
        text = cell if isinstance(cell, str) else "" if cell is None else str(cell)
        self.n += 1
        self.n_characters += len(text)
        self.example = self.example or text[:20]
        if len(self.values) <= MANY_LABELS:
            self.values.update(label[:100] for label in labels_of(text, self.separator))

    @property
    def mean_length(self) -> float:
        return self.n_characters / max(self.n, 1)

    @property
    def is_label(self) -> bool:
        """Few different values, all short: a class rather than a text."""
        return 2 <= len(self.values) <= min(MANY_LABELS, max(2, self.n // 3)) and self.mean_length <= 50


def _guess_by_content(table: RecordTable, columns: Sequence[Column], separator: str) -> tuple[Column, Column]:
    """Return the columns with text and label, by what the first records hold. DataError: they don't tell."""
    contents = {column: _Content(separator) for column in columns}
    for _, cells in islice(table.rows(list(columns), Notes("records")), SAMPLE):
        for content, cell in zip(contents.values(), cells, strict=True):
            content.add(cell)
    labels = [column for column, content in contents.items() if content.is_label]
    texts = sorted(
        (column for column in columns if column not in labels), key=lambda c: -contents[c].mean_length
    )
    is_clear = len(texts) == 1 or (
        len(texts) > 1 and contents[texts[0]].mean_length > 4 * contents[texts[1]].mean_length
    )
    if len(labels) == 1 and is_clear:
        return texts[0], labels[0]
    described = ", ".join(f"{column} ({content.example!r})" for column, content in contents.items())
    raise DataError(
        f"{table.name}: cannot tell which columns are text and label among {described or 'none'}; "
        f"name them ({SETTING})"
    )


def split_labelled(
    corpus: LabelledCorpus, *, n_held_out: int, seed: int
) -> tuple[LabelledCorpus, LabelledCorpus]:
    """Split off about `n_held_out` random examples, at most a tenth: return the rest, and the held-out ones.

    Equal texts stay together, so that no held-out text is also trained on, and every label has its share
    in both parts; a text with several counts for the rarest.

    The choice depends on `seed` and the texts alone, not on the order of lines.
    DataError: too few different texts.
    """
    names: dict[str, int] = {}
    examples = np.fromiter(
        (
            (hash_text(text, seed=seed), names.setdefault(label, len(names)))
            for text, label in corpus.examples()
        ),
        dtype=[("text", np.uint64), ("label", np.int64)],
    )
    counts = dict(zip(names, np.bincount(examples["label"]).tolist(), strict=True))
    cells = {cell: labels_of(cell, corpus.separator) for cell in counts}
    n_of_label: Counter[str] = Counter()
    for cell, labels in cells.items():
        n_of_label.update(dict.fromkeys(labels, counts[cell]))
    ranks = {label: (n, label) for label, n in n_of_label.items()}
    # The rarest label of each cell; "" for one without labels.
    strata = [min(labels, key=ranks.__getitem__, default="") for labels in cells.values()]
    number = np.unique(strata, return_inverse=True)[1]  # of each label in the alphabet
    held_out = _choose(examples["text"], number[examples["label"]], n_held_out=n_held_out)
    if not held_out:
        raise DataError(
            f"{corpus.name}: {len(examples)} examples are too few, or too alike, to hold some out; "
            "give a data.valid file of its own"
        )
    return (
        _HeldOutTexts(corpus, held_out, seed=seed, name="without held-out examples", inside=False),
        _HeldOutTexts(corpus, held_out, seed=seed, name="held-out examples", inside=True),
    )


def _choose(
    texts: npt.NDArray[np.uint64], labels: npt.NDArray[np.int64], *, n_held_out: int
) -> frozenset[int]:
    """Return the texts to hold out, label by label: those of the lowest hashes, which are random.

    `texts` are hashes; `labels` are numbers in the alphabetical order of their names. A text with several
    labels counts as one of the first of them. One text of each label is always left.
    """
    order = np.lexsort((labels, texts))
    unique, first, counts = np.unique(texts[order], return_index=True, return_counts=True)
    label_of = labels[order][first]
    n = len(texts)
    total = min(n_held_out, max(1, n // 10))
    n_labels = int(labels.max(initial=-1)) + 1
    sizes = np.bincount(label_of, weights=counts, minlength=n_labels).astype(np.float64)
    held_out: list[int] = []
    # In proportion to the sizes: rounded down, then one more for the largest remainders.
    exact = sizes * total / max(sizes.sum(), 1)
    quotas = np.floor(exact).astype(np.int64)
    quotas[np.argsort(quotas - exact, kind="stable")[: total - int(quotas.sum())]] += 1
    for label, quota in enumerate(quotas):
        members = np.flatnonzero(label_of == label)[:-1]  # in order of hash
        members = members[counts[members] <= quota]
        held_out += unique[members[np.cumsum(counts[members]) <= quota]].tolist()
    return frozenset(held_out)
