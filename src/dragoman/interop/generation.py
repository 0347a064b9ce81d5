"""The arguments of Hugging Face's `generate` in terms of [search]."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from dragoman.config import SearchConfig
from dragoman.errors import ConfigError

SAME = tuple(SearchConfig.model_fields)
"""Settings of [search], which may be given by their own names."""

RENAMED = {
    "num_beams": "beam_size",
    "num_return_sequences": "n_best",
    "no_repeat_ngram_size": "no_repeat_ngram",
    "num_beam_groups": "diversity_groups",
}

OTHERS = ("do_sample", "max_length", "max_new_tokens")
"""Arguments that are no single setting."""

WITHOUT_EFFECT: Mapping[str, Any] = {
    "min_length": 0,
    "min_new_tokens": 0,
    "repetition_penalty": 1.0,
    "encoder_no_repeat_ngram_size": 0,
    "use_cache": True,
}
"""Arguments that ask for nothing if they have this value; there are no others here."""

IGNORED = ("early_stopping", "padding")
"""Arguments that change nothing: a beam search ends where nothing better can come; batches are padded."""

FOR_SAMPLING = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}


def search_settings(arguments: Mapping[str, Any], own: SearchConfig) -> dict[str, Any]:
    """Translate arguments of `generate` to settings of [search]; other settings are those of `own`.

    `max_length` and `max_new_tokens` count as in transformers: both include the end token, `max_length` also
    the start token. ConfigError: an argument is unknown or unsupported, or two conflict.
    """
    settings: dict[str, Any] = {}
    for name, value in arguments.items():
        if name in RENAMED or name in SAME:
            settings[RENAMED.get(name, name)] = value
        elif name in WITHOUT_EFFECT:
            if value is not None and value != WITHOUT_EFFECT[name]:
                raise ConfigError(f"pipeline: {name} = {value!r}: is not to be had here; leave it away")
        elif name not in IGNORED and name not in OTHERS:
            raise ConfigError(unknown(name, (*RENAMED, *OTHERS, *SAME)))
    settings |= _length(arguments)
    if arguments.get("do_sample") is not None:
        settings["method"] = "sampling" if arguments["do_sample"] else "beam"
    method = settings.get("method") or own.method
    if method == "sampling" and (settings.get("beam_size") or 1) > 1:
        raise ConfigError("pipeline: do_sample with num_beams: samples have no beams; give one of them")
    for name, nothing in FOR_SAMPLING.items():
        if method == "beam" and settings.get(name, nothing) not in (nothing, None):
            raise ConfigError(
                f"pipeline: {name} is for samples; give do_sample=True with it, or leave it away"
            )
    return settings


def unknown(name: str, known: tuple[str, ...]) -> str:
    """Return an error message about an argument that is not in `known`."""
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    return f"pipeline: {name} is not an argument; {hint}"


def _length(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the longest translation, whatever the length of its source."""
    given = {name: n for name in ("max_length", "max_new_tokens") if (n := arguments.get(name)) is not None}
    if len(given) == 2:
        raise ConfigError("pipeline: max_length and max_new_tokens: give one of them")
    for name, value in given.items():
        n_tokens = value - {"max_length": 2, "max_new_tokens": 1}[name] if isinstance(value, int) else 0
        if n_tokens < 1:
            raise ConfigError(
                f"pipeline: {name} = {value!r}: leaves no room for a token; give a larger number"
            )
        return {"max_length_factor": 1e-9, "max_length_extra": n_tokens}
    return {}
