"""What a student learns from: the teacher's training text, other source text, or given translations."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from dragoman.bulk.output import check_max_ratio
from dragoman.config import TranslationConfig
from dragoman.data.corpora import open_corpus
from dragoman.data.named import open_direction
from dragoman.data.readers.files import find_file, hash_file, hash_strings, open_lines
from dragoman.data.records import Corpus, Pair, has_text
from dragoman.distillation.lessons import Lessons
from dragoman.errors import ConfigError
from dragoman.predict.model import translation_config
from dragoman.runs import Run


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
