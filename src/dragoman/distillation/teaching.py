"""Training data of a student: sources with the teacher's translations, filtered.

sources.gz               the sources, one a line
teacher.gz forward-1.gz  their translations, written by `dragoman.bulk`, which a kill does not undo
targets.gz backward-1.gz the references, and their translations into the source language
pairs.gz scores.gz       with `keep_best`: the translations that are scored, and their scores
train.src.gz .tgt.gz     the translations that are kept; behind them the training pairs, if they are wanted
references.src.gz .tgt.gz  these pairs, if other text than theirs was translated
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

import numpy as np

from dragoman.bulk.input import Input
from dragoman.bulk.job import Job, ModelSpec
from dragoman.bulk.output import check_max_ratio, fault_of
from dragoman.bulk.running import Status
from dragoman.bulk.scoring import PairsInput, ScoringJob
from dragoman.config import TranslationConfig, parse_json
from dragoman.data.corpora import open_corpus
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
    if lessons.text and lessons.teacher_output:
        raise ConfigError("give --text, which the teacher translates, or --teacher-output, but not both")
    if not config.data.train and (lessons.is_own_text or lessons.references):
        raise ConfigError(
            f"the run {config.name} names no training text, as imported runs do; give source text with "
            "--text, or translations with --teacher-output, and leave --references away"
        )
    if not lessons.is_own_text and (lessons.n_best or lessons.min_chrf is not None):
        raise ConfigError(
            "--n-best and --min-chrf compare with references; leave them away with --text and "
            "--teacher-output, where there are none"
        )
    if lessons.teacher_output and lessons.ensemble and (lessons.keep_best == 1 or lessons.reverse):
        raise ConfigError("--ensemble translates, and --teacher-output is translated already; give one")
    if lessons.reverse and lessons.keep_best == 1:
        raise ConfigError("--reverse scores translations for --keep-best; give both")
    if (lessons.forward or lessons.backward) and not lessons.is_own_text:
        raise ConfigError(
            "--forward and --backward translate the training text of RUN and its references; leave them away "
            "with --text and --teacher-output"
        )
    if lessons.reverse:
        _check_direction("--reverse", lessons.reverse, config.languages[::-1])
    for path in lessons.ensemble:
        Run.open(path)
    n_offered(config, lessons)
    for path in lessons.forward:
        n_offered(_check_direction("--forward", path, config.languages), lessons)
    for path in lessons.backward:
        n_offered(_check_direction("--backward", path, config.languages[::-1]), lessons)


def _check_direction(option: str, path: str | Path, direction: tuple[str, str]) -> TranslationConfig:
    """Return the configuration of the run at `path`. ConfigError: it does not translate `direction`."""
    config = translation_config(Run.open(path))
    if direction not in config.directions:
        raise ConfigError(f"{option} {path}: does not translate {direction[0]} → {direction[1]}")
    return config


def n_offered(config: TranslationConfig, lessons: Lessons) -> int:
    """Return the number of candidates per sentence of a run. ConfigError: its beam is smaller."""
    if not lessons.is_own_text:
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
    turned: bool = False
    """Whether it translates the references into the source language."""


class Offer(NamedTuple):
    """A text with the translations to choose from."""

    text: str
    candidates: list[str]
    """Best first."""
    reference: str | None
    turned: bool = False
    """Whether the text is of the target language, and the candidates of the source language."""


class Material:
    """The sources of a distillation, and the translations of them that are offered."""

    def __init__(self, teacher: Path, config: TranslationConfig, lessons: Lessons) -> None:
        """Open the text. Errors: those of `check_lessons`. DataError: a file is missing."""
        check_lessons(config, lessons)
        self.teacher, self.config, self.lessons = teacher, config, lessons
        forward = (Writer(f"forward-{i}", Path(run)) for i, run in enumerate(lessons.forward, 1))
        backward = (
            Writer(f"backward-{i}", Path(run), turned=True) for i, run in enumerate(lessons.backward, 1)
        )
        self.writers = [Writer("teacher", teacher, tuple(map(Path, lessons.ensemble))), *forward, *backward]
        """The runs that translate, the teacher first."""
        self._files = [find_file(name) for name in lessons.text]
        self._made: Corpus | None = None
        if lessons.teacher_output:
            src, tgt = config.languages
            self._made = open_corpus([lessons.teacher_output], src_lang=src, tgt_lang=tgt)

    @cached_property
    def _corpus(self) -> Corpus:
        """The teacher's training text."""
        return open_direction(self.config)[0]

    def fingerprint(self) -> str:
        """Return a hash of the text."""
        if self._made is not None:
            return self._made.fingerprint()
        return hash_strings(*map(hash_file, self._files)) if self._files else self._corpus.fingerprint()

    def pairs(self) -> Iterator[Pair]:
        """Yield the teacher's training pairs. DataError: they cannot be read."""
        most = self.lessons.max_pairs if self.lessons.is_own_text else 0
        return islice(filter(has_text, self._corpus.pairs()), most or None)

    def texts(self, *, turned: bool = False) -> Iterator[str]:
        """Yield what is translated; `turned`: the references. DataError: it cannot be read."""
        if not self._files:
            return (one_line(pair.tgt if turned else pair.src) for pair in self.pairs())
        lines = (one_line(line) for file in self._files for line in open_lines(file))
        return islice(lines, self.lessons.max_pairs or None)

    def offers(self, folder: Path) -> Iterator[list[Offer]]:
        """Yield the offers of each sentence: one by each of `writers`, whose files are in `folder`.

        Given translations (`teacher_output`) are an offer each.
        """
        if self._made is not None:
            for src, tgt in islice(self._made.pairs(), self.lessons.max_pairs or None):
                yield [Offer(one_line(src), [one_line(tgt)], None)]
            return
        files = [open_lines(folder / f"{writer.name}.gz") for writer in self.writers]
        if self._files:
            for src, line in zip(self.texts(), *files, strict=True):
                yield [Offer(src, line.split("\t"), None)]
            return
        for (src, tgt), *lines in zip(self.pairs(), *files, strict=True):
            yield [
                Offer(one_line(tgt), line.split("\t"), src, turned=True)
                if writer.turned
                else Offer(one_line(src), line.split("\t"), tgt)
                for writer, line in zip(self.writers, lines, strict=True)
            ]


def one_line(text: str) -> str:
    """Return `text` with single spaces for all white space."""
    return " ".join(text.split())


class Judged(NamedTuple):
    """A source with its chosen translation, and why the pair is left out; "" = it is kept."""

    pair: Pair
    fault: str


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
    if not lessons.teacher_output:
        for writer in material.writers:
            _translate(writer, folder, material, translate)
    if config.data.train or config.data.valid:
        valid = (pair for _, corpus in split_of(config, "valid") for pair in corpus.pairs())
        _write_pairs(folder, "valid", filter(has_text, valid))
    counts = _filter(material, folder, translate)
    n_pairs, n_references = counts.pop("pairs"), counts.pop("references")
    if n_pairs == counts.total():
        hint = "try a smaller --min-chrf" if lessons.is_own_text else f"{DROPPED} says why"
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


def _filter(material: Material, folder: Path, translate: Translate) -> Counter[str]:
    """Write what is kept, what is dropped, and the references; count pairs, references and faults."""
    lessons, counts = material.lessons, Counter(pairs=0, references=0)
    tokenizers = TokenizerPair.load(material.teacher / "tokenizer").towards(material.config.languages[1])

    def judged() -> Iterator[Judged]:
        return judge(material.offers(folder), tokenizers, lessons)

    pairs = judged()
    if lessons.keep_best < 1:
        pairs = without_worst(pairs, _scores(material, folder, judged(), translate), lessons.keep_best)

    def kept(dropped: TextIO) -> Iterator[Pair]:
        for pair, fault in pairs:
            counts["pairs"] += 1
            if fault:
                counts[fault] += 1
                print(fault, *pair, sep="\t", file=dropped)
            else:
                yield pair

    def references() -> Iterator[Pair]:
        for pair in material.pairs() if lessons.references else ():
            counts["references"] += 1
            yield pair

    with _gzipped(folder / DROPPED) as dropped:
        _write_pairs(folder, "train", chain(kept(dropped), references() if lessons.is_own_text else ()))
    if lessons.references and not lessons.is_own_text:
        _write_pairs(folder, "references", references())
    return counts


def _translate(writer: Writer, folder: Path, material: Material, translate: Translate) -> None:
    """Let a run translate the sources, or the references, or finish that."""
    texts = folder / ("targets.gz" if writer.turned else "sources.gz")
    translations = folder / f"{writer.name}.gz"
    if not texts.exists():
        with _gzipped(texts) as file:
            file.writelines(f"{text}\n" for text in material.texts(turned=writer.turned))
    if not translations.exists():
        languages = material.config.languages
        direction = languages[::-1] if writer.turned else languages
        writer_config = translation_config(Run.open(writer.run)).towards(direction)
        model = ModelSpec(writer.run, writer.ensemble, _direction(writer_config))
        request = TranslationRequest(n_best=n_offered(writer_config, material.lessons))
        source = Input.of(str(texts), out=translations)
        translate(Job(model, source, translations, as_candidates, request, skip_long=True))


def _direction(config: TranslationConfig) -> str | None:
    """Return the direction for a job; None: the run has one only."""
    return "-".join(config.languages) if config.data.directions else None


def judge(
    sentences: Iterable[Sequence[Offer]], tokenizers: TokenizerPair, lessons: Lessons
) -> Iterator[Judged]:
    """Yield each text with its best candidate, and whether it is degenerate or far from the reference.

    `sentences` are the offers of each sentence, of which the same pair is kept once.
    """
    turned = TokenizerPair(tokenizers.tgt, tokenizers.src)
    for offers in sentences:
        seen: set[Pair] = set()
        for offer in offers:
            made, chrf = offer.candidates[0], math.inf
            if offer.reference is not None:
                made, chrf = nearest(offer.candidates, offer.reference)
            pair = Pair(made, offer.text) if offer.turned else Pair(offer.text, made)
            sides = turned if offer.turned else tokenizers
            fault = "empty lines"
            if offer.text:
                fault = fault_of(offer.text, made, sides, max_ratio=lessons.max_ratio)
            if not fault and chrf < lessons.chrf_floor:
                fault = "far from the reference"
            elif not fault and pair in seen:
                fault = "duplicates"
            seen.add(pair)
            yield Judged(pair, fault)


def nearest(candidates: Sequence[str], reference: str) -> tuple[str, float]:
    """Return the candidate with the highest chrF against the reference (ties: the first), and its chrF."""
    scored = [(candidate, sentence_chrf(candidate, reference)) for candidate in candidates]
    return max(scored, key=itemgetter(1))


def _scores(material: Material, folder: Path, judged: Iterable[Judged], translate: Translate) -> np.ndarray:
    """Return a score for each pair without fault: by the teacher, or by the reverse model; NaN: too long."""
    pairs, scores, reverse = folder / "pairs.gz", folder / "scores.gz", material.lessons.reverse
    if not pairs.exists():
        with _gzipped(pairs) as file:
            for (src, tgt), fault in judged:
                if not fault:
                    print(*((tgt, src) if reverse else (src, tgt)), sep="\t", file=file)
    if next(open_lines(pairs), None) is None:
        return np.zeros(0)
    if not scores.exists():
        model = ModelSpec(material.teacher, material.writers[0].ensemble, _direction(material.config))
        if reverse:
            model = ModelSpec(Path(reverse), to="-".join(material.config.languages[::-1]))
        languages = model.config().languages
        translate(ScoringJob(model, PairsInput.of_files(str(pairs), languages=languages), scores))
    return np.fromiter((float(line or "nan") for line in open_lines(scores)), dtype=np.float64)


def without_worst(judged: Iterable[Judged], scores: np.ndarray, share: float) -> Iterator[Judged]:
    """Yield the same, with a fault for all pairs but the `share` of them, 0 to 1, with the best scores.

    `scores` are those of the pairs without a fault, in order. Pairs of equal scores stay together.
    """
    n_kept = max(1, round(share * len(scores))) if share else 0
    ranked = np.sort(scores[~np.isnan(scores)])
    worst = ranked[max(0, len(ranked) - n_kept)] if n_kept and len(ranked) else math.inf
    values = iter(scores.tolist())
    for pair, fault in judged:
        score = math.inf if fault else next(values)
        if math.isnan(score):
            yield Judged(pair, "too long to be scored")
        else:
            yield Judged(pair, fault or ("low score" if score < worst else ""))


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
