"""Training data of a student: the teacher's sources with the teacher's translations, filtered.

sources.gz               the sources of the training pairs, one a line
teacher.gz               their translations, written by `dragoman.bulk`, which a kill does not undo
train.src.gz .tgt.gz     what is left of both; behind them the training pairs, where they are wanted
valid.src.gz .tgt.gz     the teacher's validation pairs
lessons.json             what was asked for; when all is done also what was left out, and why
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.bulk.job import Job
from dragoman.bulk.output import Lines, fault_of
from dragoman.bulk.running import Summary
from dragoman.config import TranslationConfig, parse_json
from dragoman.data.corpora import Corpus, Pair, has_text
from dragoman.data.named import open_direction
from dragoman.data.readers.files import open_lines
from dragoman.errors import ConfigError, DataError, RunError
from dragoman.files import replacing, write_atomically
from dragoman.metrics.translation import sentence_chrf
from dragoman.predict.translator import Translation
from dragoman.text.tokenizer import TokenizerPair

LESSONS = "lessons.json"


class Lessons(NamedTuple):
    """Settings of the training data of a student."""

    n_best: int = 0
    """Number of teacher candidates per sentence, of which the one with the highest chrF against the reference
    is used (Kim & Rush 2016, section 3.3); 1 = the teacher's best; 0 = the teacher's whole beam."""
    references: bool = False
    """Whether the student also trains on the original training pairs."""
    max_ratio: float = 3.0
    """Maximum ratio of the lengths of source and translation in tokens (`bulk.output.fault_of`); 0 = any."""
    min_chrf: float = 20.0
    """Minimum chrF of the teacher's translation against the reference, 0 to 100; 0 = any."""
    max_pairs: int = 0
    """Use only the first N training pairs; 0 = all."""


def n_offered(config: TranslationConfig, lessons: Lessons) -> int:
    """Return the number of candidates per sentence. ConfigError: the teacher's beam is smaller."""
    search = config.search
    if search.method == "beam" and lessons.n_best > search.beam_size:
        raise ConfigError(
            f"--n-best {lessons.n_best}: the teacher's beam is {search.beam_size}; give --n-best "
            f"{search.beam_size} at most"
        )
    return lessons.n_best or search.beam_size


def as_candidates(translation: Translation) -> str:
    """Return the alternatives of a translation on one line, best first, separated by tabs."""
    return "\t".join(" ".join(alternative.text.split()) for alternative in translation.alternatives)


def teach(
    teacher: Path,
    config: TranslationConfig,
    folder: Path,
    *,
    lessons: Lessons,
    translate: Callable[[Job], Summary],
) -> dict[str, Any]:
    """Write the student's training data into `folder`, or continue; return the content of lessons.json.

    `translate` runs a job of `dragoman.bulk`.

    Raises:
        ConfigError: the teacher's beam is too small.
        DataError: all pairs were skipped.
        RunError: the folder was started with other settings.
    """
    folder.mkdir(parents=True, exist_ok=True)
    train, valid = open_direction(config)
    asked = {"teacher": str(teacher), "text": train.fingerprint(), **lessons._asdict()}
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
    pairs = partial(_taking_part, train, lessons.max_pairs)
    if not sources.exists():
        _write_lines({sources: 0}, (Pair(_line(pair.src), "") for pair in pairs()))
    if not translations.exists():
        search = {"n_best": n_offered(config, lessons)}
        to = "-".join(config.languages) if config.data.directions else None
        translate(Job(teacher, sources, translations, Lines(as_candidates), search, skip_long=True, to=to))
    _write_lines(_sides(folder, "valid"), filter(has_text, valid.pairs()))
    tokenizers = TokenizerPair.load(teacher / "tokenizer").towards(config.languages[1])
    counts: Counter[str] = Counter()
    kept = _kept(open_lines(translations), pairs(), tokenizers, lessons, counts)
    _write_lines(_sides(folder, "train"), chain(kept, pairs() if lessons.references else ()))
    n_pairs = counts.pop("pairs")
    if n_pairs == counts.total():
        raise DataError(f"{folder}: nothing is left of {n_pairs} pairs; try a smaller --min-chrf")
    record = {
        "asked": asked,
        "n_pairs": n_pairs,
        "n_kept": n_pairs - counts.total(),
        "n_references": n_pairs if lessons.references else 0,
        "left_out": dict(counts),
    }
    _write_record(folder, record)
    return record


def _taking_part(corpus: Corpus, max_pairs: int) -> Iterator[Pair]:
    """Return the training pairs to use."""
    return islice(filter(has_text, corpus.pairs()), max_pairs or None)


def _kept(
    translations: Iterable[str],
    pairs: Iterable[Pair],
    tokenizers: TokenizerPair,
    lessons: Lessons,
    counts: Counter[str],
) -> Iterator[Pair]:
    """Yield each source with its translation, except degenerate ones; count these by reason in `counts`."""
    for line, pair in zip(translations, pairs, strict=True):
        counts["pairs"] += 1
        src, (made, chrf) = _line(pair.src), nearest(line.split("\t"), pair.tgt)
        fault = fault_of(src, made, tokenizers, max_ratio=lessons.max_ratio)
        if not fault and chrf < lessons.min_chrf:
            fault = "far from the reference"
        if fault:
            counts[fault] += 1
        else:
            yield Pair(src, made)


def nearest(candidates: Sequence[str], reference: str) -> tuple[str, float]:
    """Return the candidate with the highest chrF against the reference (ties: the first), and its chrF."""
    scored = [(candidate, sentence_chrf(candidate, reference)) for candidate in candidates]
    return max(scored, key=itemgetter(1))


def _line(text: str) -> str:
    return " ".join(text.split())


def _write_lines(paths: Mapping[Path, int], pairs: Iterable[Pair]) -> None:
    """Write the sides of pairs to compressed text files, atomically."""
    with ExitStack() as stack:
        files = []
        for path, side in paths.items():
            file = stack.enter_context(replacing(path))
            files.append((stack.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0)), side))
        for pair in pairs:
            for out, side in files:
                out.write(_line(pair[side]).encode() + b"\n")


def _sides(folder: Path, name: str) -> dict[Path, int]:
    """Return the files of both sides of a corpus, with the index of their side of a pair."""
    return {folder / f"{name}.{side}.gz": i for i, side in enumerate(("src", "tgt"))}


def _write_record(folder: Path, record: dict[str, Any]) -> None:
    write_atomically(folder / LESSONS, json.dumps(record, indent=2).encode() + b"\n")


def _read(path: Path) -> dict[str, Any] | None:
    """Read lessons.json, if it exists. RunError: it is damaged."""
    try:
        content = parse_json(path.read_bytes())
        return dict(content, asked=content["asked"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise RunError(f"{path}: is damaged; remove it, and it will be written again") from None
