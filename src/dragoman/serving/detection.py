"""The source language of a request that asks for it to be detected."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.errors import DataError
from dragoman.text.detection import detect

AUTO = "auto"
"""The language of a text whose language is to be detected."""


def detect_source(text: str, sources: Iterable[str]) -> str:
    """The one of `sources` that `text` is in. DataError: there are none."""
    languages = list(sources)
    if not languages:
        raise DataError('source = "auto": no model translates into this language; ask for another target')
    return languages[0] if len(set(languages)) == 1 else detect(text, languages)[0].language
