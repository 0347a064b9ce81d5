"""What a model itself computes, and whether the code that searches with it computes the same.

Training and scoring call the blocks of `model.layers`. Searches have faster blocks of their own (native.c,
`model.static`, `model.incremental`), which know nothing of a change in `model.layers`. So
weights are kept with a probe, the log-probabilities of a few tokens, and a reader of weights asks the engine.
"""

from __future__ import annotations

import json
import math
import operator
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from statistics import fmean

from dragoman.config import SearchConfig
from dragoman.predict.engine import ModelEngine, forced_scores
from dragoman.text.tokenizer import EOS_ID
from dragoman.text.vocabulary import SPECIAL_TOKENS

LENGTHS = ((4, 5), (7, 6), (11, 9))
"""Tokens of the source and of the target of each text of a probe, without start and end."""
TOLERANCES = {"float32": 0.02, "float16": 0.05, "bfloat16": 0.15}
"""Nats a token, as a mean, that computations of one model may differ by; of two types the coarser one counts.
Measured were 1e-6 in fp32 and 0.02 in bf16; with GELU in place of ReLU 0.2, with its square 0.7 and more."""


@dataclass(frozen=True)
class Probe:
    """What a model computed for the tokens of a few short texts (`texts_for`) when its weights were kept."""

    log_probs: list[list[float]]
    """Nats, of each token of a target and of the end token, by the model itself."""
    dtype: str
    """What it was computed in: a key of TOLERANCES."""

    @classmethod
    def of(cls, engine: ModelEngine, n_src: int, n_tgt: int) -> Probe:
        """Return the probe of a model with `n_src` source and `n_tgt` target tokens."""
        return cls(engine.score(*texts_for(engine, n_src, n_tgt)), engine.precision)

    @classmethod
    def parse(cls, text: str) -> Probe | None:
        """Read what `text` wrote. None: it is no probe."""
        try:
            probe = cls(**json.loads(text))
            numbers = [*chain.from_iterable(probe.log_probs)]
            is_whole = all(isinstance(number, float) for number in numbers) and probe.dtype in TOLERANCES
            return probe if is_whole else None
        except (ValueError, TypeError):
            return None

    @property
    def is_finite(self) -> bool:
        """Whether it is one: weights that diverged compute no numbers."""
        return all(map(math.isfinite, chain.from_iterable(self.log_probs)))

    def text(self) -> str:
        """Return it as one line of JSON."""
        return json.dumps(asdict(self))

    def agrees(self, engine: ModelEngine, n_src: int, n_tgt: int) -> bool:
        """Whether the steps of an engine's searches compute what it says."""
        sources, targets = texts_for(engine, n_src, n_tgt)
        log_probs = forced_scores(engine.start(sources, SearchConfig(beam_size=1)).step, targets)
        return self.distance(log_probs) <= max(TOLERANCES[name] for name in (self.dtype, engine.precision))

    def distance(self, log_probs: Sequence[Sequence[float]]) -> float:
        """Return how far these log-probabilities of its tokens are from its own: a mean, in nats a token."""
        both = [*chain.from_iterable(self.log_probs)], [*chain.from_iterable(log_probs)]
        return fmean(map(abs, map(operator.sub, *both))) if len(both[0]) == len(both[1]) else math.inf


def texts_for(engine: ModelEngine, n_src: int, n_tgt: int) -> tuple[list[list[int]], list[list[int]]]:
    """Return sources, the end token last, and targets without it: tokens that a fixed seed draws."""
    first, room, drawn = len(SPECIAL_TOKENS), engine.longest, random.Random(0).random
    sources = [
        [*(first + int(drawn() * (n_src - first)) for _ in range(min(n, room))), EOS_ID] for n, _ in LENGTHS
    ]
    targets = [[first + int(drawn() * (n_tgt - first)) for _ in range(min(n, room))] for _, n in LENGTHS]
    return sources, targets
