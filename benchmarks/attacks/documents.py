"""Documents that are damaged, hostile or only odd, of every format that is translated."""

from __future__ import annotations

import io
import random
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from attacks.calls import Fault, Show, Stage, call, faults_of

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


def docx(rng: random.Random, units: list[str], body: str | None = None) -> bytes:
    """Return a Word document with a paragraph for each unit."""

    def paragraph(unit: str) -> str:
        half = len(unit) // 2 if rng.random() < 0.3 else len(unit)
        runs = [
            f'<w:r><w:t xml:space="preserve">{_escaped(part)}</w:t></w:r>'
            for part in (unit[:half], unit[half:])
        ]
        return f"<w:p>{'<w:r><w:rPr><w:b/></w:rPr><w:tab/></w:r>'.join(runs)}</w:p>"

    body = "".join(map(paragraph, units)) if body is None else body
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    relation = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
    parts = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/word/document.xml" ContentType="{kind}"/></Types>',
        "_rels/.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        f'<Relationship Id="r1" Type="{relation}" Target="word/document.xml"/></Relationships>',
        "word/document.xml": body
        if body.startswith("<?xml")
        else f'<?xml version="1.0"?><w:document {W}><w:body>{body}<w:sectPr/></w:body></w:document>',
    }
    return zipped(parts)


def zipped(parts: dict[str, str]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
    return content.getvalue()


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
    tags = [rng.choice(["p", "li", "h1", "td", "div"]) for _ in units]
    body = "".join(
        f'<{tag} title="x">{_escaped(unit)}<br><b>x</b></{tag}>'
        for tag, unit in zip(tags, units, strict=True)
    )
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
    return docx(rng, [], chosen) if ending == ".docx" else chosen.encode()


def _hostile_zip(rng: random.Random, whole: bytes) -> bytes:
    """Return an archive whose parts are the attack."""
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    name = rng.choice(list(parts))
    act = rng.randrange(9)
    if act == 0:
        del parts[name]
    elif act == 1:
        parts[name] = parts[name][: rng.randint(0, len(parts[name]))]
    elif act == 2:
        parts["word/media/bomb.bin"] = "\0" * (300 << 20)
    elif act == 3:
        parts["word/document.xml"] = parts["word/document.xml"].replace(
            "<w:sectPr/>", "<!--" + " " * (100 << 20) + "-->"
        )
    elif act == 4:
        parts.update({"../../evil.txt": "x", "/tmp/evil.txt": "x", "word\\evil.txt": "x"})
    elif act == 5:
        parts.update({f"word/part{i}.xml": "<x/>" for i in range(20_000)})
    elif act == 6:
        parts[name] = parts[name].replace(
            "word/document.xml", rng.choice(["word/../../../etc/passwd", "", "nowhere.xml", "http://x/"])
        )
    elif act == 7:
        return _damaged(rng, whole)
    else:
        changed = bytearray(whole)
        for _ in range(5):
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        return bytes(changed)
    return zipped(parts)


def structure(ending: str, content: bytes) -> object:
    """Return the parts of a document that its translation must keep."""
    if ending == ".docx":
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            body = archive.read("word/document.xml")
            return archive.namelist(), len(re.findall(rb"<w:p[ >/]", body)), body.count(b"<w:tab/>")
    if ending == ".srt":
        return re.findall(rb"[0-9:,]+ --> [0-9:,]+", content)
    if ending == ".tmx":
        return re.findall(rb'<tu [^>]*tuid="([0-9]+)"', content)
    if ending == ".html":
        return [tag for tag in re.findall(rb"<(/?[a-z0-9]+)", content) if tag not in (b"b", b"/b")]
    return content.count(b"\n")


class Documents:
    """Documents on the command line."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def close(self) -> None:
        """There is nothing to close."""

    def faults(self, seed: int, show: Show) -> list[Fault]:
        rng = random.Random(f"documents:{seed}")
        document = make(rng, [en for en, _ in self.stage.pairs])
        folder = self.stage.fresh("run")
        name, out = f"in{document.ending}", folder / f"out{document.ending}"
        (folder / name).write_bytes(document.content)
        (folder / "secret.txt").write_bytes(SECRET)
        argv = ["translate", "run", name, "--document", "--out", out.name]
        show(f"in {folder}: dragoman {' '.join(argv)}")
        show(f"{len(document.content):,} bytes: {document.content[:1500]!r}")
        ended = call(argv, folder)
        show(f"exit code {ended.code}\nstderr {ended.stderr[-3000:]}")
        found = list(faults_of(ended))
        if not found:
            found += [("wrong", what) for what in self.wrong(document, ended.code, out)]
        if (folder / name).read_bytes() != document.content:
            found.append(("wrong", "the input has changed"))
        left = {path.name for path in folder.iterdir()} - {"run", "secret.txt", name, out.name}
        if left or self.stage.left_in_tmp():
            found.append(("wrong", f"left behind: {left}, {self.stage.left_in_tmp()[:3]}"))
        return found

    def wrong(self, document: Document, code: int, out: Path) -> list[str]:
        """Return the faults of the result."""
        if code != 0:
            return [f"exit code {code}, and {out.name} is there"] if out.exists() else []
        if not out.is_file():
            return ["exit code 0 without a result"]
        written = out.read_bytes()
        if SECRET in written or (document.ending == ".docx" and SECRET in b"".join(_parts(written))):
            return ["another file is in the result"]
        if document.whole and structure(document.ending, document.content) != structure(
            document.ending, written
        ):
            return [f"the structure has changed: {structure(document.ending, written)}"]
        return []


def _parts(content: bytes) -> list[bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return [archive.read(name) for name in archive.namelist()]
