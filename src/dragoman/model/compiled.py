"""A model as compiled code (dragoman/native.c) reads it: the steps of a search in one call each.

Weights are packed in fp32, bfloat16 or int8. In int8 what a product reads are 8 bits with one scale for
all rows, known before the first sentence, so that no row's result depends on another's. A layer norm has made
its outputs as large as they are (its weight and bias go into the product behind it); values and activations
are bounded by such inputs, so that the weights tell how large they can become, and each column has its scale
from there. Sums are in int32, all between the products is in fp32.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from itertools import chain
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dragoman.config import EncoderConfig, ModelConfig
from dragoman.model.architecture import embedding_names
from dragoman.model.weights import Floats, Weights, in_bf16, in_fp32, sinusoids
from dragoman.native import Int, Pointer, native

Kind: TypeAlias = Literal["int8", "bfloat16", "float32"]
"""What weights are stored in."""
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

KINDS: dict[str, int] = {"int8": 0, "bfloat16": 1, "float32": 2}
ACTIVATIONS = {"relu": 2, "gelu": 3, "swish": 4}
"""By their numbers in native.c, both."""
COLUMNS = 64
"""A multiple of the outputs of a block of packed weights."""
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


def why_not_compiled(config: EncoderConfig, kind: str) -> str:
    """Return why compiled code does not compute such a model in `kind` here; "": it does."""
    library = native().library
    if library is None:
        return native().reason
    if kind not in KINDS:
        return f"there is no compiled code for {kind}"
    if not library.dragoman_kinds() >> KINDS[kind] & 1:
        return f"the processor has no instructions for {kind}"
    return ""


class CompiledModel:
    """The packed weights of a model; of a classifier, those of the encoder alone."""

    @np.errstate(all="ignore")  # a search finds in the probabilities what is not finite
    def __init__(self, weights: Weights, config: EncoderConfig, *, kind: Kind) -> None:
        """Pack `weights`, by their names in a run's file, for which there must be no `why_not_compiled`.

        They are read now; what of them is fp32 is not copied, and must stay as it is.
        """
        packer = self._packer = _Packer(weights, config, kind)
        self.library, self.kind, self.config = packer.library, kind, config
        norms_after = config.norm == "post"
        encoder, decoder = [], []
        read = source = "src_embedding" if isinstance(config, ModelConfig) else "embedding"
        for i in range(config.n_encoder_layers):
            encoder.append(packer.layer(f"encoder.{i}", read))
            read = f"encoder.{i}.residuals.1.norm"
        memory = read if norms_after else "encoder_norm"
        model = _Model(
            kind=KINDS[kind], d_model=config.d_model, n_heads=config.n_heads, d_ff=config.d_ff,
            norms_after=norms_after, activation=ACTIVATIONS[config.activation],
            src=packer.embedding(source),
        )  # fmt: skip
        if isinstance(config, ModelConfig):
            read = "tgt_embedding"
            for i in range(config.n_decoder_layers):
                decoder.append(packer.layer(f"decoder.{i}", read, memory))
                read = f"decoder.{i}.residuals.2.norm"
            read = read if norms_after else "decoder_norm"
            weight = packer.weight("output.weight")
            bias = packer.weight("output.bias") if config.output_bias else np.zeros(len(weight), np.float32)
            model.output, rows = packer.linear(*packer.reading(read, weight, bias))
            model.output_rows, model.tgt = packer.pointer(rows), packer.embedding("tgt_embedding")
        if not norms_after:
            model.encoder_norm = packer.norm("encoder_norm")
            model.decoder_norm = packer.norm("decoder_norm") if decoder else _Norm()
        model.encoder, model.n_encoder_layers = (_Layer * len(encoder))(*encoder), len(encoder)
        model.decoder, model.n_decoder_layers = (_Layer * len(decoder))(*decoder), len(decoder)
        self.structure = model

    @property
    def n_tokens(self) -> int:
        """The target's tokens."""
        return int(self.structure.output.n_out)

    def encode(self, tokens: Ints, lengths: Ints) -> Floats:
        """Return what the encoder gives, behind its last norm: (T, D).

        tokens (T,) are sources of lengths (B,), one after the other. MemoryError: there is too little.
        """
        tokens, short = np.ascontiguousarray(tokens, np.int64), lengths.astype(np.int32)
        encoded = np.empty((len(tokens), self.config.d_model), np.float32)
        structure, addresses = ctypes.byref(self.structure), (x.ctypes.data for x in (tokens, short))
        check_memory(self.library.dragoman_encode(structure, *addresses, len(short), encoded.ctypes.data))
        return encoded


class _Packer:
    """Packs the parts of a model, and keeps what their structures point to."""

    def __init__(self, weights: Weights, config: EncoderConfig, kind: Kind) -> None:
        library = native().library
        assert library is not None
        self.library, self.kind = library, kind
        self._weights, self._config = weights, config
        self._tied: dict[str, str] = {}
        """The names in the file of weights that are there once."""
        if isinstance(config, ModelConfig):
            names = ("src_embedding.tokens.weight", "tgt_embedding.tokens.weight", "output.weight")
            self._tied = dict(zip(names, embedding_names(config), strict=True))
        self._alive: list[npt.NDArray[Any]] = []
        self._reach: dict[str, float] = {}
        """What 8 bits hold of embeddings, where products read these as levels."""
        if kind == "int8" and config.norm == "post":
            embeddings = ["src_embedding", "tgt_embedding"] if self._tied else ["embedding"]
            self._reach = {name: self._reach_of(name) for name in embeddings}

    def weight(self, name: str) -> Floats:
        """Return one of the weights in fp32."""
        return in_fp32(self._weights[self._tied.get(name, name)])

    def layer(self, name: str, before: str, memory: str = "") -> _Layer:
        """Pack a layer, which stands behind what is called `before`; one of a decoder looks at `memory`."""
        norms = [f"{name}.residuals.{i}.norm" for i in range(3 if memory else 2)]
        read = [before, *norms[:-1]] if self._config.norm == "post" else norms
        D = self._config.d_model
        parts: dict[str, _Linear | _Norm] = {
            "own_norm": self.norm(norms[0]), "feed_forward_norm": self.norm(norms[-1]),
        }  # fmt: skip
        attention = f"{name}.self_attention"
        weight, bias = self.reading(read[0], *self._with_scaled_queries(attention))
        parts |= self._attention("own_in", "own_out", weight, bias, f"{attention}.out_proj")
        if memory:
            attention = f"{name}.cross_attention"
            weight, bias = self._with_scaled_queries(attention)
            query = self.reading(read[1], weight[:D], bias[:D])
            parts |= {"cross_norm": self.norm(norms[1]), "cross_query": self.linear(*query)[0]}
            weight, bias = self.reading(memory, weight[D:], bias[D:])
            parts |= self._attention("cross_memory", "cross_out", weight, bias, f"{attention}.out_proj")
        weight, bias = self.reading(read[-1], *self._matrix(f"{name}.feed_forward.linear1"))
        unit = gains = np.ones(len(weight), np.float32)
        zero = ZERO
        if self.kind == "int8" and self._config.activation == "relu":  # linear: in the product itself
            unit, zero = (np.maximum(bias, 0) + largest(weight)) / np.float32(2 * LEVELS + 1), 0
            weight, bias = weight / unit[:, None], bias / unit
        elif self.kind == "int8":
            unit = (np.maximum(bias, 0) + largest(weight)) / np.float32(LEVELS)
            gains = np.float32(1) / unit
        narrow_weight, narrow_bias = self._matrix(f"{name}.feed_forward.linear2")
        parts |= {
            "wide": self.linear(weight, bias)[0],
            "narrow": self.linear(narrow_weight * unit, narrow_bias, zero=zero)[0],
        }
        return _Layer(**parts, gains=self.pointer(gains))

    def reading(self, read: str, weight: Floats, bias: Floats) -> tuple[Floats, Floats]:
        """Return weight and bias of a product that reads what `read` gives: a norm, or an embedding.

        In int8 that are levels: of what a norm gives before its own weight and bias, or of embeddings.
        """
        if self.kind != "int8":
            return weight, bias
        if read in self._reach:
            return weight * np.float32(self._reach[read] / LEVELS), bias
        of_norm, bias_of_norm = self._matrix(read)
        return weight * (of_norm * np.float32(REACH / LEVELS)), bias + weight @ bias_of_norm

    def linear(self, weight: Floats, bias: Floats, *, zero: int = ZERO) -> tuple[_Linear, npt.NDArray[Any]]:
        """Pack weight (out, in) and bias (out,), in fp32; return its rows, too.

        `zero` is the level of 0 among its inputs.
        """
        n_out, n_in = weight.shape
        made = _Linear(n_in=n_in, n_out=n_out, bias=self._padded(bias))
        rows: npt.NDArray[Any] = np.ascontiguousarray(weight)
        if self.kind == "int8":
            scales = np.maximum(np.abs(weight).max(axis=1), np.finfo(np.float32).tiny) / np.float32(LEVELS)
            levels = np.rint(weight / scales[:, None])
            rows = np.nan_to_num(levels, copy=False).astype(np.int8)  # of a NaN, scales are NaN, too
            made.scales = self._padded(scales)
            zero -= self.library.dragoman_shift()
            made.sums = self._padded(-zero * rows.sum(axis=1, dtype=np.int32))
        elif self.kind == "bfloat16":
            rows = in_bf16(rows)
        kind, n_bytes = KINDS[self.kind], self.library.dragoman_packed_bytes(KINDS[self.kind], n_in, n_out)
        packed = np.empty(n_bytes + COLUMNS, np.uint8)
        packed = packed[-packed.ctypes.data % COLUMNS :]  # the address is a multiple of it
        self.library.dragoman_pack(kind, rows.ctypes.data, None, n_in, n_out, packed.ctypes.data)
        made.packed = self.pointer(packed)
        return made, rows

    def norm(self, name: str) -> _Norm:
        """Describe a norm."""
        weight, bias = self._matrix(name)
        return _Norm(weight=self.pointer(weight), bias=self.pointer(bias), epsilon=self._config.norm_eps)

    def embedding(self, name: str) -> _Embedding:
        """Describe the embedding of one side."""
        return _Embedding(
            tokens=self.pointer(self.weight(f"{name}.tokens.weight")),
            positions=self.pointer(self._positions(name)), scale=self._scale,
            gain=LEVELS / self._reach[name] if self._reach else 1.0,
        )  # fmt: skip

    def pointer(self, x: npt.NDArray[Any]) -> int:
        """Return where `x` lies, and keep it there."""
        assert x.flags.c_contiguous
        self._alive.append(x)
        return x.ctypes.data

    @property
    def _scale(self) -> float:
        """What embeddings of tokens are multiplied by."""
        return math.sqrt(self._config.d_model) if self._config.scale_embeddings else 1.0

    def _matrix(self, name: str) -> tuple[Floats, Floats]:
        """Return weight and bias of a projection or norm."""
        return self.weight(f"{name}.weight"), self.weight(f"{name}.bias")

    def _with_scaled_queries(self, attention: str) -> tuple[Floats, Floats]:
        """Return weight and bias of `in_proj`, with 1 / sqrt(d) in the rows of the queries."""
        weight, bias = self._matrix(f"{attention}.in_proj")
        D = self._config.d_model
        factor = np.ones(3 * D, np.float32)
        factor[:D] = (D // self._config.n_heads) ** -0.5
        return weight * factor[:, None], bias * factor

    def _attention(
        self, into: str, out: str, weight: Floats, bias: Floats, projection: str
    ) -> dict[str, _Linear]:
        """Pack a product whose last outputs (D) are values, and the projection of what is made of these.

        In int8 each value has its unit: so measured, every weighted mean is within +-LEVELS.
        """
        D = self._config.d_model
        unit = np.ones(len(weight), np.float32)
        if self.kind == "int8":
            unit[-D:] = ((np.abs(bias) + largest(weight)) / LEVELS)[-D:]
        out_weight, out_bias = self._matrix(projection)
        return {
            into: self.linear(weight / unit[:, None], bias / unit)[0],
            out: self.linear(out_weight * unit[-D:], out_bias)[0],
        }

    def _padded(self, x: npt.NDArray[Any]) -> int:
        return self.pointer(np.pad(x, (0, -len(x) % COLUMNS)))

    def _positions(self, name: str) -> Floats:
        if self._config.positions == "sinusoidal":
            return sinusoids(self._config.max_positions, self._config.d_model)
        return self.weight(f"{name}.positions")

    def _reach_of(self, name: str) -> float:
        """Return what 8 bits hold of embeddings: the largest, or twice REACH standard deviations."""
        tokens, positions = self.weight(f"{name}.tokens.weight") * self._scale, self._positions(name)
        deviation = math.sqrt(np.square(tokens).mean() + np.square(positions).mean())
        return float(np.minimum(np.abs(tokens).max() + np.abs(positions).max(), 2 * REACH * deviation))


def largest(weight: Floats) -> Floats:
    """(out,): the largest outputs of a projection that reads levels, bias left out.

    It is REACH standard deviations, were its inputs independent.
    """
    return np.linalg.norm(weight, axis=1) * np.float32(LEVELS)


class CompiledSteps:
    """What a next-token function is, over arrays; what it returns is good until the next call."""

    def __init__(
        self,
        model: CompiledModel,
        sources: Sequence[Sequence[int]],
        *,
        forbidden: Sequence[int] = (),
        allowed: Bools | None = None,
        keep_attention: bool = False,
        keep_self_attention: bool = False,
    ) -> None:
        """Begin to translate `sources`, all the ids of each that the model looks at.

        `forbidden` ids get log-probability -inf. `allowed` (B, V) says which tokens a sentence may hold, the
        reserved ones among them: others have no probability, and those that no sentence may hold have no
        columns (`ids`). Attention is kept where that is asked for (`cross`, `decoder` and `encoder`).
        MemoryError: there is too little.
        """
        self.model, self._n_columns = model, model.n_tokens
        self._library = model.library
        self.looks: tuple[int, int] = model.structure.n_decoder_layers, model.config.n_heads
        """Layers of the decoder, and heads of each."""
        self._keep_attention, self._keep_self_attention = keep_attention, keep_self_attention
        self._n_steps = 0
        self.ids: Ints | None = None
        """The tokens that the columns of log-probabilities stand for, rising; None: all."""
        self.cross = self.decoder = self.encoder = np.zeros((0, 0, 0, 0), np.float32)
        """The attention kept: of the last call's rows to their sources, (N, layers, H, S); to the T tokens so
        far, (N, layers, H, T); and of each token to the others of its source, (tokens, layers, H, S), sources
        one after the other. S is that of the longest source; behind a shorter one, weights are 0.
        """
        never, columns, may_hold = np.array(forbidden, np.int32), None, None
        if allowed is not None:
            self.ids = np.flatnonzero(allowed.any(axis=0))
            self._n_columns, columns = len(self.ids), self.ids.astype(np.int32)
            may_hold = allowed.take(self.ids, axis=1) & ~np.isin(self.ids, never)
        tokens = np.fromiter(chain.from_iterable(sources), np.int64)
        lengths = np.fromiter(map(len, sources), np.int32)
        self._longest = int(lengths.max(initial=0))
        if keep_self_attention:
            shape = (len(tokens), model.config.n_encoder_layers, model.config.n_heads, self._longest)
            self.encoder = np.zeros(shape, np.float32)
        self._steps = self._library.dragoman_begin(
            ctypes.byref(model.structure), never.ctypes.data, len(never), tokens.ctypes.data,
            lengths.ctypes.data, len(lengths),
            *(None if x is None else x.ctypes.data for x in (columns, may_hold)), self._n_columns,
            self.encoder.ctypes.data if keep_self_attention else None,
        )  # fmt: skip
        check_memory(self._steps)
        self._make_room(len(lengths))

    def __del__(self) -> None:
        if getattr(self, "_steps", None):
            self._library.dragoman_end(self._steps)

    def __call__(self, last: Ints, parents: Ints) -> Floats:
        """last (N,) tokens, parents (N,) rows of the previous call -> log-probabilities (N, C) in fp32."""
        n_rows = len(last)
        if n_rows > len(self._log_probs):
            self._make_room(n_rows)
        self._read[0, :n_rows], self._read[1, :n_rows] = last, parents
        self._n_steps += 1
        to_past = to_source = None
        if self._keep_attention:
            self.cross = np.zeros((n_rows, *self.looks, self._longest), np.float32)
            to_source = self.cross.ctypes.data
        if self._keep_self_attention:
            self.decoder = np.zeros((n_rows, *self.looks, self._n_steps), np.float32)
            to_past = self.decoder.ctypes.data
        of_last, of_parents, of_log_probs = self._addresses
        step = self._library.dragoman_step
        check_memory(step(self._steps, of_last, of_parents, n_rows, of_log_probs, to_past, to_source))
        return self._log_probs[:n_rows]

    def _make_room(self, n_rows: int) -> None:
        """Have arrays that steps read and write: to ask for an address takes longer than to copy there."""
        self._read = np.empty((2, n_rows), np.int64)
        self._log_probs = np.empty((n_rows, self._n_columns), np.float32)
        self._addresses = [array.ctypes.data for array in (*self._read, self._log_probs)]


def check_memory(done: object) -> None:
    """MemoryError: the compiled code could not have the memory that it needs."""
    if not done:
        raise MemoryError("a search needs more memory than there is; translate fewer sentences at a time")
