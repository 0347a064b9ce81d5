"""Evaluate a translator on test sets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from dragoman.config import TranslationConfig
from dragoman.data.named import open_direction, open_text, open_validation
from dragoman.data.records import Corpus, Pair, has_text
from dragoman.errors import DataError, counted
from dragoman.evaluation.scores import describe_settings, scores_table
from dragoman.metrics.score import Score
from dragoman.metrics.translation import LOWER_CASED, SentenceScores, score_all, tokenised_lowercased_bleu
from dragoman.notebook import Shown, table_of
from dragoman.predict.translator import Translator


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

    def _repr_html_(self) -> str:
        caption = (
            f"{self.name} · {counted(len(self.hypotheses), 'sentence')} · beam {self.beam_size} · "
            f"length penalty {self.length_penalty:g} · {self.seconds:.1f} s"
        )
        return table_of(self.scores, caption=caption)

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
        heading = (
            f"{self.name} · {counted(len(self.hypotheses), 'sentence')} · beam {self.beam_size} · "
            f"length penalty {self.length_penalty:g}{describe_settings(self.other_settings)}"
        )
        return f"{heading}\n{scores_table(self.scores)}"

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


def scores_of(hypotheses: Sequence[str], references: Sequence[str], *, tgt_lang: str) -> list[Score]:
    """BLEU, chrF2, TER with their intervals, and the BLEU of papers about Multi30k."""
    return Shown(
        [
            *score_all(hypotheses, references, tgt_lang=tgt_lang),
            tokenised_lowercased_bleu(hypotheses, references, tgt_lang=tgt_lang),
        ]
    )


def split_of(config: TranslationConfig, split: str) -> Iterator[tuple[str, Corpus]]:
    """Yield the corpora of "test" or "valid" by name; without valid files, the part held out of train.

    With `data.choose_by` there is one validation text for each corpus, as "valid news".

    DataError: a file is missing.
    """
    data = config.data
    if split == "valid" and data.choose_by:
        yield from ((f"valid {part.name}", part.corpus) for part in open_validation(config))
        return
    named = dict(data.test) if split == "test" else {"valid": data.valid} if data.valid else {}
    for name, files in named.items():
        yield name, open_text(data, files)
    if split == "valid" and not named:
        yield "valid", open_direction(config)[1]


def read_pairs(corpus: Corpus) -> list[Pair]:
    """Return the pairs to score: all pairs of the test set, except those that are empty on both sides.

    Raises:
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
