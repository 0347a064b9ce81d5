"""Copies of a layer's weights in the memory layout that oneDNN multiplies fastest."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor, nn

from dragoman.model.layers import DecoderLayer, EncoderLayer, LayerNorm, MultiHeadAttention

ROWS_AT_ONCE = 64
"""Rows whose logits are made at once: those of 8,000 tokens stay in a second-level cache."""


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
