"""Steps of a packed decoder in one compiled call each (dragoman/native.c); same function as `PackedSteps`.

The compiled code knows pre-norm models with ReLU. Others, and machines without it, have PyTorch's operations.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.model.layers import Embedding
from dragoman.model.quantized import (
    LEVELS,
    REACH,
    PackedDecoderLayer,
    PackedLayer,
    PackedLinear,
    PackedNorm,
    QuantizedDecoderLayer,
    QuantizedLayer,
    QuantizedLinear,
    QuantizedNorm,
)
from dragoman.native import Int, Pointer, native

KINDS = {torch.int8: 0, torch.bfloat16: 1, torch.float32: 2}
"""What weights are stored in, by its number in native.c."""
COLUMNS = 64
"""Outputs of a block of packed weights, as in native.c."""
INPUTS_MULTIPLE_OF = 4
"""Input widths that blocks can be packed for."""

Float = ctypes.c_float


class _Linear(ctypes.Structure):
    _fields_ = (
        ("n_in", Int), ("n_out", Int),
        ("packed", Pointer), ("scales", Pointer), ("bias", Pointer), ("sums", Pointer),
    )  # fmt: skip


class _Norm(ctypes.Structure):
    _fields_ = (("weight", Pointer), ("bias", Pointer), ("epsilon", Float), ("gain", Float))


class _Layer(ctypes.Structure):
    _fields_ = (
        *((name, _Linear) for name in (
            "own_in", "own_out", "cross_query", "cross_memory", "cross_out", "wide", "narrow",
        )),
        *((name, _Norm) for name in ("own_norm", "cross_norm", "feed_forward_norm")),
    )  # fmt: skip


class _Embedding(ctypes.Structure):
    _fields_ = (
        ("tokens", Pointer), ("positions", Pointer),
        ("scale", Float), ("n_tokens", Int), ("n_positions", Int),
    )  # fmt: skip


class _Model(ctypes.Structure):
    _fields_ = (
        *((name, Int) for name in (
            "kind", "d_model", "n_heads", "d_ff", "n_encoder_layers", "n_decoder_layers",
        )),
        ("encoder", ctypes.POINTER(_Layer)), ("decoder", ctypes.POINTER(_Layer)),
        ("encoder_norm", _Norm), ("decoder_norm", _Norm),
        ("src", _Embedding), ("tgt", _Embedding),
        ("output", _Linear), ("output_rows", Pointer),
    )  # fmt: skip


class CompiledDecoder:
    """A packed decoder as the compiled code reads it."""

    def __init__(
        self,
        *,
        encoder: Sequence[PackedLayer | QuantizedLayer],
        encoder_norm: PackedNorm | QuantizedNorm,
        layers: Sequence[PackedDecoderLayer | QuantizedDecoderLayer],
        norm: PackedNorm | QuantizedNorm,
        output: PackedLinear | QuantizedLinear,
        embeddings: tuple[Embedding, Embedding],
        n_heads: int,
    ) -> None:
        """Pack the weights again, in the blocks that the compiled code multiplies."""
        library = native().library
        assert library is not None
        self.library = library
        self.kind = KINDS[output.rows.dtype]
        self.n_tokens, d_model = output.rows.shape
        self._alive: list[Tensor] = []
        """What the structures point to."""
        self.model = _Model(
            kind=self.kind, d_model=d_model, n_heads=n_heads, d_ff=layers[0].wide.rows.shape[0],
            n_encoder_layers=len(encoder), n_decoder_layers=len(layers),
            encoder=(_Layer * len(encoder))(*map(self._layer, encoder)),
            decoder=(_Layer * len(layers))(*map(self._layer, layers)),
            encoder_norm=self._norm(encoder_norm), decoder_norm=self._norm(norm),
            src=self._embedding(embeddings[0]), tgt=self._embedding(embeddings[1]),
            output=self._linear(output), output_rows=self._pointer(output.rows),
        )  # fmt: skip

    def _pointer(self, x: Tensor) -> int:
        assert x.is_contiguous()
        self._alive.append(x)
        return x.data_ptr()

    def _layer(self, layer: PackedLayer | QuantizedLayer) -> _Layer:
        products = ["own_in", "own_out", "wide", "narrow"]
        norms = {"own_norm": layer.norms[0], "feed_forward_norm": layer.norms[-1]}
        if isinstance(layer, (PackedDecoderLayer, QuantizedDecoderLayer)):
            products += ["cross_query", "cross_memory", "cross_out"]
            norms["cross_norm"] = layer.norms[1]
        return _Layer(
            **{name: self._linear(getattr(layer, name)) for name in products},
            **{name: self._norm(norm) for name, norm in norms.items()},
        )

    def _linear(self, linear: PackedLinear | QuantizedLinear) -> _Linear:
        n_out, n_in = linear.rows.shape
        n_missing = -n_out % COLUMNS
        n_bytes = self.library.dragoman_packed_bytes(self.kind, n_in, n_out)
        packed = torch.empty(n_bytes + COLUMNS, dtype=torch.uint8)
        packed = packed[-packed.data_ptr() % COLUMNS :]  # the address is a multiple of it
        self.library.dragoman_pack(self.kind, linear.rows.data_ptr(), None, n_in, n_out, packed.data_ptr())
        bias = torch.zeros(n_out) if linear.bias is None else linear.bias.float()
        made = _Linear(
            n_in=n_in,
            n_out=n_out,
            packed=self._pointer(packed),
            bias=self._pointer(F.pad(bias, (0, n_missing))),
        )
        if isinstance(linear, QuantizedLinear):
            sums = -linear.zero * linear.rows.sum(1, dtype=torch.int32)
            made.sums = self._pointer(F.pad(sums, (0, n_missing)))
            made.scales = self._pointer(F.pad(linear.scales, (0, n_missing)))
        return made

    def _norm(self, norm: PackedNorm | QuantizedNorm) -> _Norm:
        if isinstance(norm, QuantizedNorm):
            return _Norm(epsilon=norm.epsilon, gain=LEVELS / REACH)
        weight, bias = norm.weight.float().contiguous(), norm.bias.float().contiguous()
        return _Norm(weight=self._pointer(weight), bias=self._pointer(bias), epsilon=norm.epsilon)

    def _embedding(self, embedding: Embedding) -> _Embedding:
        tokens = embedding.tokens.weight.detach().float().contiguous()
        positions = embedding.positions.detach().float().contiguous()
        return _Embedding(
            tokens=self._pointer(tokens), positions=self._pointer(positions), scale=embedding.scale,
            n_tokens=len(tokens), n_positions=len(positions),
        )  # fmt: skip


def can_compile(dtype: torch.dtype, widths: Sequence[int]) -> bool:
    """Whether compiled code for weights in `dtype` is there, and inputs of these widths can be packed."""
    library = native().library
    if library is None or any(width % INPUTS_MULTIPLE_OF for width in widths):
        return False
    return bool(library.dragoman_kinds() >> KINDS[dtype] & 1)


class CompiledSteps:
    """A next-token function like `PackedSteps`; what it returns is good until the next call."""

    def __init__(
        self,
        decoder: CompiledDecoder,
        src: Tensor,
        src_mask: Tensor,
        *,
        forbidden: tuple[int, ...] = (),
        allowed: Tensor | None = None,
    ) -> None:
        """Arguments are those of `PackedDecoder.start`."""
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
