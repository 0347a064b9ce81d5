"""Translation metrics: sacreBLEU's BLEU, chrF and TER, with signatures; means of numbers of other tools."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics import base
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF, CHRFScore
from sacrebleu.metrics.ter import TER, TERScore

from dragoman.errors import DataError, check_texts
from dragoman.metrics.score import SEED, Score

_CHINESE = frozenset({"zh", "zho", "chi", "cmn", "yue"})
_JAPANESE = frozenset({"ja", "jpn"})
_KOREAN = frozenset({"ko", "kor"})
_UNSPACED = frozenset({"th", "tha", "lo", "lao", "km", "khm", "my", "mya", "bo", "bod"})

LOWER_CASED = "(lower-cased)"
"""The end of the name of `tokenised_lowercased_bleu`."""

_seed_lock = threading.Lock()


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    tgt_lang: str,
    n_bootstrap: int = 1000,
    seed: int = SEED,
) -> Score:
    """Corpus BLEU of detokenised text, cased (Papineni et al. 2002; Post 2018).

    The tokenisation follows the target language: "zh" for Chinese, "char" for other languages written
    without spaces and for Korean (sacreBLEU's MeCab tokenisers for Japanese and Korean need packages that
    are not always there, and a score must not depend on what is installed), "13a" for all others.
    DataError: no sentences, or different numbers of them.
    """
    return _score(BLEU(tokenize=_tokenisation(tgt_lang)), hypotheses, references, n_bootstrap, seed)


def chrf(
    hypotheses: Sequence[str], references: Sequence[str], *, tgt_lang: str, n_bootstrap: int = 1000
) -> Score:
    """chrF2: F-score of character n-grams up to 6, recall counting twice (Popović 2015); for any language.

    DataError: as in `bleu`.
    """
    return _score(_FloatCHRF(), hypotheses, references, n_bootstrap)


def sentence_chrf(hypothesis: str, reference: str) -> float:
    """chrF2 of a single sentence, 0 to 100: for sorting sentences out, not for comparing systems."""
    return float(CHRF().sentence_score(hypothesis, [reference]).score)


def tokenised_lowercased_bleu(
    hypotheses: Sequence[str], references: Sequence[str], *, tgt_lang: str, n_bootstrap: int = 1000
) -> Score:
    """BLEU with case ignored: what comes closest to the figures of papers about Multi30k. Not for others.

    They report multi-bleu.perl on text that was lower-cased, normalised in punctuation and tokenised with
    the Moses scripts, hyphens left alone (multi30k/dataset, scripts/task1-tokenize.sh). Here plain text
    is lower-cased and tokenised by "13a", which also leaves hyphens within words alone; "intl" would split
    them into words of their own, and raise the score. What differs from Moses is rare in captions:
    13a does not split at apostrophes ("man's", "l'homme"), nor does it normalise curly quotes.
    DataError: as in `bleu`.
    """
    metric = BLEU(tokenize=_tokenisation(tgt_lang), lowercase=True)
    score = _score(metric, hypotheses, references, n_bootstrap)
    return Score(f"{score.name} {LOWER_CASED}", score.value, score.signature, score.interval)


def score_all(
    hypotheses: Sequence[str], references: Sequence[str], *, tgt_lang: str, n_bootstrap: int = 1000
) -> list[Score]:
    """BLEU, chrF2 and TER of detokenised text, in this order. DataError: as in `bleu`.

    TER is the translation edit rate: edits and shifts per 100 reference words, case-insensitive; lower is
    better. Chinese and Japanese are split into characters, as Tercom's Asian support does, and other
    languages written without spaces as BLEU does. It is the slowest of the three: about 2 ms a sentence.
    """
    return [_score(metric, hypotheses, references, n_bootstrap) for metric in metrics_for(tgt_lang)]


def metrics_for(tgt_lang: str) -> list[Metric]:
    """sacreBLEU's metrics as `score_all` computes them: BLEU, chrF2 and TER."""
    language = _primary(tgt_lang)
    is_asian = language in _CHINESE | _JAPANESE
    ter = _CharacterTER() if language in _UNSPACED else _FloatTER(normalized=is_asian, asian_support=is_asian)
    return [BLEU(tokenize=_tokenisation(tgt_lang)), _FloatCHRF(), ter]


@dataclass(frozen=True)
class SentenceScores:
    """A score of another tool: the mean of the numbers that it gives the sentences."""

    name: str
    values: tuple[float, ...]
    """One number for each sentence, on the tool's scale."""

    def score(self) -> Score:
        """Return the mean, with a bootstrap interval."""
        return _score(MeanMetric(self.name), self.texts, [""] * len(self.values), 1000)

    @property
    def texts(self) -> list[str]:
        """The values as `MeanMetric` reads them."""
        return list(map(repr, self.values))


class MeanMetric(Metric):
    """The mean of numbers, as a metric that sacreBLEU can resample. A hypothesis is a number."""

    def __init__(self, name: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.name = name
        self.num_refs = None  # type: ignore[assignment] # not known here, and so not in the signature

    def get_signature(self) -> base.Signature:
        """Return sacreBLEU's signature of the resampling; what gave the numbers is not known."""
        signature = super().get_signature()
        signature.update("numbers", "given")
        return signature

    def _extract_corpus_statistics(
        self, hypotheses: Sequence[str], references: Sequence[Sequence[str]] | None
    ) -> list[list[float]]:
        return [[float(number), 1.0] for number in hypotheses]

    def _aggregate_and_compute(self, stats: Any) -> base.Score:
        return self._compute_score_from_stats(np.asarray(stats, dtype=np.float64).sum(0))

    def _compute_score_from_stats(self, stats: npt.NDArray[np.float64] | list[Any]) -> base.Score:
        return base.Score(self.name, float(stats[0] / stats[1]))

    def _preprocess_segment(self, sent: str) -> str:
        raise NotImplementedError

    _extract_reference_info = _compute_segment_statistics = _preprocess_segment  # type: ignore[assignment]


def words(text: str, *, lang: str) -> list[str]:
    """Return the words of `text` as BLEU counts them in this language; punctuation is separate."""
    return str(_tokenizer(_tokenisation(lang))(text)).split()


@cache
def _tokenizer(tokenisation: str) -> Any:
    return BLEU(tokenize=tokenisation).tokenizer


class _FloatCHRF(CHRF):
    """chrF whose bootstrap survives resamples that score 0.

    sacreBLEU 2.6 scores those with a float and all others with an np.float32, which have no common mean.
    """

    def _compute_score_from_stats(self, stats: Sequence[float]) -> CHRFScore:
        counts: Any = [float(count) for count in stats]  # they call them integers
        return super()._compute_score_from_stats(counts)


class _FloatTER(TER):
    """The same for TER, and resamples of empty references."""

    def _compute_score_from_stats(self, stats: Sequence[float]) -> TERScore:
        return super()._compute_score_from_stats([float(count) for count in stats])


class _CharacterTER(_FloatTER):
    """The same of characters, each of which is a word."""

    def __init__(self) -> None:
        super().__init__()
        self.tokenizer_signature = "char"

    def _preprocess_segment(self, sent: str) -> str:
        return str(_tokenizer("char")(super()._preprocess_segment(sent)))


def _primary(language: str) -> str:
    """Return the language in a code such as "zh-Hans", "zh_CN" or "zho_Hans"."""
    return language.lower().replace("_", "-").partition("-")[0]


def _tokenisation(tgt_lang: str) -> str:
    """sacreBLEU's name of the tokenisation for a target language."""
    language = _primary(tgt_lang)
    if language in _CHINESE:
        return "zh"
    return "char" if language in _JAPANESE | _KOREAN | _UNSPACED else "13a"


def _score(
    metric: Metric, hypotheses: Sequence[str], references: Sequence[str], n_bootstrap: int, seed: int = SEED
) -> Score:
    """Return the score of `metric`, with an interval if n_bootstrap > 1."""
    check_sentences(hypotheses, references)
    with bootstrap_seed(seed):
        result = metric.corpus_score(list(hypotheses), [list(references)], n_bootstrap=n_bootstrap)
    mean, half = result._mean, result._ci  # its public form has neither if the mean is not above 0
    interval = (mean - half, mean + half) if n_bootstrap > 1 else None
    return Score(str(result.name), float(result.score), metric.get_signature().format(), interval)


def check_sentences(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """DataError: there are no sentences, other things than texts, or fewer translations than references."""
    check_texts(hypotheses, what="translation")
    check_texts(references, what="reference")
    if len(hypotheses) != len(references):
        raise DataError(
            f"there are {len(hypotheses)} translations and {len(references)} references; "
            "scoring needs one reference line for every translation"
        )
    if not hypotheses:
        raise DataError("there is nothing to score: 0 translations and 0 references")


@contextmanager
def bootstrap_seed(seed: int) -> Iterator[None]:
    """Give sacreBLEU its seed in the one way it has, the environment, and take it back."""
    with _seed_lock:
        before = os.environ.get("SACREBLEU_SEED")
        os.environ["SACREBLEU_SEED"] = str(seed)
        try:
            yield
        finally:
            if before is None:
                del os.environ["SACREBLEU_SEED"]
            else:
                os.environ["SACREBLEU_SEED"] = before
