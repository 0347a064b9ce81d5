"""Training data of a student: sources with the teacher's translations, filtered.

sources.gz               the sources, one a line
teacher.gz forward-1.gz  their translations, written by `dragoman.bulk`, which a kill does not undo
targets.gz backward-1.gz the references, and their translations into the source language
train.src.gz .tgt.gz     the translations that are kept; behind them the training pairs, if they are wanted
valid.src.gz .tgt.gz     the teacher's validation pairs, if it has some
dropped.gz               what was left out: reason, source and translation, separated by tabs
lessons.json             the settings; when all is done also how many pairs were left out, by reason
"""

from __future__ import annotations

import gzip
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from io import TextIOWrapper
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from dragoman.bulk.input import Input
from dragoman.bulk.job import Job, ModelSpec
from dragoman.bulk.output import check_max_ratio, fault_of
from dragoman.bulk.running import Status
from dragoman.config import TranslationConfig, parse_json
from dragoman.data.named import open_direction
from dragoman.data.readers.files import find_file, hash_file, hash_strings, open_lines
from dragoman.data.records import Corpus, Pair, has_text
from dragoman.distillation.lessons import Lessons
from dragoman.errors import ConfigError, DataError, RunError
from dragoman.files import replacing, write_atomically
from dragoman.metrics.translation import sentence_chrf
from dragoman.predict.flow import TranslationRequest
from dragoman.predict.loading import model_hash
from dragoman.predict.model import translation_config
from dragoman.predict.results import Link, Translation
from dragoman.runs import Run
from dragoman.tasks.translation.evaluation import split_of
from dragoman.text.tokenizer import TokenizerPair

LESSONS = "lessons.json"
DROPPED = "dropped.gz"

Translate = Callable[[Job], Status]
"""Runs a job of `dragoman.bulk`."""


def check_lessons(config: TranslationConfig, lessons: Lessons) -> None:
    """Check settings of lessons.

    Raises:
        ConfigError: they do not go with one another, or with the teacher.
        RunError: a run that they name is not there.
    """
    check_max_ratio(lessons.max_ratio)
    if not config.data.train and (not lessons.text or lessons.references):
        raise ConfigError(
            f"the run {config.name} names no training text, as imported runs do; give source text with "
            "--text, and leave --references away"
        )
    if lessons.text and (lessons.n_best or lessons.min_chrf is not None):
        raise ConfigError(
            "--n-best and --min-chrf compare with references; leave them away with --text, where there are "
            "none"
        )
    if lessons.text and (lessons.forward or lessons.backward):
        raise ConfigError(
            "--forward and --backward translate the training text of RUN and its references; leave them away "
            "with --text"
        )
    for path in lessons.ensemble:
        Run.open(path)
    n_offered(config, lessons)
    named = [("--forward", path, config.languages) for path in lessons.forward]
    named += [("--backward", path, config.languages[::-1]) for path in lessons.backward]
    for option, path, (src, tgt) in named:
        other = translation_config(Run.open(path))
        if (src, tgt) not in other.directions:
            raise ConfigError(f"{option} {path}: does not translate {src} → {tgt}")
        n_offered(other, lessons)


def n_offered(config: TranslationConfig, lessons: Lessons) -> int:
    """Return the number of candidates per sentence of a run. ConfigError: its beam is smaller."""
    if lessons.text:
        return 1
    search = config.search
    if search.method == "beam" and lessons.n_best > search.beam_size:
        raise ConfigError(
            f"--n-best {lessons.n_best}: the beam of {config.name} is {search.beam_size}; give --n-best "
            f"{search.beam_size} at most"
        )
    return lessons.n_best or search.beam_size


class Writer(NamedTuple):
    """A run that translates for the student."""

    name: str
    """Of its file, without suffix."""
    run: Path
    ensemble: tuple[Path, ...] = ()
    """Runs that translate together with it."""
    is_backward: bool = False
    """Whether it translates the references into the source language."""


class Material:
    """The sources of a distillation, and the runs that translate them."""

    def __init__(self, teacher: Path, config: TranslationConfig, lessons: Lessons) -> None:
        """Find the text. Errors: those of `check_lessons`. DataError: a file is missing."""
        check_lessons(config, lessons)
        self.config, self.lessons = config, lessons
        self.files = [find_file(name) for name in lessons.text]
        self.writers = [
            Writer("teacher", teacher, tuple(map(Path, lessons.ensemble))),
            *(Writer(f"forward-{i}", Path(run)) for i, run in enumerate(lessons.forward, 1)),
            *(Writer(f"backward-{i}", Path(run), (), True) for i, run in enumerate(lessons.backward, 1)),
        ]
        """The runs that translate, the teacher first."""

    @cached_property
    def _corpus(self) -> Corpus:
        """The teacher's training text."""
        return open_direction(self.config)[0]

    def fingerprint(self) -> str:
        """Return a hash of the text."""
        return hash_strings(*map(hash_file, self.files)) if self.files else self._corpus.fingerprint()

    def training_pairs(self) -> Iterator[Pair]:
        """Yield the teacher's training pairs. DataError: they cannot be read."""
        most = 0 if self.files else self.lessons.max_pairs
        return islice(filter(has_text, self._corpus.pairs()), most or None)

    def pairs(self) -> Iterator[Pair]:
        """Yield each source with its reference, or with "", if it has none. DataError: as above."""
        if not self.files:
            return self.training_pairs()
        lines = (line for file in self.files for line in open_lines(file))
        return (Pair(line, "") for line in islice(lines, self.lessons.max_pairs or None))

    def translated(self, folder: Path) -> Iterator[tuple[Pair, Sequence[str]]]:
        """Yield the same pairs, each with the lines that the `writers` wrote into `folder`."""
        files = [open_lines(folder / f"{writer.name}.gz") for writer in self.writers]
        for pair, *lines in zip(self.pairs(), *files, strict=True):
            yield pair, lines


def one_line(text: str) -> str:
    """Return `text` with single spaces for all white space."""
    return " ".join(text.split())


def as_candidates(translation: Translation, tokenizers: TokenizerPair, links: Sequence[Link] | None) -> str:
    """Return the alternatives of a translation on one line, best first, separated by tabs."""
    return "\t".join(one_line(alternative.text) for alternative in translation.alternatives)


def teach(
    teacher: Path, config: TranslationConfig, folder: Path, *, lessons: Lessons, translate: Translate
) -> dict[str, Any]:
    """Write the student's training data into `folder`, or continue; return the content of lessons.json.

    Raises:
        ConfigError: settings do not go with one another, or with the teacher.
        DataError: a file cannot be read, or all pairs were skipped.
        RunError: the folder was started with other settings.
    """
    material = Material(teacher, config, lessons)
    asked = {
        "teacher": str(teacher),
        "models": model_hash(*map(Run.open, lessons.runs(teacher))),
        "text": material.fingerprint(),
        **lessons.described(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    begun = _read(folder / LESSONS)
    if begun is None:
        write_atomically(folder / LESSONS, json.dumps({"asked": asked}, indent=2).encode() + b"\n")
    elif {"models": asked["models"]} | begun["asked"] != asked:  # earlier versions kept none
        raise RunError(
            f"{folder}: holds the lessons of another teacher, text or filter; choose another folder, or "
            "remove it"
        )
    elif "n_kept" in begun:
        return begun
    for writer in material.writers:
        _translate(writer, folder, material, translate)
    if config.data.train or config.data.valid:
        valid = (pair for _, corpus in split_of(config, "valid") for pair in corpus.pairs())
        _write_pairs(folder, "valid", filter(has_text, valid))
    counts = _filter(material, folder)
    n_pairs, n_references = counts.pop("pairs"), counts.pop("references")
    if n_pairs == counts.total():
        hint = f"{DROPPED} says why" if lessons.text else "try a smaller --min-chrf"
        raise DataError(f"{folder}: nothing is left of {n_pairs} pairs; {hint}")
    record = {
        "asked": asked,
        "n_pairs": n_pairs,
        "n_kept": n_pairs - counts.total(),
        "n_references": n_references,
        "left_out": dict(counts),
    }
    write_atomically(folder / LESSONS, json.dumps(record, indent=2).encode() + b"\n")
    return record


def _translate(writer: Writer, folder: Path, material: Material, translate: Translate) -> None:
    """Let a run translate the sources, or the references, or finish that."""
    texts = folder / ("targets.gz" if writer.is_backward else "sources.gz")
    translations = folder / f"{writer.name}.gz"
    if not texts.exists():
        with _gzipped(texts) as file:
            for src, tgt in material.pairs():
                print(one_line(tgt if writer.is_backward else src), file=file)
    if not translations.exists():
        languages = material.config.languages
        direction = languages[::-1] if writer.is_backward else languages
        config = translation_config(Run.open(writer.run)).towards(direction)
        to = "-".join(direction) if config.data.directions else None  # a run has one only, or several
        request = TranslationRequest(n_best=n_offered(config, material.lessons))
        source = Input.of(str(texts), out=translations)
        model = ModelSpec(writer.run, writer.ensemble, to)
        translate(Job(model, source, translations, as_candidates, request, skip_long=True))


def _filter(material: Material, folder: Path) -> Counter[str]:
    """Write what is kept, then the references, and what is dropped; count pairs, references and faults."""
    counts = Counter(pairs=0, references=0)
    tokenizers = TokenizerPair.load(material.writers[0].run / "tokenizer")
    tokenizers = tokenizers.towards(material.config.languages[1])

    def kept(dropped: TextIO) -> Iterator[Pair]:
        for pair, fault in judge(material.translated(folder), material.writers, tokenizers, material.lessons):
            counts["pairs"] += 1
            if fault:
                counts[fault] += 1
                print(fault, *pair, sep="\t", file=dropped)
            else:
                yield pair

    def references() -> Iterator[Pair]:
        for pair in material.training_pairs() if material.lessons.references else ():
            counts["references"] += 1
            yield pair

    with _gzipped(folder / DROPPED) as dropped:
        _write_pairs(folder, "train", chain(kept(dropped), references()))
    return counts


def judge(
    sentences: Iterable[tuple[Pair, Sequence[str]]],
    writers: Sequence[Writer],
    tokenizers: TokenizerPair,
    lessons: Lessons,
) -> Iterator[tuple[Pair, str]]:
    """Yield each text with its best candidate, and why the pair is left out; "" = it is kept.

    `sentences` are pairs with a line of candidates by each of `writers`. Reasons: the translation is
    degenerate, far from the reference, or another writer's.
    """
    backward = TokenizerPair(tokenizers.tgt, tokenizers.src)
    for pair, lines in sentences:
        seen: set[Pair] = set()
        for writer, line in zip(writers, lines, strict=True):
            text, reference = pair[::-1] if writer.is_backward else pair
            text, candidates = one_line(text), line.split("\t")
            made, chrf = nearest(candidates, reference) if reference else (candidates[0], math.inf)
            learnt = Pair(made, text) if writer.is_backward else Pair(text, made)
            sides = backward if writer.is_backward else tokenizers
            fault = fault_of(text, made, sides, max_ratio=lessons.max_ratio) if text else "empty lines"
            if not fault and chrf < lessons.chrf_floor:
                fault = "far from the reference"
            elif not fault and learnt in seen:
                fault = "duplicates"
            seen.add(learnt)
            yield learnt, fault


def nearest(candidates: Sequence[str], reference: str) -> tuple[str, float]:
    """Return the candidate with the highest chrF against the reference (ties: the first), and its chrF."""
    scored = [(candidate, sentence_chrf(candidate, reference)) for candidate in candidates]
    return max(scored, key=itemgetter(1))


@contextmanager
def _gzipped(path: Path) -> Iterator[TextIO]:
    """Open a compressed text file, which is written atomically."""
    with (
        replacing(path) as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed,
        TextIOWrapper(packed, "utf-8", newline="\n") as out,
    ):
        yield out


def _write_pairs(folder: Path, name: str, pairs: Iterable[Pair]) -> None:
    """Write the sides of pairs to the compressed files NAME.src.gz and NAME.tgt.gz, atomically."""
    with _gzipped(folder / f"{name}.src.gz") as src_file, _gzipped(folder / f"{name}.tgt.gz") as tgt_file:
        for src, tgt in pairs:
            print(one_line(src), file=src_file)
            print(one_line(tgt), file=tgt_file)


def _read(path: Path) -> dict[str, Any] | None:
    """Read lessons.json, if it exists. RunError: it is damaged."""
    try:
        content = parse_json(path.read_bytes())
        return dict(content, asked=dict(content["asked"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path}: is damaged; remove it, and it will be written again") from error
