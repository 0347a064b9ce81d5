"""Evaluate a translator on test sets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from dragoman.config import TranslationConfig
from dragoman.data.named import open_direction, open_text, open_validation
from dragoman.data.records import Corpus, Pair, has_text
from dragoman.errors import ConfigError, DataError, counted
from dragoman.evaluation.scores import describe_settings, scores_table
from dragoman.hardware import prepare_for_translating
from dragoman.metrics.score import Score
from dragoman.metrics.translation import LOWER_CASED, SentenceScores, score_all, tokenised_lowercased_bleu
from dragoman.notebook import Shown, table_of
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from dragoman.tasks.request import EvaluationRequest
from dragoman.tasks.task import check_precision


@dataclass(frozen=True)
class TranslationScores:
    """The translations of one test set, and how good they are."""

    name: str
    hypotheses: tuple[str, ...]
    references: tuple[str, ...]
    scores: tuple[Score, ...]
    beam_size: int
    length_penalty: float
    seconds: float
    """Time spent on translating, scoring excluded."""
    other_settings: Mapping[str, Any] = field(default_factory=dict)
    """What was searched otherwise than the run says, beside the beam and the length penalty."""
    by_sentence: tuple[SentenceScores, ...] = ()
    """Scores of other tools, whose means are the last of `scores`."""

    @property
    def main_scores(self) -> tuple[Score, ...]:
        """The scores that systems are compared by: all but the BLEU of papers about Multi30k."""
        return tuple(score for score in self.scores if not score.name.endswith(LOWER_CASED))

    def with_given(self, by_sentence: Sequence[SentenceScores]) -> TranslationScores:
        """Return the evaluation with these scores of other tools only."""
        computed = self.scores[: len(self.scores) - len(self.by_sentence)]
        scores = (*computed, *(one.score() for one in by_sentence))
        return replace(self, scores=scores, by_sentence=tuple(by_sentence))

    @property
    def sentences_per_second(self) -> float:
        return len(self.hypotheses) / max(self.seconds, 1e-9)

    @property
    def heading(self) -> str:
        """The test set, its size, and how it was searched."""
        n_sentences = counted(len(self.hypotheses), "sentence")
        search = f"beam {self.beam_size} · length penalty {self.length_penalty:g}"
        return f"{self.name} · {n_sentences} · {search}"

    def _repr_html_(self) -> str:
        return table_of(self.scores, caption=f"{self.heading} · {self.seconds:.1f} s")

    def record(self) -> dict[str, Any]:
        """Return the record for scores.json."""
        return {
            "name": self.name,
            "n_sentences": len(self.hypotheses),
            "beam_size": self.beam_size,
            "length_penalty": self.length_penalty,
            **({"search": dict(self.other_settings)} if self.other_settings else {}),
            "seconds": self.seconds,
            "sentences_per_second": self.sentences_per_second,
            "scores": [asdict(score) for score in self.scores],
        }

    def describe(self) -> str:
        """Return a heading and the table of scores."""
        return f"{self.heading}{describe_settings(self.other_settings)}\n{scores_table(self.scores)}"

    def lines(self) -> Iterable[str]:
        """Return the translations."""
        return self.hypotheses

    def part(self, name: str, indices: Sequence[int], *, tgt_lang: str) -> TranslationScores:
        """Return our own scores of the sentences at `indices` alone; the time is their share."""
        hypotheses = tuple(self.hypotheses[i] for i in indices)
        references = tuple(self.references[i] for i in indices)
        return replace(
            self,
            name=name,
            hypotheses=hypotheses,
            references=references,
            scores=tuple(scores_of(hypotheses, references, tgt_lang=tgt_lang)),
            seconds=self.seconds * len(indices) / len(self.hypotheses),
            by_sentence=(),
        )


def evaluate(
    translator: Translator,
    name: str,
    pairs: Sequence[Pair],
    *,
    settings: Mapping[str, Any] | None = None,
    progress: Callable[[int], None] | None = None,
) -> TranslationScores:
    """Return the translations of the sources of `pairs`, scored against the targets.

    `settings` are those of [search] that are not the run's own. DataError: there is no pair. ConfigError: a
    setting is wrong.
    """
    config = translator.config
    other_settings = dict(settings or {})
    beam_size = other_settings.pop("beam_size", config.search.beam_size)
    length_penalty = other_settings.pop("length_penalty", config.search.length_penalty)
    search = {"beam_size": beam_size, "length_penalty": length_penalty, "n_best": 1, **other_settings}
    start = time.perf_counter()
    translations = translator.translate([pair.src for pair in pairs], progress=progress, **search)
    seconds = time.perf_counter() - start
    hypotheses = tuple(translation.text for translation in translations)
    references = tuple(pair.tgt for pair in pairs)
    scores = scores_of(hypotheses, references, tgt_lang=config.data.tgt_lang)
    return TranslationScores(
        name, hypotheses, references, tuple(scores), beam_size, length_penalty, seconds, other_settings
    )


def load_translator(run: Run, request: EvaluationRequest) -> Translator:
    """Load a translator with all its directions, as is requested. ConfigError: unknown precision."""
    check_precision(request.precision)
    prepare_for_translating()
    paths = [run.path, *request.ensemble]
    translator = Translator.load(paths, device=request.device, precision=request.precision)
    if request.batch_sentences is not None:
        config = translator.config
        search = config.search.model_copy(update={"batch_sentences": request.batch_sentences})
        translator.config = config.model_copy(update={"search": search})
    return translator


def scores_of(hypotheses: Sequence[str], references: Sequence[str], *, tgt_lang: str) -> list[Score]:
    """BLEU, chrF2, TER with their intervals, and the BLEU of papers about Multi30k."""
    return Shown(
        [
            *score_all(hypotheses, references, tgt_lang=tgt_lang),
            tokenised_lowercased_bleu(hypotheses, references, tgt_lang=tgt_lang),
        ]
    )


def is_other_text(request: EvaluationRequest) -> bool:
    """Whether other text than the run's own is named. ConfigError: one side, or also a split of the run."""
    one_alone = (request.src is None) != (request.ref is None)
    if one_alone or (request.src is not None and request.split is not None):
        raise ConfigError("give --src and --ref together and without --split, or none of them")
    return request.src is not None


def split_of(config: TranslationConfig, split: str) -> Iterator[tuple[str, Corpus]]:
    """Yield the corpora of "test" or "valid" by name; without valid files, the part held out of train.

    With `data.choose_by` there is one validation text for each corpus, as "valid news". DataError: a file is
    missing.
    """
    data = config.data
    if split == "valid" and data.choose_by:
        yield from ((f"valid {part.name}", part.corpus) for part in open_validation(config))
        return
    for name, files in (data.test if split == "test" else {"valid": data.valid}).items():
        yield name, open_text(data, files) if files else open_direction(config)[1]


def read_pairs(corpus: Corpus) -> list[Pair]:
    """Return the pairs to score: all pairs of the test set, except those that are empty on both sides.

    DataError: exactly one side of a pair is empty.
    """
    pairs = []
    for number, pair in enumerate(corpus.pairs(), start=1):
        if has_text(pair):
            pairs.append(pair)
        elif pair.src.strip() or pair.tgt.strip():
            side = "target" if pair.src.strip() else "source"
            raise DataError(
                f"{corpus.name}, pair {number}: the {side} is empty; a test set needs text on both sides"
            )
    return pairs
