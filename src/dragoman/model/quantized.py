"""Copies of a layer's weights for the packed decoder: as oneDNN multiplies them fastest, and in int8.

In int8 what a product reads are 8 bits with one scale for all rows, known before the first sentence, so that
no row's result depends on another's. A layer norm has made its outputs as large as they are (its weight and
bias go into the product behind it); values and ReLUs are linear in such outputs, so that the weights tell
how large they can become, and each column has its scale from there. Sums are in int32, all between the
products is in fp32.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.model.layers import DecoderLayer, EncoderLayer, LayerNorm, MultiHeadAttention

ROWS_AT_ONCE = 64
"""Rows whose logits are made at once: those of 8,000 tokens stay in a second-level cache."""
REACH = 6.0
"""Standard deviations that 8 bits hold: what lies further from 0 counts as this."""
LEVELS = 127
"""The largest of 8 bits with a sign."""


class PackedLinear:
    """x W^T + b, with what is done to the result; x (N, in) in the type that it was packed for."""

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> None:
        self.rows = weight.to(dtype).contiguous()
        """(out, in), as they are."""
        self.bias = None if bias is None else bias.to(dtype)

    @cached_property
    def weight(self) -> Tensor:
        return torch.ops.mkldnn._reorder_linear_weight(self.rows, ROWS_AT_ONCE)

    def __call__(self, x: Tensor, *, activation: str = "none") -> Tensor:
        """`activation` is "none", "relu", "gelu" or "swish"."""
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, activation, [], "none")

    def only(self, ids: Tensor) -> PackedLinear:
        """Return the product of the rows `ids` (K,) alone."""
        return PackedLinear(self.rows[ids], None if self.bias is None else self.bias[ids], self.rows.dtype)

    def added_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """residual + x W^T + b."""
        return torch.ops.mkldnn._linear_pointwise.binary(x, residual, self.weight, self.bias, "add")


class PackedNorm:
    """Layer norm, or nothing where a model has none there."""

    def __init__(self, norm: nn.Module, dtype: torch.dtype) -> None:
        self.is_there = isinstance(norm, LayerNorm)
        if isinstance(norm, LayerNorm):
            self.shape, self.epsilon = norm.normalized_shape, norm.eps
            self.weight, self.bias = norm.weight.to(dtype), norm.bias.to(dtype)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, self.shape, self.weight, self.bias, self.epsilon) if self.is_there else x


class PackedLayer:
    """The weights of an encoder layer. Queries are scaled by their projection."""

    def __init__(self, layer: EncoderLayer | DecoderLayer, dtype: torch.dtype) -> None:
        attention, feed_forward = layer.self_attention, layer.feed_forward
        self.own_in = PackedLinear(*with_scaled_queries(attention), dtype)
        self.own_out = PackedLinear(attention.out_proj.weight, attention.out_proj.bias, dtype)
        self.wide = PackedLinear(feed_forward.linear1.weight, feed_forward.linear1.bias, dtype)
        self.narrow = PackedLinear(feed_forward.linear2.weight, feed_forward.linear2.bias, dtype)
        self.norms = [PackedNorm(residual.get_submodule("norm"), dtype) for residual in layer.residuals]


class PackedDecoderLayer(PackedLayer):
    """The weights of a decoder layer."""

    def __init__(self, layer: DecoderLayer, dtype: torch.dtype) -> None:
        super().__init__(layer, dtype)
        cross = layer.cross_attention
        weight, bias = with_scaled_queries(cross)
        d_model = cross.out_proj.out_features
        self.cross_query = PackedLinear(weight[:d_model], bias[:d_model], dtype)
        self.cross_memory = PackedLinear(weight[d_model:], bias[d_model:], dtype)
        self.cross_out = PackedLinear(cross.out_proj.weight, cross.out_proj.bias, dtype)


def with_scaled_queries(attention: MultiHeadAttention) -> tuple[Tensor, Tensor]:
    """Weight and bias of `in_proj` in fp32, with 1 / sqrt(d) in the rows of the queries."""
    d_model = attention.out_proj.out_features
    factor = torch.ones(3 * d_model, 1)
    factor[:d_model] = (d_model // attention.n_heads) ** -0.5
    return attention.in_proj.weight.float() * factor, attention.in_proj.bias.float() * factor[:, 0]


def is_quantizable(config: ModelConfig) -> bool:
    """Whether every product of such a model reads what `REACH` is said of."""
    return config.norm == "pre" and config.activation == "relu"


class QuantizedNorm:
    """Layer norm without its weight and bias (see `folded`), as levels: x (N, D) in fp32 -> (N, D) uint8."""

    def __init__(self, norm: nn.Module) -> None:
        assert isinstance(norm, LayerNorm)
        self.shape, self.epsilon = norm.normalized_shape, norm.eps
        self.weight = torch.full(self.shape, LEVELS / REACH)

    def __call__(self, x: Tensor) -> Tensor:
        return levels(torch.layer_norm(x, self.shape, self.weight, None, self.epsilon))


def levels(x: Tensor) -> Tensor:
    """x in fp32, which is changed -> round(x) + 128, from 1 to 255, in uint8: what oneDNN's int8 reads.

    NaN becomes 0, which no number does.
    PyTorch converts to uint8 one by one, to int8 sixteen at a time; the first bit is what they differ in.
    """
    signed = x.clamp_(-LEVELS, LEVELS).round_().nan_to_num_(nan=-LEVELS - 1).to(torch.int8)
    return signed.view(torch.uint8).bitwise_xor_(128)


class QuantizedLinear:
    """x W^T + b: x (N, in) levels, W with a scale for each of its rows, sums in int32, the result in fp32."""

    def __init__(self, weight: Tensor, bias: Tensor, *, zero: int = LEVELS + 1) -> None:
        """weight (out, in) and bias (out,) in fp32, for an x of which one is one level and 0 is `zero`."""
        scales = weight.abs().amax(dim=1).clamp(min=torch.finfo(torch.float32).tiny) / LEVELS
        self._take((weight / scales[:, None]).round().to(torch.int8), scales, bias, zero)

    def _take(self, rows: Tensor, scales: Tensor, bias: Tensor, zero: int) -> None:
        """Take int8 rows (out, in) and their scales (out,)."""
        self.rows, self.scales, self.bias, self.zero = rows, scales, bias, zero
        self.zeros = torch.zeros(len(rows), dtype=torch.long)

    @cached_property
    def weight(self) -> Tensor:
        return torch.ops.onednn.qlinear_prepack(self.rows, None)

    def __call__(self, x: Tensor, *, activation: str = "none") -> Tensor:
        """(N, out) in fp32, NaN where a row of x has NaN; with "relu", levels of which 0 is 0."""
        dtype = torch.uint8 if activation == "relu" else torch.float32
        y = torch.ops.onednn.qlinear_pointwise(
            x, 1.0, self.zero, self.weight, self.scales, self.zeros, self.bias,
            1.0, 0, dtype, activation, [], "",
        )  # fmt: skip
        return self._with_nan(y, x) if activation == "none" else y

    def _with_nan(self, y: Tensor, x: Tensor) -> Tensor:
        """y (N, out), which is changed: NaN in the rows where x (N, in) has the level of NaN."""
        return y.masked_fill_((x == 0).any(1, keepdim=True), torch.nan) if self.zero else y

    def only(self, ids: Tensor) -> QuantizedLinear:
        """Return the product of the rows `ids` (K,) alone."""
        some = QuantizedLinear.__new__(QuantizedLinear)
        some._take(self.rows[ids], self.scales[ids], self.bias[ids], self.zero)
        return some

    def added_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """residual + x W^T + b, in the memory of `residual`; x may be in fp32, and is changed then."""
        x = levels(x) if x.dtype == torch.float32 else x
        return torch.ops.onednn.qlinear_pointwise.binary(
            x, 1.0, self.zero, self.weight, self.scales, self.zeros, self._with_nan(residual, x), self.bias,
            1.0, 0, torch.float32, 1.0, 0, "sum", 1.0, "none", [], "",
        )  # fmt: skip


class QuantizedLayer:
    """The weights of an encoder layer, as `PackedLayer` has them."""

    def __init__(self, layer: EncoderLayer | DecoderLayer) -> None:
        norms = [residual.get_submodule("norm") for residual in layer.residuals]
        out, feed_forward = layer.self_attention.out_proj, layer.feed_forward
        projections = folded(*with_scaled_queries(layer.self_attention), norms[0])
        self.own_in, unit = _with_values(*projections, n_others=2 * out.out_features)
        self.own_out = QuantizedLinear(out.weight.float() * unit, out.bias.float())
        weight, bias = folded(feed_forward.linear1.weight, feed_forward.linear1.bias, norms[-1])
        unit = (bias.clamp(min=0) + largest(weight)) / 255
        narrow = feed_forward.linear2
        self.wide = QuantizedLinear(weight / unit[:, None], bias / unit)
        self.narrow = QuantizedLinear(narrow.weight.float() * unit, narrow.bias.float(), zero=0)
        self.norms = [QuantizedNorm(norm) for norm in norms]


class QuantizedDecoderLayer(QuantizedLayer):
    """The weights of a decoder layer, as `PackedDecoderLayer` has them."""

    def __init__(self, layer: DecoderLayer, memory_norm: nn.Module) -> None:
        """`memory_norm` is the encoder's last."""
        super().__init__(layer)
        cross, query_norm = layer.cross_attention, layer.residuals[1].get_submodule("norm")
        weight, bias = with_scaled_queries(cross)
        d_model = cross.out_proj.out_features
        memory = folded(weight[d_model:], bias[d_model:], memory_norm)
        self.cross_query = QuantizedLinear(*folded(weight[:d_model], bias[:d_model], query_norm))
        self.cross_memory, unit = _with_values(*memory, n_others=d_model)
        self.cross_out = QuantizedLinear(cross.out_proj.weight.float() * unit, cross.out_proj.bias.float())


def folded(weight: Tensor, bias: Tensor | None, norm: nn.Module) -> tuple[Tensor, Tensor]:
    """Weight and bias of a projection that reads the levels of a `QuantizedNorm`, and did read `norm`."""
    assert isinstance(norm, LayerNorm)
    shift = weight.float() @ norm.bias.float()
    scaled = weight.float() * (norm.weight.float() * (REACH / LEVELS))
    return scaled, shift if bias is None else bias.float() + shift


def largest(weight: Tensor) -> Tensor:
    """(out,): how large the outputs of a projection that reads levels become, bias left out.

    REACH standard deviations, were its inputs independent.
    """
    return weight.norm(dim=1) * LEVELS


def _with_values(weight: Tensor, bias: Tensor, *, n_others: int) -> tuple[QuantizedLinear, Tensor]:
    """Return a projection to `n_others` and then to values, with a unit per value (D,), and these units.

    Of values so measured every weighted mean, which is what attention makes, is within +-LEVELS.
    """
    unit = (bias.abs() + largest(weight)) / LEVELS
    unit[:n_others] = 1.0
    return QuantizedLinear(weight / unit[:, None], bias / unit), unit[n_others:]
