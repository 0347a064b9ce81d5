"""A model as compiled code (dragoman/native.c) reads it: the steps of a search in one call each.

Weights are packed in the model's type, or in int8. In int8 what a product reads are 8 bits with one scale for
all rows, known before the first sentence, so that no row's result depends on another's. A layer norm has made
its outputs as large as they are (its weight and bias go into the product behind it); values and activations
are bounded by such inputs, so that the weights tell how large they can become, and each column has its scale
from there. Sums are in int32, all between the products is in fp32.
"""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.model.kernels import FAST
from dragoman.model.layers import DecoderLayer, Embedding, EncoderLayer, LayerNorm, MultiHeadAttention
from dragoman.model.transformer import Seq2SeqTransformer, decoder_layers, encoder_layers
from dragoman.native import Int, Pointer, native

KINDS = {torch.int8: 0, torch.bfloat16: 1, torch.float32: 2}
"""What weights are stored in, by its number in native.c."""
ACTIVATIONS = {"relu": 2, "gelu": 3, "swish": 4}
"""By their numbers in native.c."""
COLUMNS = 64
"""A multiple of the outputs of a block of packed weights."""
INPUTS_MULTIPLE_OF = 4
"""Input widths that blocks can be packed for."""
LEVELS = 127
"""The largest of 8 bits with a sign."""
ZERO = 128
"""The level of 0, but after a ReLU, whose level of 0 is 0."""
REACH = 6.0
"""Standard deviations that 8 bits hold, as in native.c: what lies further from 0 counts as this."""

Float = ctypes.c_float


class _Linear(ctypes.Structure):
    _fields_ = (
        ("n_in", Int), ("n_out", Int),
        ("packed", Pointer), ("scales", Pointer), ("bias", Pointer), ("sums", Pointer),
    )  # fmt: skip


class _Norm(ctypes.Structure):
    _fields_ = (("weight", Pointer), ("bias", Pointer), ("epsilon", Float))


class _Layer(ctypes.Structure):
    _fields_ = (
        *((name, _Linear) for name in (
            "own_in", "own_out", "cross_query", "cross_memory", "cross_out", "wide", "narrow",
        )),
        *((name, _Norm) for name in ("own_norm", "cross_norm", "feed_forward_norm")),
        ("gains", Pointer),
    )  # fmt: skip


class _Embedding(ctypes.Structure):
    _fields_ = (("tokens", Pointer), ("positions", Pointer), ("scale", Float), ("gain", Float))


class _Model(ctypes.Structure):
    _fields_ = (
        *((name, Int) for name in (
            "kind", "d_model", "n_heads", "d_ff", "n_encoder_layers", "n_decoder_layers", "norms_after",
            "activation",
        )),
        ("encoder", ctypes.POINTER(_Layer)), ("decoder", ctypes.POINTER(_Layer)),
        ("encoder_norm", _Norm), ("decoder_norm", _Norm),
        ("src", _Embedding), ("tgt", _Embedding),
        ("output", _Linear), ("output_rows", Pointer),
    )  # fmt: skip


def can_compile(model: Seq2SeqTransformer, *, int8: bool = False) -> bool:
    """Whether compiled code computes `model` here, in its type or in int8, and is wanted."""
    if model.device.type != "cpu" or model.kernels != FAST or model.stepping != "fast":
        return False
    widths, library = (model.config.d_model, model.config.d_ff), native().library
    kind = KINDS.get(torch.int8 if int8 else model.dtype)
    if library is None or kind is None or any(width % INPUTS_MULTIPLE_OF for width in widths):
        return False
    return bool(library.dragoman_kinds() >> kind & 1)


class CompiledDecoder:
    """The packed weights of a model; `start` gives the next-token function for sentences."""

    def __init__(self, model: Seq2SeqTransformer, *, int8: bool = False) -> None:
        """Pack a copy of the weights, in `model.dtype` or in int8, of a model that one `can_compile`."""
        library, config = native().library, model.config
        assert library is not None
        self.library = library
        self.dtype = torch.int8 if int8 else model.dtype
        self.n_tokens = model.output.out_features
        self._norms_after = config.norm == "post"
        self._activation = config.activation
        self._alive: list[Tensor] = []
        """What the structures point to."""
        embeddings = (model.src_embedding, model.tgt_embedding) if int8 and self._norms_after else ()
        self._reach = {embedding: reach_of(embedding) for embedding in embeddings}
        """What 8 bits hold of embeddings, where products read these as levels."""
        encoder, decoder = [], []
        read: nn.Module = model.src_embedding  # what comes before a layer
        for layer in encoder_layers(model):
            encoder.append(self._layer(layer, read))
            read = layer.residuals[-1].get_submodule("norm")
        memory = read if self._norms_after else model.encoder_norm
        read = model.tgt_embedding
        for decoder_layer in decoder_layers(model):
            decoder.append(self._layer(decoder_layer, read, memory))
            read = decoder_layer.residuals[-1].get_submodule("norm")
        read = read if self._norms_after else model.decoder_norm
        output, rows = self._linear(*self._reading(read, model.output.weight, model.output.bias))
        self.model = _Model(
            kind=KINDS[self.dtype], d_model=config.d_model, n_heads=config.n_heads, d_ff=config.d_ff,
            n_encoder_layers=len(encoder), n_decoder_layers=len(decoder),
            norms_after=self._norms_after, activation=ACTIVATIONS[config.activation],
            encoder=(_Layer * len(encoder))(*encoder), decoder=(_Layer * len(decoder))(*decoder),
            encoder_norm=self._norm(model.encoder_norm), decoder_norm=self._norm(model.decoder_norm),
            src=self._embedding(model.src_embedding), tgt=self._embedding(model.tgt_embedding),
            output=output, output_rows=self._pointer(rows),
        )  # fmt: skip

    def start(
        self,
        src: Tensor,
        src_mask: Tensor,
        *,
        forbidden: tuple[int, ...] = (),
        allowed: Tensor | None = None,
    ) -> CompiledSteps:
        """src (B, S), src_mask (B, S) True at real tokens. `forbidden` ids get log-probability -inf.

        `allowed` (B, V) says which tokens a sentence may hold, the reserved ones among them: others have no
        probability, and those that no sentence may hold have no columns (`CompiledSteps.ids`).
        """
        return CompiledSteps(self, src, src_mask, forbidden=forbidden, allowed=allowed)

    def _layer(
        self, layer: EncoderLayer | DecoderLayer, before: nn.Module, memory: nn.Module | None = None
    ) -> _Layer:
        """Pack a layer, which stands behind the module `before` and looks at what `memory` gives."""
        norms = [residual.get_submodule("norm") for residual in layer.residuals]
        read = [before, *norms[:-1]] if self._norms_after else norms
        d_model = layer.self_attention.out_proj.out_features
        parts: dict[str, _Linear | _Norm] = {
            "own_norm": self._norm(norms[0]), "feed_forward_norm": self._norm(norms[-1]),
        }  # fmt: skip
        weight, bias = self._reading(read[0], *with_scaled_queries(layer.self_attention))
        parts |= self._attention("own_in", "own_out", weight, bias, layer.self_attention.out_proj)
        if memory is not None and isinstance(layer, DecoderLayer):
            cross = layer.cross_attention
            weight, bias = with_scaled_queries(cross)
            query = self._reading(read[1], weight[:d_model], bias[:d_model])
            parts |= {"cross_norm": self._norm(norms[1]), "cross_query": self._linear(*query)[0]}
            weight, bias = self._reading(memory, weight[d_model:], bias[d_model:])
            parts |= self._attention("cross_memory", "cross_out", weight, bias, cross.out_proj)
        feed_forward = layer.feed_forward
        weight, bias = self._reading(read[-1], feed_forward.linear1.weight, feed_forward.linear1.bias)
        unit, gains, zero = torch.ones(len(weight)), torch.ones(len(weight)), ZERO
        if self.dtype == torch.int8 and self._activation == "relu":  # linear: in the product itself
            unit, zero = (bias.clamp(min=0) + largest(weight)) / (2 * LEVELS + 1), 0
            weight, bias = weight / unit[:, None], bias / unit
        elif self.dtype == torch.int8:
            unit = (bias.clamp(min=0) + largest(weight)) / LEVELS
            gains = 1 / unit
        narrow = feed_forward.linear2
        parts |= {
            "wide": self._linear(weight, bias)[0],
            "narrow": self._linear(narrow.weight.float() * unit, narrow.bias.float(), zero=zero)[0],
        }
        return _Layer(**parts, gains=self._pointer(gains))

    def _attention(
        self, into: str, out: str, weight: Tensor, bias: Tensor, projection: nn.Linear
    ) -> dict[str, _Linear]:
        """Pack a product whose last outputs (D) are values, and the projection of what is made of these.

        In int8 each value has its unit: so measured, every weighted mean is within +-LEVELS.
        """
        unit = torch.ones(len(weight))
        if self.dtype == torch.int8:
            unit = (bias.abs() + largest(weight)) / LEVELS
            unit[: -projection.in_features] = 1.0
        values = unit[-projection.in_features :]
        return {
            into: self._linear(weight / unit[:, None], bias / unit)[0],
            out: self._linear(projection.weight.float() * values, projection.bias.float())[0],
        }

    def _reading(self, read: nn.Module, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return weight and bias in fp32 of a product that reads what the module `read` gives.

        In int8 that are levels: of what a norm gives before its own weight and bias, or of embeddings.
        """
        weight = weight.float()
        bias = torch.zeros(len(weight)) if bias is None else bias.float()
        if self.dtype != torch.int8:
            return weight, bias
        if isinstance(read, Embedding):
            return weight * (self._reach[read] / LEVELS), bias
        assert isinstance(read, LayerNorm)
        return weight * (read.weight.float() * (REACH / LEVELS)), bias + weight @ read.bias.float()

    def _linear(self, weight: Tensor, bias: Tensor, *, zero: int = ZERO) -> tuple[_Linear, Tensor]:
        """Pack weight (out, in) and bias (out,), in fp32; return its rows, too.

        `zero` is the level of 0 among its inputs.
        """
        n_out, n_in = weight.shape
        made = _Linear(n_in=n_in, n_out=n_out, bias=self._padded(bias))
        if self.dtype == torch.int8:
            scales = weight.abs().amax(dim=1).clamp(min=torch.finfo(torch.float32).tiny) / LEVELS
            weight = (weight / scales[:, None]).round()
            made.scales = self._padded(scales)
            made.sums = self._padded((self.library.dragoman_shift() - zero) * weight.sum(1).int())
        rows = weight.to(self.dtype).contiguous()
        n_bytes = self.library.dragoman_packed_bytes(KINDS[self.dtype], n_in, n_out)
        packed = torch.empty(n_bytes + COLUMNS, dtype=torch.uint8)
        packed = packed[-packed.data_ptr() % COLUMNS :]  # the address is a multiple of it
        self.library.dragoman_pack(KINDS[self.dtype], rows.data_ptr(), None, n_in, n_out, packed.data_ptr())
        made.packed = self._pointer(packed)
        return made, rows

    def _padded(self, x: Tensor) -> int:
        return self._pointer(F.pad(x, (0, -len(x) % COLUMNS)))

    def _pointer(self, x: Tensor) -> int:
        assert x.is_contiguous()
        self._alive.append(x)
        return x.data_ptr()

    def _norm(self, norm: nn.Module) -> _Norm:
        """Describe a norm; the identity, which nothing asks for, has none."""
        if not isinstance(norm, LayerNorm):
            return _Norm()
        weight, bias = norm.weight.detach().float().contiguous(), norm.bias.detach().float().contiguous()
        return _Norm(weight=self._pointer(weight), bias=self._pointer(bias), epsilon=norm.eps)

    def _embedding(self, embedding: Embedding) -> _Embedding:
        tokens = embedding.tokens.weight.detach().float().contiguous()
        positions = embedding.positions.detach().float().contiguous()
        return _Embedding(
            tokens=self._pointer(tokens), positions=self._pointer(positions), scale=embedding.scale,
            gain=LEVELS / self._reach[embedding] if self._reach else 1.0,
        )  # fmt: skip


def with_scaled_queries(attention: MultiHeadAttention) -> tuple[Tensor, Tensor]:
    """Weight and bias of `in_proj` in fp32, with 1 / sqrt(d) in the rows of the queries."""
    d_model = attention.out_proj.out_features
    factor = torch.ones(3 * d_model, 1)
    factor[:d_model] = (d_model // attention.n_heads) ** -0.5
    return attention.in_proj.weight.float() * factor, attention.in_proj.bias.float() * factor[:, 0]


def largest(weight: Tensor) -> Tensor:
    """(out,): the largest outputs of a projection that reads levels, bias left out.

    It is REACH standard deviations, were its inputs independent.
    """
    return weight.norm(dim=1) * LEVELS


def reach_of(embedding: Embedding) -> float:
    """Return what 8 bits hold of embeddings: the largest, or twice REACH standard deviations."""
    tokens, positions = embedding.tokens.weight.float() * embedding.scale, embedding.positions.float()
    deviation = float((tokens.square().mean() + positions.square().mean()).sqrt())
    return min(float(tokens.abs().max() + positions.abs().max()), 2 * REACH * deviation)


class CompiledSteps:
    """The next-token function of `IncrementalDecoder`; what it returns is good until the next call."""

    def __init__(
        self,
        decoder: CompiledDecoder,
        src: Tensor,
        src_mask: Tensor,
        *,
        forbidden: tuple[int, ...] = (),
        allowed: Tensor | None = None,
    ) -> None:
        """Arguments are those of `CompiledDecoder.start`."""
        self.decoder = decoder
        self._n_columns = decoder.n_tokens
        self._log_probs = torch.empty(0)
        self.ids: Tensor | None = None
        """The tokens that the columns of log-probabilities stand for, rising; None: all."""
        never, columns, may_hold = torch.tensor(forbidden, dtype=torch.int32), None, None
        if allowed is not None:
            self.ids = allowed.any(0).nonzero()[:, 0]
            self._n_columns, columns = len(self.ids), self.ids.int()
            may_hold = allowed[:, self.ids] & ~torch.isin(self.ids, never)
        tokens, lengths = src[src_mask], src_mask.sum(1, dtype=torch.int32)
        self._steps = decoder.library.dragoman_begin(
            ctypes.byref(decoder.model), never.data_ptr(), len(never), tokens.data_ptr(), lengths.data_ptr(),
            len(src), *(None if x is None else x.data_ptr() for x in (columns, may_hold)), self._n_columns,
        )  # fmt: skip
        _check(self._steps)

    def __del__(self) -> None:
        if getattr(self, "_steps", None):
            self.decoder.library.dragoman_end(self._steps)

    def __call__(self, last: Tensor, parents: Tensor) -> Tensor:
        """last (N,) tokens, parents (N,) rows of the previous call -> log-probabilities (N, V) in fp32."""
        n_rows, n_columns = last.numel(), self._n_columns
        last, parents = last.contiguous(), parents.contiguous()
        if self._log_probs.numel() < n_rows * n_columns:
            self._log_probs = torch.empty(n_rows * n_columns)
        log_probs = self._log_probs[: n_rows * n_columns].view(n_rows, n_columns)
        step = self.decoder.library.dragoman_step
        _check(step(self._steps, last.data_ptr(), parents.data_ptr(), n_rows, log_probs.data_ptr()))
        return log_probs


def _check(done: object) -> None:
    """MemoryError: the compiled code could not have the memory that it needs."""
    if not done:
        raise MemoryError("a search needs more memory than there is; translate fewer sentences at a time")
