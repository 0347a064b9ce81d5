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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from io import TextIOWrapper
from itertools import islice
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
from dragoman.tasks.request import Say
from dragoman.tasks.translation.evaluation import split_of
from dragoman.text.tokenizer import TokenizerPair

LESSONS = "lessons.json"
DROPPED = "dropped.gz"
MIN_CHRF = 20.0
"""Minimum chrF of a teacher's translation against the reference, unless another one is set."""

Translate = Callable[[Job], Status]
"""Runs a job of `dragoman.bulk`."""


class Writer(NamedTuple):
    """A run that translates for the student."""

    name: str
    """Of its file, without suffix."""
    model: ModelSpec
    n_best: int
    """Candidates for each sentence."""
    is_backward: bool
    """Whether it translates the references into the source language."""


class Material:
    """The sources of a distillation, and the runs that translate them."""

    def __init__(self, teacher: Path, config: TranslationConfig, lessons: Lessons) -> None:
        """Find the text and the runs.

        Raises:
            ConfigError: settings do not go with one another, or with the teacher.
            DataError: a file is missing.
            RunError: a run is missing.
        """
        check_max_ratio(lessons.max_ratio)
        if not config.data.train and (not lessons.text or lessons.references):
            raise ConfigError(
                f"the run {config.name} names no training text, as imported runs do; give source text with "
                "--text, and leave --references away"
            )
        if lessons.text and (lessons.n_best or lessons.min_chrf is not None):
            raise ConfigError(
                "--n-best and --min-chrf compare with references; leave them away with --text, where "
                "there are none"
            )
        if lessons.text and (lessons.forward or lessons.backward):
            raise ConfigError(
                "--forward and --backward translate the training text of RUN and its references; leave them "
                "away with --text"
            )
        self.config, self.lessons = config, lessons
        self.min_chrf = MIN_CHRF if lessons.min_chrf is None else lessons.min_chrf
        ensemble = tuple(Run.open(path).path for path in lessons.ensemble)
        self.writers = [self._writer("teacher", teacher, config, ensemble)]
        """The runs that translate, the teacher first."""
        for kind, runs in (("forward", lessons.forward), ("backward", lessons.backward)):
            for number, run in enumerate(map(Path, runs), 1):
                other = translation_config(Run.open(run))
                self.writers.append(self._writer(f"{kind}-{number}", run, other))
        self.files = [find_file(name) for name in lessons.text]

    def _writer(
        self, name: str, run: Path, config: TranslationConfig, ensemble: tuple[Path, ...] = ()
    ) -> Writer:
        """Return a run as a writer. ConfigError: it has not the direction, or its beam is too small."""
        kind, _, _ = name.partition("-")
        src, tgt = direction = self.config.languages[:: -1 if kind == "backward" else 1]
        if direction not in config.directions:
            raise ConfigError(f"--{kind} {run}: does not translate {src} → {tgt}")
        search, n_best = config.search, 1 if self.lessons.text else self.lessons.n_best
        if search.method == "beam" and n_best > search.beam_size:
            raise ConfigError(
                f"--n-best {n_best}: the beam of {config.name} is {search.beam_size}; give --n-best "
                f"{search.beam_size} at most"
            )
        to = f"{src}-{tgt}" if config.towards(direction).data.directions else None  # of several
        return Writer(name, ModelSpec(run, ensemble, to), n_best or search.beam_size, kind == "backward")

    @cached_property
    def _corpus(self) -> Corpus:
        """The teacher's training text."""
        return open_direction(self.config)[0]

    def described(self) -> dict[str, Any]:
        """Return all that the lessons depend on, as a JSON value.

        Other runs, which earlier versions had not, are in it only if they are set.
        """
        teacher, lessons = self.writers[0].model.run, self.lessons
        runs = {"ensemble": lessons.ensemble, "forward": lessons.forward, "backward": lessons.backward}
        return {
            "teacher": str(teacher),
            "models": model_hash(*map(Run.open, lessons.runs(teacher))),
            "text": hash_strings(*map(hash_file, self.files)) if self.files else self._corpus.fingerprint(),
            "n_best": lessons.n_best,
            "references": lessons.references,
            "max_ratio": lessons.max_ratio,
            "min_chrf": self.min_chrf,
            "max_pairs": lessons.max_pairs,
            **{name: [str(Path(path)) for path in paths] for name, paths in runs.items() if paths},
        }

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

    def judged(self, folder: Path) -> Iterator[tuple[Pair, str]]:
        """Yield what each writer made of each text, and why it is left out; "" = it is kept.

        Reasons: the translation is degenerate, far from the reference, or an earlier writer's.
        """
        tokenizers = TokenizerPair.load(self.writers[0].model.run / "tokenizer")
        forward = tokenizers.towards(self.config.languages[1])
        backward = TokenizerPair(forward.tgt, forward.src)
        files = [open_lines(folder / f"{writer.name}.gz") for writer in self.writers]
        for pair, *lines in zip(self.pairs(), *files, strict=True):
            seen: set[Pair] = set()
            for writer, line in zip(self.writers, lines, strict=True):
                text, reference = pair[::-1] if writer.is_backward else pair
                text, candidates = one_line(text), line.split("\t")
                made, chrf = candidates[0], math.inf
                if reference:  # the nearest to it; of equal ones the first
                    scored = ((each, sentence_chrf(each, reference)) for each in candidates)
                    made, chrf = max(scored, key=itemgetter(1))
                learnt = Pair(made, text) if writer.is_backward else Pair(text, made)
                sides = backward if writer.is_backward else forward
                fault = fault_of(text, made, sides, max_ratio=self.lessons.max_ratio)
                if not text:
                    fault = "empty lines"
                elif not fault and chrf < self.min_chrf:
                    fault = "far from the reference"
                elif not fault and learnt in seen:
                    fault = "duplicates"
                seen.add(learnt)
                yield learnt, fault


def one_line(text: str) -> str:
    """Return `text` with single spaces for all white space."""
    return " ".join(text.split())


def as_candidates(translation: Translation, tokenizers: TokenizerPair, links: Sequence[Link] | None) -> str:
    """Return the alternatives of a translation on one line, best first, separated by tabs."""
    return "\t".join(one_line(alternative.text) for alternative in translation.alternatives)


def teach(material: Material, folder: Path, *, translate: Translate, say: Say) -> dict[str, Any]:
    """Write the student's training data into `folder`, or continue; return the content of lessons.json.

    Raises:
        DataError: a file cannot be read, or all pairs were skipped.
        RunError: the folder was started with other settings.
    """
    config, lessons, asked = material.config, material.lessons, material.described()
    folder.mkdir(parents=True, exist_ok=True)
    record = _read(folder / LESSONS) or {"asked": asked}
    if {"models": asked["models"]} | record["asked"] != asked:  # earlier versions kept none
        raise RunError(
            f"{folder}: holds the lessons of another teacher, text or filter; choose another folder, or "
            "remove it"
        )
    if "n_kept" not in record:
        write_atomically(folder / LESSONS, json.dumps(record, indent=2).encode() + b"\n")
        for writer in material.writers:
            _translate(writer, folder, material, translate)
        if config.data.train or config.data.valid:
            with _pair_files(folder, "valid") as write:
                for _, corpus in split_of(config, "valid"):
                    for pair in filter(has_text, corpus.pairs()):
                        write(pair)
        counts = _filter(material, folder)
        n_pairs, n_references = counts.pop("pairs"), counts.pop("references")
        n_kept = n_pairs - counts.total()
        if not n_kept:
            hint = f"{DROPPED} says why" if lessons.text else "try a smaller --min-chrf"
            raise DataError(f"{folder}: nothing is left of {n_pairs} pairs; {hint}")
        record = {"asked": asked, "n_pairs": n_pairs, "n_kept": n_kept, "n_references": n_references,
                  "left_out": dict(counts)}  # fmt: skip
        write_atomically(folder / LESSONS, json.dumps(record, indent=2).encode() + b"\n")
    left_out = ", ".join(f"{n:,} {reason}" for reason, n in sorted(record["left_out"].items()))
    say(
        f"the student learns from {record['n_kept']:,} of {record['n_pairs']:,} translated pairs"
        + (f", and from {record['n_references']:,} as they are" if record["n_references"] else "")
        + (f"; left out ({DROPPED} lists them): {left_out}" if left_out else "")
    )
    return record


def _translate(writer: Writer, folder: Path, material: Material, translate: Translate) -> None:
    """Let a run translate the sources, or the references, or finish that."""
    texts = folder / ("targets.gz" if writer.is_backward else "sources.gz")
    translations = folder / f"{writer.name}.gz"
    if not texts.exists():
        with _gzipped(texts) as file:
            for pair in material.pairs():
                print(one_line(pair[writer.is_backward]), file=file)
    if not translations.exists():
        request, source = TranslationRequest(n_best=writer.n_best), Input.of(str(texts), out=translations)
        translate(Job(writer.model, source, translations, as_candidates, request, skip_long=True))


def _filter(material: Material, folder: Path) -> Counter[str]:
    """Write what is kept, then the references, and what is dropped; count pairs, references and faults."""
    counts = Counter(pairs=0, references=0)
    with _gzipped(folder / DROPPED) as dropped, _pair_files(folder, "train") as write:
        for pair, fault in material.judged(folder):
            counts["pairs"] += 1
            if fault:
                counts[fault] += 1
                print(fault, *pair, sep="\t", file=dropped)
            else:
                write(pair)
        for pair in material.training_pairs() if material.lessons.references else ():
            counts["references"] += 1
            write(pair)
    return counts


@contextmanager
def _gzipped(path: Path) -> Iterator[TextIO]:
    """Open a compressed text file, which is written atomically."""
    with (
        replacing(path) as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed,
        TextIOWrapper(packed, "utf-8", newline="\n") as out,
    ):
        yield out


@contextmanager
def _pair_files(folder: Path, name: str) -> Iterator[Callable[[Pair], None]]:
    """Open NAME.src.gz and NAME.tgt.gz, which are written atomically, for pairs."""
    with _gzipped(folder / f"{name}.src.gz") as src_file, _gzipped(folder / f"{name}.tgt.gz") as tgt_file:

        def write(pair: Pair) -> None:
            print(one_line(pair.src), file=src_file)
            print(one_line(pair.tgt), file=tgt_file)

        yield write


def _read(path: Path) -> dict[str, Any] | None:
    """Read lessons.json, if it exists. RunError: it is damaged."""
    try:
        content = parse_json(path.read_bytes())
        return dict(content, asked=dict(content["asked"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path}: is damaged; remove it, and it will be written again") from error
