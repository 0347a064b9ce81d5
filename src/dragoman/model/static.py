"""Incremental decoding optimised for GPUs, with static tensors; same function as `IncrementalDecoder`.

A step is a hundred small operations, and a processor cannot start them as fast as a GPU works them off. So
keys and values have their room from the beginning, rows keep their number, and the step of each shape is
recorded once (recording.py), and repeated: one launch. Shapes are few, for all their sizes are rounded up to
powers of two. On a CPU all is the same but that nothing is recorded.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dragoman.model.kernels import FAST_ON_GPU
from dragoman.model.layers import DecoderLayer, MultiHeadAttention
from dragoman.model.recording import Recording, record
from dragoman.model.transformer import Seq2SeqTransformer, attention_bias, decoder_layers

Ints: TypeAlias = npt.NDArray[np.int64]

WARM_UP = 2
"""Steps of a shape that are carried out before one is recorded."""
LEAST_ROOM = 16
"""Source tokens, and target tokens, that there is room for at least."""


def can_record(model: Seq2SeqTransformer) -> bool:
    """Whether `model` is on a GPU and wants fast kernels."""
    return model.device.type == "cuda" and model.kernels == FAST_ON_GPU and model.stepping == "fast"


class Shape(NamedTuple):
    """What a recorded step is for; all of it but the rows is a power of two."""

    n_sentences: int
    """B."""
    n_rows: int
    """K, of each sentence; N = B K."""
    n_source: int
    """S."""
    room: int
    """R: target positions."""


class StaticDecoder:
    """A model's decoder with the stages it plays on; `start` gives the next-token function for sentences.

    Each thread has stages of its own. They share the memory for what a step computes on the way, and those
    used longest ago go when all of them take more than `max_bytes`.
    """

    def __init__(self, model: Seq2SeqTransformer, *, max_bytes: float = math.inf) -> None:
        """Weights are read where they are, so that they may be changed in place."""
        self.model, self.max_bytes = model, max_bytes
        self._own = threading.local()

    def start(self, src: Tensor, src_mask: Tensor, *, forbidden: tuple[int, ...] = ()) -> StaticSteps:
        """src (B, S), src_mask (B, S) True at real tokens. `forbidden` ids get log-probability -inf.

        In a thread, steps may be called until the next `start`.
        """
        return StaticSteps(self, src, src_mask, forbidden)

    @property
    def stages(self) -> OrderedDict[Shape, RecordedStep]:
        """This thread's stages, the one used last at the end."""
        stages: OrderedDict[Shape, RecordedStep] = self._own.__dict__.setdefault("stages", OrderedDict())
        return stages

    @property
    def pool(self) -> Any:
        """The memory that the recorded steps of this thread share; None as long as there is none."""
        return next((s.recording.graph.pool() for s in self.stages.values() if s.recording), None)

    def stage(self, shape: Shape) -> RecordedStep:
        """Return this thread's buffers of that shape, with their old content."""
        stages = self.stages
        if shape not in stages:
            n_bytes = stage_bytes(self.model, shape)
            while stages and sum(stage_bytes(self.model, s) for s in stages) + n_bytes > self.max_bytes:
                stages.popitem(last=False)
            stages[shape] = RecordedStep(self.model, shape)
        stages.move_to_end(shape)
        return stages[shape]


class StaticSteps:
    """A next-token function, as `IncrementalDecoder` is one. What it returns is good until the next call.

    It moves to a smaller stage when half of its sentences are finished, and to a larger one when a beam has
    more rows or a sentence more tokens than there is room for.
    """

    @torch.inference_mode()
    def __init__(
        self, decoder: StaticDecoder, src: Tensor, src_mask: Tensor, forbidden: tuple[int, ...]
    ) -> None:
        self.decoder = decoder
        shape = Shape(power_of_two(len(src)), 1, power_of_two(src.shape[1], LEAST_ROOM), LEAST_ROOM)
        self.stage = decoder.stage(shape)
        self.stage.open(decoder.model.encode(src, src_mask), attention_bias(src_mask), forbidden)
        self.stage.user = id(self)
        self.places = np.arange(len(src))
        """(N',) where among the N rows of the stage a row of the last call stands."""
        self.position = 0

    @torch.inference_mode()
    def __call__(self, last: Tensor, parents: Tensor) -> Tensor:
        """last (N',) tokens, parents (N',) rows of the previous call -> log-probabilities (N', V) in fp32."""
        assert self.stage.user == id(self), "another search has begun in this thread"
        came_from = self._follow(parents.numpy())
        tokens = np.zeros_like(came_from)
        tokens[self.places] = last.numpy()
        log_probs = self.stage.step(tokens, came_from, pool=self.decoder.pool)
        self.position += 1
        if len(self.places) == len(log_probs):  # all of them, in order
            return log_probs
        return log_probs[torch.from_numpy(self.places).to(log_probs.device)]

    def _follow(self, parents: Ints) -> Ints:
        """Find places for the rows of this step, on another stage if need be; (N,) where each came from."""
        shape, old = self.stage.shape, self.places[parents]
        sentences = old // shape.n_rows
        rows, counts = np.arange(len(sentences)), np.bincount(sentences, minlength=shape.n_sentences)
        begins = np.diff(sentences, prepend=-1) != 0  # rows of a sentence stand together
        ranks = rows - np.maximum.accumulate(rows * begins)  # of each row within its sentence
        kept = np.arange(shape.n_sentences)
        alive = counts.nonzero()[0]
        if (n_sentences := power_of_two(len(alive))) < shape.n_sentences:
            kept = alive
        n_rows = max(shape.n_rows, int(counts.max()))
        room = 2 * shape.room if self.position == shape.room else shape.room
        self.places = np.searchsorted(kept, sentences) * n_rows + ranks
        came_from = np.zeros(n_sentences * n_rows, np.int64)
        came_from[self.places] = old
        new_shape = Shape(n_sentences, n_rows, shape.n_source, room)
        if new_shape == shape:
            return came_from
        stage = self.decoder.stage(new_shape)
        stage.take_over(self.stage, kept, came_from)
        self.stage, stage.user = stage, id(self)
        return np.arange(len(came_from))


class RecordedStep:
    """The tensors of one shape, and the step that was recorded on them."""

    def __init__(self, model: Seq2SeqTransformer, shape: Shape) -> None:
        self.model, self.shape = model, shape
        self.layers: list[DecoderLayer] = decoder_layers(model)
        self.device = device = model.device
        (B, K, S, R), H = shape, model.config.n_heads
        d, n_layers = model.d_model // H, len(self.layers)
        of_model = partial(torch.zeros, dtype=model.dtype, device=device)  # unused room is no NaN
        of_scores = partial(torch.zeros, dtype=torch.float32, device=device)
        of_ids = partial(torch.zeros, dtype=torch.long, device=device)
        self.cross = of_model(n_layers, 2, B, H, S, d)
        """Keys and values of the source."""
        self.cross_bias = of_scores(B, 1, 1, S)
        self.past = of_model(n_layers, 2, B * K, H, R, d)
        """Keys and values of the target so far."""
        self.output_bias = of_scores(model.output.out_features)
        """-inf at forbidden tokens."""
        self.inputs = of_ids(2, B * K)
        """The last token of each row, and the row that it continues."""
        self.position = of_ids(1)
        self.log_probs = of_scores(B * K, model.output.out_features)
        self.n_steps = 0
        self.recording: Recording[None] | None = None
        self.user = 0
        """The id of the search that plays on it: a reference would keep both alive."""

    def open(self, memory: Tensor, bias: Tensor | None, forbidden: tuple[int, ...]) -> None:
        """Begins with sources: memory (B', S', D) and bias (B', 1, 1, S'), where B' <= B and S' <= S."""
        n_sentences, n_source, _ = memory.shape
        self.cross_bias.fill_(0.0)
        self.cross_bias[:n_sentences, :, :, n_source:] = -torch.inf
        if bias is not None:
            self.cross_bias[:n_sentences, :, :, :n_source] = bias
        for layer, both in zip(self.layers, self.cross, strict=True):
            attention = layer.cross_attention
            for place, projected in zip(both, attention.project_memory(memory), strict=True):
                place[:n_sentences, :, :n_source] = attention.split_heads(projected)
        self.output_bias.fill_(0.0)
        self.output_bias[list(forbidden)] = -torch.inf
        self.position.fill_(0)

    def take_over(self, other: RecordedStep, sentences: Ints, came_from: Ints) -> None:
        """Go on where `other` is: with those `sentences` of it, and row i as its row `came_from[i]`."""
        kept, rows = (torch.from_numpy(each).to(self.device) for each in (sentences, came_from))
        self.cross[:, :, : len(kept)] = other.cross[:, :, kept]
        self.cross_bias.fill_(0.0)
        self.cross_bias[: len(kept)] = other.cross_bias[kept]
        self.past[:, :, :, :, : other.shape.room] = other.past[:, :, rows]
        self.output_bias.copy_(other.output_bias)
        self.position.copy_(other.position)

    def step(self, tokens: Ints, came_from: Ints, *, pool: Any = None) -> Tensor:
        """tokens (N,), came_from (N,) -> log-probabilities (N, V), good until the next step.

        `pool` is that of another stage, to be shared when the step is recorded.
        """
        self.inputs.copy_(torch.from_numpy(np.stack([tokens, came_from])))
        if self.n_steps == WARM_UP and can_record(self.model):
            with suppress(torch.OutOfMemoryError):  # what has no room to be recorded is carried out
                self.recording = record(self._compute, self.device, pool=pool)
        self.n_steps += 1
        if self.recording is None:
            self._compute()
        else:
            self.recording.graph.replay()
        return self.log_probs

    def _compute(self) -> None:
        """From `inputs` to `log_probs`, one position on; all that changes between steps is in tensors."""
        tokens, came_from = self.inputs
        if self.shape.n_rows > 1:  # where it is 1, a row stays in its place
            self.past.copy_(self.past.index_select(2, came_from))
        ahead = torch.arange(self.shape.room, device=self.device) > self.position
        past_bias = torch.zeros_like(ahead, dtype=torch.float32).masked_fill(ahead, -torch.inf)
        x = self.model.tgt_embedding.at(tokens[:, None], self.position, dtype=self.model.dtype)  # (N, 1, D)
        for i, layer in enumerate(self.layers):
            x = self._layer(i, layer, x, past_bias.view(1, 1, 1, -1))
        logits = self.model.project(self.model.decoder_norm(x[:, 0])).float()
        self.log_probs.copy_((logits + self.output_bias).log_softmax(-1))
        self.position.add_(1)

    def _layer(self, i: int, layer: DecoderLayer, x: Tensor, past_bias: Tensor) -> Tensor:
        x = layer.residuals[0](x, lambda y: self._attend_to_past(i, layer.self_attention, y, past_bias))
        x = layer.residuals[1](x, lambda y: self._attend_to_source(i, layer.cross_attention, y))
        x = layer.residuals[2](x, layer.feed_forward)
        return x

    def _attend_to_past(self, i: int, attention: MultiHeadAttention, y: Tensor, bias: Tensor) -> Tensor:
        q, k, v = (attention.split_heads(t) for t in attention.in_proj(y).chunk(3, dim=-1))  # (N, H, 1, d)
        keys, values = self.past[i]
        keys.index_copy_(2, self.position, k)
        values.index_copy_(2, self.position, v)
        return attention.merge_heads(attention.kernels.attention(q, keys, values, bias, 0.0))

    def _attend_to_source(self, i: int, attention: MultiHeadAttention, y: Tensor) -> Tensor:
        keys, values = self.cross[i]
        q = attention.project_query(y).view(
            self.shape.n_sentences, self.shape.n_rows, -1
        )  # beams side by side
        context = attention.kernels.attention(attention.split_heads(q), keys, values, self.cross_bias, 0.0)
        return attention.merge_heads(context).view(y.shape)


def stage_bytes(model: Seq2SeqTransformer, shape: Shape) -> int:
    """Bytes of the large tensors of a stage: keys, values and log-probabilities."""
    B, K, S, R = shape
    n_states = 2 * len(model.decoder) * B * (S + K * R) * model.d_model
    return n_states * model.dtype.itemsize + 4 * B * K * model.output.out_features


def power_of_two(n: int, least: int = 1) -> int:
    """Return the smallest power of two that is neither below `n` nor below `least`, itself one."""
    return max(least, 1 << (n - 1).bit_length())
