"""A copy of a corpus without some of its lines, such as faulty ones; the corpus itself is not touched."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from dragoman.data.corpora import AlignedFiles, TableCorpus
from dragoman.data.doctor.findings import Report
from dragoman.data.readers.files import compressed, open_lines
from dragoman.data.readers.tables import ArrowTable
from dragoman.data.records import Corpus, Numbered
from dragoman.errors import DataError
from dragoman.files import replacing_folder

DROPPED = "dropped.jsonl"
"""What was left out: a JSON object for each line, with its number, the reasons and the texts."""
Item = TypeVar("Item")
CHUNK = 65_536
"""Lines that are compressed together."""


def write_clean(
    corpus: Corpus,
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
    if len(report.lines(kinds)) == report.n_lines:
        raise DataError(
            f"{report.name}: nothing would be left of {report.n_lines} {report.unit}s; "
            "keep some kinds of findings, as in: --keep duplicate"
        )

    def dropped() -> Iterator[tuple[int, dict[str, Any]]]:
        return ((number, {"reasons": names}) for number, names in report.reasons(kinds))

    return write_without(corpus, folder, dropped, langs=langs)


def check_new(folder: Path) -> None:
    """Check that the folder is new, or empty. DataError: it holds something."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder}: exists already; name a new folder for the clean corpus")


def write_without(
    corpus: Corpus,
    folder: Path,
    dropped: Callable[[], Iterable[tuple[int, dict[str, Any]]]],
    *,
    langs: tuple[str, str],
) -> tuple[Path, ...]:
    """Write a corpus without some records into a new folder, all of it or nothing; return the files written.

    `dropped` yields the numbers of these records, rising, as often as it is called, each with what
    dropped.jsonl says of it. Files are named as by `write_clean`.

    DataError: a file cannot be read, or `folder` is no longer empty. RunError: nothing can be written.
    """
    names = []
    with replacing_folder(folder) as partial:
        for name, lines in _clean_files(corpus, lambda: (number for number, _ in dropped()), langs):
            _write(partial / name, lines)
            names.append(name)
        _write(partial / DROPPED, _reports(corpus, dropped()))
        check_new(folder)  # what came into it meanwhile is not replaced
    return tuple(folder / name for name in [*names, DROPPED])


def _clean_files(
    corpus: Corpus, dropped: Callable[[], Iterable[int]], langs: tuple[str, str]
) -> Iterator[tuple[str, Iterator[str]]]:
    """Yield the names of the clean copy's files, each with its lines."""
    if isinstance(corpus, AlignedFiles):
        is_one_name = corpus.src.name == corpus.tgt.name
        for path, lang in zip((corpus.src, corpus.tgt), langs, strict=True):
            name = f"{lang}.{path.name}" if is_one_name else path.name
            yield name, _kept(enumerate(open_lines(path), start=1), dropped())
        return
    if isinstance(corpus, TableCorpus) and not isinstance(corpus.table, ArrowTable):
        path = Path(corpus.table.name)
        yield path.name, _kept(_lines_by_record(path, corpus.numbered()), dropped())
        return
    stem = Path(corpus.name.rpartition(":")[2].split(" ")[0]).name.split(".")[0] or "clean"
    if not corpus.is_labelled:
        for i, lang in enumerate(langs):
            kept = _kept(corpus.numbered(), dropped())
            yield f"{stem}.{lang}", (" ".join(texts[i].split()) for texts in kept)
        return
    kept = _kept(corpus.numbered(), dropped())
    yield f"{stem}.tsv", (f"{label}\t{' '.join(text.split())}" for text, label in kept)


def _kept(items: Iterable[tuple[int, Item]], dropped: Iterable[int]) -> Iterator[Item]:
    """Yield the items whose number is not among the dropped ones; both numbers rise."""
    rest = iter(dropped)
    next_dropped = next(rest, math.inf)
    for number, item in items:
        while next_dropped < number:
            next_dropped = next(rest, math.inf)
        if number != next_dropped:
            yield item


def _lines_by_record(path: Path, records: Iterator[Numbered]) -> Iterator[tuple[int, str]]:
    """Yield the lines of a table, each with the number of its record; 0 before the first."""
    record, begin = 0, next(records, None)
    for number, line in enumerate(open_lines(path), start=1):
        if begin and begin.number == number:
            record, begin = number, next(records, None)
        yield record, line


def _reports(corpus: Corpus, dropped: Iterable[tuple[int, dict[str, Any]]]) -> Iterator[str]:
    names = ("text", "label") if corpus.is_labelled else ("src", "tgt")
    records = corpus.numbered()
    for number, facts in dropped:
        texts = next(one.texts for one in records if one.number == number)
        record = {"number": number, **facts, **dict(zip(names, texts, strict=True))}
        yield json.dumps(record, ensure_ascii=False)


def _write(path: Path, lines: Iterable[str]) -> None:
    """Write a text file, compressed by its suffix, to the disk."""
    with path.open("wb") as file:
        rest = iter(lines)
        while chunk := list(islice(rest, CHUNK)):
            file.write(compressed("".join(f"{line}\n" for line in chunk).encode(), path.name))
        file.flush()
        os.fsync(file.fileno())
