"""What a student learns from: the teacher's training text, other source text, or given translations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.config import TranslationConfig
from dragoman.data.corpora import Corpus, Pair, has_text, open_corpus
from dragoman.data.named import open_direction
from dragoman.data.readers.files import find_file, hash_file, hash_strings, open_lines
from dragoman.errors import ConfigError
from dragoman.predict.translator import translation_config
from dragoman.runs import Run

MIN_CHRF = 20.0
"""Minimum chrF of a teacher's translation against the reference, unless another one is set."""


class Lessons(NamedTuple):
    """Settings of the training data of a student."""

    n_best: int = 0
    """Number of teacher candidates per sentence, of which the one with the highest chrF against the reference
    is used (Kim & Rush 2016, section 3.3); 1 = the teacher's best; 0 = the teacher's whole beam, or its best
    if there are no references."""
    references: bool = False
    """Whether the student also trains on the original training pairs."""
    max_ratio: float = 3.0
    """Maximum ratio of the lengths of source and translation in tokens (`bulk.output.fault_of`); 0 = any."""
    min_chrf: float | None = None
    """Minimum chrF of the teacher's translation against the reference, 0 to 100; 0 = any; None = MIN_CHRF."""
    max_pairs: int = 0
    """Use only the first N training pairs, or lines of text; 0 = all."""
    text: tuple[str, ...] = ()
    """Files of source text to translate in place of the teacher's training text."""
    teacher_output: str = ""
    """A file of translations to learn from; the teacher translates nothing."""
    ensemble: tuple[str, ...] = ()
    """Runs that translate, and score, together with the teacher."""
    keep_best: float = 1.0
    """Share of the translations to keep: those with the best scores."""
    reverse: str = ""
    """A run of the other direction, which scores translations in place of the teacher."""

    @property
    def chrf_floor(self) -> float:
        """The minimum chrF where there are references."""
        return MIN_CHRF if self.min_chrf is None else self.min_chrf

    @property
    def is_own_text(self) -> bool:
        """Whether the teacher's training text is translated."""
        return not (self.text or self.teacher_output)

    def described(self) -> dict[str, Any]:
        """Return the settings as a JSON value, without the names of files, whose hashes tell them apart.

        Settings that earlier versions had not are in it only if they are set.
        """
        settings = self._asdict() | {"min_chrf": self.chrf_floor, "ensemble": [*self.ensemble]}
        without = {"ensemble": [], "keep_best": 1.0, "reverse": "", "text": self.text}
        without |= {"teacher_output": self.teacher_output}
        return {name: value for name, value in settings.items() if without.get(name) != value}


def check_lessons(config: TranslationConfig, lessons: Lessons) -> None:
    """Check settings of lessons.

    Raises:
        ConfigError: they do not go with one another, or with the teacher.
        RunError: a run that they name is not there.
    """
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
    if lessons.reverse:
        src, tgt = config.languages
        if (tgt, src) not in translation_config(Run.open(lessons.reverse)).directions:
            raise ConfigError(f"--reverse {lessons.reverse}: does not translate {tgt} → {src}")
    for path in lessons.ensemble:
        Run.open(path)
    n_offered(config, lessons)


def n_offered(config: TranslationConfig, lessons: Lessons) -> int:
    """Return the number of candidates per sentence. ConfigError: the teacher's beam is smaller."""
    if not lessons.is_own_text:
        return 1
    search = config.search
    if search.method == "beam" and lessons.n_best > search.beam_size:
        raise ConfigError(
            f"--n-best {lessons.n_best}: the teacher's beam is {search.beam_size}; give --n-best "
            f"{search.beam_size} at most"
        )
    return lessons.n_best or search.beam_size


class Offer(NamedTuple):
    """A source with the translations to choose from."""

    src: str
    candidates: list[str]
    """Best first."""
    reference: str | None


class Material:
    """The sources of a distillation, and the translations of them that are offered."""

    def __init__(self, config: TranslationConfig, lessons: Lessons) -> None:
        """Open the text. DataError: a file is missing."""
        self.lessons = lessons
        self._config = config
        self._files = [find_file(name) for name in lessons.text]
        self._made: Corpus | None = None
        if lessons.teacher_output:
            src, tgt = config.languages
            self._made = open_corpus([lessons.teacher_output], src_lang=src, tgt_lang=tgt)

    @cached_property
    def _corpus(self) -> Corpus:
        """The teacher's training text."""
        return open_direction(self._config)[0]

    def fingerprint(self) -> str:
        """Return a hash of the text."""
        if self._made is not None:
            return self._made.fingerprint()
        return hash_strings(*map(hash_file, self._files)) if self._files else self._corpus.fingerprint()

    def pairs(self) -> Iterator[Pair]:
        """Yield the teacher's training pairs. DataError: they cannot be read."""
        most = self.lessons.max_pairs if self.lessons.is_own_text else 0
        return islice(filter(has_text, self._corpus.pairs()), most or None)

    def sources(self) -> Iterator[str]:
        """Yield what the teacher translates. DataError: it cannot be read."""
        if not self._files:
            return (one_line(pair.src) for pair in self.pairs())
        lines = (one_line(line) for file in self._files for line in open_lines(file))
        return islice(lines, self.lessons.max_pairs or None)

    def offers(self, translations: Path) -> Iterator[Offer]:
        """Yield each source with its candidates, which stand in the file `translations` if they were made."""
        if self._made is not None:
            made = islice(self._made.pairs(), self.lessons.max_pairs or None)
            return (Offer(one_line(pair.src), [one_line(pair.tgt)], None) for pair in made)
        lines = open_lines(translations)
        if self._files:
            return _beside(self.sources(), lines)
        pairs = zip(self.pairs(), lines, strict=True)
        return (Offer(one_line(pair.src), line.split("\t"), pair.tgt) for pair, line in pairs)


def _beside(sources: Iterable[str], translations: Iterable[str]) -> Iterator[Offer]:
    return (Offer(src, line.split("\t"), None) for src, line in zip(sources, translations, strict=True))


def one_line(text: str) -> str:
    """Return `text` with single spaces for all white space."""
    return " ".join(text.split())
