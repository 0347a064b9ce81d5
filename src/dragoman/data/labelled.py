"""Labelled text, read as a stream: a text and the name of its class from two columns of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dragoman.config import Column, file_names
from dragoman.data import phrasebook
from dragoman.data.corpora import Embedded, TableCorpus
from dragoman.data.readers.columns import looks_like_names, match_labelled
from dragoman.data.readers.files import hash_strings
from dragoman.data.readers.tables import Notes, RecordTable, TabSeparated, open_table
from dragoman.data.records import LABEL_SETTING, Corpus, Labelled, Numbered, labels_of
from dragoman.errors import DataError

DEFAULT_COLUMNS = (1, 0)
"""Text and label, where nothing is said about a table without names: a label, a tab, a text."""
REVIEWS = "phrasebook:reviews-"


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


class LabelledTable(TableCorpus):
    """Texts and labels in two columns of a table."""

    def __init__(self, table: RecordTable, columns: tuple[Column, Column], *, separator: str = "") -> None:
        super().__init__(table, columns, match_labelled)
        self.separator: str = separator

    def _rows(self) -> Iterator[Numbered]:
        self._notes = Notes("examples")
        table, (text, label) = self.table, self.columns
        for n, cells in table.rows(self.columns, self._notes):
            yield Numbered(n, Labelled(table.text(cells[0], n, text), table.label(cells[1], n, label)))

    def _read(self) -> Iterator[Labelled]:
        n_bare = 0
        for _, (text, label) in self._rows():
            notes = self._notes
            notes.n_read += 1
            n_bare += bool(text.strip()) and not label
            if text.strip() and (label or self.separator):
                yield Labelled(text, label)
            else:
                notes.skipped["without label" if text.strip() else "without text"] += 1
        if self.separator and n_bare:
            notes.remarks.append(f"{n_bare} of {notes.n_read} examples have none of the labels")

    def fingerprint(self) -> str:
        return hash_strings("labelled", super().fingerprint(), *filter(None, [self.separator]))


def open_labelled(
    files: Sequence[str] | Sequence[Sequence[str]],
    *,
    text_column: Column = DEFAULT_COLUMNS[0],
    label_column: Column = DEFAULT_COLUMNS[1],
    separator: str = "",
) -> Corpus:
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
        split = name.removeprefix(REVIEWS)
        if split not in phrasebook.SPLITS:
            available = ", ".join(REVIEWS + one for one in phrasebook.SPLITS)
            raise DataError(f"{name}: no such split; there are {available}")
        reviews = phrasebook.reviews(split)
        return Embedded(name, lambda: (Labelled(text, label) for label, text in reviews), separator)
    for column in (text_column, label_column):
        if isinstance(column, int) and column < 0:
            raise DataError(f"{name}: column {column}; columns are counted from 0 ({LABEL_SETTING})")
    if text_column == label_column:
        raise DataError(f"{name}: column {text_column!r} cannot be both text and label ({LABEL_SETTING})")
    table = open_table(name, setting=LABEL_SETTING)
    if not isinstance(table, TabSeparated) and (text_column, label_column) == DEFAULT_COLUMNS:
        text_column, label_column = _guess(table)
    return LabelledTable(table, (text_column, label_column), separator=separator)


def guess_labelled_columns(name: str) -> tuple[Column, Column]:
    """Return the columns with text and label of a file or data set, such as "review" and "sentiment".

    Without names that tell, those of tab-separated columns are DEFAULT_COLUMNS. DataError: they do not tell.
    """
    if name.startswith(REVIEWS):
        return DEFAULT_COLUMNS
    return _guess(open_table(name, setting=LABEL_SETTING))


def _guess(table: RecordTable) -> tuple[Column, Column]:
    if isinstance(table, TabSeparated):
        cells = table.first_line()
        return (match_labelled(cells) if looks_like_names(cells) else None) or DEFAULT_COLUMNS
    if columns := match_labelled(table.fields()):
        return columns
    raise DataError(
        f"{table.name}: cannot tell which columns are text and label among "
        f"{', '.join(table.fields()) or 'none'}; name them ({LABEL_SETTING})"
    )
