"""A Word document keeps its formatting, links, pictures, fields and tables."""

import io
import zipfile
from typing import Any

import docx
import pytest
from docx.enum.text import WD_BREAK
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls, qn
from docx.text.paragraph import Paragraph

from corpus_files import complaint_of
from dragoman.documents import word
from dragoman.documents.files import DocumentFile
from dragoman.errors import DataError

EN_DE = ("en", "de")
LINK = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/hyperlink"
BOX = """\
<w:r {w}><w:pict xmlns:v="urn:schemas-microsoft-com:vml"><v:shape><v:textbox><w:txbxContent><w:p><w:r>\
<w:t>In a box</w:t></w:r></w:p></w:txbxContent></v:textbox></v:shape></w:pict></w:r>"""
FOOTNOTES = """\
<w:footnotes {w}><w:footnote w:id="2"><w:p><w:r><w:footnoteRef/></w:r><w:r><w:t xml:space="preserve">\
 A note below</w:t></w:r></w:p></w:footnote></w:footnotes>"""
W = nsdecls("w")


def saved(document: Any) -> bytes:
    content = io.BytesIO()
    document.save(content)
    return content.getvalue()


def link_to(document: Any, run: str) -> Any:
    """A link to https://example.org, whose one run has this inside."""
    address = document.part.relate_to("https://example.org", LINK, is_external=True)
    start = f'<w:hyperlink {nsdecls("w", "r")} r:id="{address}">'
    return parse_xml(f"{start}<w:r>{run}</w:r></w:hyperlink>")


def letter() -> bytes:
    """A document with everything in it."""
    document = docx.Document()
    document.add_heading("A title", 1)
    p = document.add_paragraph("The ")
    p.add_run("red").bold = True
    p.add_run(" cat sle")
    p.add_run("ep").italic = True
    p.add_run("s.\tIt is here. And\nthere ")
    p.add_run("again").bold = True
    p.runs[-1].add_break(WD_BREAK.PAGE)
    p.add_run(" and again.").bold = True
    p = document.add_paragraph("See ")
    p._p.append(link_to(document, '<w:rPr><w:u w:val="single"/></w:rPr><w:t>this link</w:t>'))
    p.add_run(" on page ")
    for field in (
        '<w:fldChar {w} w:fldCharType="begin"/>', "<w:instrText {w}>PAGE</w:instrText>",
        '<w:fldChar {w} w:fldCharType="separate"/>', "<w:t {w}>seven</w:t>",
        '<w:fldChar {w} w:fldCharType="end"/>',
    ):  # fmt: skip
        p.add_run()._r.append(parse_xml(field.format(w=W)))
    p.add_run(" now.")
    p = document.add_paragraph("A note")
    p.add_run()._r.append(parse_xml(f'<w:footnoteReference {W} w:id="2"/>'))
    p.add_run(" and a box")
    p._p.append(parse_xml(BOX.format(w=W)))
    p.add_run(" to end.")
    table = document.add_table(1, 2)
    table.cell(0, 0).text = "Cell one. And two."
    table.cell(0, 1).text = "12.5"
    table.cell(0, 1).add_table(1, 1).cell(0, 0).text = "Nested"
    document.sections[0].header.paragraphs[0].text = "Head"
    document.sections[0].footer.paragraphs[0].text = "Foot"
    _add_footnotes(document)
    return saved(document)


def _add_footnotes(document: Any) -> None:
    from docx.opc.packuri import PackURI
    from docx.opc.part import Part

    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes+xml"
    part = Part(PackURI("/word/footnotes.xml"), kind, FOOTNOTES.format(w=W).encode(), document.part.package)
    document.part.relate_to(part, LINK.replace("hyperlink", "footnotes"))


def shown(content: bytes) -> list[tuple[str, list[tuple[str, Any, Any]]]]:
    """What a reader sees: the text of each paragraph, and runs of one formatting."""
    found = []
    for element in docx.Document(io.BytesIO(content)).element.body.iter(qn("w:p")):
        paragraph = Paragraph(element, None)  # type: ignore[arg-type]
        runs: list[tuple[str, Any, Any]] = []
        for run in paragraph.runs:
            if runs and runs[-1][1:] == (run.bold, run.italic):
                runs[-1] = (runs[-1][0] + run.text, run.bold, run.italic)
            else:
                runs.append((run.text, run.bold, run.italic))
        found.append((paragraph.text, runs))
    return found


def test_its_own_sentences_give_the_same_document() -> None:
    content = letter()
    document = DocumentFile.read("letter.docx", content, EN_DE)
    written = document.written(document.sentences)
    assert shown(written) == shown(content)
    before, after = (docx.Document(io.BytesIO(c)) for c in (content, written))
    for name in ("hyperlink", "fldChar", "instrText", "footnoteReference", "txbxContent", "br", "tab"):
        n_before, n_after = (len(list(each.element.body.iter(qn(f"w:{name}")))) for each in (before, after))
        assert n_before == n_after > 0, name
    again = DocumentFile.read("letter.docx", written, EN_DE)
    assert again.sentences == document.sentences
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(io.BytesIO(written)) as new:
        assert new.namelist() == old.namelist()
        touched = {name for name in old.namelist() if old.read(name) != new.read(name)}
    assert touched <= {f"word/{name}.xml" for name in ("document", "header1", "footer1", "footnotes")}
    document.written(["x"] * len(document.sentences))
    assert shown(document.written(document.sentences)) == shown(content)


def test_every_text_is_found_and_fields_are_not() -> None:
    document = DocumentFile.read("letter.docx", letter(), EN_DE)
    plain = [word.re.sub("<[^>]*>", "", sentence) for sentence in document.sentences]
    assert plain == [
        "A title", "The red cat sleeps.", "It is here.", "And", "there again and again.",
        "See this link on page  now.", "A note and a box to end.", "In a box", "Cell one.", "And two.",
        "Nested", "Foot", "A note below", "Head",
    ]  # fmt: skip
    assert document.n_characters == sum(map(len, plain))
    assert len(document.places) == len(document.sentences)


def test_formatting_and_links_go_where_their_tags_go() -> None:
    document = DocumentFile.read("letter.docx", letter(), EN_DE)
    said = list(document.sentences)
    assert said[1] == 'The <g id="0">red</g> cat sle<g id="2">ep</g>s.'
    said[1] = 'Es <g id="2">schläft</g> die <g id="0">rote</g> Katze.'
    assert said[5] == 'See <g id="0"><g id="1">this link</g></g> on page <x id="4"/> now.'
    said[5] = 'Nun <x id="4"/>: <g id="0"><g id="1">hier</g></g> siehe.'
    written = document.written(said)
    _, title, see, *_ = docx.Document(io.BytesIO(written)).paragraphs
    assert [(r.text, r.bold, r.italic) for r in title.runs][:5] == [
        ("Es ", None, None), ("schläft", None, True), (" die ", None, None), ("rote", True, None),
        (" Katze.\tIt is here. And\nthere ", None, None),
    ]  # fmt: skip
    assert see.hyperlinks[0].text == "hier"
    assert see.hyperlinks[0].address == "https://example.org"
    assert see.hyperlinks[0].runs[0].underline
    assert see.text == "Nun seven: hier siehe."


def test_notes_headers_and_boxes_are_written() -> None:
    document = DocumentFile.read("letter.docx", letter(), EN_DE)
    written = document.written([text.upper() if "<" not in text else text for text in document.sentences])
    with zipfile.ZipFile(io.BytesIO(written)) as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist() if name.endswith(".xml")}
    assert "A NOTE BELOW" in texts["word/footnotes.xml"]
    assert "IN A BOX" in texts["word/document.xml"]
    assert any("HEAD" in text for name, text in texts.items() if "header" in name)
    assert any("FOOT" in text for name, text in texts.items() if "footer" in name)


def test_a_link_over_two_sentences_stays_one() -> None:
    document = docx.Document()
    document.add_paragraph()._p.append(link_to(document, "<w:t>One here. Two there.</w:t>"))
    content = DocumentFile.read("a.docx", saved(document), EN_DE)
    assert content.sentences == ("One here.", "Two there.")
    (paragraph,) = docx.Document(io.BytesIO(content.written(["Eins.", "Zwei."]))).paragraphs
    assert [hyperlink.text for hyperlink in paragraph.hyperlinks] == ["Eins. Zwei."]
    evil = content.written(["a\x00<b>\x1b", "c"])
    assert docx.Document(io.BytesIO(evil)).paragraphs[0].text == "a<b> c", "without control characters"


def part_of(content: bytes, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.read(name)


def changed(content: bytes, name: str, part: bytes) -> bytes:
    """The archive with another part of that name."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            new.writestr(info.filename, part if info.filename == name else old.read(info))
        if name not in old.namelist():
            new.writestr(name, part)
    return out.getvalue()


BOMB = b"<!DOCTYPE x [<!ENTITY a 'aaaa'>]><x>&a;</x>"


def hostile() -> dict[str, tuple[bytes, str]]:
    good, main, types = letter(), "word/document.xml", "[Content_Types].xml"
    template = part_of(good, types).replace(b"document.main", b"template.main")
    cut, wrong = "a.docx: is damaged, cut short, or no .docx", "a.docx: is damaged, or no Word document"
    encoding = "a.docx/word/document.xml: declares an encoding that is not read in XML"
    return {
        "empty": (b"", cut),
        "truncated": (good[: len(good) // 2], cut),
        "password": (b"\xd0\xcf\x11\xe0" + bytes(512), "a.docx: is protected by a password"),
        "another archive": (changed(b"PK\5\6" + bytes(18), "x", b""), wrong),
        "entities": (changed(good, main, BOMB), "a.docx/word/document.xml, line 1: declares the"),
        "another encoding": (changed(good, main, b'<?xml version="1.0" encoding="gbk"?><x/>'), encoding),
        "no XML": (changed(good, main, b"<w:x"), "a.docx/word/document.xml, line 1: not XML"),
        "a template": (
            changed(good, types, template), f"{wrong} (it has no body); save it again",
        ),
        "another root": (changed(good, main, b"<x/>"), f"{wrong} (it begins with x)"),
    }  # fmt: skip


@pytest.mark.slow
def test_a_damaged_or_hostile_file_is_refused_in_one_line() -> None:
    for content, message in hostile().values():
        complaint = complaint_of(lambda one=content: DocumentFile.read("a.docx", one, EN_DE).sentences)
        assert complaint.startswith(message)
        assert " at 0x" not in complaint


def test_a_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word, "MOST_BYTES", 2**20)
    bomb = changed(letter(), "word/media/bomb.bin", bytes(2**21))
    assert len(bomb) < 2**20
    with pytest.raises(DataError, match=r"^a\.docx: is larger than 1 MiB when unpacked"):
        DocumentFile.read("a.docx", bomb, EN_DE)
    monkeypatch.setattr(word, "MOST_PARTS", 3)
    with pytest.raises(DataError, match=r"^a\.docx: has \d+ parts, and 3 are the most; refused"):
        DocumentFile.read("a.docx", letter(), EN_DE)


def test_an_archive_that_lies_about_sizes_is_refused() -> None:
    content = bytearray(changed(letter(), "word/media/bomb.bin", bytes(2**21)))
    at = content.rindex(b"PK\1\2", 0, content.rindex(b"word/media/bomb.bin"))
    content[at + 24 : at + 28] = (10).to_bytes(4, "little")  # the unpacked size in the directory
    with pytest.raises(DataError, match=r"^a\.docx: is damaged, cut short"):
        DocumentFile.read("a.docx", bytes(content), EN_DE)
