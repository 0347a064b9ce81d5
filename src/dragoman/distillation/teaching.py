"""The student's text: the teacher's sources with the teacher's own translations, the worst of them left out.

sources.gz               the sources of the training pairs, one a line
teacher.gz               their translations, written by `dragoman.bulk`, which a kill does not undo
train.src.gz .tgt.gz     what is left of both
valid.src.gz .tgt.gz     the teacher's validation pairs
lessons.json             what was asked for; when all is done also what was left out, and why
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.bulk.job import Job
from dragoman.bulk.output import Lines, fault_of
from dragoman.bulk.running import Summary
from dragoman.config import TranslationConfig
from dragoman.data.corpora import Corpus, Pair, has_text
from dragoman.data.readers.files import open_lines
from dragoman.errors import DataError, RunError
from dragoman.metrics.translation import sentence_chrf
from dragoman.predict.translator import Translation
from dragoman.runs import sync, write_atomically
from dragoman.text.tokenizer import TokenizerPair
from dragoman.training.translation import open_corpora

LESSONS = "lessons.json"


class Sieve(NamedTuple):
    """What a pair has to be like to stay."""

    max_ratio: float = 3.0
    """The most that one side may have of the other's tokens (`bulk.output.fault_of`); 0: any ratio."""
    min_chrf: float = 20.0
    """The least chrF of the teacher's translation against the reference, 0 to 100; 0: any."""


def as_text(translation: Translation) -> str:
    """A translation on one line."""
    return " ".join(translation.text.split())


def teach(
    teacher: Path,
    config: TranslationConfig,
    folder: Path,
    *,
    sieve: Sieve,
    max_pairs: int,
    translate: Callable[[Job], Summary],
) -> dict[str, Any]:
    """Writes the files of the student's text into `folder`, or goes on with them; what lessons.json holds.

    The first `max_pairs` training pairs take part, all if it is 0. `translate` carries out a job of
    `dragoman.bulk`. DataError: nothing is left. RunError: the folder was begun with other settings.
    """
    folder.mkdir(parents=True, exist_ok=True)
    train, valid = open_corpora(config)
    asked = {
        "teacher": str(teacher),
        "text": train.fingerprint(),
        "max_pairs": max_pairs,
        "sieve": sieve._asdict(),
    }
    begun = _read(folder / LESSONS)
    if begun is None:
        _write_record(folder, {"asked": asked})
    elif begun["asked"] != asked:
        raise RunError(
            f"{folder}: holds the lessons of another teacher, text or filter; choose another folder, or "
            "remove it"
        )
    elif "n_kept" in begun:
        return begun
    sources, translations = folder / "sources.gz", folder / "teacher.gz"
    if not sources.exists():
        _write_lines(sources, (" ".join(pair.src.split()) for pair in _lessons(train, max_pairs)))
    if not translations.exists():
        translate(Job(teacher, sources, translations, Lines(as_text), skip_long=True))
    for i, side in enumerate(("src", "tgt")):
        _write_lines(folder / f"valid.{side}.gz", (pair[i] for pair in valid.pairs() if has_text(pair)))
    tokenizers = TokenizerPair.load(teacher / "tokenizer")
    counts: Counter[str] = Counter()
    for i, side in enumerate(("src", "tgt")):
        counts.clear()  # of both passes the same
        kept = _kept(open_lines(translations), _lessons(train, max_pairs), tokenizers, sieve, counts)
        _write_lines(folder / f"train.{side}.gz", (pair[i] for pair in kept))
    n_pairs = counts.pop("pairs")
    if n_pairs == counts.total():
        raise DataError(f"{folder}: nothing is left of {n_pairs} pairs; try a smaller --min-chrf")
    record = {
        "asked": asked,
        "n_pairs": n_pairs,
        "n_kept": n_pairs - counts.total(),
        "left_out": dict(counts),
    }
    _write_record(folder, record)
    return record


def _lessons(corpus: Corpus, max_pairs: int) -> Iterator[Pair]:
    """The pairs that take part."""
    return islice(filter(has_text, corpus.pairs()), max_pairs or None)


def _kept(
    translations: Iterable[str],
    pairs: Iterable[Pair],
    tokenizers: TokenizerPair,
    sieve: Sieve,
    counts: Counter[str],
) -> Iterator[Pair]:
    """Each source with its translation, where nothing is wrong with that; `counts` says what was."""
    for made, pair in zip(translations, pairs, strict=True):
        counts["pairs"] += 1
        src = " ".join(pair.src.split())
        fault = fault_of(src, made, tokenizers, max_ratio=sieve.max_ratio)
        if not fault and sieve.min_chrf and sentence_chrf(made, pair.tgt) < sieve.min_chrf:
            fault = "far from the reference"
        if fault:
            counts[fault] += 1
        else:
            yield Pair(src, made)


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    """Writes a compressed text file of any size, whole or not at all."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as out:
        for line in lines:
            out.write(" ".join(line.split()).encode() + b"\n")
    sync(temporary)
    temporary.replace(path)
    sync(path.parent)


def _write_record(folder: Path, record: dict[str, Any]) -> None:
    write_atomically(folder / LESSONS, json.dumps(record, indent=2).encode() + b"\n")


def _read(path: Path) -> dict[str, Any] | None:
    """What lessons.json says, if it is there. RunError: it is damaged."""
    try:
        content = json.loads(path.read_bytes())
        return dict(content, asked=content["asked"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise RunError(f"{path}: is damaged; remove it, and it will be written again") from None
