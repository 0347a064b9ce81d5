"""Which language a text is in, by py3langid, which knows about a hundred."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

from dragoman.errors import require

ENOUGH = 2000
"""Characters that are looked at, at most. It takes a few milliseconds, and more would tell little more."""


class Detected(NamedTuple):
    """A language, and how sure it is, 0 to 1."""

    language: str
    confidence: float


def detect(text: str, among: Iterable[str] | None = None) -> list[Detected]:
    """Return the languages that `text` may be in, the most likely first; of those `among`, if they are given.

    Confidences add up to 1. Languages that cannot be told come last, with 0. MissingExtraError: py3langid is
    not installed.
    """
    ranked: dict[str, float] = dict(_identifier().rank(text[:ENOUGH]))
    languages = list(ranked) if among is None else list(dict.fromkeys(among))
    total = sum(ranked.get(language, 0.0) for language in languages)
    if total <= 0.0:  # nothing speaks for any of them
        return [Detected(language, 1 / len(languages)) for language in languages]
    detected = [Detected(language, ranked.get(language, 0.0) / total) for language in languages]
    return sorted(detected, key=lambda each: -each.confidence)


@cache
def _identifier() -> Any:
    require("py3langid", extra="serve", purpose="detecting a language")
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
