"""A document that is small to send is not large to read, and stops when nobody wants it any more."""

import io
import sys
import tempfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
from lxml import etree

from dragoman.config import SearchConfig
from dragoman.documents import (
    DocumentFile,
    budget,
    markup,
    passages,
    word,
)
from dragoman.documents.budget import Budget
from dragoman.errors import ConfigError, DataError
from dragoman.predict.flow import TranslationRequest
from dragoman.predict.threads import finish
from flows import answering, saying

EN_DE = ("en", "de")
W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml."
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
TYPES = (
    f'<Types xmlns="{PACKAGE}/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>{}'
    "</Types>"
)
MAIN = f'<Override PartName="/word/document.xml" ContentType="{WORD}document.main+xml"/>'
CUE = "1\n00:00:01,000 --> 00:00:02,000\n"


def docx(body: str, **parts: str) -> bytes:
    """A Word document; `parts` are in the place of its own, by the names that they have here."""
    there = {
        "types": TYPES.format(MAIN),
        "rels": f'<Relationships xmlns="{PACKAGE}/relationships">'
        f'<Relationship Id="r1" Type="{RELATIONS}/officeDocument" Target="word/document.xml"/>'
        "</Relationships>",
        "document": f"<w:document {W}><w:body>{body}</w:body></w:document>",
    } | parts
    names = {"types": "[Content_Types].xml", "rels": "_rels/.rels", "document": "word/document.xml"}
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, text in there.items():
            archive.writestr(names.get(part, part), text)
    return content.getvalue()


AMPLIFIERS = {
    "paragraphs": (".docx", "{}", "<w:p/>"),
    "formatted runs": (
        ".docx", "<w:p>{}</w:p>", "<w:r><w:t>a</w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>a</w:t></w:r>",
    ),
    "lines in a link": (
        ".docx", "<w:p><w:hyperlink>{}</w:hyperlink></w:p>", "<w:r><w:t>a</w:t><w:tab/></w:r>",
    ),
    "links": (".docx", "<w:p>{}</w:p>", "<w:hyperlink><w:r><w:t>a</w:t></w:r></w:hyperlink>"),
    "things in a run": (".docx", "<w:p><w:r>{}</w:r><w:r><w:t>a</w:t></w:r></w:p>", "<w:sym/>"),
    "lines of codes": (
        ".docx", "<w:p>{}</w:p>",
        f"{'<w:bookmarkStart/><w:r><w:t>a</w:t></w:r>' * 6}<w:r><w:tab/></w:r>",
    ),
    "attributes": (".docx", "{}", '<w:p a="" b="" c=""/>'),
    "units": (".tmx", '{}<tu><tuv xml:lang="en"><seg>a</seg></tuv></tu>', "<tu/>"),
    "segments": (".tmx", "{}", '<tu><tuv xml:lang="en"><seg>a</seg></tuv></tu>'),
    "codes": (".tmx", '<tu><tuv xml:lang="en"><seg>a {}</seg></tuv></tu>', "<ph/>"),
    "open tags": (".html", "{}", "<b>"),
    "texts": (".html", "{}", "<p>a"),
    "lines in pairs": (".html", f"<pre>{'<b>' * 50}{{}}", "a\n"),
    "attributes of a tag": (".html", "<p {}>", "a "),
    "code": (".html", "<code>{}</code>", "<i>"),
    "lines of cues": (".srt", "{}", f"{CUE}{'a' * 9}\n{'a' * 9}\n{'a' * 9}\n\n"),
    "empty lines of a cue": (".srt", f"{CUE}a{{}}", "\n"),
    "lines": (".txt", "{}", "a\n"),
    "sentences": (".txt", "{}", "It is red. "),
}  # fmt: skip
"""By name: the format, what stands around all, and what is repeated."""


def swelling(name: str, n: int) -> tuple[str, bytes]:
    """The name of a document, and its content: `n` times the same."""
    ending, around, unit = AMPLIFIERS[name]
    body = around.format(unit * n)
    if ending == ".docx":
        return "a.docx", docx(body)
    return f"a{ending}", (f"<tmx><body>{body}</body></tmx>" if ending == ".tmx" else body).encode()


def read(name: str, content: bytes, check: Callable[[], None] | None = None) -> DocumentFile:
    return DocumentFile.read(name, content, EN_DE, check=check)


TOO_MANY = (
    ": more than 600 pieces (elements, attributes, lines, sentences); split the document into several, "
    "or set DRAGOMAN_MOST_PIECES to more"
)


@pytest.fixture
def most(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("DRAGOMAN_MOST_PIECES", "600")
    return 600


def tree_of_types_alone(xml: bytes, parser: etree.XMLParser) -> object:
    assert b"<Types" in xml, "a tree was built"
    return etree.XML(xml, parser)


@pytest.mark.parametrize("amplifier", AMPLIFIERS)
def test_a_document_of_too_many_pieces_is_refused_before_they_are_kept(
    amplifier: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, few = swelling(amplifier, 5)
    document = read(name, few)
    assert document.written(document.sentences)
    name, many = swelling(amplifier, most + 1)
    if amplifier in ("paragraphs", "attributes"):  # before there is a tree
        monkeypatch.setattr(etree, "fromstring", tree_of_types_alone)
    with pytest.raises(DataError) as caught:
        read(name, many)
    assert str(caught.value).startswith(name)
    assert str(caught.value).endswith(TOO_MANY)
    if amplifier == "lines":
        monkeypatch.setenv("DRAGOMAN_MOST_PIECES", "many")
        with pytest.raises(ConfigError, match=r"^DRAGOMAN_MOST_PIECES = many: is not a number of pieces"):
            read(name, few)


def test_what_comes_behind_the_last_piece_is_not_read(most: int) -> None:
    for body, message in (("<tu/>" * (most + 1), "more than 600 pieces"), ("<tu/>", "not XML, or cut short")):
        with pytest.raises(DataError, match=f"line 2: {message}"):
            read("a.tmx", f"<tmx>\n{body}<".encode())
    first = f"<w:r><w:rPr>{'<w:lang/>' * 100}</w:rPr><w:t>a b. </w:t></w:r>"
    others = "<w:bookmarkStart/><w:r><w:t>C d. </w:t></w:r>" * 20
    document = read("a.docx", docx(f"<w:p>{first}{others}</w:p>"))
    with pytest.raises(DataError, match=r"^a\.docx: more than 600 pieces"):
        document.written(document.sentences)  # which copies the formatting


def test_large_documents_of_the_real_world_pass() -> None:
    """A book of 500 pages as Word writes it, from a part."""
    run = (
        '<w:r w:rsidRPr="00A1"><w:rPr><w:rFonts w:ascii="A" w:hAnsi="A" w:cs="A"/><w:b/><w:sz w:val="22"/>'
        '<w:lang w:val="en-US"/></w:rPr><w:t xml:space="preserve">eight words are in each of all runs </w:t>'
        "</w:r>"
    )
    paragraph = (
        '<w:p w:rsidR="00A1" w:rsidRDefault="00A1" w:rsidP="00A1"><w:pPr><w:pStyle w:val="Body"/>'
        f'<w:jc w:val="both"/></w:pPr>{run * 5}</w:p>'
    )
    spent = Budget("a.docx")
    DocumentFile(word.read("a.docx", docx(paragraph * 8 * 5), EN_DE, spent), EN_DE, spent)
    assert spent._n_pieces * 100 < budget.MOST_PIECES


def test_a_tag_has_a_length_and_some_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    start = '<tmx><tu><tuv xml:lang="en"><seg>a</seg></tuv></tu>'
    attributes = "".join(f' a{i}=""' for i in range(markup.MOST_ATTRIBUTES + 1))
    with pytest.raises(DataError, match=r"^a\.tmx, line 1: more than 500 attributes of one element"):
        read("a.tmx", f"{start}<x{attributes}/></tmx>".encode())
    monkeypatch.setattr(markup, "BLOCK", 100)
    monkeypatch.setattr(markup, "LONGEST_TAG", 5000)
    for tag in (f"<x {' ' * 20_000}/>", f"<!--{' ' * 20_000}-->", f'<x y="{"z" * 20_000}'):
        with pytest.raises(DataError, match=r"^a\.tmx, line 1: a tag or comment of more than 0 MiB"):
            read("a.tmx", f"{start}{tag}".encode())
    long_text = start.replace(">a<", f">{'a' * 20_000}<")
    assert read("a.tmx", f"{long_text}</tmx>".encode()).n_characters == 20_000


def test_namespaces_within_one_another_are_bounded() -> None:
    def nested(n: int) -> bytes:
        tags = "".join(f'<x xmlns:a{i}="u" xmlns:b{i}="u">' for i in range(n))
        return docx("", document=f"<w:document {W}>{tags}{'</x>' * n}<w:body/></w:document>")

    read("a.docx", nested(99))  # and one for the document
    with pytest.raises(DataError, match=r"^a\.docx/word/document\.xml, line 1: more than 200 namespaces"):
        read("a.docx", nested(100))


def test_text_is_found_by_the_type_of_its_part_which_has_a_short_name_that_ends_in_xml() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word, "LONGEST_NAME", 30)
        with pytest.raises(DataError, match=r"^a\.docx: a part has a name of more than 30 characters; r"):
            read("a.docx", docx("", **{"é" * 31: ""}))
    hidden = f'<Override PartName="/word/document.bin" ContentType="{WORD}document.main+xml"/>'
    with pytest.raises(DataError, match=r"^a\.docx: is damaged, or no Word document \(it has no body\)"):
        read("a.docx", docx("", types=TYPES.format(hidden), **{"word/document.bin": "<x/>"}))
    picture = '<Default Extension="svg" ContentType="image/svg+xml"/>'
    read("a.docx", docx("", types=TYPES.format(picture + MAIN)))


def n_calls(work: Callable[[], object]) -> int:
    """Functions that `work` calls, those in C included."""
    found = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal found
        found += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("amplifier", AMPLIFIERS)
def test_twice_as_many_pieces_are_twice_the_work(amplifier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passages, "MOST_CODES", 4)  # so that many sentences have too many

    def work(n: int) -> None:
        document = read(*swelling(amplifier, n))
        document.written(document.sentences)

    work(1)  # what is made once
    few, many = (n_calls(partial(work, n)) for n in (400, 800))
    assert many < 2.2 * few


class LeftError(Exception):
    """Nobody wants the document any more."""


class Stop:
    """A `check` that raises when it is called for the `last` time."""

    def __init__(self, last: float, error: Exception) -> None:
        self.last, self.error, self.n = last, error, 0

    def __call__(self) -> None:
        self.n += 1
        if self.n >= self.last:
            raise self.error


def translated(document: DocumentFile) -> bytes:
    """The document with each sentence as its own translation."""
    with answering(saying(lambda text: text)):
        translations = finish(document.translations(MODEL, TranslationRequest()))
    return document.written([translation.text for translation in translations])


MODEL: Any = SimpleNamespace(config=SimpleNamespace(search=SearchConfig(), languages=EN_DE))


FEW = {
    ".docx": docx("<w:p><w:r><w:t>A dog. </w:t></w:r><w:r><w:t>A cat.</w:t></w:r></w:p>" * 3),
    ".tmx": b'<tmx><tu><tuv xml:lang="en"><seg>A dog. A cat.</seg></tuv></tu></tmx>',
    ".html": b"<p>A dog. A cat.<p>A tree.",
    ".srt": f"{CUE}A dog.\nA cat.\n\n".encode() * 2,
    ".txt": b"A dog. A cat.\nA tree.",
}


@pytest.mark.parametrize("kind", [LeftError, OSError, DataError])
@pytest.mark.parametrize("ending", FEW)
def test_work_stops_wherever_the_check_raises_and_leaves_nothing_behind(
    ending: str, kind: type[Exception], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(budget, "CHECK_EVERY", 1)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def work(check: Stop) -> tuple[int, int]:
        """How often it was called when reading was over, and at the end."""
        document = read(f"a{ending}", FEW[ending], check)
        n = check.n
        translated(document)
        return n, check.n

    n_reading, n_all = work(Stop(float("inf"), kind("no")))
    assert 2 <= n_reading < n_all - 2, "it is called while reading, translating and writing"
    for last in range(1, n_all + 1):
        check = Stop(last, kind("no longer wanted"))
        with pytest.raises(kind) as caught:
            work(check)
        assert caught.value is check.error
        assert check.n == last
    assert not list(tmp_path.iterdir())
