"""Settings by the size of the corpus, for a training that names its files and nothing else."""

from __future__ import annotations

import math
import re
from pathlib import PurePath
from typing import Any, NamedTuple

from dragoman.errors import ConfigError


class Preset(NamedTuple):
    """The settings for corpora of fewer than `n_pairs` pairs."""

    n_pairs: float
    vocab_size: int
    d_model: int
    n_heads: int
    d_ff: int
    n_layers: int
    """Of the encoder, and as many of the decoder."""
    dropout: float
    batch_tokens: int
    update_freq: int
    max_steps: int
    learning_rate: float
    warmup_steps: int


# Little text wants a small model, strong dropout and many passes; much text the reverse. A target
# sentence of 15 tokens given, the rows make about 60 passes at 10k pairs, 35 at 50k, 20 at 250k,
# 17 at 1M, and 16 at 10M. The last row is the base model of Vaswani et al. 2017, in its batch size.
PRESETS = (
    #      pairs <  vocab  d  heads d_ff layers drop batch freq   steps    rate  warm-up
    Preset(10_000, 2000, 128, 4, 512, 3, 0.3, 2048, 1, 4_000, 3e-3, 400),
    Preset(50_000, 8000, 256, 4, 1024, 3, 0.3, 4096, 1, 6_000, 2e-3, 800),
    Preset(250_000, 10000, 256, 4, 1024, 4, 0.2, 4096, 1, 18_000, 2e-3, 1_000),
    Preset(1_000_000, 16000, 512, 8, 2048, 4, 0.15, 8192, 1, 30_000, 1e-3, 2_000),
    Preset(float("inf"), 32000, 512, 8, 2048, 6, 0.1, 8192, 3, 100_000, 7e-4, 4_000),
)

N_VALIDATIONS = 20
"""Validations in a training, spread evenly."""


def preset_for(n_pairs: int) -> dict[str, dict[str, Any]]:
    """The sections [tokenizer], [model] and [training] for a corpus of `n_pairs` pairs."""
    row = next(preset for preset in PRESETS if n_pairs < preset.n_pairs)
    return {
        "tokenizer": {"kind": "bpe", "vocab_size": row.vocab_size, "shared": True},
        "model": {
            "d_model": row.d_model,
            "n_heads": row.n_heads,
            "d_ff": row.d_ff,
            "n_encoder_layers": row.n_layers,
            "n_decoder_layers": row.n_layers,
            "dropout": row.dropout,
        },
        "training": {
            "batch_tokens": row.batch_tokens,
            "update_freq": row.update_freq,
            "max_steps": row.max_steps,
            "learning_rate": row.learning_rate,
            "warmup_steps": row.warmup_steps,
            "schedule": "cosine",
            "ema_decay": 0.998,
            "average": "none",
            "valid_every": row.max_steps // N_VALIDATIONS,
        },
    }


class ClassificationPreset(NamedTuple):
    """The settings for corpora of fewer than `n_texts` labelled texts."""

    n_texts: float
    vocab_size: int
    d_model: int
    n_heads: int
    d_ff: int
    n_layers: int
    dropout: float
    word_dropout: float
    ngram_bits: int
    n_epochs: int
    learning_rate: float


CLASSIFICATION_PRESETS = (
    #                     texts <  vocab  d  heads d_ff layers drop words bits epochs rate
    ClassificationPreset(5_000, 10_000, 64, 2, 128, 1, 0.2, 0.1, 18, 20, 2e-3),
    ClassificationPreset(100_000, 50_000, 64, 2, 128, 1, 0.2, 0.5, 21, 3, 2e-3),
    ClassificationPreset(float("inf"), 50_000, 128, 4, 512, 2, 0.1, 0.3, 22, 2, 1e-3),
)


def classification_preset_for(*, n_texts: int, n_words: int, n_labels: int) -> dict[str, dict[str, Any]]:
    """The sections [data], [tokenizer], [model] and [training] for labelled texts of `n_words` in all."""
    row = next(preset for preset in CLASSIFICATION_PRESETS if n_texts < preset.n_texts)
    batch_tokens = 2048 if n_words < 500_000 else 8192
    n_tokens = 1.2 * n_words * (1 - row.word_dropout)
    max_steps = max(200, math.ceil(row.n_epochs * n_tokens / (0.9 * batch_tokens)))
    # A table of votes has 2^bits rows and a column for every label: more labels, fewer rows.
    ngram_bits = row.ngram_bits - max(0, math.ceil(math.log2(n_labels)) - 1)
    return {
        "data": {"max_length": 256},
        "tokenizer": {"kind": "words", "lowercase": True, "min_frequency": 2, "vocab_size": row.vocab_size},
        "model": {
            "d_model": row.d_model,
            "n_heads": row.n_heads,
            "d_ff": row.d_ff,
            "n_encoder_layers": row.n_layers,
            "dropout": row.dropout,
            "word_dropout": row.word_dropout,
            "ngrams": 3,
            "ngram_bits": max(12, ngram_bits),
        },
        "training": {
            "batch_tokens": batch_tokens,
            "max_steps": max_steps,
            "learning_rate": row.learning_rate,
            "warmup_steps": max(20, max_steps // 10),
            "schedule": "linear",
            "average": "none",
            "valid_every": max(1, max_steps // 10),
        },
    }


_NO_LANGUAGES = {
    "bpe", "csv", "dat", "gz", "lc", "low", "raw", "ref", "sp", "spm", "src", "tgt", "tmp", "tok", "trg",
    "tsv", "txt", "xz", "zip", "zst",
}  # fmt: skip


def guess_language(file: str, *, option: str) -> str:
    """The language that a file's name ends in: "en" for train.en, train.en.gz or news.en.txt.

    ConfigError: there is none; `option` is what the message tells the user to say.
    """
    for suffix in reversed(PurePath(file).suffixes):
        language = suffix.removeprefix(".")
        if re.fullmatch(r"[a-z]{2,3}([-_][A-Za-z]{2,4})?", language) and language not in _NO_LANGUAGES:
            return language
    raise ConfigError(f"{file}: its name does not tell the language; say it, as in {option} en")
