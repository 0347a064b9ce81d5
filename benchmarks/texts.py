"""Texts that benchmarks translate, and the scores of what comes out."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from dragoman.config import TranslationConfig
from dragoman.data.records import Pair
from dragoman.metrics.translation import bleu, chrf
from dragoman.predict.model import translation_config
from dragoman.runs import Run
from dragoman.tasks.translation.evaluation import read_pairs, split_of


def files_of(corpus: str, split: str, langs: Sequence[str] = ("en", "de")) -> list[str]:
    """Return the names of the files of a corpus in $DRAGOMAN_DATA, one a language."""
    return [f"{corpus}/{split}.{lang}.gz" for lang in langs]


def valid_pairs(config: TranslationConfig, limit: int = 0, seed: int = 0) -> list[Pair]:
    """Return the validation pairs of a run, or `limit` of them drawn at random."""
    pairs = [pair for _, corpus in split_of(config, "valid") for pair in read_pairs(corpus)]
    return random.Random(seed).sample(pairs, min(limit, len(pairs))) if limit else pairs


def test_set(run: Path, limit: int) -> tuple[list[str], list[str], str]:
    """Sources and references of the run's first test set, and the language of the references."""
    config = translation_config(Run.open(run))
    pairs = read_pairs(next(corpus for _, corpus in split_of(config, "test")))[:limit]
    return [pair.src for pair in pairs], [pair.tgt for pair in pairs], config.data.tgt_lang


def bleu_of(texts: Sequence[str], references: Sequence[str], lang: str) -> float:
    return bleu(texts, references, tgt_lang=lang, n_bootstrap=0).value


def chrf_of(texts: Sequence[str], references: Sequence[str], lang: str) -> float:
    return chrf(texts, references, tgt_lang=lang, n_bootstrap=0).value
