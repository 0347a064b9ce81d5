"""The arguments of Hugging Face's `generate` in terms of [search]."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from dragoman.config import SearchConfig
from dragoman.errors import ConfigError

IGNORED = (
    "device_map", "early_stopping", "num_workers", "padding", "trust_remote_code", "truncation", "use_cache",
    "use_fast",
)  # fmt: skip
"""Arguments that change nothing: no code of a model is run, and a text may be of any length."""

RENAMED = {
    "num_beams": "beam_size",
    "num_return_sequences": "n_best",
    "no_repeat_ngram_size": "no_repeat_ngram",
    "num_beam_groups": "diversity_groups",
    "batch_size": "batch_sentences",
}
"""Arguments that are settings of [search] by other names."""

LENGTHS = {"max_length": 2, "max_new_tokens": 1}
"""Arguments for the longest translation, and how many of its start and end tokens they count."""

TYPICAL_PENALTY = 20 / (20 + 5)
"""p over alpha where log-probability / length^p, as there, and / ((5 + length) / 6)^alpha, as here, weigh the
length of 20 tokens alike."""

ONLY_FOR: Mapping[str, Mapping[str, float]] = {
    "beam": {"beam_size": 1},
    "sampling": {"temperature": 1.0, "top_k": 0, "top_p": 1.0},
}
"""Settings of [search] that one method alone reads, and the values that ask for nothing."""


def search_settings(arguments: Mapping[str, Any], defaults: SearchConfig) -> dict[str, Any]:
    """Translate arguments of `generate` to settings of [search]; other settings are those of `defaults`.

    All tokens are computed, as there, unless the shortlist is asked for.

    ConfigError: an argument is unknown or of a wrong value, or two conflict.
    """
    check_known(arguments, (*RENAMED, "do_sample", *LENGTHS, *SearchConfig.model_fields))
    used = {name: value for name, value in arguments.items() if value is not None and name not in IGNORED}
    settings = {"shortlist": False, **{RENAMED.get(name, name): value for name, value in used.items()}}
    if isinstance(settings.get("length_penalty"), int | float):
        settings["length_penalty"] /= TYPICAL_PENALTY
    if (sampled := settings.pop("do_sample", None)) is not None:
        settings["method"] = "sampling" if sampled else "beam"
    for name, n_counted in LENGTHS.items():  # max_new_tokens goes before, as in transformers
        if (length := settings.pop(name, None)) is not None:
            if not isinstance(length, int) or length <= n_counted:
                raise ConfigError(f"pipeline: {name} = {length!r}: give a number above {n_counted}")
            settings |= {"max_length_factor": 1e-9, "max_length_extra": length - n_counted}
    method = defaults.changed(settings, where="pipeline").method
    for name, nothing in ONLY_FOR["sampling" if method == "beam" else "beam"].items():
        if settings.get(name, nothing) != nothing:
            raise ConfigError(
                f'pipeline: {name} has no effect on method = "{method}"; omit it, or set do_sample'
            )
    return settings


def check_known(arguments: Mapping[str, Any], options: tuple[str, ...]) -> None:
    """ConfigError: an argument is neither in `options` nor ignored."""
    for name in arguments:
        if name not in (*options, *IGNORED):
            near = difflib.get_close_matches(name, options, n=1)
            hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(options)}"
            raise ConfigError(f"pipeline: unknown argument {name}; {hint}")
