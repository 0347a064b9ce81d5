"""Score a file of translations by a model (forced decoding): as resumable as a translation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dragoman.bulk.job import Job, as_steps
from dragoman.bulk.output import Lines, Output, as_line
from dragoman.bulk.stream import Chunk, Done, Tick
from dragoman.data.readers.files import compressed
from dragoman.predict.scoring import confidences


@dataclass(frozen=True)
class ScoringJob(Job):
    """A file with a source, a tab and its translation on each line, to be scored by a run.

    Each output line is the mean log-probability of a token, in nats, or empty if the model cannot read the
    pair: it is too long, or a side is empty.
    """

    output: Output = field(default_factory=partial(Lines, as_line))

    def open(self, *, device: str | None = None) -> Callable[[Chunk, Tick], Done]:
        """Load the weights; return what makes the output of a chunk. `device`: instead of the job's own."""
        return ChunkScorer(self, device=device)

    def described(self) -> dict[str, Any]:
        """Return all that the scores depend on, except the input; errors as for a translation."""
        kept = ("model", "device", "precision", "to")
        described: Mapping[str, Any] = super().described()
        return {"scored": True, **{name: described[name] for name in kept if name in described}}


class ChunkScorer:
    """A scoring job with its weights in memory: takes chunks of lines, returns their scores."""

    def __init__(self, job: ScoringJob, *, device: str | None = None) -> None:
        """Load the run. `device`: instead of the job's own."""
        self.job = job
        self.translator = job.translator(device=device)

    def __call__(self, chunk: Chunk, tick: Tick) -> Done:
        """Score a chunk; `tick` receives the number of lines scored since its last call."""
        sources, _, targets = zip(*(line.partition("\t") for line in chunk.lines), strict=True)
        scores = confidences(self.translator, sources, targets, progress=as_steps(tick))
        text = "".join("\n" if score is None else f"{score:.4f}\n" for score in scores)
        data = compressed(text.encode(), self.job.out.name)
        return Done(chunk.first_number, len(chunk.lines), chunk.n_bytes, data, {}, chunk.digest)
