"""The Transformer (Vaswani et al. 2017, figure 1): what all of them share, and the encoder-decoder."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from dragoman.config import EncoderConfig, ModelConfig
from dragoman.model.kernels import PLAIN, Kernels
from dragoman.model.layers import DecoderLayer, Embedding, EncoderLayer, LayerNorm, Linear, MultiHeadAttention

Stepping: TypeAlias = Literal["fast", "incremental", "whole"]
"""How a search computes the next tokens: by hand-written code for this device, by parts of the layers on one
token at a time, or by `decode` on all tokens so far."""


class Transformer(nn.Module):
    """What every architecture here shares: the encoder's layers, and how weights begin.

    Weights are fp32. Activations use `dtype`, fp32 at first, which may be changed between calls.
    """

    def __init__(self, config: EncoderConfig, *, kernels: Kernels) -> None:
        super().__init__()
        self.kernels = kernels
        self.dtype = torch.float32
        self.d_model = config.d_model
        self.encoder = nn.ModuleList(EncoderLayer(config, kernels) for _ in range(config.n_encoder_layers))
        # With pre-norm the residual stream is never normalised on its way; it is once, at the end.
        self.encoder_norm = final_norm(config)

    def encode_embedded(self, x: Tensor, real: Tensor) -> Tensor:
        """x (B, S, D), real (B, S) True at real tokens -> encoded (B, S, D)."""
        bias = attention_bias(real)
        for layer in self.encoder:
            x = layer(x, bias)
        return self.encoder_norm(x)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    @property
    def n_parameters(self) -> int:
        """Distinct weights; tied ones count once."""
        return sum(p.numel() for p in self.parameters())

    def initialise(self) -> None:
        """Xavier-uniform matrices, Q, K and V each by itself; embeddings normal with variance 1/d_model.

        Positions that are learned begin as the sinusoids.
        """
        for module in reversed(list(self.modules())):  # an attention block after its projections
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.d_model**-0.5)
            elif isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, MultiHeadAttention):
                for part in module.in_proj.weight.chunk(3):
                    nn.init.xavier_uniform_(part)


class Seq2SeqTransformer(Transformer):
    """Source ids and the target ids so far to logits of the next target token."""

    def __init__(
        self,
        config: ModelConfig,
        *,
        src_vocab_size: int,
        tgt_vocab_size: int,
        kernels: Kernels = PLAIN,
    ) -> None:
        super().__init__(config, kernels=kernels)
        self.config = config
        self.stepping: Stepping = "fast"
        self.src_embedding = Embedding(src_vocab_size, config, kernels)
        self.tgt_embedding = Embedding(tgt_vocab_size, config, kernels)
        self.decoder = nn.ModuleList(DecoderLayer(config, kernels) for _ in range(config.n_decoder_layers))
        self.decoder_norm = final_norm(config)
        self.output = Linear(config.d_model, tgt_vocab_size, bias=config.output_bias)
        self.initialise()
        nn.init.normal_(self.output.weight, std=config.d_model**-0.5)
        self._tie()

    def forward(self, src: Tensor, src_mask: Tensor, tgt_in: Tensor) -> Tensor:
        """src (B, S), src_mask (B, S), tgt_in (B, T) -> logits (B, T, V)."""
        return self.project(self.decode(tgt_in, self.encode(src, src_mask), src_mask))

    def encode(self, src: Tensor, src_mask: Tensor) -> Tensor:
        """src (B, S), src_mask (B, S) True at real tokens -> memory (B, S, D)."""
        return self.encode_embedded(self.src_embedding(src, dtype=self.dtype), src_mask)

    def decode(self, tgt_in: Tensor, memory: Tensor, src_mask: Tensor) -> Tensor:
        """tgt_in (B, T) from `<s>` on, memory (B, S, D), src_mask (B, S) -> hidden states (B, T, D)."""
        src_bias = attention_bias(src_mask)
        causal_bias = causal_attention_bias(tgt_in.shape[1], device=tgt_in.device)
        x = self.tgt_embedding(tgt_in, dtype=self.dtype)
        for layer in self.decoder:
            x = layer(x, memory, src_bias, causal_bias)
        return self.decoder_norm(x)

    def project(self, hidden: Tensor) -> Tensor:
        """Hidden states (..., D) -> logits (..., V)."""
        return self.output(hidden)

    def _tie(self) -> None:
        """Section 3.4: one matrix for the embeddings and the projection before the softmax."""
        if self.config.tie_embeddings in ("all", "output"):
            self.output.weight = self.tgt_embedding.tokens.weight
        if self.config.tie_embeddings == "all":
            self.src_embedding.tokens.weight = self.tgt_embedding.tokens.weight


def final_norm(config: EncoderConfig) -> nn.Module:
    """Return the module after the last layer: a norm with pre-norm, the identity with post-norm."""
    return LayerNorm(config.d_model, eps=config.norm_eps) if config.norm == "pre" else nn.Identity()


def encoder_layers(model: Transformer) -> list[EncoderLayer]:
    """Return the layers of its encoder, first to last."""
    return [layer for layer in model.encoder if isinstance(layer, EncoderLayer)]


def decoder_layers(model: Seq2SeqTransformer) -> list[DecoderLayer]:
    """Return the layers of its decoder, first to last."""
    return [layer for layer in model.decoder if isinstance(layer, DecoderLayer)]


def attention_bias(mask: Tensor) -> Tensor | None:
    """Return the bias (B, 1, 1, S) of a mask (B, S), True = attention is allowed; None = no bias."""
    if mask.device.type == "cpu" and mask.all():  # a GPU is not asked: the answer would have to be waited for
        return None
    bias = torch.zeros(mask.shape, device=mask.device).masked_fill_(~mask, float("-inf"))
    return bias[:, None, None, :]


def causal_attention_bias(length: int, *, device: torch.device) -> Tensor:
    """(T, T): 0 at and before the diagonal, -inf after it; no position sees a later one."""
    return torch.full((length, length), float("-inf"), device=device).triu_(1)
