"""Report pages: sections of text, tables and figures in one self-contained HTML file.

The file asks for nothing: no script, no font, no address outside it, and a Content-Security-Policy that says
so to the browser. Whatever a run, a corpus or a model wrote stands in it as text, escaped by jinja2.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from dragoman.errors import RunError, require

MAX_BYTES = 3_000_000
"""A page is smaller than this: of figures that have no room, only the names of their files are told."""


SpanKind = Literal["same", "missing", "extra", "strong", "for", "for-strong", "against", "against-strong"]


class Span(NamedTuple):
    """A piece of a text: in both texts, only in the reference, only in the hypothesis, or to be seen.

    Or what speaks for a decision or against it, strongly or not.
    """

    kind: SpanKind
    text: str


Text: TypeAlias = str | Sequence[Span]
"""Plain text, or text with marks."""


class Paragraph(NamedTuple):
    """Some sentences of our own."""

    text: Text


class Notice(NamedTuple):
    """A paragraph that nobody should miss."""

    text: Text


class Facts(NamedTuple):
    """Names and what they stand for."""

    rows: Sequence[tuple[str, Text]]


class Table(NamedTuple):
    """Rows under a heading; the caption says what the figures were computed on."""

    caption: str
    heading: Sequence[str]
    rows: Sequence[Sequence[Text]]
    n_words: int = 1
    """Columns from the left that hold words; those after them hold figures, set to the right."""
    n_figures: int = 100
    """Columns that hold figures; those after them hold words again."""


class Figure(NamedTuple):
    """A picture (.svg) and what it shows, in words for those who cannot see it."""

    path: Path
    alt: str
    caption: str


class Example(NamedTuple):
    """A text in several versions: (name, text, language code or "") each."""

    title: str
    rows: Sequence[tuple[str, Text, str]]


class Listing(NamedTuple):
    """Text that keeps its lines, such as a file."""

    text: str


class Group(NamedTuple):
    """Parts under a heading of their own."""

    title: str
    parts: Sequence[Part]
    folded: bool = False
    """Whether the reader has to open it."""


Part: TypeAlias = "Paragraph | Notice | Facts | Table | Figure | Example | Listing | Group"


class Section(NamedTuple):
    """Parts under a heading that the table of contents names."""

    title: str
    parts: Sequence[Part]

    @property
    def anchor(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


class Page(NamedTuple):
    """All that becomes one HTML file."""

    title: str
    subtitle: str
    sections: Sequence[Section]
    footer: str = ""


def page_html(page: Page) -> bytes:
    """Return the file's content, less than MAX_BYTES of it.

    Figures are embedded in their order while there is room; for the others their files are named.
    MissingExtraError: jinja2 is not installed. RunError: a figure is missing, or the page is too large even
    without figures.
    """
    require("jinja2", extra="report", purpose="a report")
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("dragoman.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["kind"] = lambda part: type(part).__name__
    template = environment.get_template("page.html")
    budget = MAX_BYTES - 2000 - len(_rendered(template, page, {}))
    if budget < 0:
        raise RunError(f"{page.title}: a page of more than {MAX_BYTES:,} bytes; ask for fewer sentences")
    images: dict[Path, str] = {}
    for figure in figures_of(page.sections):
        try:
            content = figure.path.read_bytes()
        except OSError as error:
            reason = f"cannot be read ({error.strerror}); write the report again"
            raise RunError(f"{figure.path}: {reason}") from error
        address = "data:image/svg+xml;base64," + base64.b64encode(content).decode()
        if len(address) <= budget and figure.path not in images:
            images[figure.path] = address
            budget -= len(address)
    return _rendered(template, page, images)


def figures_of(parts: Sequence[Section] | Sequence[Part]) -> Iterator[Figure]:
    """Every figure, in its order."""
    for part in parts:
        if isinstance(part, Figure):
            yield part
        elif isinstance(part, (Section, Group)):
            yield from figures_of(part.parts)


def _rendered(template: Any, page: Page, images: dict[Path, str]) -> bytes:
    style = (Path(__file__).parent / "templates" / "page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    html: str = template.render(page=page, images=images, style=style, style_hash=f"sha256-{digest}")
    return html.encode(errors="replace")  # JSON may hold half a surrogate pair
