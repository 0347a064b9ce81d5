"""Documents that are damaged, hostile or only odd, of every format that is translated."""

from __future__ import annotations

import io
import random
import re
import zipfile
from collections.abc import Callable
from typing import NamedTuple

ENDINGS = (".docx", ".srt", ".tmx", ".html", ".txt")
SECRET = b"a secret of this machine"
W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
ODD = (
    "", " ", "A.", "x" * 3000, "A man. " * 60, "\u202eabc\u202c", "👩‍👩‍👧 🏳️‍🌈", "Z\u0341\u0323" * 40,
    "\u00ad\u200b\u2060", "١٢٣",
    "{0} %s ${x} {{y}}", "<b>", "&amp;&lt;&#10;&#0;&nosuch;", "]]>", "http://x.org/a?b=c&d", "1,000.50 €",
    "…!?", "\ufffd\ue000", "İSTANBUL'DA HER ŞEY ÇOK GÜZEL.", "DIE STRAßE IST GESPERRT",
)  # fmt: skip


class Document(NamedTuple):
    """A file, and whether it is whole, so that its structure must come out as it went in."""

    ending: str
    content: bytes
    whole: bool

    @property
    def name(self) -> str:
        return f"document{self.ending}"


def make(rng: random.Random, sentences: list[str]) -> Document:
    """Return a document of any kind, mostly with something wrong."""
    ending = rng.choice(ENDINGS)
    units = rng.sample(sentences, k=rng.randint(1, 8))
    for _ in range(rng.choice([0, 1, 3])):
        units.insert(rng.randint(0, len(units)), rng.choice(ODD))
    written = WRITERS[ending](rng, units)
    if rng.random() < 0.3:
        return Document(ending, written, whole=True)
    if ending == ".docx" and rng.random() < 0.5:
        return Document(ending, _hostile_zip(rng, written), whole=False)
    if rng.random() < 0.4:
        return Document(ending, _hostile_markup(rng, ending), whole=False)
    return Document(ending, _damaged(rng, written), whole=False)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("]]>", "]]&gt;")


TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Override PartName="/word/document.xml" ContentType='
    '"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
)
RELATIONS = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="r1" Target="word/document.xml" '
    'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"/>'
    "</Relationships>"
)


def word(body: str) -> bytes:
    """Return a Word document with this body, or with this XML."""
    if not body.startswith("<?xml"):
        body = f'<?xml version="1.0"?><w:document {W}><w:body>{body}<w:sectPr/></w:body></w:document>'
    return zipped({"[Content_Types].xml": TYPES, "_rels/.rels": RELATIONS, "word/document.xml": body})


def docx(rng: random.Random, units: list[str]) -> bytes:
    """Return a Word document with a paragraph for each unit."""
    body = ""
    for unit in units:
        half = len(unit) // 2 if rng.random() < 0.3 else len(unit)
        texts = (f'<w:t xml:space="preserve">{_escaped(part)}</w:t>' for part in (unit[:half], unit[half:]))
        body += f"<w:p><w:r>{'</w:r><w:r><w:rPr><w:b/></w:rPr><w:tab/></w:r><w:r>'.join(texts)}</w:r></w:p>"
    return word(body)


def zipped(parts: dict[str, str]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
    return content.getvalue()


def unzipped(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def srt(rng: random.Random, units: list[str]) -> bytes:
    starts = [rng.choice(["", "- ", "<i>"]) for _ in units]
    cues = [
        f"{i}\n00:00:{i % 60:02},000 --> 00:00:{i % 60:02},900\n{start}{unit.strip() or 'x'}\n\n"
        for i, (start, unit) in enumerate(zip(starts, units, strict=True), 1)
    ]
    return "".join(cues).encode()


def tmx(rng: random.Random, units: list[str]) -> bytes:
    rows = [
        f'<tu tuid="{i}"><tuv xml:lang="en"><seg>{rng.choice(["", "<ph/>"])}{_escaped(unit)}</seg></tuv></tu>'
        for i, unit in enumerate(units)
    ]
    start = '<?xml version="1.0"?><tmx version="1.4"><header srclang="en"/><body>'
    return f"{start}{''.join(rows)}</body></tmx>".encode()


def html(rng: random.Random, units: list[str]) -> bytes:
    body = ""
    for unit in units:
        tag = rng.choice(["p", "li", "h1", "td", "div"])
        body += f'<{tag} title="x">{_escaped(unit)}<br><b>x</b></{tag}>'
    return f"<!DOCTYPE html><html lang=en><head><title>T</title></head><body>{body}</body></html>".encode()


def txt(rng: random.Random, units: list[str]) -> bytes:
    return rng.choice(["\n", "\n\n", "\r\n"]).join(units).encode()


WRITERS: dict[str, Callable[[random.Random, list[str]], bytes]] = {
    ".docx": docx, ".srt": srt, ".tmx": tmx, ".html": html, ".txt": txt,
}  # fmt: skip


def _damaged(rng: random.Random, content: bytes) -> bytes:
    """Return a file that something has happened to."""
    i = rng.randint(0, len(content))
    text = content.decode("utf-8", "replace")
    return rng.choice([
        content[:i], b"", content + content,
        content[:i] + rng.randbytes(20) + content[i:],
        content.replace(b"\n", b"\r"), text.encode("utf-16"),
        text.encode("latin-1", "replace"),
        b"\xef\xbb\xbf" + content, content[:i] + b"\0" + content[i:],
        rng.randbytes(300),
        content[:i] + bytes(len(content) - i), content.replace(b"<", b"<<", 3),
        b"PK\x03\x04" + content,
        content.replace(b"/", b""), content.replace(b">", b"", 1), b"\n" * 20_000,
        content.replace(b"00:00:", b"99:99:"),
        content.replace(b'"1.0"', b'"1.0" encoding="utf-16"'),
    ])  # fmt: skip


def _hostile_markup(rng: random.Random, ending: str) -> bytes:
    """Text whose size or nesting is the attack."""
    n = rng.choice([100, 3000, 40_000])
    entities = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 10))
    bomb = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a0 "ha">{entities}]>'
    thief = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a9 SYSTEM "secret.txt">]>'
    start = rng.choice([bomb, thief])
    body = {
        ".docx": [
            f"{start}<w:document {W}><w:body><w:p><w:r><w:t>&a9;</w:t></w:r></w:p></w:body></w:document>",
            "<w:p/>" * n, "<w:p><w:r/></w:p>" * n, "<w:tbl><w:tr><w:tc>" * n,
            "<w:p><w:r><w:t>A man.</w:t></w:r></w:p>" * n,
            f"<w:p>{'<w:r>' * n}<w:t>A man.</w:t>{'</w:r>' * n}</w:p>",
            f"<w:p {' '.join(f'a{i}=QQ' for i in range(n))}/>".replace("Q", '"'),
        ],
        ".srt": [
            "1\n00:00:01,000 --> 00:00:02,000\n\n" * n, "9" * n + "\n", "1\n00:00:01,000 --> " * n,
            f"1\n00:00:01,000 --> 00:00:02,000\n{'<i>' * n}A man.\n", "1\n" * n,
            f"1\n{'9' * 4000}:00:01,000 --> 00:00:02,000\nA\n",
        ],
        ".tmx": [
            f"{start}<tmx><header/><body><tu><tuv xml:lang='en'><seg>&a9;</seg></tuv></tu></body></tmx>",
            f"<tmx><body>{'<tu/>' * n}</body></tmx>", "<tmx><body>" + "<tu>" * n, "<tmx>" + "<seg>" * n,
            "<tmx><header srclang='*all*'/><body><tu><tuv xml:lang='en'><seg>"
            f"{'<hi>' * n}A{'</hi>' * n}</seg></tuv></tu></body></tmx>",
        ],
        ".html": [
            "<div>" * n + "A man.", "<p>" * n, "<b>" * n + "A man." + "</b>" * n, "<!--" * n,
            "<a " + "b=c " * n + ">A man.</a>",
            "<table><tr><td>" * n, "&lt" * n, "<script>" * n, "<![CDATA[" * n, f"<p>{'<br>' * n}A man.",
            "<" * n, "&#" + "9" * n + ";",
        ],
        ".txt": ["x" * n, "A man. " * min(n, 3000), "\n" * n, "<b>" * n, "." * n, "\x00" * n, "\u202e" * n,
        "A\u0301" * n],
    }[ending]  # fmt: skip
    chosen = rng.choice(body)
    return word(chosen) if ending == ".docx" else chosen.encode()


def _hostile_zip(rng: random.Random, whole: bytes) -> bytes:
    """Return an archive whose parts are the attack."""
    parts = {name: content.decode() for name, content in unzipped(whole).items()}
    name, main = rng.choice(list(parts)), parts["word/document.xml"]
    elsewhere = rng.choice(["word/../../../etc/passwd", "", "nowhere.xml", "http://x/"])
    act = rng.randrange(9)
    if act == 7:
        return _damaged(rng, whole)
    if act == 8:
        changed = bytearray(whole)
        for _ in range(5):
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        return bytes(changed)
    if act == 0:
        del parts[name]
    changes = {
        1: lambda: {name: parts[name][: rng.randint(0, len(parts[name]))]},
        2: lambda: {"word/media/bomb.bin": "\0" * (300 << 20)},
        3: lambda: {"word/document.xml": main.replace("<w:sectPr/>", f"<!--{' ' * (100 << 20)}-->")},
        4: lambda: {"../../evil.txt": "x", "/tmp/evil.txt": "x", "word\\evil.txt": "x"},
        5: lambda: {f"word/part{i}.xml": "<x/>" for i in range(20_000)},
        6: lambda: {name: parts[name].replace("word/document.xml", elsewhere)},
    }
    return zipped(parts | (changes[act]() if act else {}))


def structure(ending: str, content: bytes) -> object:
    """Return the parts of a document that its translation must keep."""
    if ending == ".docx":
        parts = unzipped(content)
        body = parts["word/document.xml"]
        return list(parts), len(re.findall(rb"<w:p[ >/]", body)), body.count(b"<w:tab/>")
    if ending == ".srt":
        return re.findall(rb"[0-9:,]+ --> [0-9:,]+", content)
    if ending == ".tmx":
        return re.findall(rb'<tu [^>]*tuid="([0-9]+)"', content)
    if ending == ".html":
        return [tag for tag in re.findall(rb"<(/?[a-z0-9]+)", content) if tag not in (b"b", b"/b")]
    return content.count(b"\n")


def document_faults(document: Document, written: bytes) -> list[str]:
    """Return what is wrong with the translation of a document."""
    if SECRET in written or (document.ending == ".docx" and SECRET in b"".join(unzipped(written).values())):
        return ["another file is in the result"]
    if document.whole:
        before, after = (structure(document.ending, content) for content in (document.content, written))
        return [] if before == after else [f"the structure has changed: {after}"]
    return []
