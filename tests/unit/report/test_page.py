"""A page: self-contained, escaped, accessible, of bounded size."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from dragoman.errors import RunError
from dragoman.report import page as page_module
from dragoman.report.page import (
    MAX_BYTES,
    Example,
    Facts,
    Figure,
    Group,
    Listing,
    Notice,
    Page,
    Paragraph,
    Section,
    Span,
    Table,
    page_html,
)

HOSTILE = "<script>alert('&\"')</script><img src=http://evil.example/x onerror=alert(1)>"


class Reader(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture
def figure(tmp_path: Path) -> Path:
    path = tmp_path / "figure.svg"
    path.write_text("<svg xmlns='http://www.w3.org/2000/svg'/>", encoding="utf-8")
    return path


@pytest.fixture
def html(figure: Path) -> str:
    """A page with every part."""
    return page_html(page_with(*every_part("text", figure))).decode()


def page_with(*parts: page_module.Part, title: str = "A page") -> Page:
    return Page(title, "about", [Section("First", parts), Section("Second, more", [Paragraph("x")])], "end")


def every_part(text: str, figure: Path) -> list[page_module.Part]:
    spans = [Span("same", text), Span("missing", text), Span("extra", text), Span("strong", text)]
    return [
        Paragraph(text),
        Paragraph(spans),
        Notice(text),
        Facts([(text, text)]),
        Table(text, (text, text), [(text, spans)]),
        Figure(figure, text, text),
        Example(text, [(text, text, text)]),
        Listing(text),
        Group(text, [Paragraph(text), Group(text, [Paragraph(text)])]),
        Group(text, [Paragraph(text)], folded=True),
    ]


def test_hostile_text_is_text_in_every_part(figure: Path) -> None:
    reader = Reader(page_html(page_with(*every_part(HOSTILE, figure), title=HOSTILE)).decode())
    assert not reader.all("script")
    assert all(attributes["src"] == _embedded(figure) for attributes in reader.all("img"))
    assert all(not name.startswith("on") for _, attributes in reader.tags for name in attributes)
    assert reader.text.count(HOSTILE) >= 18


def test_a_page_asks_for_nothing_outside_itself(html: str, figure: Path) -> None:
    assert not re.search(r"https?:|url\(|@import|//\w", html.replace(_embedded(figure), ""))
    for _, attributes in Reader(html).tags:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:image/svg+xml;base64,"))


def test_the_policy_allows_this_style_sheet_and_no_other(html: str) -> None:
    heads = Reader(html).all("meta")
    (policy,) = (head["content"] for head in heads if head.get("http-equiv") == "Content-Security-Policy")
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy is not None
    assert "default-src 'none'" in policy
    assert f"style-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert not any("style" in attributes for _, attributes in Reader(html).tags)


def test_headings_go_down_one_level_at_a_time_and_the_contents_lead_to_them(html: str) -> None:
    reader = Reader(html)
    levels = [int(tag[1]) for tag, _ in reader.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[:2] == [1, 2]
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    anchors = {attributes["id"] for _, attributes in reader.tags if "id" in attributes}
    assert {str(a["href"])[1:] for a in reader.all("a")} == anchors
    assert all(attributes.get("alt") for attributes in reader.all("img"))


def test_a_figure_without_room_is_named_instead(tmp_path: Path) -> None:
    figures = []
    for i, size in enumerate((900_000, 900_000, 900_000, 1_000)):
        path = tmp_path / f"figure-{i}.svg"
        path.write_bytes(bytes(size))
        figures.append(Figure(path, f"alternative {i}", "caption"))
    html = page_html(page_with(*figures))
    assert len(html) < MAX_BYTES
    reader = Reader(html.decode())
    assert [attributes["alt"] for attributes in reader.all("img")] == [f"alternative {i}" for i in (0, 1, 3)]
    assert "figures/figure-2.svg has it. alternative 2" in reader.text


def test_a_page_too_large_even_without_figures_and_a_figure_that_is_gone_are_refused(tmp_path: Path) -> None:
    for part, message in (
        (Listing("x" * MAX_BYTES), "more than 3,000,000 bytes; ask for fewer sentences"),
        (Figure(tmp_path / "gone.svg", "alt", "caption"), r"gone\.svg: cannot be read"),
    ):
        with pytest.raises(RunError, match=message):
            page_html(page_with(part))


def _embedded(path: Path) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode()
