"""Subtitles in SubRip's format: cues keep their numbers, times and tags.

What somebody says may run over the lines of a cue, and over several cues. It is translated as a whole and
cut where its source is cut, in proportion, between two words.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from dragoman.documents.budget import Budget
from dragoman.documents.passages import Code, Cut, Passage, Pieces, Thing, coded, cut, text_of
from dragoman.documents.plain import decoded
from dragoman.errors import DataError
from dragoman.text.words import has_spaces

MOST_CUES = 4
"""Maximum cues of one sentence; a song may have no full stop at all."""
LONGEST_PAUSE = 2000
"""Milliseconds: after a longer pause nobody goes on with a sentence."""

LONGEST_CUE = 4000
"""Characters of a cue, its number and times included, at most."""

_REMEDY = 'a subtitle is a number, a line such as "00:00:01,000 --> 00:00:02,500", and text'
_DIGITS, _MARK = "[0-9]{1,20}", "[,.:，．。：]"
_TIME = _MARK.join([f"({_DIGITS})"] * 3) + f"{_MARK}?([0-9]{{0,20}})"
_NUMBER = rf"[^\S\n]*-?{_DIGITS}(?:\.[0-9]{{0,20}})?\s*\n"
_HEAD = re.compile(rf"^(?:{_NUMBER})?[^\S\n]*{_TIME} *-[ -] *> *{_TIME} ?[^\n]*(?:\n|\Z)", re.MULTILINE)
_BROKEN = re.compile(
    rf"^[^\S\n]*{_DIGITS}{_MARK}[^>\n]{{1,60}}>"
    rf"|(?:\A|\n)[^\S\n]*\n(?:{_NUMBER})?{_DIGITS}(?:{_MARK}{_DIGITS}){{2}}",
    re.MULTILINE,
)
"""Malformed times: an arrow behind a time; or a time where a cue may begin, without an arrow."""
_TAG = re.compile(r"(<(?P<closes>/?)(?P<name>i|b|u|s|font)\b[^<>]*>|\{\\[^{}]*\})", re.IGNORECASE)
_POSITION = re.compile(r"\s*(?:\{\\[^{}]*\})+")
_WRAPPED = re.compile(r"(<(?P<name>i|b|u|s|font)\b[^<>]*>)(.*)(</(?P=name)\s*>)", re.IGNORECASE | re.DOTALL)
_DASH = re.compile(r"\s*[-–—‐]\s*")
_ENDS = re.compile(r"[.!?…。！？♪:;؟।][\"'”’»)\]』」]*\s*\Z")
_NO_START = frozenset(".,;:!?)]}%…»”’，。、！？；：）」』】")


@dataclass(frozen=True)
class Cue:
    """What is shown from `start` to `end`, in milliseconds.

    `head` is its number and times as they are in the file, `tail` the line ends behind `content`.
    """

    head: str
    start: int
    end: int
    content: str
    tail: str


def parse(name: str, text: str, budget: Budget) -> list[Cue]:
    """Return the cues of a file, whose lines end with a line feed. DataError: it holds anything else."""

    def line_of(place: int) -> str:
        return f"line {text.count(chr(10), 0, place) + 1}"

    if not text.strip():
        raise DataError(f"{name}: holds no subtitles; {_REMEDY}")
    heads: list[re.Match[str] | None] = [*_HEAD.finditer(text)] or [None]
    starts = [0, *(head.start() for head in heads[1:] if head)]
    cues = []
    for head, start, end in zip(heads, starts, [*starts[1:], len(text)], strict=True):
        budget.spend(where=partial(line_of, start))
        if end - start > LONGEST_CUE:
            raise DataError(
                f"{name}, {line_of(start)}: more than a subtitle of {LONGEST_CUE} characters; {_REMEDY}"
            )
        before, block = text[start : head.start() if head else end], text[head.end() if head else end : end]
        broken = _BROKEN.search(block)
        if head is None or broken or before.strip():
            place = end - len(block) + broken.end() if broken else start + before.index(before.strip())
            first = text.rfind("\n", 0, place) + 1
            shown = text[first:end].strip().split("\n")[0]
            shown = shown if len(shown) <= 40 else f"{shown[:40]}…"
            raise DataError(f"{name}, {line_of(first)}: {shown!r} is no part of a subtitle; {_REMEDY}")
        digits = [int(number or 0) for number in head.groups()]
        shows, hides = (((h * 60 + m) * 60 + s) * 1000 + ms for h, m, s, ms in (digits[:4], digits[4:]))
        content = block.rstrip("\n")
        cues.append(Cue(text[start : head.end()], shows, hides, content, block[len(content) :]))
    return cues


@dataclass
class Line:
    """A line of a cue. `prefix` and `suffix` are tags around all of it, and the dash of a speaker."""

    cue: int
    prefix: str
    text: str
    suffix: str
    has_dash: bool
    """Somebody else begins to speak."""

    @classmethod
    def of(cls, cue: int, text: str) -> Line:
        match = _POSITION.match(text)
        prefix, suffix = match[0] if match else "", ""
        text = text[len(prefix) :]
        while (match := _WRAPPED.fullmatch(text)) and len(_TAG.findall(match[3])) == 0:
            prefix, text, suffix = prefix + match[1], match[3], match[4] + suffix
        dash = _DASH.match(text)
        start = dash.end() if dash else 0
        return cls(cue, prefix + text[:start], text[start:], suffix, dash is not None)

    @property
    def words(self) -> str:
        """The text without tags."""
        return _TAG.sub("", self.text)


class Saying:
    """Lines that say one thing, as a passage."""

    def __init__(self, lines: list[Line], *, spaces: bool) -> None:
        """`spaces`: lines are joined with a space; else only where Latin letters or digits would meet."""
        self.lines = lines
        self.ends: list[int] = []
        """Where each line but the last ends, in characters of the passage."""
        text, n_characters = lines[0].text, len(lines[0].words)
        for before, line in pairwise(lines):
            self.ends.append(n_characters)
            space = " " * (spaces or _are_latin(before.words[-1:], line.words[:1]))
            text, n_characters = text + space + line.text, n_characters + len(space + line.words)
        items: list[str | Thing] = []
        position = 0
        for tag in _TAG.finditer(text):
            side = "" if tag["name"] is None else "close" if tag["closes"] else "open"
            items += [text[position : tag.start()], Thing(side, (tag["name"] or "").lower(), tag[0])]
            position = tag.end()
        pieces, self.tags = coded([*items, text[position:]])
        self.passage = Passage(pieces, lines[0].cue + 1)

    def rewrapped(self, translation: Pieces, *, spaces: bool) -> list[str]:
        """Return the translation on as many lines, some of them empty where it has too few words.

        `spaces`: lines may only end where a space is.
        """
        text = text_of(translation)
        places = self._places(text, spaces=spaces)
        cuts: list[Cut] = []
        for place in filter(None, places):
            is_space = text[place].isspace()  # which goes
            cuts += [Cut(place, "left" if is_space else "right"), Cut(place + is_space, "right")]
        parts = cut(translation, cuts)[::2]
        full = [0, *(k for k, place in enumerate(places, start=1) if place is not None)]
        for i, k in enumerate(full[1:], start=1):
            before, after = self.lines[full[i - 1]], self.lines[k]
            is_one_cue = before.cue == after.cue and not before.suffix and not after.prefix
            while is_one_cue and parts[i - 1] and parts[i]:  # tags that close here and open again go
                ending, opening = parts[i - 1][-1], parts[i][0]
                if not isinstance(ending, Code) or not ending.closes(opening):
                    break
                parts[i - 1], parts[i] = parts[i - 1][:-1], parts[i][1:]
        rewrapped = [""] * len(self.lines)
        for k, part in zip(full, parts, strict=True):
            line = self.lines[k]
            written = "".join(piece if isinstance(piece, str) else self.tags[piece] for piece in part)
            rewrapped[k] = f"{line.prefix}{written}{line.suffix}"
        return rewrapped

    def _places(self, text: str, *, spaces: bool) -> list[int | None]:
        """Where each line but the last ends in `text`: in proportion, no two at a place. None: nowhere."""
        possible = [place for place in range(1, len(text)) if _may_end(text, place, spaces=spaces)]
        breaks = list(range(len(self.ends)))
        if len(possible) < len(breaks):
            breaks = [k for k in breaks if self.lines[k].cue != self.lines[k + 1].cue][: len(possible)]
        places: list[int | None] = [None] * len(self.ends)
        scale = len(text) / max(1, len(self.passage.text))
        first = 0
        for n_left, k in zip(range(len(breaks), 0, -1), breaks, strict=True):
            target, last = self.ends[k] * scale, len(possible) - n_left
            best = bisect_left(possible, target, first, last)
            if best > first and target - possible[best - 1] <= possible[best] - target:
                best -= 1
            places[k] = possible[best]
            first = best + 1
        return places


class Subtitles:
    """A file of subtitles, taken apart."""

    noun = "cue"

    def __init__(self, name: str, content: bytes, languages: tuple[str, str], budget: Budget) -> None:
        """DataError: it is damaged, too large, or no text."""
        text, self._encoding = decoded(name, content)
        budget.spend(text.count("\n"))
        self._cues = parse(name, text.replace("\r\n", "\n"), budget)
        self._budget = budget
        self._line_end = "\r\n" if "\r\n" in text else "\n"
        src_spaced, self._tgt_spaced = map(has_spaces, languages)
        self._sayings = [Saying(lines, spaces=src_spaced) for lines in _sayings(self._cues, budget)]
        self.passages = [saying.passage for saying in self._sayings]

    def written(self, translations: Sequence[Pieces]) -> bytes:
        texts: list[list[str]] = [[] for _ in self._cues]  # a cue may become empty
        for saying, translation in zip(self._sayings, translations, strict=True):
            self._budget.step(len(saying.lines))
            lines = saying.rewrapped(translation, spaces=self._tgt_spaced)
            for line, text in zip(saying.lines, lines, strict=True):
                texts[line.cue] += [text] if text or not line.text else []
        cues = zip(self._cues, map("\n".join, texts), strict=True)
        written = "".join(f"{cue.head}{content}{cue.tail}" for cue, content in cues)
        return self._encoding.encoded(written.replace("\n", self._line_end))


read = Subtitles


def _sayings(cues: Sequence[Cue], budget: Budget) -> list[list[Line]]:
    """Return the lines of all cues, together where one goes on in the next."""
    sayings: list[list[Line]] = []
    for k, cue in enumerate(cues):
        budget.step()
        for i, text in enumerate(cue.content.split("\n") if cue.content else []):
            line = Line.of(k, text)
            last = sayings[-1] if sayings else None
            if last and _goes_on(last, line, cues, is_first=i == 0):
                last.append(line)
            else:
                sayings.append([line])
    return sayings


def _goes_on(lines: list[Line], line: Line, cues: Sequence[Cue], *, is_first: bool) -> bool:
    """Return whether the text of `lines` continues in `line`, which may begin another cue.

    From one cue to the next only a sentence does that has not ended, and goes on with a small letter at once.
    """
    previous, words = lines[-1].words, line.words
    if _ENDS.search(previous) or line.has_dash or not previous.strip() or not words.strip():
        return False
    if not is_first:
        return True
    pause = cues[line.cue].start - cues[lines[-1].cue].end
    is_near = lines[-1].cue == line.cue - 1 and line.cue - lines[0].cue < MOST_CUES
    return is_near and pause <= LONGEST_PAUSE and words.lstrip()[0].islower()


def _may_end(text: str, place: int, *, spaces: bool) -> bool:
    """Whether a line may end before the character `place`."""
    before, after = text[place - 1], text[place]
    if after.isspace():
        return place + 1 < len(text)
    return not spaces and not before.isspace() and after not in _NO_START and not _are_latin(before, after)


def _are_latin(before: str, after: str) -> bool:
    """Both are ASCII letters or digits: of one word, if nothing is between them."""
    return before.isascii() and before.isalnum() and after.isascii() and after.isalnum()
