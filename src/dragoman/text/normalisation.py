"""Text normalisation; `decode(encode(text)) == normalise(text)` for every string."""

from __future__ import annotations

import re
import unicodedata

from dragoman.text.slots import SLOTS
from dragoman.text.transformations import REPLACED

META_SPACE = "\u2581"
"""Stands for a space inside tokens (SentencePiece's convention), so it cannot also stand for itself."""

_NOT_LETTERS = re.compile(r"[\W_]+")

_SLOTS_STAY = {point: text for point, text in REPLACED.items() if chr(point) not in SLOTS}


def without_controls(text: str, *, slots: bool = False) -> str:
    """`text` with `REPLACED` replaced; `SLOTS` stay with `slots`.

    Marks of direction, joiners and other format characters stay.
    """
    return text if text.isprintable() else text.translate(_SLOTS_STAY if slots else REPLACED)


def normalise(text: str, *, slots: bool = False) -> str:
    """`text` in Unicode's composed form (NFC), on one line, with single spaces and none at the ends.

    - Control characters and what else is in `REPLACED` is dropped, or becomes a space.
    - Any run of white space, as `str.split` knows it, becomes one space: the no-break and the ideographic
      space, too.
    - U+2581, the tokens' sign for a space, becomes an underscore.

    - `SLOTS` stay with `slots`, for text that Dragoman has put them into.

    Nothing else changes: case, joiners, marks of direction and variation selectors stay.
    `normalise(normalise(text)) == normalise(text)`.
    """
    text = without_controls(text, slots=slots)
    if not text.isascii():
        text = text.replace(META_SPACE, "_")
        if not unicodedata.is_normalized("NFC", text):
            text = unicodedata.normalize("NFC", text)
    return " ".join(text.split())


def normalise_lowercase(text: str, *, slots: bool = False) -> str:
    """`normalise(text)` in lower case, composed again: "İ" becomes "i̇". Idempotent, too."""
    return normalise(normalise(text, slots=slots).lower(), slots=slots)


def is_wordy(text: str) -> bool:
    """Whether there is a letter in `text`. Of "12.5" or "* * *" a model makes something else."""
    return any(map(str.isalpha, text))


def plain(text: str) -> str:
    """`text` as it is compared: letters and digits, case folded, single spaces; as it is if it has none."""
    return _NOT_LETTERS.sub(" ", text.casefold()).strip() or " ".join(text.split())
