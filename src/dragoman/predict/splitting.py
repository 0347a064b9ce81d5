"""Split texts that are too long for a model, and join the translations of the parts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from itertools import chain
from statistics import fmean

from dragoman.errors import DataError
from dragoman.predict.results import Alternative, Translation
from dragoman.text.words import has_spaces

_CLOSERS = "[\"'”’»)\\]]{0,3}"
_WIDE_CLOSERS = "[”’」』）》]{0,3}"
_BOUNDARY = re.compile(
    rf"(?P<sentence>[.!?…؟۔।]{_CLOSERS}\s+|[。！？｡]{_WIDE_CLOSERS}\s*)"
    rf"|(?P<clause>[;:,؛،]{_CLOSERS}\s+|[；：，、]{_WIDE_CLOSERS}\s*)"
    r"|(?P<word>\s+)"
)
_ZERO_WIDTH_JOINER = "\u200d"


def split_to_fit(text: str, n_tokens: Callable[[str], int], limit: int) -> list[str]:
    """`text` in as many parts as it takes for `n_tokens` of each to be `limit` at most; joined, they are it.

    It is halved again and again: at the end of a sentence where there is one, else of a clause, else of a
    word, and only then anywhere between two characters; each time as near to the middle as such a place is.
    A part begins with no white space, unless `text` does. DataError: one character alone is too much.
    """
    if n_tokens(text) <= limit:
        return [text]
    cut = _best_cut(text)
    if cut is None:
        raise DataError(
            f"the character {text.strip()!r} alone has more tokens than the {limit} of a part; leave it out, "
            "or train with a larger model.max_positions and data.max_length"
        )
    return [*split_to_fit(text[:cut], n_tokens, limit), *split_to_fit(text[cut:], n_tokens, limit)]


def _best_cut(text: str) -> int | None:
    """Where to halve `text`: both sides hold more than white space. None: it is one character."""
    first, last = len(text) - len(text.lstrip()), len(text.rstrip())
    middle = (first + last) // 2
    places: dict[str | None, list[int]] = {"sentence": [], "clause": [], "word": []}
    for match in _BOUNDARY.finditer(text, first, last):
        if match.end() < last:
            places[match.lastgroup].append(match.end())
    for ends in places.values():
        if ends:
            return min(ends, key=lambda end: abs(end - middle))
    outwards = [i for k in range(last - first) for i in (middle - k, middle + k) if first < i < last]
    # Neither an accent nor part of an emoji begins there: as far as one can tell without a table.
    whole = (
        place
        for place in outwards
        if unicodedata.category(text[place])[0] != "M"
        and _ZERO_WIDTH_JOINER not in text[place - 1 : place + 1]
    )
    return next(whole, outwards[0] if outwards else None)


def joined_parts(source: str, parts: tuple[Translation, ...], languages: tuple[str, str]) -> Translation:
    """Return the translation of `source` from those of its parts. `languages`: source and target."""
    gaps = [gap_between(" " if part.source[-1].isspace() else "", languages) for part in parts]
    alternatives = []
    for chosen in zip(*(part.alternatives for part in parts), strict=False):
        pieces = ((a.text + gap) for a, gap in zip(chosen, gaps, strict=True) if a.text)
        alternatives.append(Alternative("".join(pieces).strip(), fmean(a.score for a in chosen)))
    rows = zip(*(part.ids for part in parts), strict=False)
    ids = tuple(tuple(chain.from_iterable(chosen)) for chosen in rows)
    return Translation(source, tuple(alternatives), parts, ids)


def gap_between(space: str, languages: tuple[str, str]) -> str:
    """Return the gap between two translations whose sources have `space`, maybe "", between them.

    The same, but for a translation from a language that puts spaces between sentences into one that does not,
    where it is nothing, and the other way round, where it is one space. `languages`: source and target.
    """
    src_spaced, tgt_spaced = map(has_spaces, languages)
    if src_spaced == tgt_spaced:
        return space
    return " " if tgt_spaced else ""
