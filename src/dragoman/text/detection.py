"""Which language a text is in, by py3langid, which knows about a hundred."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

from dragoman.errors import require
from dragoman.text.languages import language_code, standard_code

ENOUGH = 2000
"""Characters that are looked at, at most. It takes a few milliseconds, and more would tell little more."""


class Detected(NamedTuple):
    """A language, and how sure it is, 0 to 1."""

    language: str
    confidence: float


def detect(text: str, among: Iterable[str] | None = None) -> list[Detected]:
    """Return the languages that `text` may be in, the most likely first; of those `among`, if they are given.

    The confidences of all languages add up to 1, and a variant has that of its language. Of equals the first
    one of `among` comes first; languages that cannot be told come last, with 0. MissingExtraError: py3langid
    is not installed.
    """
    ranked: dict[str, float] = dict(_identifier().rank(text[:ENOUGH]))
    languages = ranked if among is None else dict.fromkeys(among)
    detected = [Detected(code, ranked.get(language_code(standard_code(code)), 0.0)) for code in languages]
    return sorted(detected, key=lambda each: -each.confidence)


@cache
def _identifier() -> Any:
    require("py3langid", extra="serve", purpose="detecting a language")
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
