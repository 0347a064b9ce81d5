"""Default settings by corpus size, for trainings without a recipe."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
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
    patience: int = 0


TOKENS_OF_A_PAIR = 15
"""Target tokens of a usual sentence."""

MAX_PASSES = 300
"""Passes over a tiny corpus by default: more only teach it by heart. From 1,800 pairs on, rows make fewer."""

# Little text wants a small model, strong dropout and many passes; much text the reverse. TOKENS_OF_A_PAIR
# given, the rows make about 55 passes at 10k pairs, 45 at 50k, 20 at 250k,
# 16 at 1M, and 16 at 10M. The row of 50k is what was best on Multi30k (docs/notebook.md) and is its
# recipe; the last one is the base model of Vaswani et al. 2017, in its batch size.
PRESETS = (
    #      pairs <  vocab  d  heads d_ff layers drop batch freq   steps    rate  warm-up
    Preset(10_000, 2000, 128, 4, 512, 3, 0.3, 2048, 1, 4_000, 3e-3, 400, patience=5),
    Preset(50_000, 8000, 128, 4, 256, 4, 0.25, 4096, 1, 8_400, 5e-3, 800),
    Preset(250_000, 10000, 256, 4, 1024, 4, 0.2, 4096, 1, 18_000, 2e-3, 1_000),
    Preset(1_000_000, 16000, 512, 8, 2048, 4, 0.15, 8192, 1, 30_000, 1e-3, 2_000),
    Preset(float("inf"), 32000, 512, 8, 2048, 6, 0.1, 8192, 3, 100_000, 7e-4, 4_000),
)


class Effort(NamedTuple):
    """A preset: the training time relative to what is usual for the corpus."""

    tokens: float
    """Factor of the number of tokens that the training reads."""
    batch: float
    """Factor of the tokens per batch: in a short training, more updates are worth more."""
    dropout: float
    """Added to dropout: text that is read more often needs more regularisation."""
    schedule: str
    """Learning-rate schedule: a short training gains from a rate that stays high for longer."""


# As on Multi30k: dropout 0.15 for 25 passes and 0.25 for 72 of them had 39.5 and 41.7 BLEU on validation
# (recipes/multi30k-en-de); in 7 passes, about what "fast" makes on large corpora, batches of 2048 tokens had
# 36.3 and batches of 4096 had 33.5, and those with "wsd" 36.0 (docs/notebook.md).
EFFORTS = {
    "fast": Effort(1 / 3, 1 / 2, -0.1, "wsd"),
    "default": Effort(1, 1, 0.0, "cosine"),
    "quality": Effort(3, 1, 0.05, "cosine"),
}

ROBUST = {
    "upper": 0.07,
    "title": 0.05,
    "typos": 0.1,
    "no_final": 0.1,
    "merge": 0.1,
    "numbers": 0.5,
    "copies": 0.1,
    "slots": 0.5,
    "noise": 0.0005,
}
"""The rates of [modifiers] for --robust, near Mozilla's; what they do on Multi30k is in docs/notebook.md."""

N_VALIDATIONS = 20
"""Validations in a training, spread evenly."""

N_STUDENT_VALIDATIONS = 6


def preset_for(n_pairs: int, effort: str = "default") -> dict[str, dict[str, Any]]:
    """Return the sections [tokenizer], [model] and [training] for a corpus of `n_pairs` pairs.

    ConfigError: there is no such effort.
    """
    if effort not in EFFORTS:
        raise ConfigError(f"--preset {effort}: there are {', '.join(EFFORTS)}")
    row, chosen = next(preset for preset in PRESETS if n_pairs < preset.n_pairs), EFFORTS[effort]
    batch_tokens = round(row.batch_tokens * chosen.batch)
    most = MAX_PASSES * chosen.tokens * steps_per_pass(n_pairs, batch_tokens * row.update_freq)
    max_steps = round(min(row.max_steps * chosen.tokens / chosen.batch, most))
    return {
        "tokenizer": {"kind": "bpe", "vocab_size": row.vocab_size, "shared": True},
        "model": {
            "d_model": row.d_model,
            "n_heads": row.n_heads,
            "d_ff": row.d_ff,
            "n_encoder_layers": row.n_layers,
            "n_decoder_layers": row.n_layers,
            "dropout": round(max(0.1, row.dropout + chosen.dropout), 2),
        },
        "training": {
            "batch_tokens": batch_tokens,
            "update_freq": row.update_freq,
            "max_steps": max_steps,
            "learning_rate": row.learning_rate,
            "warmup_steps": min(row.warmup_steps, max_steps // 5),
            "schedule": chosen.schedule,
            "ema_decay": 0.998,
            "average": "none",
            "valid_every": max_steps // N_VALIDATIONS,
            "patience": row.patience,
        },
    }


def steps_per_pass(n_pairs: int, tokens_per_step: int) -> int:
    """About how many updates of `tokens_per_step` target tokens read a corpus of `n_pairs` pairs once."""
    return max(1, math.ceil(n_pairs * TOKENS_OF_A_PAIR / tokens_per_step))


def fine_tuning_for(n_pairs: int) -> dict[str, Any]:
    """Return the section [training] for a trained model that goes on to a corpus of `n_pairs` pairs."""
    training = preset_for(n_pairs)["training"]
    max_steps = max(1, training["max_steps"] // 3)
    return {
        **training,
        "max_steps": max_steps,
        "warmup_steps": min(training["warmup_steps"], max_steps // 3),
        "learning_rate": training["learning_rate"] / 3,
        "valid_every": max(1, training["valid_every"] // 3),
    }


def student_training_for(teacher: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section [training] of a student that starts from a teacher trained as `teacher`.

    Two thirds of its updates, in batches of half the size, at half the rate: what is there already should
    not be shaken too much.
    """
    max_steps = max(1, round(teacher["max_steps"] * 2 / 3))
    return {
        **teacher,
        "batch_tokens": max(1, round(teacher["batch_tokens"] / 2)),
        "max_steps": max_steps,
        "learning_rate": teacher["learning_rate"] / 2,
        "warmup_steps": max(1, max_steps // 20),
        "schedule": "cosine",
        "average": "none",
        "valid_every": max(1, max_steps // N_STUDENT_VALIDATIONS),
    }


def student_dropout_for(teacher: float) -> float:
    """Return the dropout of such a student, 0.1 below its teacher's: it reads its text less often."""
    return min(teacher, round(max(0.1, teacher - 0.1), 2))


class ClassificationPreset(NamedTuple):
    """The settings for labelled texts of fewer than `n_words` words in all."""

    n_words: float
    d_model: int
    n_heads: int
    d_ff: int
    n_layers: int
    dropout: float
    ngram_bits: int
    """For two labels; of more, one less each time their number doubles."""
    batch_tokens: int
    n_epochs: int
    learning_rate: float


# The row of 30M words is the one of IMDB's 25,000 reviews.
CLASSIFICATION_PRESETS = (
    #                     words <     d  heads d_ff layers drop bits batch epochs rate
    ClassificationPreset(30_000, 64, 2, 128, 1, 0.3, 18, 1024, 30, 2e-3),
    ClassificationPreset(300_000, 64, 2, 128, 1, 0.3, 20, 2048, 15, 3e-3),
    ClassificationPreset(3_000_000, 64, 2, 128, 1, 0.2, 21, 4096, 6, 2e-3),
    ClassificationPreset(30_000_000, 64, 2, 128, 1, 0.2, 22, 8192, 2, 2e-3),
    ClassificationPreset(float("inf"), 128, 4, 512, 2, 0.1, 23, 8192, 1, 1e-3),
)

ALL_WORDS = 3_000_000
"""Words of a corpus below which a word that occurs once is kept: its letters say what it is like."""

LONG_TEXT = 100
"""Words of a text from which on half of the tokens are hidden from the encoder in training, which halves the
time; of shorter texts three in ten are."""

LONG_WORD = 15
"""Mean characters between spaces from which on a language is taken to be written without them, as Chinese."""


def classification_preset_for(
    *, n_texts: int, n_words: int, n_characters: int, n_labels: int
) -> dict[str, dict[str, Any]]:
    """Return the sections [data], [tokenizer], [model] and [training] for labelled texts.

    `n_words` are what stands between spaces, and `n_characters` what they consist of, both of all texts.
    """
    min_frequency = 1 if n_words < ALL_WORDS else 2
    tokenizer = {"kind": "words", "lowercase": True, "min_frequency": min_frequency, "vocab_size": 100_000}
    if n_characters >= LONG_WORD * n_words:
        n_words = n_characters // 2
        tokenizer = {"kind": "bpe", "lowercase": True, "vocab_size": 8000}
    row = next(preset for preset in CLASSIFICATION_PRESETS if n_words < preset.n_words)
    n_tokens = 1.2 * n_words  # with punctuation
    max_steps = max(200, math.ceil(row.n_epochs * n_tokens / (0.9 * row.batch_tokens)))
    return {
        "data": {"max_length": 256},
        "tokenizer": tokenizer,
        "model": {
            "d_model": row.d_model,
            "n_heads": row.n_heads,
            "d_ff": row.d_ff,
            "n_encoder_layers": row.n_layers,
            "dropout": row.dropout,
            "word_dropout": 0.5 if n_words >= LONG_TEXT * n_texts else 0.3,
            "ngrams": 3,
            "ngram_bits": max(10, row.ngram_bits + 1 - math.ceil(math.log2(max(2, n_labels)))),
        },
        "training": {
            "batch_tokens": row.batch_tokens,
            "max_steps": max_steps,
            "learning_rate": row.learning_rate,
            "warmup_steps": max_steps // 10,
            "schedule": "linear",
            "weight_decay": 0.01,
            "metric": "loss",
            "average": "none",
            "valid_every": max(1, max_steps // 10),
        },
    }


_NO_LANGUAGES = {
    "bpe", "csv", "dat", "gz", "lc", "low", "raw", "ref", "sp", "spm", "src", "tgt", "tmp", "tok", "trg",
    "tsv", "txt", "xz", "zip", "zst",
}  # fmt: skip


def guess_language(file: str, *, option: str) -> str:
    """Return the language that a file's name ends in: "en" for train.en, train.en.gz or news.en.txt.

    ConfigError: there is none; `option` is what the message tells the user to say.
    """
    for suffix in reversed(PurePath(file).suffixes):
        language = suffix.removeprefix(".")
        if re.fullmatch(r"[a-z]{2,3}([-_][A-Za-z]{2,4})?", language) and language not in _NO_LANGUAGES:
            return language
    raise ConfigError(f"{file}: its name does not tell the language; say it, as in {option} en")
