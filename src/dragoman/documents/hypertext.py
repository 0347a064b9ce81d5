"""HTML: text and attributes that people read are translated, markup stays as it was written, however badly.

What is markup and what is text is told apart as section 13.2.5 of the HTML standard has it (WHATWG), in one
pass. Tags that may stand within a sentence go through the translation with it; all others are borders.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from dragoman.data.readers.formats import language_matches
from dragoman.documents.budget import Budget
from dragoman.documents.passages import Code, Passage, Pieces, Thing, coded, text_of
from dragoman.documents.plain import Encoding, decoded
from dragoman.predict.protection import INLINE_TAGS
from dragoman.text.normalisation import is_wordy

UNTRANSLATED = frozenset((
    "address", "applet", "audio", "canvas", "code", "iframe", "kbd", "math", "noembed", "noframes", "object",
    "samp", "script", "style", "svg", "template", "textarea", "time", "var", "video", "xmp",
))  # fmt: skip
"""Elements whose text is left alone, as is that of elements with translate="no" or of class "notranslate"."""

TRANSLATED = frozenset(("alt", "aria-label", "placeholder", "title"))
"""Attributes whose values are text for readers."""

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
_ENDLESS = re.compile("&#(?:[0-9]{64,}|[xX][0-9a-fA-F]{64,});?")  # no character, and too long for a number
_MARKUP = re.compile(r"<(?=[A-Za-z!?/])")
_SPACE = " \t\n\r\f"
_SPACES = re.compile(f"[{_SPACE}]+")


class HtmlPiece(NamedTuple):
    """A piece of HTML. All of them, joined, are the whole."""

    kind: Literal["text", "open", "close", "other"]
    """A comment is "other", and so is an element that closes itself, and all that is to be left alone."""
    raw: str
    name: str = ""
    attributes: tuple[tuple[str, str, int], ...] = ()
    """Name, value without quotes, and where this begins in `raw`."""


class AttributeText(NamedTuple):
    """The value of an attribute that is translated."""

    raw: str
    text: str
    is_quoted: bool

    def written(self, translation: str) -> str:
        """Return what stands in the tag in its place."""
        if translation == self.text:
            return self.raw
        return html.escape(translation) if self.is_quoted else f'"{html.escape(translation)}"'


class Hypertext:
    """HTML, whole or a fragment, taken apart."""

    noun = "paragraph"

    def __init__(
        self, text: str, languages: tuple[str, str], budget: Budget, encoding: Encoding | None = None
    ) -> None:
        """Parse `text`; `written` uses `encoding`, by default UTF-8. `languages`: source and target.

        DataError: too many tags.
        """
        self._encoding, self._budget, self._languages = encoding or Encoding("utf-8"), budget, languages
        self._parts: list[str | AttributeText | dict[Code, list[str | AttributeText]]] = []
        """In order: markup and text as they are, values, or what the codes of the next passage stand for."""
        self.passages: list[Passage] = []
        run: list[HtmlPiece] = []
        n_open_pre = 0
        for token in _untranslated_as_one(tokens(text, budget)):
            within = token.name in _WITHIN_SENTENCES or (token.kind in ("text", "other") and not token.name)
            if within and len(run) < MOST:
                run.append(token)
                continue
            self._take(run, keeps_lines=n_open_pre > 0)
            run = [token] if within else []
            self._parts += [] if within else self._in_pieces(token)
            if token.name == "pre":
                n_open_pre = max(0, n_open_pre + {"open": 1, "close": -1}.get(token.kind, 0))
        self._take(run, keeps_lines=n_open_pre > 0)

    def _take(self, run: Sequence[HtmlPiece], *, keeps_lines: bool) -> None:
        """Add the passage that `run` is, if there is a letter in it, and what its codes stand for."""
        texts = [html.unescape(token.raw) if token.kind == "text" else "" for token in run]
        if not is_wordy("".join(texts)):
            for token in run:
                self._parts += self._in_pieces(token)
            return
        if not keeps_lines:
            # One space for white space, as a browser shows it; before and behind all it stays.
            whole, position = "".join(texts), 0
            begin, end = len(whole) - len(whole.lstrip(_SPACE)), len(whole.rstrip(_SPACE))
            for i, text in enumerate(texts):
                low, high = (min(max(place - position, 0), len(text)) for place in (begin, end))
                texts[i] = text[:low] + _SPACES.sub(" ", text[low:high]) + text[high:]
                position += len(text)
        pieces, tags = coded(
            text if token.kind == "text" else Thing(token.kind, token.name, token)
            for token, text in zip(run, texts, strict=True)
        )
        self.passages.append(Passage(pieces, len(self.passages) + 1))
        self._parts.append({code: self._in_pieces(token) for code, token in tags.items()})

    def _in_pieces(self, token: HtmlPiece) -> list[str | AttributeText]:
        """Return a token as it is written, in pieces: the values are passages, in their order."""
        pieces: list[str | AttributeText] = []
        position, is_open = 0, token.kind == "open" and not _is_untranslated(token)
        for name, raw, start in token.attributes if is_open else ():
            text = " ".join(html.unescape(raw).split())
            if name in TRANSLATED and is_wordy(text):
                pieces += [token.raw[position:start], AttributeText(raw, text, token.raw[start - 1] in "\"'")]
                self.passages.append(Passage((text,), len(self.passages) + 1))
            elif name in ("lang", "xml:lang") and language_matches(text, self._languages[0]):
                pieces += [token.raw[position:start], self._languages[1]]
            else:
                continue
            position = start + len(raw)
        return [*pieces, token.raw[position:]]

    def written(self, translations: Sequence[Pieces]) -> bytes:
        remaining = iter(translations)
        written: list[str] = []
        for part in self._parts:
            self._budget.step()
            if isinstance(part, dict):
                pieces = next(remaining)
                tags = {code: _joined(tag, remaining) for code, tag in part.items()}
                written += [tags[p] if isinstance(p, Code) else escaped(p) for p in pieces]
            else:
                written.append(_joined([part], remaining))
        return self._encoding.encoded("".join(written))


def read(name: str, content: bytes, languages: tuple[str, str], budget: Budget) -> Hypertext:
    """Return the HTML file `content`. DataError: it is no text, or has too many tags."""
    text, encoding = decoded(name, content)
    return Hypertext(text, languages, budget, encoding)


def _joined(pieces: Sequence[str | AttributeText], translations: Iterator[Pieces]) -> str:
    """Return text as it is written, with the next of `translations` in place of each value."""
    return "".join(p if isinstance(p, str) else p.written(text_of(next(translations))) for p in pieces)


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
    text = _ENDLESS.sub("\ufffd", text)
    position = 0
    while position < len(text):
        budget.spend()
        match = _MARKUP.search(text, position)
        start = len(text) if match is None else match.start()
        if start > position:
            yield HtmlPiece("text", text[position:start])
        if match is None:
            return
        if named := _NAME.match(text, start):
            token = _tag(named, budget)
        else:  # a comment or declaration
            closing = "-->" if text.startswith("<!--", start) else ">"
            end = text.find(closing, start + len(closing) - 1)
            token = HtmlPiece("other", text[start:] if end < 0 else text[start : end + len(closing)])
        yield token
        position = start + len(token.raw)
        if token.kind == "open" and token.name in _WITHOUT_TAGS:
            ending = re.compile(rf"</{token.name}(?=[\s/>])", re.ASCII | re.IGNORECASE)
            found_at = ending.search(text, position)
            inner = text[position : len(text) if found_at is None else found_at.start()]
            if inner:
                yield HtmlPiece("text", inner)
            position += len(inner)


def _tag(named: re.Match[str], budget: Budget) -> HtmlPiece:
    """Return the tag that begins with a match of `_NAME`."""
    text, start, position = named.string, named.start(), named.end()
    attributes: list[tuple[str, str, int]] = []
    while (end := _REST_OF_TAG.match(text, position)) is None:
        attribute = _ATTRIBUTE.match(text, position)
        if attribute is None:  # the tag is cut short
            return HtmlPiece("other", text[start:])
        budget.spend()
        value = attribute[2] or ""
        is_quoted = value[:1] in ("'", '"')
        place = attribute.start(2) - start + is_quoted
        attributes.append((attribute[1].lower(), value[1:-1] if is_quoted else value, place))
        position = attribute.end()
    name = named[1].lower()
    kind: Literal["open", "close", "other"] = "close" if text[start + 1] == "/" else "open"
    if name in _FOREIGN and end[0].endswith("/>"):
        kind = "other"
    return HtmlPiece(kind, text[start : end.end()], name, tuple(attributes))


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
    attributes = {name: value for name, value, _ in token.attributes}
    is_marked = attributes.get("translate", "").lower() == "no"
    return is_marked or token.name in UNTRANSLATED or "notranslate" in attributes.get("class", "").split()
