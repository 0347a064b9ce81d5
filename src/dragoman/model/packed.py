"""Incremental decoding optimised for CPUs; same function as `IncrementalDecoder`.

Three things differ. Weights are packed once for products of few rows (oneDNN), with the queries' scale,
the residual and the ReLU in the product. Keys and values never move when hypotheses change their places:
all that the rows of a sentence have ever seen stands side by side, and a mask says who descends from whom,
so that attention is one product a sentence and not one a row. And what is as large as rows times
vocabulary is made a few rows at a time, in memory that is kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.model.compiled import CompiledDecoder, CompiledSteps, can_compile
from dragoman.model.kernels import FAST
from dragoman.model.quantized import (
    LEVELS,
    ROWS_AT_ONCE,
    PackedDecoderLayer,
    PackedLayer,
    PackedLinear,
    PackedNorm,
    QuantizedDecoderLayer,
    QuantizedLayer,
    QuantizedLinear,
    QuantizedNorm,
    folded,
    is_quantizable,
)
from dragoman.model.transformer import Seq2SeqTransformer, attention_bias, decoder_layers, encoder_layers

Ints: TypeAlias = npt.NDArray[np.int64]

ENCODED_AT_ONCE = 1024
"""Source tokens, padding included."""
DEAD_AT_MOST = 1 / 8
"""Maximum share of finished sentences in the caches; beyond it, the caches are copied without them."""
COLUMNS_ROUNDED_TO = 512
"""The columns of some of the tokens are a multiple of this: products of few shapes are prepared once."""


def can_pack(model: Seq2SeqTransformer) -> bool:
    """Whether this processor and this PyTorch have what packing needs, and `model` wants fast kernels."""
    if model.device.type != "cpu" or model.kernels != FAST or model.stepping != "fast":
        return False
    has_onednn: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    operators = torch.ops.mkldnn
    if not has_onednn or not hasattr(operators, "_linear_pointwise"):
        return False
    if model.dtype == torch.bfloat16:
        return bool(operators._is_mkldnn_bf16_supported())
    return model.dtype == torch.float32


class PackedDecoder:
    """A model with its weights packed for search; `start` gives the next-token function for sentences."""

    encoder: Sequence[PackedLayer | QuantizedLayer]
    layers: Sequence[PackedDecoderLayer | QuantizedDecoderLayer]

    def __init__(self, model: Seq2SeqTransformer, *, int8: bool = False) -> None:
        """Pack a copy of the weights, in `model.dtype`, or in int8 what `can_quantize`."""
        self.model = model
        self.dtype = model.dtype
        self.n_heads, self.d_model = model.config.n_heads, model.d_model
        self.pre_norm = model.config.norm == "pre"
        self.activation = model.config.activation  # oneDNN has the same names
        if int8:
            self._quantize()
        else:
            self._pack()
        self.compiled = self._compiled()
        """The same as compiled code reads it; None where there is none for this model here."""

    def _pack(self) -> None:
        model, dtype = self.model, self.dtype
        self.encoder = [PackedLayer(layer, dtype) for layer in encoder_layers(model)]
        self.encoder_norm: PackedNorm | QuantizedNorm = PackedNorm(model.encoder_norm, dtype)
        self.layers = [PackedDecoderLayer(layer, dtype) for layer in decoder_layers(model)]
        self.norm: PackedNorm | QuantizedNorm = PackedNorm(model.decoder_norm, dtype)
        self.output: PackedLinear | QuantizedLinear = PackedLinear(
            model.output.weight, model.output.bias, dtype
        )

    def _quantize(self) -> None:
        model = self.model
        self.encoder = [QuantizedLayer(layer) for layer in encoder_layers(model)]
        self.encoder_norm = QuantizedNorm(model.encoder_norm)
        self.layers = [QuantizedDecoderLayer(layer, model.encoder_norm) for layer in decoder_layers(model)]
        self.norm = QuantizedNorm(model.decoder_norm)
        self.output = QuantizedLinear(*folded(model.output.weight, model.output.bias, model.decoder_norm))

    def _compiled(self) -> CompiledDecoder | None:
        config = self.model.config
        widths = (config.d_model, config.d_ff)
        if not self.pre_norm or self.activation != "relu" or not can_compile(self.output.rows.dtype, widths):
            return None
        return CompiledDecoder(
            encoder=self.encoder,
            encoder_norm=self.encoder_norm,
            layers=self.layers,
            norm=self.norm,
            output=self.output,
            embeddings=(self.model.src_embedding, self.model.tgt_embedding),
            n_heads=self.n_heads,
        )

    def start(
        self,
        src: Tensor,
        src_mask: Tensor,
        *,
        forbidden: tuple[int, ...] = (),
        allowed: Tensor | None = None,
        exact: bool = False,
    ) -> PackedSteps | CompiledSteps:
        """src (B, S), src_mask (B, S) True at real tokens. `forbidden` ids get log-probability -inf.

        `allowed` (B, V) says which tokens a sentence may hold, the reserved ones among them: others have no
        probability, and those that no sentence may hold have no columns (`PackedSteps.ids`). `exact`: the
        number of columns is not rounded up, as it never is in compiled steps.
        """
        if self.compiled is None:
            return PackedSteps(self, src, src_mask, forbidden=forbidden, allowed=allowed, exact=exact)
        return CompiledSteps(self.compiled, src, src_mask, forbidden=forbidden, allowed=allowed)

    def encode(self, src: Tensor, src_mask: Tensor) -> Tensor:
        """src (B, S), src_mask (B, S) -> memory (B, S, D): some sentences at a time, which stay in cache.

        What is padding to all of those is not computed; its memory is 0.
        """
        at_once, S = max(1, ENCODED_AT_ONCE // src.shape[1]), src.shape[1]
        parts = []
        for ids, mask in zip(torch.split(src, at_once), torch.split(src_mask, at_once), strict=True):
            n_columns = int(mask.any(0).nonzero()[-1]) + 1
            memory = self._encode(ids[:, :n_columns], mask[:, :n_columns])
            blank = 0 if memory.is_floating_point() else LEVELS + 1
            parts.append(F.pad(memory, (0, 0, 0, S - n_columns), value=blank))
        return torch.cat(parts)

    def _encode(self, src: Tensor, src_mask: Tensor) -> Tensor:
        B, S = src.shape
        bias = attention_bias(src_mask)
        x = _filled_up(self.model.src_embedding(src, dtype=self.dtype).view(B * S, self.d_model))
        for layer in self.encoder:
            y = self.before(layer.norms[0], x)
            x = layer.own_out.added_to(x, self._attend(layer.own_in(y), (B, S), bias))
            x = self.feed_forward(layer, self.after(layer.norms[0], x))
        return self.encoder_norm(x[: B * S]).view(B, S, self.d_model)

    def _attend(self, projected: Tensor, shape: tuple[int, int], bias: Tensor | None) -> Tensor:
        """projected (B S, 3 D), and perhaps more: queries, keys and values of all tokens -> (B S, D)."""
        B, S = shape
        parts = projected[: B * S].view(B, S, 3, self.n_heads, self.d_model // self.n_heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).float()  # (B, H, S, d)
        scores = torch.matmul(q, k.transpose(2, 3))
        if bias is not None:
            scores += bias
        return _filled_up(self.merge_heads(torch.matmul(softmax_(scores), v)))

    def before(self, norm: PackedNorm | QuantizedNorm, x: Tensor) -> Tensor:
        """Return the input of a sub-layer with this norm, from the residual stream x."""
        return norm(x) if self.pre_norm else x

    def after(self, norm: PackedNorm | QuantizedNorm, x: Tensor) -> Tensor:
        """Return the residual stream x after a sub-layer with this norm."""
        return x if self.pre_norm else norm(x)

    def feed_forward(self, layer: PackedLayer | QuantizedLayer, x: Tensor) -> Tensor:
        """x (N, D) -> (N, D): the last sub-layer of an encoder or decoder layer."""
        inner = layer.wide(self.before(layer.norms[-1], x), activation=self.activation)
        return self.after(layer.norms[-1], layer.narrow.added_to(x, inner))

    def merge_heads(self, context: Tensor) -> Tensor:
        """(B, H, T, d) in fp32 -> (B T, D) in the model's type."""
        return context.transpose(1, 2).to(self.dtype).reshape(-1, self.d_model)


class PackedSteps:
    """A next-token function, as `IncrementalDecoder` is one. What it returns is good until the next call.

    Inside, each of B sentences has the same number K of rows, as many as the largest beam; rows without a
    hypothesis are computed and left out. C columns of keys and values are kept for each sentence: K of every
    step.
    """

    def __init__(
        self,
        decoder: PackedDecoder,
        src: Tensor,
        src_mask: Tensor,
        *,
        forbidden: tuple[int, ...] = (),
        allowed: Tensor | None = None,
        exact: bool = False,
    ) -> None:
        """Arguments are those of `PackedDecoder.start`."""
        B = len(src)
        self.decoder = decoder
        self.forbidden = list(forbidden)
        self.output: PackedLinear | QuantizedLinear = decoder.output
        self.ids: Tensor | None = None
        """The tokens that the columns of log-probabilities stand for, rising; None: all."""
        self.bias = torch.empty(0)
        """(B, number of columns), with `allowed`: 0 where a sentence may hold a token, else -inf."""
        if allowed is not None:
            columns = allowed.any(0)
            missing = 0 if exact else -int(columns.sum()) % COLUMNS_ROUNDED_TO
            columns[(~columns).nonzero()[:missing, 0]] = True
            self.ids = columns.nonzero()[:, 0]
            self.output = decoder.output.only(self.ids)
            self.bias = torch.zeros(B, len(self.ids)).masked_fill_(~allowed[:, self.ids], -math.inf)
            self.bias[:, self.forbidden] = -math.inf
        self.places = torch.arange(B)
        """(N,): where among the B K rows a row of the last call stands."""
        self.n_rows = 1
        """K."""
        self.ancestors = torch.zeros(B, 1, 0)
        """(B, K, C): 0 where a row has seen a column, else -inf."""
        self.position = 0
        """Of the token that is read next."""
        self.caches = [_Cache(B, decoder) for _ in decoder.layers]
        self.crosses = self._look_at(decoder.encode(src, src_mask))
        """Keys (B, H, d, S) and values (B, H, S, d) of the sources, for each layer."""
        self.src_mask, self.src_bias = src_mask, attention_bias(src_mask)
        self.log_probs = torch.empty(0, 0)

    def _look_at(self, memory: Tensor) -> list[tuple[Tensor, Tensor]]:
        """memory (B, S, D) -> keys (B, H, d, S) and values (B, H, S, d) of every layer, in fp32."""
        B, S, D = memory.shape
        crosses = []
        for layer in self.decoder.layers:
            both = layer.cross_memory(memory.view(B * S, D)).view(B, S, 2, self.decoder.n_heads, -1)
            keys, values = both[:, :, 0].permute(0, 2, 3, 1), both[:, :, 1].transpose(1, 2)
            crosses.append((keys.float().contiguous(), values.float().contiguous()))
        return crosses

    @torch.inference_mode()
    def __call__(self, last: Tensor, parents: Tensor) -> Tensor:
        """last (N,) tokens, parents (N,) rows of the previous call -> log-probabilities (N, V) in fp32."""
        self._follow(parents)
        tokens = last.new_zeros(self.ancestors.shape[0] * self.n_rows)
        tokens[self.places] = last
        x = self.decoder.model.tgt_embedding(tokens[:, None], dtype=self.decoder.dtype, start=self.position)
        x = x[:, 0]  # (B K, D)
        for i, layer in enumerate(self.decoder.layers):
            x = self._layer(i, layer, x)
        self.position += 1
        return self._project(self.decoder.norm(x[self.places]))

    def _layer(self, i: int, layer: PackedDecoderLayer | QuantizedDecoderLayer, x: Tensor) -> Tensor:
        decoder, (self_norm, cross_norm, _) = self.decoder, layer.norms
        y = layer.own_in(decoder.before(self_norm, x))
        x = decoder.after(self_norm, layer.own_out.added_to(x, self._attend_to_past(i, y)))
        y = layer.cross_query(decoder.before(cross_norm, x))
        x = decoder.after(cross_norm, layer.cross_out.added_to(x, self._attend_to_source(i, y)))
        return decoder.feed_forward(layer, x)

    def _attend_to_past(self, i: int, projected: Tensor) -> Tensor:
        """projected (B K, 3 D): queries, keys and values -> (B K, D)."""
        (B, K, C), H = self.ancestors.shape, self.decoder.n_heads
        q, k, v = projected.view(B, K, 3, H, -1).permute(2, 0, 3, 1, 4).unbind()  # (B, H, K, d)
        keys, values = self.caches[i].append(k, v)  # (B H, C, d)
        q = q.float().reshape(B * H, K, -1)
        scores = torch.bmm(q, keys.transpose(1, 2)).view(B, H, K, C)
        if self.position + 1 < C:  # there are columns that some row has not seen
            scores += self.ancestors[:, None]
        context = torch.bmm(softmax_(scores).view(B * H, K, C), values)
        return self.decoder.merge_heads(context.view(B, H, K, -1))

    def _attend_to_source(self, i: int, queries: Tensor) -> Tensor:
        """Attend: queries (B K, D) -> (B K, D)."""
        B, K, _ = self.ancestors.shape
        keys, values = self.crosses[i]
        q = queries.view(B, K, self.decoder.n_heads, -1).transpose(1, 2).float()
        scores = torch.matmul(q, keys)  # (B, H, K, S)
        if self.src_bias is not None:
            scores += self.src_bias
        return self.decoder.merge_heads(torch.matmul(softmax_(scores), values))

    def _project(self, hidden: Tensor) -> Tensor:
        """hidden (N, D) -> log-probabilities (N, number of columns)."""
        n_rows = len(hidden)
        sentences = self.places // self.n_rows
        ids = self.ids
        n_columns = self.decoder.model.output.out_features if ids is None else len(ids)
        if len(self.log_probs) < n_rows or self.log_probs.shape[1] != n_columns:
            self.log_probs = torch.empty(n_rows, n_columns)
        hidden = _filled_up(hidden)
        for start in range(0, n_rows, ROWS_AT_ONCE):
            rows = slice(start, min(start + ROWS_AT_ONCE, n_rows))
            logits = self.output(hidden[start : start + ROWS_AT_ONCE])[: rows.stop - start].float()
            if ids is None:
                logits[:, self.forbidden] = -math.inf
            else:
                logits += self.bias[sentences[rows]]
            torch.log_softmax(logits, -1, out=self.log_probs[rows])
        return self.log_probs[:n_rows]

    def _follow(self, parents: Tensor) -> None:
        """Make room for the rows of this step: who descends from whom, and which sentences leave."""
        old = self.places[parents]  # (N,): where the parents stand
        B, old_rows, _ = self.ancestors.shape
        sentences = old // old_rows
        counts = torch.bincount(sentences, minlength=B)
        K = self.n_rows = int(counts.max())
        self.places = sentences * K + torch.from_numpy(ranks_within(sentences.numpy()))
        came_from = torch.zeros(B * K, dtype=torch.long)
        came_from[self.places] = old
        self.ancestors = self.ancestors.view(B * old_rows, -1)[came_from].view(B, K, -1)
        alive = counts > 0
        n_kept = -(-rounded_up(int(alive.sum()) * K) // K)
        if n_kept <= (1 - DEAD_AT_MOST) * B:
            self._forget(alive, n_kept)
        diagonal = torch.full((K, K), -math.inf).fill_diagonal_(0.0)
        self.ancestors = torch.cat([self.ancestors, diagonal.expand(len(self.ancestors), K, K)], dim=2)

    def _forget(self, alive: Tensor, n_kept: int) -> None:
        """Leave out sentences that are not `alive`, (B,) bool, but for some that make them `n_kept`."""
        stay = alive.clone()
        stay[(~alive).nonzero()[: n_kept - int(alive.sum()), 0]] = True
        kept = stay.nonzero()[:, 0]
        self.places -= ((~stay).cumsum(0) * self.n_rows)[self.places // self.n_rows]
        self.ancestors = self.ancestors[kept]
        n_tokens = int(self.src_mask[alive].any(0).nonzero()[-1]) + 1
        self.crosses = [
            (keys[kept][..., :n_tokens].contiguous(), values[kept][..., :n_tokens, :].contiguous())
            for keys, values in self.crosses
        ]
        self.src_mask = self.src_mask[kept][:, :n_tokens]
        self.src_bias = attention_bias(self.src_mask)
        if self.ids is not None:
            self.bias = self.bias[kept]
        for cache in self.caches:
            cache.keep(kept)


def ranks_within(sentences: Ints) -> Ints:
    """Return the number of each row (N,) within its sentence, from 0; rows of a sentence stand together."""
    rows, begins = np.arange(len(sentences)), np.ones(len(sentences), np.bool_)
    begins[1:] = sentences[1:] != sentences[:-1]
    ranks: Ints = rows - np.maximum.accumulate(rows * begins)
    return ranks


def rounded_up(n_rows: int) -> int:
    """Round a number of rows up to one of few sizes.

    oneDNN prepares a primitive for every new number of rows, which takes as long as the product itself, and
    caches only a few of them.
    """
    multiple = 64 if n_rows > 256 else 32 if n_rows > 64 else 16 if n_rows > 16 else 4
    return -(-n_rows // multiple) * multiple


def can_quantize(model: Seq2SeqTransformer) -> bool:
    """Whether int8 is there for `model`, in fp32, on a processor that multiplies in it: see quantized.py."""
    has_operator = hasattr(torch.ops.onednn, "qlinear_pointwise")
    return has_operator and can_pack(model) and is_quantizable(model.config)


def softmax_(scores: Tensor) -> Tensor:
    """Return the softmax of each row of `scores`, in their memory.

    PyTorch's own takes the exponentials of rows of less than 16 one by one.
    """
    if scores.shape[-1] >= 16:
        return torch.softmax(scores, -1, out=scores)
    scores.sub_(scores.amax(-1, keepdim=True)).exp_()
    return scores.div_(scores.sum(-1, keepdim=True))


def _filled_up(x: Tensor) -> Tensor:
    """x (N, D) with rows of zeros after it, as many as make their number a rounded one."""
    missing = rounded_up(len(x)) - len(x)
    return F.pad(x, (0, 0, 0, missing)) if missing else x


class _Cache:
    """Keys and values of one layer: C columns of all rows so far, in room that doubles, in fp32."""

    def __init__(self, n_sentences: int, decoder: PackedDecoder) -> None:
        self.n_columns = 0
        self.tensors = torch.empty(2, n_sentences, decoder.n_heads, 0, decoder.d_model // decoder.n_heads)

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """keys and values (B, H, K, d) of this step -> those of all steps, (B H, C, d)."""
        start, self.n_columns = self.n_columns, self.n_columns + keys.shape[2]
        _, B, H, room, d = self.tensors.shape
        if self.n_columns > room:
            grown = self.tensors.new_empty(2, B, H, max(16, 2 * self.n_columns), d)
            grown[:, :, :, :start] = self.tensors[:, :, :, :start]
            self.tensors = grown
        self.tensors[0, :, :, start : self.n_columns] = keys
        self.tensors[1, :, :, start : self.n_columns] = values
        both = self.tensors.view(2, B * H, -1, d)[:, :, : self.n_columns]
        return both[0], both[1]

    def keep(self, sentences: Tensor) -> None:
        """Leave out all others."""
        H, room, d = self.tensors.shape[2:]
        kept = self.tensors.new_empty(2, len(sentences), H, room, d)
        used = self.tensors[:, :, :, : self.n_columns]
        kept[:, :, :, : self.n_columns] = used.index_select(1, sentences)
        self.tensors = kept
