"""HTML through a translator: text changes, markup does not, however bad it is."""

import html

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.documents import DocumentFile
from dragoman.documents.budget import Budget
from dragoman.documents.hypertext import MOST, Hypertext, plain, tokens
from dragoman.errors import DataError

PIECES = st.sampled_from([
    "a", " b. C ", "\n", "&amp;", "&lt", "é", "猫。", "<", ">", "</", "<b>", "</b>", "<i class='x'>", "</i>",
    "<p>", "</p>", "<br/>", "<!--", "-->", "<!DOCTYPE html>", "<a href=\"x>y\">", "</a>", "<img alt='", "'",
    "<script>", "</script>", "<title>", "</title >",
    "<pre>", "</pre>", "<span translate=no>", "</span>", "\0",
    "<code>", "</code>", "=", '"', "&nbsp;", "<svg/>", "<?x?>",
])  # fmt: skip
PAGES = st.lists(PIECES, max_size=30).map("".join)


def document_of(page: str) -> DocumentFile:
    budget = Budget("page")
    return DocumentFile(Hypertext(page, ("en", "de"), budget), ("en", "de"), budget)


def translated(page: str, translate: dict[str, str] | None = None) -> str:
    """`page`, of whose sentences those in `translate` are replaced; tags in them are written as in Word."""
    document = document_of(page)
    return document.written([(translate or {}).get(s, s) for s in document.sentences]).decode()


@given(PAGES)
@example("<b>" * (2 * MOST) + "x" + "</b>" * MOST)
def test_tokens_are_the_whole_page(page: str) -> None:
    assert "".join(token.raw for token in tokens(page, Budget("page"))) == page


@given(PAGES)
@example("a &amp; b &lt;b&gt; c")
@example("a<b>b.</b> C <b>d</b>")
def test_a_page_whose_sentences_stay_says_what_it_said(page: str) -> None:
    before, after = tokens(page, Budget("page")), tokens(translated(page), Budget("page"))
    found = [[token.raw for token in side if token.kind != "text"] for side in (before, after)]
    assert found[0] == found[1], "all markup is there, in order, unchanged"
    assert "".join(plain(page).split()) == "".join(plain(translated(page)).split())


def test_sentences_are_translated_and_nothing_else() -> None:
    page = (
        "<!DOCTYPE html>\n<html lang=en><title>Cats &amp; dogs</title>\n<style>p { color: red }</style>\n"
        "<p class='red'>A red\n  cat. It sleeps.<br>12.5 % <!-- red -->\n<script>if (a < b) 'red';</script>\n"
        "<ul><li>Old<li>House</ul> <textarea>old</textarea> <code>red</code>"
    )
    changes = {
        "Cats & dogs": "Katzen < & Hunde", "A red cat.": "Eine rote\u00a0Katze.",
        "It sleeps.": "Sie schläft.", "Old": "Alt", "House": "Haus",
    }  # fmt: skip
    expected = page
    for old, new in (
        ("A red\n  cat.", "Eine rote&nbsp;Katze."), ("Cats &amp; dogs", "Katzen &lt; &amp; Hunde"),
        ("It sleeps.", "Sie schläft."), ("lang=en", "lang=de"), (">Old", ">Alt"), (">House", ">Haus"),
    ):  # fmt: skip
        expected = expected.replace(old, new)
    document = document_of(page)
    assert document.sentences == tuple(changes)
    assert translated(page, changes) == expected


def test_languages_and_attributes_that_people_read_follow_the_translation() -> None:
    page = (
        "<html lang='en-GB' xml:lang=en><body><img alt=cat src=cat><p title='\"A\" &amp;\n cat.'>The "
        '<a href="cat" title="big &quot;cat&quot;">cat</a></p><p lang="fr" placeholder="5">non</p>'
    )
    document = document_of(page)
    changes = {
        "cat": "die Katze", '"A" & cat.': "'B' \"&\" <b>", 'big "cat"': 'eine "Katze"',
        'The <g id="0">cat</g>': 'Die <g id="0">Katze</g>', "non": "nein",
    }  # fmt: skip
    assert sorted(document.sentences) == sorted(changes)
    assert translated(page, changes) == (
        "<html lang='de' xml:lang=de><body><img alt=\"die Katze\" src=cat>"
        "<p title='&#x27;B&#x27; &quot;&amp;&quot; &lt;b&gt;'>Die "
        '<a href="cat" title="eine &quot;Katze&quot;">Katze</a></p><p lang="fr" placeholder="5">nein</p>'
    )
    assert translated(page) == page.replace("'en-GB' xml:lang=en", "'de' xml:lang=de")


def test_tags_within_a_sentence_go_with_the_words_they_enclose() -> None:
    page = '<p>A <b class="x">red</b> cat<img src=a.png> sleeps.</p>'
    document = document_of(page)
    (sentence,) = document.sentences
    assert sentence == 'A <g id="0">red</g> cat<x id="2"/> sleeps.'
    moved = 'Es schläft <x id="2"/> eine <g id="0">rote</g> Katze.'
    assert document.written([moved]).decode() == (
        '<p>Es schläft <img src=a.png> eine <b class="x">rote</b> Katze.</p>'
    )


UNTOUCHED = (
    '<div translate="no">red <div>cat</div></div>',
    "<p class='a notranslate b'>red cat</p>",
    "<script>red('</p>')</script>", "<style>red {}</style>", "<TEXTAREA>red <b> cat</textarea>",
    "<code>red</code>", "<svg><text>red</text></svg>", "<!-- red -->", "<!doctype red>", "<?red cat?>",
    "<p class='red cat' title='3'>", "<img alt='cat' translate=no>", "</b title='red'>",
    "<a red", "<a b='red", "<!-- red", "<script>red", "</red cat>",
)  # fmt: skip


def test_what_is_not_to_be_translated_is_no_sentence() -> None:
    for page in UNTOUCHED:
        assert document_of(page).sentences == ()
        assert translated(page) == page


def test_what_stands_behind_a_picture_is_translated_even_if_that_closes_itself() -> None:
    for picture in ('<svg width="5"/>', "<SVG><svg/><text>red</text></SVG>", "<math/>"):
        page = f"<p>{picture}</p><p>cat</p>"
        assert translated(page, {"cat": "Katze"}) == f"<p>{picture}</p><p>Katze</p>"
    assert document_of("<p><svg width=5/>cat</svg></p>").sentences == (), "the slash is of the value"
    assert document_of("<p>red\ncat</p><pre>red\ncat</pre>").sentences == ("red cat", "red", "cat")
    for reference in (f"&#{'9' * 40_000};", f"&#x{'f' * 40_000}"):
        assert document_of(f"<p title='{reference}'>A {reference} dog.").sentences == ("A \ufffd dog.",)


def test_a_file_keeps_its_encoding() -> None:
    page = "<p>żółty kot</p>"
    for encoding in ("utf-8-sig", "utf-16"):
        content = page.encode(encoding)
        document = DocumentFile.read("a.html", content, ("pl", "de"))
        assert document.written(["gelbe Kätze"]).decode(encoding) == html.unescape("<p>gelbe Kätze</p>")
    with pytest.raises(DataError, match=r"a\.html, line 2: is not UTF-8; convert the text to UTF-8"):
        DocumentFile.read("a.html", "x\n\xe9".encode("latin-1"), ("en", "de"))
