"""A copy of a corpus without some of its lines, such as faulty ones; the corpus itself is not touched."""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from dragoman.data.corpora import AlignedFiles, Corpus, TableCorpus, Talks
from dragoman.data.doctor.findings import Report
from dragoman.data.doctor.reading import Numbered, numbered
from dragoman.data.labelled import LabelledCorpus, LabelledTable
from dragoman.data.readers.arrow import ArrowTable
from dragoman.data.readers.files import compressed, open_lines
from dragoman.errors import DataError

DROPPED = "dropped.jsonl"
"""What was left out: a JSON object for each line, with its number, the reasons and the texts."""
CHUNK = 65_536
"""Lines that are compressed together."""


def write_clean(
    corpus: Corpus | LabelledCorpus,
    report: Report,
    folder: Path,
    *,
    kinds: Collection[str],
    langs: tuple[str, str] = ("src", "tgt"),
) -> tuple[Path, ...]:
    """Write what has no fault of these kinds into a new folder, all of it or nothing; the files written.

    Text files keep their names, columns and compression. Other formats become two aligned files, named
    by `langs`, or a file of label, tab and text. dropped.jsonl says what was left out and why. DataError:
    the folder exists and is not empty, the corpus could not be read to its end, or nothing is left.
    """
    check_new(folder)
    if trouble := report.finding("unreadable"):
        raise DataError(f"no clean copy of a corpus that cannot be read to its end: {trouble.summary[0]}")
    dropped = report.lines(kinds)
    if len(dropped) == report.n_lines:
        raise DataError(
            f"{report.name}: nothing would be left of {report.n_lines} {report.unit}s; "
            "keep some kinds of findings, as in: --keep duplicate"
        )
    reasons = ((number, {"reasons": names}) for number, names in report.reasons(kinds))
    return write_without(corpus, folder, lambda: dropped.data, reasons, langs=langs)


def check_new(folder: Path) -> None:
    """Check that the folder is new, or empty. DataError: it holds something."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder}: exists already; name a new folder for the clean corpus")


def write_without(
    corpus: Corpus | LabelledCorpus,
    folder: Path,
    dropped: Callable[[], Iterable[int]],
    reasons: Iterable[tuple[int, dict[str, Any]]],
    *,
    langs: tuple[str, str],
) -> tuple[Path, ...]:
    """Write a corpus without some records into a new folder, all of it or nothing; return the files written.

    `dropped` yields the numbers of these records, rising, as often as it is called; `reasons` the same
    numbers, each with what dropped.jsonl says of it. Files are named as by `write_clean`.

    Raises:
        DataError: a file cannot be read or written.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".partial", dir=folder.parent))
    try:
        names = _write_files(corpus, dropped, partial, langs)
        _write(partial / DROPPED, _reports(corpus, reasons))
        if folder.exists():
            folder.rmdir()
        partial.chmod(0o755)
        partial.replace(folder)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        place = error.filename or folder
        raise DataError(f"{place}: cannot be written ({error.strerror}); check rights and space") from error
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return tuple(folder / name for name in [*names, DROPPED])


def _write_files(
    corpus: Corpus | LabelledCorpus,
    dropped: Callable[[], Iterable[int]],
    folder: Path,
    langs: tuple[str, str],
) -> list[str]:
    """Write the clean copy; the names of its files."""
    if isinstance(corpus, AlignedFiles) and not isinstance(corpus, Talks):
        paths = [corpus.src, corpus.tgt]
        names = [path.name for path in paths]
        if names[0] == names[1]:
            names = [f"{lang}.{name}" for lang, name in zip(langs, names, strict=True)]
        for path, name in zip(paths, names, strict=True):
            _write(folder / name, _kept_lines(path, dropped()))
        return names
    if isinstance(corpus, TableCorpus | LabelledTable) and not isinstance(corpus.table, ArrowTable):
        path = Path(corpus.table.name)
        records = (one.number for one in numbered(corpus))
        _write(folder / path.name, _kept_lines(path, dropped(), records))
        return [path.name]
    stem = Path(corpus.name.rpartition(":")[2].split(" ")[0]).name.split(".")[0] or "clean"
    if isinstance(corpus, Corpus):
        names = [f"{stem}.{lang}" for lang in langs]
        for i, name in enumerate(names):
            kept = _kept(corpus, dropped())
            _write(folder / name, (" ".join(one.texts[i].split()) for one in kept))
        return names
    lines = (f"{one.texts[1]}\t{' '.join(one.texts[0].split())}" for one in _kept(corpus, dropped()))
    _write(folder / f"{stem}.tsv", lines)
    return [f"{stem}.tsv"]


def _kept(corpus: Corpus | LabelledCorpus, dropped: Iterable[int]) -> Iterator[Numbered]:
    is_dropped = _Rising(dropped)
    return (one for one in numbered(corpus) if one.number not in is_dropped)


def _kept_lines(path: Path, dropped: Iterable[int], records: Iterable[int] | None = None) -> Iterator[str]:
    """Yield the lines of a file without those that belong to a record that is dropped.

    `records` are the numbers of the lines on which records begin, rising; None where each line is one.
    """
    dropped_numbers, begins = _Rising(dropped), None if records is None else _Rising(records)
    is_dropped = False
    for number, line in enumerate(open_lines(path), start=1):
        if begins is None or number in begins:
            is_dropped = number in dropped_numbers
        if not is_dropped:
            yield line


class _Rising:
    """Rising numbers, of which one is remembered at a time: for questions that rise as well."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self._numbers = iter(numbers)
        self._next = next(self._numbers, math.inf)

    def __contains__(self, number: int) -> bool:
        while self._next < number:
            self._next = next(self._numbers, math.inf)
        return self._next == number


def _reports(corpus: Corpus | LabelledCorpus, reasons: Iterable[tuple[int, dict[str, Any]]]) -> Iterator[str]:
    """Yield a line for each record that is left out."""
    names = ("src", "tgt") if isinstance(corpus, Corpus) else ("text", "label")
    records = numbered(corpus)
    for number, facts in reasons:
        one = next(one for one in records if one.number == number)
        record = {"number": number, **facts, **dict(zip(names, one.texts, strict=True))}
        yield json.dumps(record, ensure_ascii=False)


def _write(path: Path, lines: Iterable[str]) -> None:
    """Write a text file, compressed by its suffix, to the disk."""
    with path.open("wb") as file:
        rest = iter(lines)
        while chunk := list(islice(rest, CHUNK)):
            file.write(compressed("".join(f"{line}\n" for line in chunk).encode(), path.name))
        file.flush()
        os.fsync(file.fileno())
