"""What a model reads of a text, and how its answer is written: a list of reversible transformations.

The list is data: `alterations.transformations` makes it for a run. An export holds it as transformations.json
beside a copy of this file, which therefore imports nothing of Dragoman. The page for browsers interprets the
same list by interop/browser/transformations.js.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple

Casing = Literal["", "capitals", "title"]
"""How a whole text is written: as usual, in capitals, or with a capital at the beginning of every word."""

MIN_TITLE = 4
"""Words of a text in title case, at least."""
UNK_ID = 3
_SENTENCE_ENDS = re.compile(r"[.!?…]\s\W*\Z")

_NONCHARACTERS = (
    *range(0xFDD0, 0xFDF0),
    *(plane + last for plane in range(0, 0x110000, 0x10000) for last in (0xFFFE, 0xFFFF)),
)
REPLACED: dict[int, str] = {
    **dict.fromkeys([*range(0x20), *range(0x7F, 0xA0), *_NONCHARACTERS], ""),
    **dict.fromkeys(map(ord, "\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u2028\u2029"), " "),
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),
}
"""What no text holds that Dragoman sees or writes, by code point, and what is there instead.

Control characters (C0, DEL, C1), the separators of lines and paragraphs, noncharacters and lone surrogates.
What moves the cursor or ends a line, as `str.splitlines` knows it, becomes a space; all others are dropped.
"""


class Reading(NamedTuple):
    """What a model reads of a text, and what its answer gets back: a case, and spans for its slots."""

    text: str
    casing: Casing = ""
    spans: Sequence[str] = ()


class Transformations:
    """The interpreter of a list: case, slots, both or neither. Case changes letters, and a slot has none."""

    def __init__(
        self, data: Mapping[str, Any], encode: Callable[[list[str]], Sequence[Sequence[int]]] = lambda _: ()
    ) -> None:
        """Take the list and its patterns; `encode` gives the tokens of words by the vocabulary of sources."""
        self.encode = encode
        self.word, self.meet = re.compile(data["word"]), re.compile(data["letter"] * 2)
        self.carried = re.compile(data["carried"], re.DOTALL)
        kinds = {one["kind"]: one for one in data["list"]}
        self.dotless: Sequence[bool] = kinds["case"]["dotless"] if "case" in kinds else ()
        """Whether the capitals of i and ı are İ and I: in the language of the source, of the target."""
        self.slots: str = kinds["slots"]["tokens"] if "slots" in kinds else ""

    def read(self, text: str, *, recase: bool = True, phrases: Sequence[str] = ()) -> Reading:
        """Return what the model reads; no slot stands for a part of one of `phrases`."""
        text, casing = self.usual_case(text) if recase and self.dotless else (text, "")
        if not self.slots:
            return Reading(text, casing)
        spans = [span for span in self.spans(text) if not any(span in phrase for phrase in phrases)]
        spans = spans[: len(self.slots)]
        return Reading(self.with_slots(text.translate(REPLACED), spans), casing, spans)

    def written(self, answer: str, casing: Casing, spans: Sequence[str]) -> str:
        """Return the answer of the model as it is written for the text that it was read of."""
        answer = self.in_casing(answer if spans else answer.translate(REPLACED), casing)
        return self.without_slots(answer, spans) if spans else answer

    def usual_case(self, text: str) -> tuple[str, Casing]:
        """Return the text as the vocabulary would write it, and the casing that it has.

        The text itself, and "", where it has no other case already, where letters have no case, or where it
        is a matter of opinion: words of names and of German nouns begin with a capital in any case.
        Addresses, placeholders, tags and the like in it do not count, and stay. Letters without a capital of
        their own, such as ß, count for neither case.
        """
        parts = text.split()
        if 2 * sum(part[0].islower() for part in parts) > len(parts):  # most text is told from others by this
            return text, ""
        composed = unicodedata.normalize("NFC", text)
        words = self.word.findall(self.carried.sub(" ", composed))
        letters = [c for word in words for c in word if c.isalpha() and len(c.upper()) == 1]
        if len(letters) < 2 or any(c.lower() == c.upper() for c in letters):
            return text, ""
        capitals = all(c == c.upper() for c in letters)
        if not capitals and (len(words) < MIN_TITLE or any(word[0] == word[0].lower() for word in words)):
            return text, ""
        usual, n_changed = self._usual(composed)
        if capitals:
            return (usual, "capitals") if n_changed else (text, "")
        return (usual, "title") if 2 * n_changed >= len(words) else (text, "")

    def _usual(self, text: str) -> tuple[str, int]:
        """Return `text` with each word as the vocabulary has it, and how many words that changes.

        A word is written in the fewest tokens, and of these in the most frequent ones: their ids are the
        lowest in every kind of vocabulary. It has a capital where a sentence begins.
        """
        dotless = self.dotless[0]
        forms: dict[str, tuple[str, str, str]] = {}
        for word in self.word.findall(text):
            small = (word.replace("İ", "i").replace("I", "ı") if dotless else word).lower()
            forms[word] = (small, with_capital(small, dotless=dotless), word)
        every = list(chain.from_iterable(forms.values()))
        ranks = {
            form: (ids.count(UNK_ID), len(ids), max(ids, default=0))
            for form, ids in zip(every, self.encode(every), strict=True)
        }
        best_of = {word: min(choices, key=ranks.__getitem__) for word, choices in forms.items()}
        n_changed = 0

        def written(part: str) -> str:
            first = self.word.search(part) if text.startswith(part) else None

            def usual(match: re.Match[str]) -> str:
                nonlocal n_changed
                best, start = best_of.get(match[0], match[0]), match.start()
                begins = first and first.start() == start
                if begins or _SENTENCE_ENDS.search(part, max(0, start - 9), start):
                    best = with_capital(best, dotless=dotless)
                n_changed += best != match[0]
                return best

            return self.word.sub(usual, part)

        return self._outside(written, text), n_changed

    def in_casing(self, text: str, casing: Casing) -> str:
        """Return `text` in a case, as it is for ""; what is carried over stays as it is."""

        def changed(part: str) -> str:
            if casing == "title":
                return self.word.sub(lambda word: with_capital(word[0], dotless=self.dotless[1]), part)
            return (part.replace("i", "İ") if self.dotless[1] else part).upper()

        return self._outside(changed, text) if casing else text

    def _outside(self, change: Callable[[str], str], text: str) -> str:
        """Return `text` with `change` made between what is carried over."""
        changed, position = [], 0
        for match in self.carried.finditer(text):
            changed += [change(text[position : match.start()]), match[0]]
            position = match.end()
        return "".join([*changed, change(text[position:])])

    def spans(self, text: str) -> list[str]:
        """Return the different spans of `text` that slots may stand for, in their order."""
        return list(dict.fromkeys(match[0] for match in self.carried.finditer(text)))

    def with_slots(self, text: str, spans: Sequence[str | None]) -> str:
        """Return `text`, which holds no slots, with the k-th slot wherever the k-th of `spans` stands."""
        slots = {span: slot for span, slot in zip(spans, self.slots, strict=False) if span is not None}
        return self.carried.sub(lambda match: slots.get(match[0], match[0]), text)

    def without_slots(self, text: str, spans: Sequence[str]) -> str:
        """Return `text` with the k-th of `spans` in place of the k-th slot; nothing in place of further ones.

        A space comes between a span and a letter or digit, for in a source hardly any span stands beside one.
        """
        texts = dict.fromkeys(self.slots, "") | dict(zip(self.slots, spans, strict=False))
        pieces, together = re.split(f"([{self.slots}])", text), ""
        for i, piece in enumerate(texts.get(piece, piece) for piece in pieces):
            together += f" {piece}" if i and self.meet.match(together[-1:] + piece[:1]) else piece
        return together


def with_capital(word: str, *, dotless: bool) -> str:
    """Return `word` with a capital at its beginning, where its letter has one there: Georgian has none."""
    return ("İ" if dotless and word[:1] == "i" else word[:1].title()) + word[1:]
