"""Hugging Face `MarianMTModel` in a plain loop: fp32, padded batches, AdamW. Needs transformers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

from dragoman.data.batching import TranslationBatch

from .shape import D_FF, D_MODEL, DROPOUT, MAX_LENGTH, N_HEADS, N_LAYERS, PAD, RATE, SMOOTHING


def make_step(vocab_size: int) -> Callable[[TranslationBatch], None]:
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=vocab_size, d_model=D_MODEL, encoder_layers=N_LAYERS, decoder_layers=N_LAYERS,
        encoder_attention_heads=N_HEADS, decoder_attention_heads=N_HEADS, encoder_ffn_dim=D_FF,
        decoder_ffn_dim=D_FF, dropout=DROPOUT, attention_dropout=0.0, activation_function="relu",
        max_position_embeddings=MAX_LENGTH, pad_token_id=PAD, eos_token_id=2, decoder_start_token_id=1,
        forced_eos_token_id=2, scale_embedding=True,
    )  # fmt: skip
    model = MarianMTModel(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)

    def step(batch: TranslationBatch) -> None:
        logits = model(
            input_ids=batch.src, attention_mask=(batch.src != PAD).long(), decoder_input_ids=batch.tgt_in
        ).logits
        loss = F.cross_entropy(
            logits.flatten(0, 1), batch.tgt_out.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING
        )
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step
