"""Test sets that a run has translated and scored once, kept in its folder `report/` and not done again.

What is kept is used while everything it depends on is as it was: weights, tokenizers, model and search
settings, arithmetic, versions, sources and references. Anything else is done again and kept in its place.
Scores of other tools, read from files with one number per line, are kept beside them.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cached_property

from dragoman.config import CorpusFiles, TranslationConfig, file_names
from dragoman.data.doctor.selection import read_scores
from dragoman.data.readers.files import find_file, hash_strings
from dragoman.data.records import Pair
from dragoman.errors import ConfigError, DataError, RunError, counted, printable
from dragoman.evaluation.scores import KeptRecord, keep_scores
from dragoman.hardware import choose_precision, commit, find_device, on_processor, versions
from dragoman.metrics.translation import SentenceScores, sentence_chrf
from dragoman.predict.loading import model_hash
from dragoman.predict.model import translation_config
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from dragoman.tasks.request import EvaluationRequest
from dragoman.tasks.task import check_precision
from dragoman.tasks.translation.evaluation import (
    TranslationScores,
    evaluate,
    load_translator,
    read_pairs,
    split_of,
)
from dragoman.tasks.translation.robustness import Altered, robustness

N_ALTERED = 100
"""Sentences that are translated altered as well, spread over the set."""


class KeptSet(KeptRecord):
    """The translations of a set, as they are kept."""

    evaluation: TranslationScores
    commit: str | None
    """Of Dragoman's source when this was translated; None where it was no checkout."""
    date: str
    """When, in UTC."""


@dataclass(frozen=True)
class TranslatedSet:
    """A test set with its translations, and where both come from."""

    evaluation: TranslationScores
    record: KeptSet
    sources: tuple[str, ...]
    files: tuple[str, ...]
    """As the run names them."""
    n_lines: int
    """Lines or records of the corpus, empty ones included."""

    @property
    def name(self) -> str:
        return self.evaluation.name

    @property
    def fingerprint(self) -> str:
        """A hash of sources and references: equal only for the same test."""
        return hash_strings(*self.sources, "\0", *self.evaluation.references)

    @cached_property
    def qualities(self) -> list[float]:
        """chrF2 of each sentence, 0–100."""
        return list(map(sentence_chrf, self.evaluation.hypotheses, self.evaluation.references))

    @property
    def provenance(self) -> str:
        """What the figures about it were computed on, in words."""
        files = " + ".join(self.files) or "held out of the training text"
        return f"{self.name}: {len(self.sources):,} of {counted(self.n_lines, 'line')} of {files}"


class _KeptAlterations(KeptRecord):
    rows: tuple[Altered, ...]


class Translations:
    """The test sets of one run, translated when first asked for; the model is loaded only if it is needed."""

    def __init__(self, run: Run, request: EvaluationRequest) -> None:
        """`request.say` is told what is done. ConfigError: unknown precision."""
        check_precision(request.precision)
        self.run, self.config, self.request = run, translation_config(run), request
        self._loaded: Translator | None = None
        self._model_hash = ""
        self._translated_now = False

    @property
    def translator(self) -> Translator:
        """The run's translator. RunError: it has no weights yet, or a file is damaged."""
        if self._loaded is None:
            whole = load_translator(self.run, self.request)
            self._loaded = whole.towards("-".join(self.config.languages))
        return self._loaded

    def sets(
        self, split: str, *, max_sentences: int | None = None, only: Collection[str] | None = None
    ) -> list[TranslatedSet]:
        """Every set of "test" or "valid", or those named in `only`; the first `max_sentences` pairs of each.

        DataError: a file is missing or wrong. RunError: the run has no weights yet, or a file is damaged.
        """
        sets = []
        for name, corpus in split_of(self.config, split):
            if only is None or name in only:
                pairs, n_lines = read_pairs(corpus), sum(1 for _ in corpus.pairs())
                files = files_of(self.config, split, name)
                chosen = pairs[:max_sentences]
                sets.append(self.translated(name, chosen, split=split, files=files, n_lines=n_lines))
                if len(chosen) == len(pairs) and self._translated_now:
                    evaluation = replace(sets[-1].evaluation, name=self.config.labelled(name))
                    try:
                        keep_scores(self.run, [evaluation.record()])
                    except RunError as error:
                        self.request.say(f"not kept: {error}")
        return sets

    def translated(
        self, name: str, pairs: Sequence[Pair], *, split: str, files: CorpusFiles, n_lines: int
    ) -> TranslatedSet:
        """Return the set of `pairs`, from the run's folder or translated now, and then kept there."""
        fingerprint = self._fingerprint(pairs)
        place = kept_name(split, self.config.labelled(name))
        sources, references = tuple(pair.src for pair in pairs), tuple(pair.tgt for pair in pairs)
        kept = KeptSet.read(self.run, place, fingerprint)
        texts = kept and (len(kept.evaluation.hypotheses), kept.evaluation.references)
        if texts != (len(pairs), references):
            kept = None  # there is none, or it is damaged
        self._translated_now = kept is None
        if kept is None:
            self.request.say(f"{self.run.path}: translating {name}, {counted(len(pairs), 'sentence')}")
            now = evaluate(
                self.translator, name, pairs, progress=lambda done: self.request.progress(done, len(pairs))
            )
            date = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
            kept = KeptSet(fingerprint=fingerprint, evaluation=now, commit=commit(), date=date)
            kept.write(self.run, place, self.request.say)
        evaluation = with_given_scores(self.run, sources, kept.evaluation)
        return TranslatedSet(evaluation, kept, sources, tuple(files), n_lines)

    def altered(self, kept: TranslatedSet) -> list[Altered]:
        """Return what alterations of a set do to its translations, kept in the run or translated now."""
        pairs = list(map(Pair, kept.sources, kept.evaluation.references))
        fingerprint = hash_strings("altered", str(N_ALTERED), self._fingerprint(pairs))
        place = kept_name("altered", self.config.labelled(kept.name))
        record = _KeptAlterations.read(self.run, place, fingerprint)
        if record is None or not record.rows:
            self.request.say(f"{self.run.path}: translating {kept.name}, altered")
            rows = robustness(self.translator, kept.name, pairs, n_pairs=N_ALTERED).rows
            record = _KeptAlterations(fingerprint=fingerprint, rows=rows)
            record.write(self.run, place, self.request.say)
        return list(record.rows)

    def _fingerprint(self, pairs: Sequence[Pair]) -> str:
        """Return a hash of all that translations and scores depend on. RunError: there are no weights yet."""
        if not self._model_hash:
            precision, device = self.request.precision, None
            if not on_processor(self.request.device):
                device = find_device(self.request.device)
            dtype = precision if precision == "int8" else choose_precision(precision, device)
            settings = self.config.model_dump_json(include={"model", "search", "tokenizer", "data"})
            numbers = [versions()[name] for name in ("dragoman", "sacrebleu", "torch")]
            facts = (*numbers, "cpu" if device is None else device.type, dtype)
            self._model_hash = hash_strings(model_hash(self.run), settings, *map(str, facts))
        return hash_strings(self._model_hash, *(text for pair in pairs for text in pair))


def files_of(config: TranslationConfig, split: str, name: str) -> CorpusFiles:
    """Return the files of a set as the run names them; none for pairs that were held out."""
    if split == "test":
        return file_names(config.data.test[name])
    valid = [
        one.valid for one in config.data.corpora if config.data.choose_by and name == f"valid {one.name}"
    ]
    return file_names(valid[0] if valid else config.data.valid)


def kept_name(split: str, name: str) -> str:
    """Return a safe file name for a set; different sets have different names."""
    plain = re.sub(r"[^\w-]", "_", name)[:60]
    mark = "" if plain == name else "-" + hashlib.blake2b(name.encode(), digest_size=4).hexdigest()
    return f"{split}-{plain}{mark}.json"


OWN_NAMES = ("bleu", "chrf", "chrf2", "ter")
NAME = re.compile(r"[\w.+@-]{1,40}")


def read_given_scores(options: Sequence[str], sizes: Mapping[str, int]) -> dict[str, list[SentenceScores]]:
    """Read the files of `options`, each NAME=FILE, and return their scores by test set.

    `sizes` has the number of sentences of each test set. A name is given once for each of them, in order.

    Raises:
        ConfigError: an option is malformed, its name is one of Dragoman's metrics, or files are missing.
        DataError: a file cannot be read, a line is not a number, or their count is not that of the sentences.
    """
    files: dict[str, list[str]] = {}
    for option in options:
        name, _, file = option.partition("=")
        if not NAME.fullmatch(name) or not file:
            raise ConfigError(
                f"--scores {option}: write NAME=FILE, as in comet=comet.txt; a name has up to 40 letters, "
                "digits and . _ + @ -"
            )
        if name.lower() in OWN_NAMES:
            raise ConfigError(f"--scores {option}: Dragoman computes {name} itself; choose another name")
        files.setdefault(name, []).append(file)
    by_test: dict[str, list[SentenceScores]] = {test: [] for test in sizes}
    for name, named in files.items():
        if len(named) != len(sizes):
            raise ConfigError(
                f"--scores {name}: number of files {len(named)}, of test sets {len(sizes)}; give {name}=FILE "
                f"once for each test set, in this order: {', '.join(sizes)}"
            )
        for file, (test, n_sentences) in zip(named, sizes.items(), strict=True):
            values = tuple(read_scores(find_file(file)))
            if len(values) != n_sentences:
                raise DataError(
                    f"{file} has {counted(len(values), 'line')} and {test} "
                    f"{counted(n_sentences, 'sentence')}; give one number for each sentence, in order"
                )
            for number, value in enumerate(values, start=1):
                if math.isnan(value):
                    raise DataError(f"{file} line {number}: has no number; every sentence needs one")
            by_test[test].append(SentenceScores(name, values))
    return by_test


class _KeptScores(KeptRecord):
    scores: tuple[SentenceScores, ...]
    """In runs of version 0.2 also those of COMET and BERTScore that it computed itself, times 100."""


def with_given_scores(
    run: Run,
    sources: Sequence[str],
    evaluation: TranslationScores,
    new_scores: Sequence[SentenceScores] = (),
    listen: Callable[[str], None] = lambda message: None,
) -> TranslationScores:
    """Return the evaluation with `new_scores`, and those kept for the same translations before.

    New scores are kept in the run, in place of those of the same name; `listen` is told if they cannot be.
    """
    fingerprint = hash_strings(*sources, "\0", *evaluation.hypotheses, "\0", *evaluation.references)
    place = f"scores-{fingerprint[:16]}.json"
    record = _KeptScores.read(run, place, fingerprint)
    scores = {one.name: one for one in record.scores} if record else {}
    if not all(name == printable(name) and len(one.values) == len(sources) for name, one in scores.items()):
        scores = {}  # damaged
    scores |= {one.name: one for one in new_scores}
    if new_scores:
        _KeptScores(fingerprint=fingerprint, scores=tuple(scores.values())).write(run, place, listen)
    return evaluation.with_given([scores[name] for name in sorted(scores)])
