"""HTML: text is translated, markup stays as it was written, however badly.

What is markup and what is text is told apart as section 13.2.5 of the HTML standard has it (WHATWG), in one
pass. Tags that may stand within a sentence go through the translation with it; all others are borders.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from dragoman.documents.budget import Budget
from dragoman.documents.passages import Code, Passage, Pieces, codes_of
from dragoman.documents.plain import Encoding, decoded
from dragoman.predict.protection import INLINE_TAGS
from dragoman.text.normalisation import is_wordy

UNTRANSLATED = frozenset((
    "address", "applet", "audio", "canvas", "code", "iframe", "kbd", "math", "noembed", "noframes", "object",
    "samp", "script", "style", "svg", "template", "textarea", "time", "var", "video", "xmp",
))  # fmt: skip
"""Elements whose text is left alone, as is that of elements with translate="no" or of class "notranslate"."""

_WITHIN_SENTENCES = INLINE_TAGS | {"acronym", "data", "img", "math", "nobr", "svg", "time", "wbr"}
_VOID = frozenset((
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr",
))  # fmt: skip
_FOREIGN = frozenset(("math", "svg"))
"""Elements that may close themselves, as in "<svg/>"; of all others HTML does not look at the slash."""
_WITHOUT_TAGS = frozenset((
    "iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp",
))  # fmt: skip
"""Elements in which "<" begins no tag but their own end."""

MOST = 400
"""Pieces of text and tags that may belong to one passage; markup that never ends is cut there."""

_NAME = re.compile(r"</?([A-Za-z][^\s/>]*)", re.ASCII)
_ATTRIBUTE = re.compile(
    r"""[\s/]*([^\s/>][^\s/>=]*)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s>"'][^\s>]*))?""", re.ASCII
)
_REST_OF_TAG = re.compile(r"[\s/]*>", re.ASCII)
_MARKUP = re.compile(r"<(?=[A-Za-z!?/])")
_SPACE = " \t\n\r\f"
_SPACES = re.compile(f"[{_SPACE}]+")


class HtmlPiece(NamedTuple):
    """A piece of HTML. All of them, joined, are the whole."""

    kind: Literal["text", "open", "close", "other"]
    """A comment is "other", and so is an element that closes itself, and all that is to be left alone."""
    raw: str
    name: str = ""
    attributes: tuple[tuple[str, str], ...] = ()


class Hypertext:
    """HTML, whole or a fragment, taken apart."""

    noun = "paragraph"

    def __init__(self, text: str, budget: Budget, encoding: Encoding | None = None) -> None:
        """Parse `text`; `written` uses `encoding`, by default UTF-8. DataError: too many tags."""
        self._encoding, self._budget = encoding or Encoding("utf-8"), budget
        self._parts: list[str | dict[Code, str]] = []
        """In order: markup and text as they are, or what the codes of the next passage stand for."""
        passages: list[Passage] = []
        run: list[HtmlPiece] = []
        n_open_pre = 0
        for token in _untranslated_as_one(tokens(text, budget)):
            within = token.name in _WITHIN_SENTENCES or (token.kind in ("text", "other") and not token.name)
            if within and len(run) < MOST:
                run.append(token)
                continue
            passages += self._taken(run, len(passages) + 1, keeps_lines=n_open_pre > 0)
            run = [token] if within else []
            if not within:
                self._parts.append(token.raw)
            if token.name == "pre":
                n_open_pre = max(0, n_open_pre + {"open": 1, "close": -1}.get(token.kind, 0))
        passages += self._taken(run, len(passages) + 1, keeps_lines=n_open_pre > 0)
        self.passages: Sequence[Passage] = passages

    def _taken(self, run: Sequence[HtmlPiece], place: int, *, keeps_lines: bool) -> list[Passage]:
        """Return the passage that `run` is, if there is a letter in it; what its codes stand for is noted."""
        texts = [html.unescape(token.raw) if token.kind == "text" else "" for token in run]
        if not is_wordy("".join(texts)):
            self._parts.append("".join(token.raw for token in run))
            return []
        if not keeps_lines:
            texts = _on_one_line(texts)
        codes = codes_of([(token.kind, token.name) for token in run])
        markup: dict[Code, str] = {}
        pieces: list[str | Code] = []
        for token, text, code in zip(run, texts, codes, strict=True):
            if token.kind == "text":
                pieces += [text] if text else []
            else:
                markup[code] = token.raw
                pieces.append(code)
        self._parts.append(markup)
        return [Passage(tuple(pieces), place)]

    def text(self, translations: Sequence[Pieces]) -> str:
        """Return the HTML with a translation in place of each passage."""
        remaining = iter(translations)
        written: list[str] = []
        for part in self._parts:
            self._budget.step()
            if isinstance(part, str):
                written.append(part)
            else:
                written += [part[p] if isinstance(p, Code) else escaped(p) for p in next(remaining)]
        return "".join(written)

    def written(self, translations: Sequence[Pieces]) -> bytes:
        """Return the file in its encoding."""
        return self._encoding.encoded(self.text(translations))


def read(name: str, content: bytes, languages: tuple[str, str], budget: Budget) -> Hypertext:
    """Return the HTML file `content`. DataError: it is no text, or has too many tags."""
    text, encoding = decoded(name, content)
    return Hypertext(text, budget, encoding)


def plain(text: str) -> str:
    """Return about what a reader sees of `text`."""
    stream = _untranslated_as_one(tokens(text, Budget("text")))
    return "".join(html.unescape(token.raw) if token.kind == "text" else " " for token in stream)


def escaped(text: str) -> str:
    """`text` as it stands in HTML."""
    return html.escape(text, quote=False).replace("\xa0", "&nbsp;")


def tokens(text: str, budget: Budget) -> Iterator[HtmlPiece]:
    """`text` as text, tags, and other markup. What is not closed goes on to the end.

    DataError: more tokens and attributes than the `budget` has.
    """
    position = 0
    while position < len(text):
        budget.spend()
        match = _MARKUP.search(text, position)
        start = len(text) if match is None else match.start()
        if start > position:
            yield HtmlPiece("text", text[position:start])
        if match is None:
            return
        token = _tag(text, start, budget) if _NAME.match(text, start) else _other(text, start)
        yield token
        position = start + len(token.raw)
        if token.kind == "open" and token.name in _WITHOUT_TAGS:
            closing = re.compile(rf"</{token.name}(?=[\s/>])", re.ASCII | re.IGNORECASE)
            end = closing.search(text, position)
            inner = text[position : len(text) if end is None else end.start()]
            if inner:
                yield HtmlPiece("text", inner)
            position += len(inner)


def _tag(text: str, start: int, budget: Budget) -> HtmlPiece:
    """Return the tag that begins at `start`."""
    named = _NAME.match(text, start)
    assert named is not None
    position = named.end()
    attributes: list[tuple[str, str]] = []
    while (end := _REST_OF_TAG.match(text, position)) is None:
        attribute = _ATTRIBUTE.match(text, position)
        if attribute is None:  # the tag is cut short
            return HtmlPiece("other", text[start:])
        budget.spend()
        value = attribute[2] or ""
        attributes.append(
            (attribute[1].lower(), value.strip(value[:1]) if value[:1] in ("'", '"') else value)
        )
        position = attribute.end()
    name = named[1].lower()
    kind: Literal["open", "close", "other"] = "close" if text[start + 1] == "/" else "open"
    if name in _FOREIGN and end[0].endswith("/>"):
        kind = "other"
    return HtmlPiece(kind, text[start : end.end()], name, tuple(attributes))


def _other(text: str, start: int) -> HtmlPiece:
    """Return the comment or declaration that begins at `start`."""
    if text.startswith("<!--", start):
        end, length = text.find("-->", start + 2), 3
    else:
        end, length = text.find(">", start + 1), 1
    return HtmlPiece("other", text[start:] if end < 0 else text[start : end + length])


def _untranslated_as_one(stream: Iterator[HtmlPiece]) -> Iterator[HtmlPiece]:
    """`stream`, with each element whose text is to be left alone as one token."""
    for token in stream:
        if token.kind != "open" or token.name in _VOID or not _is_untranslated(token):
            yield token
            continue
        raw, depth = [token.raw], 1
        for inner in stream:
            raw.append(inner.raw)
            if inner.name == token.name:
                depth += {"open": 1, "close": -1}.get(inner.kind, 0)
            if depth == 0:
                break
        yield HtmlPiece("other", "".join(raw), token.name)


def _is_untranslated(token: HtmlPiece) -> bool:
    attributes = dict(token.attributes)
    is_marked = attributes.get("translate", "").lower() == "no"
    return is_marked or token.name in UNTRANSLATED or "notranslate" in attributes.get("class", "").split()


def _on_one_line(texts: Sequence[str]) -> list[str]:
    """`texts` with one space for white space, as a browser shows them; before and behind all it stays."""
    whole = "".join(texts)
    begin, end = len(whole) - len(whole.lstrip(_SPACE)), len(whole.rstrip(_SPACE))
    parts, position = [], 0
    for text in texts:
        low, high = (min(max(place - position, 0), len(text)) for place in (begin, end))
        parts.append(text[:low] + _SPACES.sub(" ", text[low:high]) + text[high:])
        position += len(text)
    return parts
