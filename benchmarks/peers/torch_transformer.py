"""`torch.nn.Transformer` in a plain loop: fp32, padded batches, cross-entropy over all logits, AdamW."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.data.batching import TranslationBatch
from dragoman.model.layers import sinusoids

from .shape import D_FF, D_MODEL, DROPOUT, MAX_LENGTH, N_HEADS, N_LAYERS, PAD, RATE, SMOOTHING


class PlainTransformer(nn.Module):
    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, D_MODEL, padding_idx=PAD)
        self.positions: Tensor
        self.register_buffer("positions", sinusoids(MAX_LENGTH, D_MODEL))
        self.dropout = nn.Dropout(DROPOUT)
        self.transformer = nn.Transformer(
            D_MODEL, N_HEADS, N_LAYERS, N_LAYERS, D_FF, DROPOUT, batch_first=True, norm_first=True
        )
        self.output = nn.Linear(D_MODEL, vocab_size, bias=False)
        self.output.weight = self.embedding.weight

    def embed(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids) * math.sqrt(D_MODEL) + self.positions[: ids.shape[1]]
        return self.dropout(x)

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(tgt_in.shape[1]).isinf()
        hidden = self.transformer(
            self.embed(src), self.embed(tgt_in), tgt_mask=causal, tgt_is_causal=True,
            src_key_padding_mask=src == PAD, memory_key_padding_mask=src == PAD,
        )  # fmt: skip
        return self.output(hidden)


def make_step(vocab_size: int) -> Callable[[TranslationBatch], None]:
    model = PlainTransformer(vocab_size).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)

    def step(batch: TranslationBatch) -> None:
        logits = model(batch.src, batch.tgt_in)
        loss = F.cross_entropy(
            logits.flatten(0, 1), batch.tgt_out.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING
        )
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step
