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
from typing import get_args
from warnings import warn

import torch

from dragoman.data.batching import pad, source_mask
from dragoman.errors import DragomanWarning, RunError
from dragoman.model.transformer import Seq2SeqTransformer, Stepping
from dragoman.predict.engine import FORBIDDEN, NativeEngine
from dragoman.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from dragoman.text.vocabulary import SPECIAL_TOKENS

LENGTHS = ((4, 5), (7, 6), (11, 9))
"""Tokens of the source and of the target of each text of a probe, without start and end."""
TOLERANCES = {"float32": 0.02, "float16": 0.05, "bfloat16": 0.15}
"""Nats a token, as a mean, that computations of one model may differ by; of two types the coarser one counts.
Measured were 1e-6 in fp32 and 0.02 in bf16; with GELU in place of ReLU 0.2, with its square 0.7 and more."""
SLOWER = {
    "incremental": "the layers themselves search in its place, a token at a time",
    "whole": "the whole model searches in its place, all tokens at every step",
}
"""By way of searching, what a user is told."""


@dataclass(frozen=True)
class Probe:
    """What a model computed for the tokens of a few short texts (`texts_for`) when its weights were kept."""

    log_probs: list[list[float]]
    """Nats, of each token of a target and of the end token, by the model itself."""
    dtype: str
    """What it was computed in: a key of TOLERANCES."""

    @classmethod
    def of(cls, model: Seq2SeqTransformer) -> Probe:
        """Return the probe of a model in evaluation."""
        return cls(score_ids([model], *texts_for(model)), _name(model.dtype))

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

    def distance(self, log_probs: Sequence[Sequence[float]]) -> float:
        """Return how far these log-probabilities of its tokens are from its own: a mean, in nats a token."""
        both = [*chain.from_iterable(self.log_probs)], [*chain.from_iterable(log_probs)]
        return fmean(map(abs, map(operator.sub, *both))) if len(both[0]) == len(both[1]) else math.inf


def texts_for(model: Seq2SeqTransformer) -> tuple[list[list[int]], list[list[int]]]:
    """Return sources, the end token last, and targets without it: tokens that a fixed seed draws."""
    n_src, n_tgt = model.src_embedding.tokens.num_embeddings, model.output.out_features
    first, room, drawn = len(SPECIAL_TOKENS), model.config.max_positions - 1, random.Random(0).random
    sources = [
        [*(first + int(drawn() * (n_src - first)) for _ in range(min(n, room))), EOS_ID] for n, _ in LENGTHS
    ]
    targets = [[first + int(drawn() * (n_tgt - first)) for _ in range(min(n, room))] for _, n in LENGTHS]
    return sources, targets


def choose_stepping(engine: NativeEngine, probe: Probe, *, where: str) -> None:
    """Let `engine`, of one model, search in the fastest way that agrees with the probe of its weights.

    DragomanWarning: that is not the fastest of all. RunError: not even the model itself agrees.
    """
    (model,) = engine.models
    sources, targets = texts_for(model)
    tolerance = max(TOLERANCES[name] for name in (probe.dtype, _name(model.dtype)))
    for model.stepping in get_args(Stepping):
        if probe.distance(engine.score(sources, targets)) <= tolerance:
            break
    else:
        raise RunError(
            f"{where}: computes other probabilities than when its weights were written; they are damaged, or "
            "src/dragoman/model is not what they were trained with"
        )
    if model.stepping != "fast":
        warn(
            f"{where}: is not the network that the fast search computes, for src/dragoman/model was changed; "
            f"{SLOWER[model.stepping]}",
            DragomanWarning,
            stacklevel=2,
        )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@torch.inference_mode()
def score_ids(
    models: Sequence[Seq2SeqTransformer], sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> list[list[float]]:
    """Return the log-probability of each token of each target, and of eos behind it, all in one batch.

    Sources end with eos, targets do not. Of several models it is the mean probability.
    """
    device = models[0].device
    src = pad(sources).to(device)
    tgt_in = pad([[BOS_ID, *ids] for ids in targets]).to(device)  # (B, T)
    tgt_out = pad([[*ids, EOS_ID] for ids in targets]).to(device)
    real = tgt_out != PAD_ID
    strange = (tgt_out == UNK_ID).any(dim=1, keepdim=True).expand_as(real)[real]  # (R,)
    by_model = []
    for model in models:
        src_mask = source_mask(src, with_end=model.config.source_end)
        hidden = model.decode(tgt_in, model.encode(src, src_mask), src_mask)
        logits = model.project(hidden[real]).float()  # (R, V), R being the positions that are real
        unknown = logits[:, UNK_ID].clone()
        logits[:, list(FORBIDDEN)] = -torch.inf
        logits[:, UNK_ID] = torch.where(strange, unknown, -torch.inf)  # only there can <unk> be written
        by_model.append(logits.log_softmax(dim=-1))
    log_probs = torch.stack(by_model).logsumexp(dim=0) - math.log(len(by_model))
    values = iter(log_probs.gather(1, tgt_out[real][:, None])[:, 0].tolist())
    return [[next(values) for _ in range(len(ids) + 1)] for ids in targets]
