"""Score the translations of a parallel corpus by a model (forced decoding): as resumable as a translation."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from dragoman.bulk.job import CHUNK_LINES, Chunk, Done, Job, as_steps, by_reason, cut
from dragoman.bulk.output import Lines, Output, as_line
from dragoman.data.corpora import DEFAULT_COLUMNS, Corpus, open_corpus
from dragoman.data.readers.files import compressed
from dragoman.data.readers.tables import Column
from dragoman.predict.scoring import BATCH_TOKENS, EMPTY, TokenScores, perplexity, score_pairs
from dragoman.processes import Tick
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
    score = pair.score
    if score.mean is None:
        return f"{pair.number}\t\t\t0\n"
    n_tokens = len(score.log_probs)
    return f"{pair.number}\t{score.log_prob:.4f}\t{perplexity(score.log_prob, n_tokens):.4f}\t{n_tokens}\n"


def as_token_rows(pair: ScoredPair, tokenizers: TokenizerPair) -> str:
    """Return a line per token: number of the pair, token, log-probability."""
    tokens = pair.score.tokens(tokenizers.tgt, pair.target)
    return "".join(f"{pair.number}\t{piece}\t{value:.4f}\n" for piece, value in tokens)


def as_json(pair: ScoredPair, tokenizers: TokenizerPair) -> str:
    """Return a line of JSON; its log-probability and perplexity are null without a score."""
    return f"{json.dumps(_record(pair), ensure_ascii=False)}\n"


def as_json_tokens(pair: ScoredPair, tokenizers: TokenizerPair) -> str:
    """Return a line of JSON with the tokens."""
    tokens = pair.score.tokens(tokenizers.tgt, pair.target)
    record = _record(pair) | {"tokens": [{"token": piece, "log_prob": value} for piece, value in tokens]}
    return f"{json.dumps(record, ensure_ascii=False)}\n"


def _record(pair: ScoredPair) -> dict[str, Any]:
    score, n_tokens = pair.score, len(pair.score.log_probs)
    return {
        "source": pair.source,
        "target": pair.target,
        "log_prob": None if score.mean is None else score.log_prob,
        "perplexity": None if score.mean is None else perplexity(score.log_prob, n_tokens),
        "n_tokens": n_tokens,
        **({"without_score": score.fault} if score.fault else {}),
    }


@dataclass(frozen=True)
class ScoringJob(Job):
    """A parallel corpus to be scored by a run.

    `source` is a file of pairs, or with `target` one of two aligned files; both as `open_corpus` takes them.
    A pair that cannot be scored keeps its line, and is counted.
    """

    output: Output = field(default_factory=partial(Lines, as_line))
    target: Path | None = None
    columns: tuple[Column, Column] = DEFAULT_COLUMNS
    write: WritePair = as_mean
    batch_tokens: int = BATCH_TOKENS
    noun: ClassVar[str] = "pairs"

    @property
    def inputs(self) -> tuple[Path, ...]:
        """The files that are read, apart from the runs."""
        return (self.source,) if self.target is None else (self.source, self.target)

    def corpus(self) -> Corpus:
        """Open the corpus, in the languages of the run. Errors: those of `open_corpus` and `Job.config`."""
        src_lang, tgt_lang = self.config().languages
        files = list(map(str, self.inputs))
        return open_corpus(files, src_lang=src_lang, tgt_lang=tgt_lang, columns=self.columns)

    def size(self) -> int:
        """Return the stored bytes of `source`; 0 = it is not a file."""
        return self.source.stat().st_size if self.source.is_file() else 0

    def chunks(self, *, n_done: int = 0, digest: str = "", chunk_lines: int = CHUNK_LINES) -> Iterator[Chunk]:
        """Cut the corpus into chunks; parameters and errors are those of `stream.cut`."""
        corpus = self.corpus()
        lines = (f"{src}{BETWEEN}{tgt}" for src, tgt in corpus.pairs())
        return cut(
            lines, name=corpus.name, position=corpus.position, n_done=n_done, digest=digest,
            chunk_lines=chunk_lines,
        )  # fmt: skip

    def resolved(self) -> Job:
        """Return the same job with absolute paths of what is read."""
        target = None if self.target is None else self.target.resolve()
        return replace(super().resolved(), target=target)  # type: ignore[call-arg]

    def remarks(self, counts: Mapping[str, int], *, n_lines: int) -> list[str]:
        """Describe the pairs without a score, and the totals, by the `counts` of all chunks."""
        faults = dict(counts)
        n_tokens, log_prob = faults.pop(TOKENS, 0), faults.pop(MICRONATS, 0) / 1e6
        totals = (
            f"{n_lines:,} pairs · {n_tokens:,} tokens · log-probability {log_prob:.1f} nats · "
            f"perplexity {perplexity(log_prob, n_tokens):.3f}"
        )
        return [*([f"without a score: {by_reason(faults, n_lines=n_lines)}"] if faults else []), totals]

    def open(self, *, device: str | None = None) -> Callable[[Chunk, Tick], Done]:
        """Load the weights; return what makes the output of a chunk. `device`: instead of the job's own."""
        return ChunkScorer(self, device=device)

    def described(self) -> dict[str, Any]:
        """Return all that the scores depend on, except the input; errors as for a translation."""
        kept = ("model", "device", "precision", "to")
        described: Mapping[str, Any] = super().described()
        return {
            "scored": self.write.__name__,
            "batch_tokens": self.batch_tokens,
            **{name: described[name] for name in kept if name in described},
        }


class ChunkScorer:
    """A scoring job with its weights in memory: takes chunks of lines, returns their scores."""

    def __init__(self, job: ScoringJob, *, device: str | None = None) -> None:
        """Load the run. `device`: instead of the job's own."""
        self.job = job
        self.translator = job.translator(device=device)

    def __call__(self, chunk: Chunk, tick: Tick) -> Done:
        """Score a chunk; `tick` receives the number of lines scored since its last call."""
        sources, _, targets = zip(*(line.partition(BETWEEN) for line in chunk.lines), strict=True)
        job = self.job
        scores = score_pairs(
            self.translator, sources, targets, batch_tokens=job.batch_tokens, progress=as_steps(tick)
        )
        counts = Counter(f"with {score.fault or EMPTY}" for score in scores if not score.log_probs)
        counts[TOKENS] = sum(len(score.log_probs) for score in scores)
        counts[MICRONATS] = round(1e6 * sum(score.log_prob for score in scores))
        pairs = map(ScoredPair, range(chunk.first_number, 2**63), sources, targets, scores)
        text = "".join(job.write(pair, self.translator.tokenizers) for pair in pairs)
        data = compressed(text.encode(), job.out.name)
        return Done(chunk.first_number, len(chunk.lines), chunk.n_bytes, data, counts, chunk.digest)
