"""Score the translations of a parallel corpus by a model (forced decoding): as resumable as a translation."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from dragoman.bulk.input import Chunk, Input, share_of
from dragoman.bulk.job import Done, Job, by_reason
from dragoman.config import Column
from dragoman.data.corpora import DEFAULT_COLUMNS, PHRASEBOOK, open_corpus
from dragoman.data.readers.files import find_file
from dragoman.data.readers.tables import HUB
from dragoman.data.records import Corpus
from dragoman.predict.scoring import BATCH_TOKENS, EMPTY, TokenScores, perplexity, score_pairs
from dragoman.predict.translator import Translator
from dragoman.text.tokenizer import TokenizerPair

BETWEEN = "\0"
"""Stands between source and target in a line of a chunk; no reader of corpora lets it through."""
TOKENS, MICRONATS = "tokens", "micronats"
"""Keys of totals in the counts of a scoring: scored tokens, and their log-probability in 1e-6 nats."""


class ScoredPair(NamedTuple):
    """A pair of a corpus with its number, counted from 1, and its score."""

    number: int
    source: str
    target: str
    score: TokenScores


WritePair = Callable[[ScoredPair, TokenizerPair], str]
"""Returns the output lines of a pair, line ends included; a module-level function."""


def as_mean(pair: ScoredPair, tokenizers: TokenizerPair) -> str:
    """Return the mean log-probability of a token; an empty line for a pair without a score."""
    mean = pair.score.mean
    return "\n" if mean is None else f"{mean:.4f}\n"


def as_row(pair: ScoredPair, tokenizers: TokenizerPair) -> str:
    """Return number, log-probability, perplexity and tokens of a pair; no values for one without a score."""
    score, n_tokens = pair.score, len(pair.score.log_probs)
    values = f"{score.log_prob:.4f}\t{perplexity(score.log_prob, n_tokens):.4f}" if n_tokens else "\t"
    return f"{pair.number}\t{values}\t{n_tokens}\n"


def as_json(pair: ScoredPair, tokenizers: TokenizerPair) -> str:
    """Return a line of JSON, with the tokens; log-probability and perplexity are null without a score."""
    score, n_tokens = pair.score, len(pair.score.log_probs)
    record = {
        "source": pair.source,
        "target": pair.target,
        "log_prob": score.log_prob if n_tokens else None,
        "perplexity": perplexity(score.log_prob, n_tokens) if n_tokens else None,
        "n_tokens": n_tokens,
        **({"without_score": score.fault} if score.fault else {}),
        "tokens": [
            {"token": piece, "log_prob": value} for piece, value in score.tokens(tokenizers.tgt, pair.target)
        ],
    }
    return f"{json.dumps(record, ensure_ascii=False)}\n"


@dataclass(frozen=True)
class PairsInput(Input):
    """A parallel corpus: a file of pairs, or two aligned files, as `open_corpus` takes them."""

    paths: tuple[Path, ...] = ()
    columns: tuple[Column, Column] = DEFAULT_COLUMNS

    @classmethod
    def of_files(
        cls, *names: str, languages: tuple[str, str], columns: tuple[Column, Column] = DEFAULT_COLUMNS
    ) -> PairsInput:
        """Find the files of a corpus in these languages; those of stores are copied.

        DataError: one is missing.
        """
        paths = tuple(Path(name) if name.startswith((PHRASEBOOK, HUB)) else find_file(name) for name in names)
        name = " + ".join(map(str, paths))
        return cls(name, paths[0], languages=languages, paths=paths, columns=columns)

    @property
    def files(self) -> list[Path]:
        return list(self.paths)

    def corpus(self) -> Corpus:
        """Open the corpus. Errors: those of `open_corpus`."""
        names, (src_lang, tgt_lang) = list(map(str, self.paths)), self.languages
        return open_corpus(names, src_lang=src_lang, tgt_lang=tgt_lang, columns=self.columns)

    def _lines(self) -> tuple[Iterable[Iterable[str]], Callable[[int], float]]:
        corpus = self.corpus()
        lines = (f"{src}{BETWEEN}{tgt}" for src, tgt in corpus.pairs())
        return [lines], share_of(self.path, corpus.position)


@dataclass(frozen=True)
class ScoringJob(Job):
    """A corpus to be scored by a run. A pair that cannot be scored keeps its line, and is counted."""

    write: WritePair = as_mean
    batch_tokens: int = BATCH_TOKENS
    noun: ClassVar[str] = "pairs"

    def remarks(self, counts: Mapping[str, int], *, n_lines: int) -> list[str]:
        """Describe the pairs without a score, and the totals, by the `counts` of all chunks."""
        faults = dict(counts)
        n_tokens, log_prob = faults.pop(TOKENS, 0), faults.pop(MICRONATS, 0) / 1e6
        totals = (
            f"{n_lines:,} pairs · {n_tokens:,} tokens · log-probability {log_prob:.1f} nats · "
            f"perplexity {perplexity(log_prob, n_tokens):.3f}"
        )
        return [*([f"without a score: {by_reason(faults, n_lines=n_lines)}"] if faults else []), totals]

    def described(self) -> dict[str, Any]:
        """Return all that the scores depend on, except the input; errors as for a translation."""
        self.model.config()  # complains
        return {
            "scored": self.write.__name__, "batch_tokens": self.batch_tokens, **self.model.described()
        }  # fmt: skip

    def _done(self, chunk: Chunk, translator: Translator, progress: Callable[[int], None]) -> Done:
        """Score a chunk; `progress` receives the number of pairs that are scored."""
        sources, _, targets = zip(*(line.partition(BETWEEN) for line in chunk.lines), strict=True)
        scores = score_pairs(translator, sources, targets, batch_tokens=self.batch_tokens, progress=progress)
        counts = Counter(f"with {score.fault or EMPTY}" for score in scores if not score.log_probs)
        counts[TOKENS] = sum(len(score.log_probs) for score in scores)
        counts[MICRONATS] = round(1e6 * sum(score.log_prob for score in scores))
        pairs = map(ScoredPair, range(chunk.first_number, 2**63), sources, targets, scores)
        return Done(self.framed("".join(self.write(pair, translator.tokenizers) for pair in pairs)), counts)
