"""Hugging Face `MarianMTModel` in a plain loop: fp32, padded batches, AdamW. It wants transformers."""

from transformers import MarianConfig, MarianMTModel
from worker import (
    BOS,
    D_FF,
    D_MODEL,
    DROPOUT,
    EOS,
    MAX_LENGTH,
    N_HEADS,
    N_LAYERS,
    PAD,
    plain_step,
    serve,
)


def make_step(vocab_size):
    config = MarianConfig(
        vocab_size=vocab_size, d_model=D_MODEL, encoder_layers=N_LAYERS, decoder_layers=N_LAYERS,
        encoder_attention_heads=N_HEADS, decoder_attention_heads=N_HEADS, encoder_ffn_dim=D_FF,
        decoder_ffn_dim=D_FF, dropout=DROPOUT, attention_dropout=0.0, activation_function="relu",
        max_position_embeddings=MAX_LENGTH, pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS,
        decoder_start_token_id=BOS, forced_eos_token_id=EOS, scale_embedding=True,
    )  # fmt: skip
    model = MarianMTModel(config).train()

    def logits_of(src, inputs):
        return model(input_ids=src, attention_mask=(src != PAD).long(), decoder_input_ids=inputs).logits

    return plain_step(model, logits_of)


if __name__ == "__main__":
    serve(make_step)
