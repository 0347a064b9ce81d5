"""Text in sentences, and text with formatting in it: its way through a translator and back.

A format hands over its text as passages. Each is cut into sentences; what stands inside a sentence becomes
tags, which `translate_protected` puts back around the words that are aligned with those they stood around;
what encloses a sentence, or stands between two, needs no tags and stays where it was.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, groupby
from typing import Any, Literal, NamedTuple, TypeAlias

from dragoman.documents.budget import Budget, Check
from dragoman.errors import check_texts, optional
from dragoman.predict.flow import Flow, Source, TranslationRequest, translated
from dragoman.predict.protection import INLINE_TAGS, Protection, pairs
from dragoman.predict.results import Translation
from dragoman.predict.splitting import gap_between
from dragoman.text.normalisation import is_wordy
from dragoman.text.slots import PATTERNS

MOST_CODES = 200
"""Maximum codes that are put back into a sentence; the work grows with their square."""
WINDOW = 10_000
"""Characters of a line in which sentences are told apart at once: what that takes grows with their square."""

_LINE_END = re.compile(r"(\r\n|\n|\r)")
_NUMBER = re.compile(PATTERNS["numbers"])
_THOUSANDS = re.compile(r"(?<=[0-9])[ \u00a0\u202f](?=[0-9]{3}(?![0-9]))")
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Document:
    """A text and the places of its sentences.

    `Document.read(text, language).written(sentences, (language, language)) == text` for every text.
    """

    text: str
    places: tuple[tuple[int, int, int], ...]
    """Of each sentence the first character, the one behind it, and its line, counted from 1. None is empty,
    begins or ends with white space, or crosses the end of a line."""

    @classmethod
    def read(cls, text: str, language: str, budget: Budget | None = None) -> Document:
        """Split `text` into sentences by the rules of `language`, such as "en".

        A line is a paragraph: no sentence goes on in the next. "\\n", "\\r\\n" and "\\r" end one.
        Sentences count in the `budget`.
        MissingExtraError: sentencex is not installed. DataError: more pieces than the budget has.
        """
        check_texts([text], what="document")
        places, position = [], 0
        for i, line in enumerate(_LINE_END.split(text)):  # every other one is a line end
            for segment in [line] if i % 2 else segments(line, language, budget):
                if sentence := segment.strip():
                    start = position + segment.index(sentence)
                    places.append((start, start + len(sentence), i // 2 + 1))
                position += len(segment)
        return cls(text, tuple(places))

    @property
    def sentences(self) -> tuple[str, ...]:
        """The text of each."""
        return tuple(self.text[start:end] for start, end, _ in self.places)

    def written(self, translations: Sequence[str], languages: tuple[str, str]) -> str:
        """Return the document with a translation in place of each sentence. `languages`: source and target.

        White space and line ends stay as they are. Only between sentences of a line it depends on the
        languages: see `splitting.gap_between`.
        """
        pieces, position, last_line = list[str](), 0, 0
        for (start, end, line), translation in zip(self.places, translations, strict=True):
            gap = self.text[position:start]
            pieces += [gap_between(gap, languages) if line == last_line else gap, translation]
            position, last_line = end, line
        return "".join([*pieces, self.text[position:]])


def segments(line: str, language: str, budget: Budget | None = None) -> list[str]:
    """Return the sentences of a line, each with the white space behind it; joined, they are the line.

    By the rules of sentencex, which knows the abbreviations of many languages, and takes those of a related
    one for others. MissingExtraError, DataError: as `Document.read`.
    """
    sentencex = optional("sentencex", extra="documents", purpose="telling sentences of a document apart")
    sentences, position = [], 0
    while position < len(line):
        window = _SURROGATES.sub("\ufffd", line[position : position + WINDOW])  # UTF-8 cannot hold them
        lengths = [len(segment) for segment in sentencex.segment(language, window)]
        lengths += [len(window) - sum(lengths)] if sum(lengths) < len(window) else []
        if position + WINDOW < len(line):  # the last one may go on
            lengths = lengths[:-1] or [window.rfind(" ") + 1 or WINDOW]
        if budget is not None:
            budget.spend(len(lengths))
            budget.step(len(window))
        for length in lengths:
            sentences.append(line[position : position + length])
            position += length
    return sentences


def numbers_in(text: str) -> Counter[str]:
    """Return the numbers in a text, however they are written: a minus and the digits, as ASCII."""
    if not text.isascii():
        text = "".join(str(unicodedata.decimal(character, character)) for character in text)
    numbers = (match[0] for match in _NUMBER.finditer(_THOUSANDS.sub("", text)))
    return Counter("-" * number.startswith(("-", "−")) + re.sub("[^0-9]", "", number) for number in numbers)


class Code(NamedTuple):
    """Something in a text that is no text. What it is only the format knows, by its key."""

    kind: Literal["open", "close", "point", "gap"]
    """The begin or end of what is around some text; or a thing at a place: a "gap" also keeps words apart."""
    key: int
    """One for each pair, and for each thing, of a passage."""

    def closes(self, other: object) -> bool:
        """Return whether it ends the pair that `other` begins."""
        return self.kind == "close" and other == Code("open", self.key)


Pieces: TypeAlias = tuple[str | Code, ...]
"""Text and codes in order. Pairs are closed and nested."""


class Thing(NamedTuple):
    """Something among the text of a passage, such as a tag, as its format knows it."""

    side: str
    """ "open" or "close", of what may be a pair; "gap"; or any other."""
    name: str
    """The same for both sides of a pair."""
    raw: Any
    """What it is in the file."""


def coded(items: Iterable[str | Thing]) -> tuple[Pieces, dict[Code, Any]]:
    """Return the pieces of a passage of text and things, and what its codes are in the file.

    An "open" and a "close" of one name are a pair where `protection.pairs` finds that they are. All else is a
    thing at a place: a "gap" if its side says so, or a "point".
    """
    items = list(items)
    things = [item for item in items if isinstance(item, Thing)]
    codes = [Code("gap" if thing.side == "gap" else "point", i) for i, thing in enumerate(things)]
    for begin, end in pairs([thing[:2] for thing in things]).items():
        codes[begin], codes[end] = Code("open", begin), Code("close", begin)
    remaining = iter(codes)
    pieces = (next(remaining) if isinstance(item, Thing) else item for item in items)
    return tuple(filter(None, pieces)), {c: thing.raw for c, thing in zip(codes, things, strict=True)}


@dataclass(frozen=True)
class Passage:
    """Text that belongs together: a paragraph, a segment of a translation memory, what somebody says."""

    pieces: Pieces
    place: int
    """Where it is in the document, counted from 1: its line, cue, unit or paragraph."""
    separators: str = ""
    """Characters that end a sentence as the end of a line does."""

    @property
    def text(self) -> str:
        """The text alone."""
        return text_of(self.pieces)


def text_of(pieces: Iterable[str | Code]) -> str:
    """Return the text without codes."""
    return "".join(piece for piece in pieces if isinstance(piece, str))


class Cut(NamedTuple):
    """Where to cut: before the character `place`. What stands there, but closes nothing, goes to `codes`."""

    place: int
    codes: Literal["left", "right"]


def cut(pieces: Pieces, cuts: Sequence[Cut], budget: Budget | None = None) -> list[Pieces]:
    """`pieces` in one part more than there are `cuts`, which ascend; `joined`, the parts are what they were.

    A pair across a cut becomes two with the same key, which count in the `budget`. What closes at a cut is on
    its left.
    """
    parts: list[list[str | Code]] = [[]]
    opened: list[Code] = []
    position, remaining = 0, deque(cuts)

    def finish() -> None:
        remaining.popleft()
        if budget is not None:
            budget.spend(2 * len(opened))
        for code in reversed(opened):
            if parts[-1][-1:] == [code]:  # nothing is in it yet
                parts[-1].pop()
            else:
                parts[-1].append(Code("close", code.key))
        parts.append([*opened])

    for piece in pieces:
        if isinstance(piece, str):
            done = 0
            while remaining and remaining[0].place < position + len(piece):
                end = remaining[0].place - position
                parts[-1] += filter(None, [piece[done:end]])
                done = end
                finish()
            parts[-1].append(piece[done:])
            position += len(piece)
            continue
        while remaining and remaining[0] == Cut(position, "right") and piece.kind != "close":
            finish()
        if piece.kind == "open":
            opened.append(piece)
        elif piece.kind == "close":
            opened.pop()
        parts[-1].append(piece)
    while remaining:
        finish()
    return [*map(tuple, parts)]


def joined(parts: Iterable[Pieces]) -> Pieces:
    """All of `parts` in order; a pair that `cut` made two of is one again where its halves meet."""
    merged: list[str | Code] = []
    for piece in chain.from_iterable(parts):
        last = merged[-1] if merged else ""
        if isinstance(last, Code) and last.closes(piece):
            merged.pop()
        elif piece:
            merged.append(piece)
    runs = (tuple(run) for _, run in groupby(merged, lambda piece: isinstance(piece, str)))
    return tuple(chain.from_iterable((text_of(run),) if isinstance(run[0], str) else run for run in runs))


class Sentence(NamedTuple):
    """A sentence of a passage, and the pairs that enclose all of it."""

    opening: Pieces
    pieces: Pieces
    closing: Pieces
    line: int
    """The line of the passage on which it stands, counted from 1."""

    @classmethod
    def of(cls, pieces: Pieces, line: int) -> Sentence:
        n, end = 0, len(pieces)
        while n < end and isinstance(last := pieces[end - 1], Code) and last.closes(pieces[n]):
            n, end = n + 1, end - 1
        return cls(pieces[:n], pieces[n:end], pieces[end:], line)


class CutPassage(NamedTuple):
    """A passage in sentences, and all that stands around them: one gap more."""

    sentences: tuple[Sentence, ...]
    gaps: tuple[Pieces, ...]

    @classmethod
    def of(cls, passage: Passage, language: str, budget: Budget | None = None) -> CutPassage:
        """Sentences are told apart by the rules of `language`, and count in the `budget`.

        Those without a letter, or with more than `MOST_CODES` codes, belong to gaps: they stay as they are.

        MissingExtraError, DataError: as `Document.read`.
        """
        text, added = _with_gaps(passage.pieces)
        text = text.translate(dict.fromkeys(map(ord, passage.separators), "\n"))
        places = [p for p in Document.read(text, language, budget).places if is_wordy(text[p[0] : p[1]])]
        cuts: list[Cut] = []
        for start, end, _ in places:
            first, last = (place - bisect_left(added, place) for place in (start, end))
            cuts += [Cut(first, "left"), Cut(last, "right")]
        parts = cut(passage.pieces, cuts, budget)
        sentences, gaps = list[Sentence](), [parts[:1]]
        for inside, after, (*_, line) in zip(parts[1::2], parts[2::2], places, strict=True):
            if sum(isinstance(piece, Code) for piece in inside) > MOST_CODES:
                gaps[-1] += [inside, after]
            else:
                sentences.append(Sentence.of(inside, line))
                gaps.append([after])
        return cls(tuple(sentences), tuple(gap[0] if len(gap) == 1 else joined(gap) for gap in gaps))

    def written(self, translations: Sequence[Pieces], languages: tuple[str, str]) -> Pieces:
        """Return the passage with a translation in place of each sentence. `languages`: source and target."""
        parts: list[Pieces] = []
        last_line = 0
        for gap, sentence, translation in zip(self.gaps[:-1], self.sentences, translations, strict=True):
            space = text_of(gap)
            is_within_line = sentence.line == last_line and not space.strip()
            between = gap_between(space, languages) if is_within_line else space
            codes = (piece for piece in gap if isinstance(piece, Code))
            parts.append(gap if between == space else (between, *codes))
            parts += [sentence.opening, translation, sentence.closing]
            last_line = sentence.line
        return joined([*parts, self.gaps[-1]])


def _with_gaps(pieces: Pieces) -> tuple[str, list[int]]:
    """Return the text with a space for each gap between two characters, and where these spaces are."""
    text, added, is_gap = "", list[int](), False
    for piece in pieces:
        if isinstance(piece, Code):
            is_gap = is_gap or piece.kind == "gap"
            continue
        if is_gap and text and not text[-1].isspace() and not piece[0].isspace():
            added.append(len(text))
            text += " "
        text += piece
        is_gap = False
    return text, added


class Tags(NamedTuple):
    """Tags for codes, of names that no text has a tag of, so that none is taken for what it is not.

    They are all that needs to be known to translate some sentences of a document.
    """

    pair: str
    point: str
    gap: str
    is_used: bool = False
    """Whether a sentence has one."""

    @classmethod
    def apart_from(cls, texts: Iterable[str], *, is_used: bool = False) -> Tags:
        """Tags that none of `texts` has."""
        used = {name.lower() for text in texts for name in re.findall(r"</?([A-Za-z][\w:.-]*)", text)}
        within_words = (name for name in ("g", "x", *sorted(INLINE_TAGS - {"g", "x"})) if name not in used)
        numbered = (name for n in count() if (name := f"gap{n}") not in used)
        names = chain(within_words, numbered)
        return cls(next(names), next(names), next(numbered), is_used)

    @property
    def pattern(self) -> str:
        """A regular expression of all of them."""
        return rf'<(?:{self.pair} id="[0-9]+"|/{self.pair}|(?:{self.point}|{self.gap}) id="[0-9]+"/)>'

    def written(self, code: Code) -> str:
        """Return the tag of a code."""
        if code.kind == "close":
            return f"</{self.pair}>"
        name = {"open": self.pair, "point": self.point, "gap": self.gap}[code.kind]
        return f'<{name} id="{code.key}"{"" if code.kind == "open" else "/"}>'

    def marked(self, pieces: Pieces) -> str:
        """Text with tags for the codes."""
        return "".join(piece if isinstance(piece, str) else self.written(piece) for piece in pieces)

    def read(self, text: str, original: Pieces) -> Pieces:
        """Return the pieces that `text`, a translation of `original`, means, whatever has become of its tags.

        Missing single codes are added at the end; pairs without both ends are dropped.
        """
        codes = {self.written(piece): piece for piece in original if isinstance(piece, Code)}
        closing = f"</{self.pair}>"
        codes.pop(closing, None)
        pieces: list[str | Code] = []
        unclosed: list[int] = []
        for i, piece in enumerate(re.split(f"({self.pattern})", text)):
            if i % 2 == 0:
                pieces += [piece] if piece else []
            elif piece == closing:
                pieces += [Code("close", unclosed.pop())] if unclosed else []
            elif piece in codes:
                code = codes.pop(piece)
                pieces.append(code)
                unclosed += [code.key] if code.kind == "open" else []
        pieces += [Code("close", key) for key in reversed(unclosed)]
        return (*pieces, *(code for code in codes.values() if code.kind != "open"))

    def protection(self, other: Protection | None = None) -> Protection | None:
        """Return the protection of the tags, and of the spans of `other`. None: there is nothing."""
        return Protection((), [self.pattern]).then(other) if self.is_used else other

    def lacking(self, sentences: Sequence[str], translations: Sequence[str]) -> Counter[int]:
        """Return how many numbers of its source each translation lacks, by its index, if it lacks any."""
        both = zip(sentences, translations, strict=True)
        sides = ([numbers_in(re.sub(self.pattern, " ", text)) for text in pair] for pair in both)
        return +Counter({i: (source - target).total() for i, (source, target) in enumerate(sides)})

    def translations(
        self,
        model: Source,
        sentences: Sequence[str],
        request: TranslationRequest,
        *,
        first_number: int = 1,
        check: Check = lambda: None,
    ) -> Flow[list[Translation]]:
        """Return the translation of each sentence, with its tags and numbers.

        Those that lack a number of their source are made again with these protected; one stays as it was if
        that does not help. Errors: as `flow.translated`, and those of `check`, which is called in between.
        """
        request = replace(request, protection=self.protection(request.protection))
        translations = yield from translated(model, sentences, request, first_number=first_number)
        check()
        if lacking := list(self.lacking(sentences, [translation.text for translation in translations])):
            kept = self.protection((request.protection or Protection(())).then(Protection(["numbers"])))
            again = yield from translated(
                model, [sentences[i] for i in lacking], replace(request, protection=kept),
                first_number=first_number,
            )  # fmt: skip
            for i, translation in zip(lacking, again, strict=True):
                if translation.outcome != "untranslated":
                    translations[i] = translation
        return translations
