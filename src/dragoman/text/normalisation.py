"""The one form of a text that Dragoman sees. `decode(encode(text)) == normalise(text)` for every string."""

from __future__ import annotations

import re
import unicodedata

META_SPACE = "\u2581"
"""Stands for a space inside tokens (SentencePiece's convention), so it cannot also stand for itself."""

_SURROGATES = re.compile("[\ud800-\udfff]")


def normalise(text: str) -> str:
    """`text` in Unicode's composed form (NFC), on one line, with single spaces and none at the ends.

    - Any run of white space, as `str.split` knows it, becomes one space: tabs, line and page breaks, the
      no-break and the ideographic space, and the separators U+001C to U+001F.
    - A lone surrogate, which no UTF-8 file can hold, becomes U+FFFD.
    - U+2581, the tokens' sign for a space, becomes an underscore.

    Nothing else changes: case, other control characters, joiners and variation selectors stay.
    `normalise(normalise(text)) == normalise(text)`.
    """
    if not text.isascii():
        text = _SURROGATES.sub("\ufffd", text).replace(META_SPACE, "_")
        if not unicodedata.is_normalized("NFC", text):
            text = unicodedata.normalize("NFC", text)
    return " ".join(text.split())


def normalise_lowercase(text: str) -> str:
    """`normalise(text)` in lower case, composed again: "İ" becomes "i̇". Idempotent, too."""
    return normalise(normalise(text).lower())
