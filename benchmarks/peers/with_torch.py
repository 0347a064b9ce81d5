"""`torch.nn.Transformer` in a plain loop: fp32, padded batches, cross-entropy over all logits, AdamW."""

import math

import torch
from torch import nn
from worker import (
    D_FF,
    D_MODEL,
    DROPOUT,
    MAX_LENGTH,
    N_HEADS,
    N_LAYERS,
    PAD,
    plain_step,
    serve,
)


class PlainTransformer(nn.Module):
    def __init__(self, vocab_size):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, D_MODEL, padding_idx=PAD)
        self.register_buffer("positions", sinusoids())
        self.dropout = nn.Dropout(DROPOUT)
        self.transformer = nn.Transformer(
            D_MODEL, N_HEADS, N_LAYERS, N_LAYERS, D_FF, DROPOUT, batch_first=True, norm_first=True
        )
        self.output = nn.Linear(D_MODEL, vocab_size, bias=False)
        self.output.weight = self.embedding.weight

    def embed(self, ids):
        return self.dropout(self.embedding(ids) * math.sqrt(D_MODEL) + self.positions[: ids.shape[1]])

    def forward(self, src, tgt):
        causal = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1]).isinf()
        hidden = self.transformer(
            self.embed(src), self.embed(tgt), tgt_mask=causal, tgt_is_causal=True,
            src_key_padding_mask=src == PAD, memory_key_padding_mask=src == PAD,
        )  # fmt: skip
        return self.output(hidden)


def sinusoids():
    position = torch.arange(MAX_LENGTH)[:, None]
    rate = torch.exp(torch.arange(0, D_MODEL, 2) * (-math.log(10000.0) / D_MODEL))
    return torch.stack([torch.sin(position * rate), torch.cos(position * rate)], dim=-1).flatten(1)


def make_step(vocab_size):
    model = PlainTransformer(vocab_size).train()
    return plain_step(model, model)


if __name__ == "__main__":
    serve(make_step)
