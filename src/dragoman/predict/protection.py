"""Copy numbers, addresses, tags and placeholders unchanged from source to translation.

A model copies what it saw copied in training, and breaks the rest. So tags are taken out, and put back around
the words that are aligned with those they stood around. The other protected spans stay in the sentence at
first; where the translation does not hold each of them as often as the source, they are taken out, too, and
put back beside the words that are aligned with their neighbours. In this way every span comes out unchanged.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import regex

from dragoman.errors import ConfigError
from dragoman.predict.results import Alternative, Link, Translation
from dragoman.text.normalisation import is_wordy
from dragoman.text.slots import PATTERNS

INLINE_TAGS = frozenset((
    "a", "abbr", "b", "bdi", "bdo", "big", "bpt", "cite", "code", "del", "dfn", "em", "ept", "font", "g", "i",
    "ins", "kbd", "mark", "mrk", "pc", "ph", "q", "s", "samp", "small", "span", "strike", "strong", "sub",
    "sup", "tt", "u", "var", "x",
))  # fmt: skip
"""Tags that may stand within a word. All others separate words, as white space does."""

MATCH_SECONDS = 5.0
"""Seconds for one pattern to look at one text."""

_TAG = re.compile(r"<(?P<closes>/?)(?P<name>[A-Za-z][\w:.-]*).*?(?P<empty>/?)>", re.DOTALL)
_OPENING, _CLOSING = "([{“„«‚‘¿¡", ".,;:!?)]}»”…%。，、！？；："


class ProtectedSpan(NamedTuple):
    """Characters of a text that are not to change."""

    start: int
    end: int
    text: str
    tag: re.Match[str] | None
    """Its parts, if it is a tag."""


class Protection:
    """Finds what is not to change."""

    def __init__(self, kinds: Iterable[str] = tuple(PATTERNS), patterns: Iterable[str] = ()) -> None:
        """Protects the `kinds`, names in `PATTERNS`, and whatever the regular expressions `patterns` match.

        ConfigError: a kind is unknown, or a pattern is no regular expression, or nested too deeply.
        """
        kinds = tuple(kinds)
        for kind in kinds:
            if kind not in PATTERNS:
                raise ConfigError(f'"{kind}" cannot be protected; there are {", ".join(PATTERNS)}')
        self._finders: dict[str, Callable[[str], Iterable[re.Match[str]]]] = {}
        """Finders of matches by pattern, the first first."""
        for pattern in reversed(tuple(patterns)):
            try:  # expressions of the standard library cannot be stopped
                self._finders[pattern] = partial(regex.compile(pattern).finditer, timeout=MATCH_SECONDS)
            except (regex.error, RecursionError) as error:
                why = "nested too deeply" if isinstance(error, RecursionError) else error
                raise ConfigError(f"{pattern!r}: is no regular expression ({why}); correct it") from error
        expressions = [PATTERNS[kind] for kind in PATTERNS if kind in kinds]
        self._finders |= {each: re.compile(each, re.DOTALL).finditer for each in expressions}

    @property
    def patterns(self) -> tuple[str, ...]:
        """The regular expressions of all that is protected."""
        return tuple(self._finders)

    def then(self, other: Protection | None) -> Protection:
        """One that protects the same and, where nothing of that begins, what `other` protects."""
        both = Protection(())
        both._finders = {**self._finders, **(other._finders if other else {})}
        return both

    def spans(self, text: str) -> list[ProtectedSpan]:
        """Return the protected spans of `text`, in order. Of overlapping ones the first wins.

        ConfigError: a pattern takes too long, as one does that backtracks for ever.
        """
        try:
            candidates = [
                (match.start(), rank, match.end())
                for rank, find in enumerate(self._finders.values())
                for match in find(text)
                if match[0].strip()
            ]
        except TimeoutError as error:
            raise ConfigError(
                f"a pattern was not done with {text[:40]!r} in {MATCH_SECONDS:g} s; write one that matches a "
                "text in one way only"
            ) from error
        spans: list[ProtectedSpan] = []
        for start, _, end in sorted(candidates):
            if not spans or start >= spans[-1].end:
                spans.append(ProtectedSpan(start, end, text[start:end], _TAG.fullmatch(text, start, end)))
        return spans


class Skeleton:
    """A text without some of its protected spans."""

    def __init__(
        self, source: str, spans: Sequence[ProtectedSpan], protection: Protection, *, only_tags: bool
    ) -> None:
        """`source` without all of its `spans`, or with `only_tags` without its tags.

        Words that only they separated are separated by a space.
        """
        self.source, self.spans, self.protection = source, spans, protection
        skeleton, position = "", 0
        self.taken: list[tuple[ProtectedSpan, int]] = []
        """The spans that are missing, and the place in `text` of each."""
        for span in [span for span in spans if span.tag or not only_tags]:
            skeleton += source[position : span.start]
            self.taken.append((span, len(skeleton)))
            position = span.end
            words_meet = skeleton[-1:].isalnum() and source[position : position + 1].isalnum()
            if words_meet and not (span.tag and span.tag["name"].lower() in INLINE_TAGS):
                skeleton += " "
        self.text = skeleton + source[position:]

    def only_whole(self, translation: Translation) -> Translation | None:
        """Return `translation` of the skeleton with only the alternatives that have all of its spans.

        None: there is none. What was put together from parts is not any more, if its first one went.
        """
        if not self.spans:
            return translation
        expected = Counter(span.text for span in self.spans) - Counter(span.text for span, _ in self.taken)
        alternatives = tuple(a for a in translation.alternatives if Counter(self._kept(a.text)) == expected)
        if not alternatives:
            return None
        parts = translation.parts if alternatives[0].text == translation.text else ()
        return translation._replace(alternatives=alternatives, parts=parts, ids=())

    def restored(self, translation: Translation, links: list[Link]) -> Translation | None:
        """Return the translation of the source from that of the skeleton. None: a span would not be the same.

        Where the words have an order of their own, so have elements; only if this makes an untruth of the
        order of the spans that are no tags does everything stay in the order of the source.
        """
        if not is_wordy(self.text):
            return Translation(self.source, (Alternative(self.source, 0.0),))
        everything = [span.text for span in self.spans]
        tags = {span.text for span in self.spans if span.tag}
        for in_order in (False, True):
            text = _put_back(self.taken, links, translation.text, in_order=in_order)
            kept = self._kept(text)
            same = Counter(kept) == Counter(everything)
            in_same_order = [x for x in kept if x not in tags] == [x for x in everything if x not in tags]
            if same and (in_same_order or all(span.tag for span, _ in self.taken)):
                best = translation.alternatives[0]._replace(text=text)
                return translation._replace(source=self.source, alternatives=(best,), ids=())
        return None

    def _kept(self, text: str) -> list[str]:
        """Return the protected spans of `text` that the source has, too."""
        names = {span.text for span in self.spans}
        return [span.text for span in self.protection.spans(text) if span.text in names]


@dataclass
class _Node:
    """A span that was taken out; or an opening tag, its closing one, and what is between them."""

    span: ProtectedSpan
    start: int
    """Its place in the skeleton."""
    end: int
    low: int = 0
    """The characters of the translation that it is put around, or before."""
    high: int = 0
    closing: str = ""
    children: list[_Node] = field(default_factory=list)


def pairs(sides: Sequence[tuple[str, str]]) -> dict[int, int]:
    """Which begin ("open", name) belongs to which end ("close", name): numbers in `sides`, nested pairs only.

    The last one of a name that is open is closed first; what is open within it then has no end.
    """
    partners: dict[int, int] = {}
    unclosed: list[tuple[int, str]] = []
    n_unclosed: Counter[str] = Counter()
    for i, (side, name) in enumerate(sides):
        if side == "open":
            unclosed.append((i, name))
            n_unclosed[name] += 1
        elif side == "close" and n_unclosed[name]:
            other = ""
            while other != name:
                first, other = unclosed.pop()
                n_unclosed[other] -= 1
            partners[first] = i
    return partners


def _placed(taken: Sequence[tuple[ProtectedSpan, int]], links: Sequence[Link], *, end: int) -> list[_Node]:
    """Return the spans as a tree, in order, behind its root, which is put around the translation up to `end`.

    Each belongs around the words that are linked with those it stood around. Else before the word that stands
    for the next linked one of the source, or behind that for the one before where this is nearer; at the end
    if there is no link at all.
    """
    partners = pairs([
        ("" if tag is None or tag["empty"] else "close" if tag["closes"] else "open",
         tag["name"].lower() if tag else "")
        for tag in (span.tag for span, _ in taken)
    ])  # fmt: skip
    closings = set(partners.values())
    nodes = [_Node(ProtectedSpan(0, 0, "", None), 0, 0, low=0, high=end)]
    opened = nodes[:]
    for i, (span, place) in enumerate(taken):
        if i in closings:
            pair = opened.pop()
            pair.closing, pair.end = span.text, place
            continue
        nodes.append(_Node(span, place, place))
        opened[-1].children.append(nodes[-1])
        if i in partners:
            opened.append(nodes[-1])
    # Words do not overlap: their beginnings are in the order of their ends.
    nowhere = [Link(place, place, end, end, 0.0) for place in (-sys.maxsize, sys.maxsize)]
    words = [nowhere[0], *sorted(links), nowhere[1]]
    starts, ends = [link.source_start for link in words], [link.source_end for link in words]
    for node in reversed(nodes[1:]):  # children before their parents
        first = bisect_left(starts, node.start)
        inside = [x for x in words[first : bisect_left(starts, node.end)] if x.source_end <= node.end]
        if inside or node.children:
            node.low = min([*(x.target_start for x in inside), *(child.low for child in node.children)])
            node.high = max([*(x.target_end for x in inside), *(child.high for child in node.children)])
            continue
        before, after = words[bisect_right(ends, node.start) - 1], words[first]
        is_behind = node.start - before.source_end < after.source_start - node.start
        node.low = node.high = before.target_end if is_behind else after.target_start
    return nodes


class _Writer:
    """Puts text and spans together, with spaces where words would meet."""

    def __init__(self) -> None:
        self.text = self.tags = ""
        """What was written, and opening tags behind it: a space comes before them."""
        self._space_is_due = False

    def write(self, text: str) -> None:
        """Add a piece of the translation."""
        if text:
            is_apart = not text[0].isspace() and text[0] not in _CLOSING
            self.add(text, space=self._space_is_due and is_apart)
            self._space_is_due = False

    def write_span(self, span: ProtectedSpan) -> None:
        """Add what was taken out. Tags stand as close as the words they came to."""
        if span.tag:
            self.tags += span.text
            return
        last = self.text[-1:]
        self.add(span.text, space=bool(last) and not last.isspace() and last not in _OPENING)
        self._space_is_due = True

    def add(self, text: str, *, space: bool = False) -> None:
        """Add text such as a closing tag; a space that is due comes behind it."""
        self.text += " " * space + self.tags + text
        self.tags = ""


def _put_back(
    taken: Sequence[tuple[ProtectedSpan, int]], links: Sequence[Link], text: str, *, in_order: bool
) -> str:
    """Return the translation `text` with the spans `taken` among it, none across another."""
    nodes = _placed(taken, links, end=len(text))
    for node in nodes:
        if not in_order:
            node.children.sort(key=lambda x: (x.low, x.high))
        node.children.reverse()  # the first is taken off first
    writer = _Writer()
    levels = nodes[:1]
    while levels:
        parent = levels[-1]  # of which the translation is written up to `low`
        if not parent.children:
            writer.write(text[parent.low : parent.high])
            if parent.closing:
                writer.add(parent.closing)
            levels.pop()
            continue
        node = parent.children.pop()
        start = min(max(parent.low, node.low), parent.high)
        writer.write(text[parent.low : start])
        writer.write_span(node.span)
        parent.low = min(max(start, node.high), parent.high)
        node.low, node.high = start, parent.low
        levels.append(node)
    return writer.text + writer.tags
