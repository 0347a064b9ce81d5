"""The blocks of the paper: positions, attention, feed-forward, and the two kinds of layer.

A block is called on activations of any floating type and computes in that type; weights are cast on
use, so that fp32 weights can be trained with bf16 activations.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.config import EncoderConfig
from dragoman.model import weights
from dragoman.model.kernels import Kernels

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu}
"""By the names that the configuration has for them."""


class Linear(nn.Linear):
    """x W^T + b in the type of x."""

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight.to(x.dtype), None if self.bias is None else self.bias.to(x.dtype))


class LayerNorm(nn.LayerNorm):
    """Layer norm over the last dimension in the type of x (Ba et al. 2016)."""

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = self.weight.to(x.dtype), self.bias.to(x.dtype)
        return F.layer_norm(x, self.normalized_shape, weight, bias, self.eps)


class Dropout(nn.Module):
    """Dropout by the model's kernels; the identity in evaluation."""

    def __init__(self, p: float, kernels: Kernels) -> None:
        super().__init__()
        self.p = p
        self.kernels = kernels

    def forward(self, x: Tensor) -> Tensor:
        return self.kernels.dropout(x, self.p) if self.training and self.p else x


def sinusoids(n_positions: int, d_model: int) -> Tensor:
    """(n_positions, D) position encodings: `weights.sinusoids`."""
    return torch.from_numpy(weights.sinusoids(n_positions, d_model))


class Embedding(nn.Module):
    """Token embeddings times sqrt(d_model), plus positions, then dropout (sections 3.4, 3.5 and 5.4).

    `positions` (max_positions, D) belong to the weights where they are "learned" or "stored"; the latter
    are never trained.
    """

    def __init__(self, vocab_size: int, config: EncoderConfig, kernels: Kernels) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, config.d_model)
        self.scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.dropout = Dropout(config.dropout, kernels)
        self.positions: Tensor
        table = sinusoids(config.max_positions, config.d_model)
        if config.positions == "sinusoidal":
            self.register_buffer("positions", table, persistent=False)
        else:
            self.positions = nn.Parameter(table, requires_grad=config.positions == "learned")

    def forward(self, ids: Tensor, *, dtype: torch.dtype, start: int = 0) -> Tensor:
        """ids (B, T), the first of them at position `start` -> (B, T, D) in `dtype`."""
        x = self.tokens(ids) * self.scale + self.positions[start : start + ids.shape[1]]
        return self.dropout(x.to(dtype))

    def at(self, ids: Tensor, position: Tensor, *, dtype: torch.dtype) -> Tensor:
        """ids (N, 1), each at its `position` (N,), or all at the same (1,) -> (N, 1, D) in `dtype`."""
        x = self.tokens(ids) * self.scale + self.positions.index_select(0, position)[:, None]
        return self.dropout(x.to(dtype))


class MultiHeadAttention(nn.Module):
    """Multi-head attention (section 3.2.2); `in_proj` holds W^Q, W^K and W^V of all heads, stacked."""

    def __init__(self, config: EncoderConfig, kernels: Kernels) -> None:
        super().__init__()
        self.n_heads = config.n_heads
        self.dropout = config.attention_dropout
        self.kernels = kernels
        self.in_proj = Linear(config.d_model, 3 * config.d_model)
        self.out_proj = Linear(config.d_model, config.d_model)

    def forward(self, x: Tensor, memory: Tensor | None, bias: Tensor | None) -> Tensor:
        """x (B, T, D) attends to memory (B, S, D), or to itself where that is None -> (B, T, D).

        `bias` is added to the scores, (B, H, T, S) or broadcast to it: -inf where attention is forbidden.
        """
        if memory is None:
            q, k, v = self.in_proj(x).chunk(3, dim=-1)  # each (B, T, D)
        else:
            q = self.project_query(x)
            k, v = self.project_memory(memory)
        return self.attend(q, k, v, bias)

    def project_query(self, x: Tensor) -> Tensor:
        """x (B, T, D) -> queries (B, T, D)."""
        d_model = self.in_proj.in_features  # a constant of exported graphs, unlike x.shape[-1]
        return F.linear(x, self.in_proj.weight[:d_model].to(x.dtype), self.in_proj.bias[:d_model].to(x.dtype))

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """memory (B, S, D) -> keys and values, each (B, S, D)."""
        d_model = self.in_proj.in_features
        weight, bias = self.in_proj.weight[d_model:], self.in_proj.bias[d_model:]
        keys, values = F.linear(memory, weight.to(memory.dtype), bias.to(memory.dtype)).chunk(2, dim=-1)
        return keys, values

    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
        """q (B, T, D), k and v (B, S, D), all projected -> (B, T, D)."""
        q, k, v = (self.split_heads(t) for t in (q, k, v))
        dropout = self.dropout if self.training else 0.0
        return self.merge_heads(self.kernels.attention(q, k, v, bias, dropout))

    def split_heads(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, H, T, D/H)."""
        return x.view(*x.shape[:2], self.n_heads, -1).transpose(1, 2)

    def merge_heads(self, x: Tensor) -> Tensor:
        """(B, H, T, D/H) -> (B, T, D), through the output projection."""
        return self.out_proj(x.transpose(1, 2).flatten(2))


def attention_weights(q: Tensor, k: Tensor, bias: Tensor | None = None) -> Tensor:
    """softmax(QKᵀ/√d + bias) in fp32: q (B, H, T, d), k (B, H, S, d) -> (B, H, T, S).

    The weights that attention multiplies values with; no kernel returns them.
    """
    scores = q.float() @ k.float().transpose(-2, -1) * q.shape[-1] ** -0.5
    return torch.softmax(scores if bias is None else scores + bias, dim=-1)


class FeedForward(nn.Module):
    """max(0, x W1 + b1) W2 + b2 at every position (section 3.3), or GELU or swish in place of max."""

    def __init__(self, config: EncoderConfig, kernels: Kernels) -> None:
        super().__init__()
        self.linear1 = Linear(config.d_model, config.d_ff)
        self.linear2 = Linear(config.d_ff, config.d_model)
        self.activation = ACTIVATIONS[config.activation]
        self.dropout = Dropout(config.activation_dropout, kernels)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class Residual(nn.Module):
    """Round every sub-layer: norm(x + sublayer(x)) as in the paper ("post"), or x + sublayer(norm(x))."""

    def __init__(self, config: EncoderConfig, kernels: Kernels) -> None:
        super().__init__()
        self.pre_norm = config.norm == "pre"
        self.norm = LayerNorm(config.d_model, eps=config.norm_eps)
        self.dropout = Dropout(config.dropout, kernels)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.pre_norm:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward (figure 1, left)."""

    def __init__(self, config: EncoderConfig, kernels: Kernels) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config, kernels)
        self.feed_forward = FeedForward(config, kernels)
        self.residuals = nn.ModuleList(Residual(config, kernels) for _ in range(2))

    def forward(self, x: Tensor, src_bias: Tensor | None) -> Tensor:
        """x (B, S, D) -> (B, S, D)."""
        x = self.residuals[0](x, lambda y: self.self_attention(y, None, src_bias))
        x = self.residuals[1](x, self.feed_forward)
        return x


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the encoder's output, then feed-forward (figure 1, right)."""

    def __init__(self, config: EncoderConfig, kernels: Kernels) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config, kernels)
        self.cross_attention = MultiHeadAttention(config, kernels)
        self.feed_forward = FeedForward(config, kernels)
        self.residuals = nn.ModuleList(Residual(config, kernels) for _ in range(3))

    def forward(self, x: Tensor, memory: Tensor, src_bias: Tensor | None, causal_bias: Tensor) -> Tensor:
        """x (B, T, D), memory (B, S, D) -> (B, T, D)."""
        x = self.residuals[0](x, lambda y: self.self_attention(y, None, causal_bias))
        x = self.residuals[1](x, lambda y: self.cross_attention(y, memory, src_bias))
        x = self.residuals[2](x, self.feed_forward)
        return x
