"""Alter a text as people do who write in capitals, mistype or leave points out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Any

from dragoman.text.languages import language_code
from dragoman.text.slots import CARRIED, LETTER, SLOTS
from dragoman.text.transformations import Transformations

TYPING_MISTAKES = 7
"""A text with typing mistakes has one for this number of words, and at least one."""

WORD = r"[^\W\d_]+(?:['’][^\W\d_]+)*"
"""Letters, with apostrophes between them."""

_DOTLESS = frozenset({"tr", "tur", "az", "aze", "azj"})
"""Turkish and Azerbaijani: the capitals of i and ı are İ and I."""

_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
_FINAL = re.compile(r"[.!?…。！？।؟۔]+(?=[\"'“”‘’«»)\]」』]*\s*$)")
_URL = re.compile(r"(?:[^\s()<>\"']+(?:://|@)|www\.)[^\s()<>\"']*[^\s()<>\"'.,;:!?]")

_CARRIED = re.compile(
    rf"{_URL.pattern}|\{{\w*\}}|<\w+>|%(?:\(\w+\))?[sd]\b|{_NUMBER.pattern}%?|[\U0001f300-\U0001f64f]"
)

_SCRIPTS = ((0x21, 0x7E), (0xC0, 0x17F), (0x400, 0x45F), (0x4E00, 0x9FFF), (0x2190, 0x21FF))
"""The first and the last of the characters of noise: ASCII, Latin, Cyrillic, Chinese, arrows."""

_KEYBOARDS = (
    ("qwertyuiop", "asdfghjkl", "zxcvbnm"),
    ("йцукенгшщзхъ", "фывапролджэ", "ячсмитьбю"),
    ("ςερτυθιοπ", "ασδφγηξκλ", "ζχψωβνμ"),
)
"""The rows of letters of keyboards: Latin, Cyrillic and Greek."""


def _neighbours() -> dict[str, str]:
    """Return the letters beside each key, in its row and in the rows next to it."""
    near: dict[str, str] = {}
    for rows in _KEYBOARDS:
        places = {letter: (y, x) for y, row in enumerate(rows) for x, letter in enumerate(row)}
        for letter, (y, x) in places.items():
            near[letter] = "".join(
                other
                for other, (y2, x2) in places.items()
                if other != letter and abs(y - y2) <= 1 and abs(x - x2) <= 1
            )
    return near


NEIGHBOURS = _neighbours()


def transformations(languages: Sequence[str], *, recase: bool = True, slots: bool) -> dict[str, Any]:
    """Return the list of what alters a text for a model, and puts it back, as `Transformations` takes it.

    Without `recase` case stays; `slots`: the model has learnt them.
    """
    dotless = [language_code(language) in _DOTLESS for language in languages]
    case = [{"kind": "case", "dotless": dotless}] * recase
    slotted = [{"kind": "slots", "tokens": "".join(SLOTS)}] * slots
    return {"word": WORD, "carried": CARRIED, "letter": LETTER, "list": [*case, *slotted]}


@cache
def _into(language: str) -> Transformations:
    return Transformations(transformations([language] * 2, slots=True))


def in_capitals(text: str, language: str) -> str:
    """Return `text` in capitals; what is carried over stays as it is."""
    return _into(language).in_casing(text, "capitals")


def in_title_case(text: str, language: str) -> str:
    """Return `text` with a capital at the beginning of every word; what is carried over stays as it is."""
    return _into(language).in_casing(text, "title")


def slots_at_random(texts: Sequence[str], rng: Random) -> list[str]:
    """Return the texts with the same slot for each span that stands as often in all of them, once or more.

    Which slot it is is drawn, so that all of them are learnt alike.
    """
    counts = [Counter(match[0] for match in _into("").carried.finditer(text)) for text in texts]
    shared = [span for span in counts[0] if all(counter[span] == counts[0][span] for counter in counts)]
    spans: list[str | None] = [None] * len(SLOTS)
    for place, span in zip(rng.sample(range(len(SLOTS)), len(SLOTS)), shared, strict=False):
        spans[place] = span
    return [_into("").with_slots(text, spans) for text in texts]


def without_final_point(texts: Sequence[str]) -> list[str]:
    """Return the texts without their final punctuation; as they are, unless all of them have one."""
    if not all(_FINAL.search(text) for text in texts):
        return list(texts)
    return [_FINAL.sub("", text).rstrip() for text in texts]


def with_typos(text: str, rng: Random) -> str:
    """Return `text` with a mistake in a seventh of its words, those of four letters and more.

    A mistake is two letters swapped, one left out or written twice, or a key beside the right one.
    """
    words = [word for word in re.finditer(WORD, text) if len(word[0]) > 3 and not _URL.search(word[0])]
    n = min(len(words), max(1, round(len(words) / TYPING_MISTAKES)))
    for word in sorted(rng.sample(words, n), key=re.Match.start, reverse=True):
        i = word.start() + rng.randrange(len(word[0]) - 1)
        letter, after = text[i], text[i + 1]
        near = NEIGHBOURS.get(letter.lower(), "")
        changed = rng.choice(
            (after + letter, after, letter + letter + after, (rng.choice(near) if near else letter) + after)
        )
        text = text[:i] + changed + text[i + 2 :]
    return text


def with_other_numbers(texts: Sequence[str], rng: Random) -> list[str]:
    """Return the texts with other digits in each number that stands once in all of them."""
    counts = [_NUMBER.findall(text) for text in texts]
    shared = {number for number in counts[0] if all(numbers.count(number) == 1 for numbers in counts)}
    other = {}
    for number in sorted(shared):  # of the same form; one that begins with no zero goes on doing so
        digits = ["123456789" if i == 0 and c != "0" else "0123456789" for i, c in enumerate(number)]
        chosen = zip(number, digits, strict=True)
        other[number] = "".join(rng.choice(some) if c.isdecimal() else c for c, some in chosen)
    return [_NUMBER.sub(lambda number: other.get(number[0], number[0]), text) for text in texts]


def with_copy(texts: Sequence[str], rng: Random) -> list[str]:
    """Return the texts with the same `invented_copy` before them, behind them or in brackets at their end."""
    copy, place = invented_copy(rng), rng.randrange(3)
    altered = []
    for text in texts:
        final = _FINAL.search(text)
        end = final.start() if final else len(text)
        altered.append((f"{copy} {text}", f"{text} {copy}", f"{text[:end]} ({copy}){text[end:]}")[place])
    return altered


def carried_over(text: str) -> Counter[str]:
    """Return what a translation carries over as it is: numbers, addresses, placeholders, tags and emoji."""
    return Counter(match[0] for match in _CARRIED.finditer(text))


def invented_copy(rng: Random) -> str:
    """Return something that is carried over as it is: a number, time, address, placeholder, tag or emoji."""
    n = rng.randint(1, 10 ** rng.randint(1, 6))
    word = "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(3, 9)))
    end = rng.choice(("com", "org", "de", "net", "io"))
    return rng.choice(
        (
            str(n),
            f"{n}%",
            f"{rng.randrange(24)}:{rng.randrange(60):02}",
            f"{rng.randint(1, 28):02}.{rng.randint(1, 12):02}.{rng.randint(1900, 2100)}",
            f"https://www.{word}.{end}/{rng.choice(('', f'{n}', f'{word[::-1]}?id={n}'))}",
            f"www.{word}.{end}",
            f"{word}@{word[::-1]}.{end}",
            f"{{{word}}}",
            f"{{{n % 10}}}",
            rng.choice(("%s", "%d", f"%({word})s")),
            f"<{word}>",
            f"<{rng.choice('biup')}>",
            chr(rng.randint(0x1F600, 0x1F64F)),
            chr(rng.randint(0x1F300, 0x1F5FF)),
        )
    )


def noise(rng: Random) -> str:
    """Return characters that mean nothing, of one of several scripts."""
    first, last = rng.choice(_SCRIPTS)
    lengths = [rng.randint(1, 8) for _ in range(rng.randint(1, 6))]
    return " ".join("".join(chr(rng.randint(first, last)) for _ in range(n)) for n in lengths)
