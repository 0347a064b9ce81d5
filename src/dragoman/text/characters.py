"""Character tokens: a small vocabulary and long sentences, for scripts without spaces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.text.normalisation import META_SPACE


class Characters:
    """Text to characters and back. A space is a token too, so that nothing is lost."""

    def split(self, text: str) -> list[str]:
        """Return the code points of normalised `text`, META_SPACE for a space."""
        return list(text.replace(" ", META_SPACE))

    def join(self, pieces: Iterable[str]) -> str:
        """Return the text of `pieces`: the inverse of `split`."""
        return "".join(pieces).replace(META_SPACE, " ")

    def settings(self) -> dict[str, Any]:
        """Return the section of the tokenizer's file."""
        return {"kind": "characters"}
