"""What can be seen in one pair alone: empty and identical sides, markup, numbers, addresses.

A check takes source and target and returns what is wrong, in words; "" where nothing is.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

from dragoman.data.doctor.encoding import damage
from dragoman.data.doctor.words import ADDRESS, has_address, words_of

Check = Callable[[str, str], str]

N_WORDS_COPIED = 3
"""Minimum words for identical sides to count as untranslated."""

_TAGS = (
    r"a|abbr|article|b|big|blockquote|body|br|button|center|cite|code|dd|div|dl|dt|em|embed|font|form|"
    r"frame|h1|h2|h3|h4|h5|h6|head|header|hr|html|i|iframe|img|input|ins|label|li|link|main|meta|nav|ol|"
    r"option|p|pre|s|script|section|select|small|span|strike|strong|style|sub|sup|table|tbody|td|textarea|"
    r"tfoot|th|thead|title|tr|tt|u|ul|video"
)
_TAG = re.compile(rf"</?(?:{_TAGS})(?:\s[^<>]*)?/?>|<!--|<!doctype", re.IGNORECASE)
_ENTITY = re.compile(r"(?i)&(?:[a-z]+\d?|#\d+|#x[0-9a-f]+);|& ?(?:amp|lt|gt|quot|nbsp|apos)\b")

_INVISIBLE = frozenset({"Cc", "Cf", "Zl", "Zp", "Zs"})
_LETTERS = re.compile(r"[^\W\d_]+")
_NEIGHBOURS = re.compile(r"[a-zA-Z][\u0370-\u052f]|[\u0370-\u052f][a-zA-Z]")
_LOOKALIKES = frozenset("aceijopsxyABCEHIJKMNOPSTXYZасеіјорѕхуАВСЕНІЈКМОРЅТХУοΑΒΕΗΙΚΜΝΟΡΤΧΥΖ")
"""Letters of Latin, Cyrillic and Greek that look like one of another of these scripts."""

_NUMBER = re.compile(r"\d+(?:[.,'’ \u00a0\u202f]\d{3}(?!\d))+|\d+")
_NOT_DIGITS = re.compile(r"\D")
_MULTIPLIERS = re.compile(
    r"million|milli[ao]rd|billion|trillion|thousand|hundred|dozen|tausend|hundert|dutzend|mio\b|mrd\b|mln|mld|"
    r"tys|milion|bilion|miliard|cent|mille|mil\b|\d ?[km]\b|[百千万萬亿億兆]",
    re.IGNORECASE,
)


def empty_side(src: str, tgt: str) -> str:
    sides = [name for name, text in (("source", src), ("target", tgt)) if not is_visible(text)]
    return f"{' and '.join(sides)} empty" if sides else ""


def is_visible(text: str) -> bool:
    """Whether a character of `text` can be seen: no space, control or format character, nor U+3164."""
    return any(c != "\u3164" and unicodedata.category(c) not in _INVISIBLE for c in text)


def mixed_scripts(text: str) -> str:
    """Return the first word of Latin letters and Cyrillic or Greek ones where one kind only looks alike."""
    if text.isascii() or not _NEIGHBOURS.search(text):
        return ""
    for word in _LETTERS.findall(text):
        latin = [letter for letter in word if letter < "\u0370"]
        other = [letter for letter in word if letter >= "\u0370"]
        for few, many in ((other, latin), (latin, other)):
            if few and len(few) <= len(many) != 1 and _LOOKALIKES.issuperset(few):
                return f"{word} has {', '.join(f'U+{ord(letter):04X}' for letter in few)} of another script"
    return ""


def copied(src: str, tgt: str) -> str:
    return "both sides are the same" if _same(src, tgt) and len(words_of(src)) >= N_WORDS_COPIED else ""


def copied_words(src: str, tgt: str) -> str:
    return "both sides are the same" if _same(src, tgt) and len(words_of(src)) < N_WORDS_COPIED else ""


def _same(src: str, tgt: str) -> bool:
    """Whether the sides are equal but for case and white space, and hold a letter."""
    return same_text(src, tgt) and any(map(str.isalpha, src))


def same_text(src: str, tgt: str) -> bool:
    """Whether the sides are equal but for case and white space."""
    if src.lstrip()[:1].casefold()[:1] != tgt.lstrip()[:1].casefold()[:1]:
        return False  # most pairs, at once
    return " ".join(src.split()).casefold() == " ".join(tgt.split()).casefold()


def markup(text: str) -> str:
    """Return the first HTML tag or entity in `text`."""
    if "<" in text and (tag := _TAG.search(text)):
        return f"tag {tag[0]}"
    if "&" in text:
        for entity in _ENTITY.finditer(text):
            if entity[0][1] == "#" or entity[0][-1] != ";" or html.unescape(entity[0]) != entity[0]:
                return f"entity {entity[0]}"
    return ""


def _either(check: Callable[[str], str], src: str, tgt: str) -> str:
    faults = [(name, check(text)) for name, text in (("source", src), ("target", tgt))]
    return "; ".join(f"{name}: {detail}" for name, detail in faults if detail)


def other_numbers(src: str, tgt: str) -> str:
    """Numbers that only one side has, where both have some.

    Numbers spelt out cannot be told, so that a number missing on one side is not counted unless another
    stands there instead. Equal are 1,000 and 1.000, 1.5 and 1,5, 3 pm and 15, 1990 and 90 (as in "the
    90s"), and, beside words such as "million" or 万, numbers that differ by zeros.
    """
    if not all(re.search(r"\d", text) for text in (src, tgt)):
        return ""
    numbers: list[Counter[str]] = []
    for text in (src, tgt):  # as digits without separators and without zeros in front
        runs = (_NOT_DIGITS.sub("", number) for number in _NUMBER.findall(text))
        digits = ("".join(str(unicodedata.digit(d)) for d in number).lstrip("0") for number in runs)
        numbers.append(Counter(filter(None, digits)))
    unmatched = [list((numbers[i] - numbers[1 - i]).elements()) for i in (0, 1)]
    if unmatched[0] and unmatched[1] and _MULTIPLIERS.search(f"{src} {tgt}"):
        unmatched = [[number.rstrip("0") for number in side] for side in unmatched]
        unmatched = [
            [number for number in side if number not in unmatched[1 - i]] for i, side in enumerate(unmatched)
        ]
    only_src = [a for a in unmatched[0] if not any(_same_number(a, b) for b in unmatched[1])]
    only_tgt = [b for b in unmatched[1] if not any(_same_number(a, b) for a in unmatched[0])]
    if not only_src or not only_tgt or "".join(only_src) == "".join(only_tgt):
        return ""
    return f"{', '.join(only_src)} in the source, {', '.join(only_tgt)} in the target"


def _same_number(a: str, b: str) -> bool:
    """Two ways to write one number: an hour of 12 or 24, a year with or without its century."""
    if max(len(a), len(b)) <= 2:
        return abs(int(a) - int(b)) == 12 and max(int(a), int(b)) <= 24
    return min(len(a), len(b)) == 2 and max(len(a), len(b)) == 4 and a[-2:] == b[-2:]


def other_addresses(src: str, tgt: str) -> str:
    """URLs and e-mail addresses that only one side has."""
    if not has_address(src) and not has_address(tgt):
        return ""
    addresses = [{a.rstrip(".,;:!?").casefold() for a in ADDRESS.findall(text)} for text in (src, tgt)]
    only = [sorted(addresses[i] - addresses[1 - i]) for i in (0, 1)]
    parts = [f"{', '.join(o)} in the {side}" for o, side in zip(only, ("source", "target"), strict=True) if o]
    return ("only " + ", only ".join(parts)) if parts else ""


def _text_check(check: Callable[[str], str], text: str, _: str) -> str:
    return check(text)


_SIDE_CHECKS = {"encoding": damage, "scripts": mixed_scripts, "markup": markup}
TEXT_CHECKS: Mapping[str, Check] = {kind: partial(_text_check, check) for kind, check in _SIDE_CHECKS.items()}
"""Of a text and its label, by the kind that they find."""
PAIR_CHECKS: Mapping[str, Check] = {
    "empty": empty_side,
    "identical": copied,
    "identical-short": copied_words,
    **{kind: partial(_either, check) for kind, check in _SIDE_CHECKS.items()},
    "numbers": other_numbers,
    "addresses": other_addresses,
}
"""By the kind that they find."""
