"""COMET and BERTScore of a run's translations: scored once, and kept in its folder `report/`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from dragoman.data.readers.files import hash_strings
from dragoman.errors import RunError, printable
from dragoman.evaluation.scores import KeptRecord
from dragoman.evaluation.translation import Evaluation
from dragoman.metrics.learned import LearnedMetric, SentenceScores
from dragoman.runs import Run


def model_scores(
    run: Run,
    sources: Sequence[str],
    evaluation: Evaluation,
    *,
    tgt_lang: str,
    metrics: Sequence[LearnedMetric],
    listen: Callable[[str], None] = lambda message: None,
) -> list[SentenceScores]:
    """Return the scores that are kept of these translations, and those of `metrics`, computed if not kept.

    Scores of another model or version are computed again. Errors as for `LearnedMetric.facts`.
    """
    fingerprint = hash_strings(*sources, "\0", *evaluation.hypotheses, "\0", *evaluation.references)
    place = f"scores-{fingerprint[:16]}.json"
    kept = {one.name: one for one in _read(run, place, fingerprint, len(sources))}
    before = dict(kept)
    for metric in metrics:
        facts = metric.facts(tgt_lang)
        name = metric.name(facts)
        if name not in kept or kept[name].facts != facts:
            listen(f"{run.path}: scoring {evaluation.name} by {name}, {len(sources):,} sentences")
            kept[name] = metric.score(
                sources, evaluation.hypotheses, evaluation.references, language=tgt_lang
            )
    if kept != before:
        try:
            _KeptScores(fingerprint=fingerprint, scores=tuple(kept.values())).write(run, place)
        except RunError as error:
            listen(f"not kept: {error}")
    return [kept[name] for name in sorted(kept)]


class _KeptScores(KeptRecord):
    scores: tuple[SentenceScores, ...]


def _read(run: Run, place: str, fingerprint: str, n_sentences: int) -> Sequence[SentenceScores]:
    """Return the scores in a file of the run, if it is whole and of these texts."""
    kept = _KeptScores.read(run, place, fingerprint)
    if kept is None or not all(
        len(one.values) == n_sentences
        and all(map(math.isfinite, one.values))
        and all(printable(text) == text for text in (one.name, *one.facts, *one.facts.values()))
        for one in kept.scores
    ):
        return ()
    return kept.scores
