"""`dragoman translate` with documents, protection and alignment."""

import gzip
import io
import json
import re
import sys
from pathlib import Path

import docx
import pytest

from commands import error_of, succeed
from commands import folder as folder
from dragoman.bulk.input import AS_THEY_COME, Input
from dragoman.data.readers.files import guess_encoding
from dragoman.documents import translate_document, translate_file
from dragoman.errors import ConfigError
from dragoman.predict.alignment import align
from dragoman.predict.translator import Translator

DOCUMENT = "  The red cat. A dog!\r\n\r\n\tBig house\n"


@pytest.fixture(scope="module")
def translator(tiny_run: Path) -> Translator:
    return Translator.load(tiny_run)


def test_a_document_is_written_as_python_writes_it(tiny_run: Path, translator: Translator) -> None:
    Path("doc.txt").write_bytes(DOCUMENT.encode())
    expected = translate_document(translator, DOCUMENT).encode()
    succeed("translate", tiny_run, "doc.txt", "--document", "--out", "out.txt")
    assert Path("out.txt").read_bytes() == expected
    assert succeed("translate", tiny_run, "doc.txt", "--document").stdout_bytes == expected
    assert succeed("translate", tiny_run, "--document", stdin=DOCUMENT.encode()).stdout_bytes == expected


def test_a_line_too_long_for_the_model_is_translated_and_told(tiny_run: Path, translator: Translator) -> None:
    limit = translator.config.model.max_positions
    long = "red cat, big dog. " * limit
    n_parts = len(translator.translate([long])[0].parts)
    said = f"line 2 is longer than the model's {limit} tokens: translated in {n_parts} parts"
    result = succeed("translate", tiny_run, stdin=f"red cat\n{long}\n\n")
    assert result.stderr.splitlines() == [said]
    assert len(result.stdout.splitlines()) == 3
    tagged = succeed("translate", tiny_run, "--protect", "tags", stdin=f"red\n<b>{long}</b>\n")
    assert tagged.stderr.splitlines() == [said]
    words = "red cat " * limit
    document = succeed("translate", tiny_run, "--document", stdin=f"A dog. A cat.\n{words}\n")
    assert "line 2 is longer" in document.stderr


def test_links_are_those_of_python_in_json_and_in_a_file(tiny_run: Path, translator: Translator) -> None:
    options = ("--json", "--align", "--pharaoh", "links.txt")
    result = succeed("translate", tiny_run, *options, stdin="red cat\n\nbig dog\n")
    records = [json.loads(line) for line in result.stdout.splitlines()]
    sources, targets = ([record[side] for record in records] for side in ("source", "translation"))
    expected = align(translator, sources, targets)
    found = [[(*link["source"], *link["target"]) for link in record["alignment"]] for record in records]
    assert found == [[link[:4] for link in links] for links in expected]
    lines = Path("links.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 3
    assert lines[1] == ""
    assert "alignment" not in json.loads(succeed("translate", tiny_run, "--json", stdin="red cat\n").stdout)


def test_what_is_protected_is_in_the_output(tiny_run: Path) -> None:
    text = "see https://x.org/a in <b>red</b> 47 {name}\n"
    out = succeed("translate", tiny_run, "--protect", "all", "--protect-pattern", "s.e", stdin=text).stdout
    assert all(span in out for span in ("https://x.org/a", "<b>", "</b>", "47", "{name}", "see"))
    only = succeed("translate", tiny_run, "--protect", "urls, tags", stdin=text).stdout
    assert all(span in only for span in ("https://x.org/a", "<b>", "</b>"))


SUBTITLES = (
    "1\n00:00:01,000 --> 00:00:02,000\n<i>The red cat.</i>\n\n2\n00:00:03,000 --> 00:00:04,000\nA dog!\n\n"
)
MEMORY = '<tmx><tu><tuv xml:lang="en"><seg>The <hi>red</hi> cat.</seg></tuv></tu></tmx>'


def write_letter(path: str) -> None:
    document = docx.Document()
    paragraph = document.add_paragraph("The ")
    paragraph.add_run("red").bold = True
    paragraph.add_run(" cat. A dog!")
    document.save(path)


def test_subtitles_memories_and_letters_are_those_of_python(tiny_run: Path, translator: Translator) -> None:
    Path("film.srt").write_text(SUBTITLES, encoding="utf-8")
    Path("memory.tmx").write_text(MEMORY, encoding="utf-8")
    write_letter("letter.docx")
    for name in ("film.srt", "memory.tmx", "letter.docx"):
        expected = translate_file(translator, name, Path(name).read_bytes())
        out = f"out{Path(name).suffix}"
        said = succeed("translate", tiny_run, name, "--out", out)
        assert said.stdout == ""
        assert re.search(rf"^{out}: \d sentences? in \d+\.\d s$", said.stderr, re.MULTILINE)
        piped = succeed("translate", tiny_run, name, "--document").stdout_bytes
        if name == "film.srt":
            Path("film.srt.gz").write_bytes(gzip.compress(SUBTITLES.encode()))
            succeed("translate", tiny_run, "film.srt.gz", "--document", "--out", "out.srt.gz")
            assert gzip.decompress(Path("out.srt.gz").read_bytes()) == expected
        if name == "letter.docx":
            files = (io.BytesIO(expected), out, io.BytesIO(piped))
            found = [docx.Document(file).paragraphs for file in files]
            first, *others = ([[(r.text, r.bold) for r in p.runs] for p in file] for file in found)
            assert all(other == first for other in others)
        else:
            assert Path(out).read_bytes() == piped == expected


KEEPS = "a document keeps its format; give a name that ends in"
REFUSED = [
    ("a.srt --skip-long", "--skip-long is for lines; a document needs all of its sentences"),
    ("--document --json", "--json and --pharaoh are for lines, not for documents"),
    ("--document --pharaoh x", "--json and --pharaoh are for lines, not for doc"),
    ("--align", "--align is for --json; for a file of links say --pharaoh"),
    ("--protect names", '"names" cannot be protected; there are tags, urls, emails'),
    ("--protect-pattern (", "'(': is no regular expression"),
    ("--n-best 2", "--n-best is for --json; without it a line has one"),
    ("bad.txt --document --out out.txt", "bad.txt, line 2: is not UTF-8; convert the text to UTF-8\n"),
    ("letter.docx --document --out out.pdf", f"--out out.pdf: {KEEPS} .docx"),
    ("a.txt --document --out out.docx", f"--out out.docx: {KEEPS} .txt"),
    ("bad.docx --document --out out.docx", "bad.docx: is damaged, cut short, or no .docx"),
    ("a.en --out out.docx", f"--out out.docx: {KEEPS} .txt\n"),
    ("a.doc", "a.doc: .doc is no format of documents; save it as .docx first; there are .txt"),
    ("a.odt", "a.odt: .odt is no format of documents; save it as .docx first"),
    ("a.pdf", "a.pdf: .pdf is no format of documents; save it as .docx first"),
    ("a.xhtml", "a.xhtml: .xhtml is no format of documents; save it as .html first"),
    ("a.en b.en", "several files need --out-dir DIR"),
    ("a.en b.en --out c", "several files need --out-dir DIR"),
    ("a.en --out c --out-dir d", "--out is one file, --out-dir the folder of several"),
    ("a.en - --out-dir d", "--out-dir is for files, whose names the translations have"),
    ("a.en more/a.en --out-dir d", "d/a.en: is named for two outputs"),
    ("a.en b.en --out-dir .", "a.en: is the input a.en, which would be lost"),
    ("a.en a.pdf --out-dir d", "a.pdf: .pdf is no format of documents"),
    ("a.en missing.en --out-dir d", "missing.en: no such file"),
    ("a.en b.en --out-dir d --pharaoh links", "--pharaoh has a line for each of one FILE"),
    ("a.en --encoding nonsense", "--encoding nonsense: is unknown; try cp1252, latin-1 or gb18030"),
    ("a.en --encoding base64", "--encoding base64: is unknown"),
    ("a.en --encoding utf-16", "--encoding utf-16: has no line ends of one byte; convert the text to UTF-8"),
    ("a.tmx --encoding cp1252", "--encoding cp1252: is not for a.tmx, which says itself how"),
    ("a.srt --encoding ascii", "a.srt, line 3: is not ASCII; convert the text to UTF-8"),
]
"""What stands behind `translate RUN`, and how the error begins; with a line end, it is all of it."""


@pytest.mark.parametrize(("arguments", "said"), REFUSED, ids=[arguments for arguments, _ in REFUSED])
def test_what_cannot_be_is_refused_and_nothing_is_written(tiny_run: Path, arguments: str, said: str) -> None:
    Path("more").mkdir()
    for ending in ("en", "txt", "doc", "odt", "pdf", "xhtml", "tmx", "srt"):
        Path(f"a.{ending}").write_text(SUBTITLES.replace("red", "réd"), encoding="utf-8")
    for name in ("b.en", "more/a.en", "bad.docx"):
        Path(name).write_text("red cat\n", encoding="utf-8")
    Path("bad.txt").write_bytes(b"fine\nno\x81\n")
    write_letter("letter.docx")
    before = sorted(Path().rglob("*"))
    line = error_of("translate", tiny_run, *arguments.split(), stdin="red cat\n")
    assert f"{line}\n".startswith(f"error: {said}")
    assert sorted(Path().rglob("*")) == before


STRUCTURED = ["app.po", "a.json", "page.md", "conf.yaml.gz", "strings.xml", "t.csv", "a.tex"]


@pytest.mark.parametrize("name", STRUCTURED)
def test_a_structured_file_is_refused_unless_its_lines_are_meant(tiny_run: Path, name: str) -> None:
    path, content = Path(name), b"red cat\n"
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    for options in ((), ("--document",)):
        said = error_of("translate", tiny_run, name, "--out", "out", *options)
        assert said.startswith(f"error: {name}: ")
        assert said.endswith(" or translate each line as it is with --lines")
        assert not Path("out").exists()
    expected = succeed("translate", tiny_run, stdin=content).stdout
    assert succeed("translate", tiny_run, name, "--lines").stdout == expected


def test_lines_of_a_document_can_be_meant(tiny_run: Path) -> None:
    Path("film.vtt").write_text("red cat\n", encoding="utf-8")
    Path("page.html").write_text("red cat\n", encoding="utf-8")
    succeed("translate", tiny_run, "film.vtt", "page.html", "--lines", "--out-dir", "out")
    expected = succeed("translate", tiny_run, stdin="red cat\n").stdout
    assert [path.read_text(encoding="utf-8") for path in Path("out").iterdir()] == [expected] * 2


@pytest.mark.parametrize("name", ["lines.en", "film.srt"])
def test_a_glossary_none_of_whose_terms_occurs_says_so(tiny_run: Path, name: str) -> None:
    Path(name).write_text(SUBTITLES, encoding="utf-8")
    for term, n in (("xylophone", 1), ("red", 0)):
        Path("terms.tsv").write_text(f"{term}\trot\n", encoding="utf-8")
        kind = "--lines" if n else "--document"
        said = succeed("translate", tiny_run, name, "--glossary", "terms.tsv", kind)
        note = "terms.tsv: none of its terms occurs in the text; they are looked for as whole words"
        assert said.stderr.splitlines().count(note) == n


def test_several_files_keep_their_names_in_a_folder(tiny_run: Path, translator: Translator) -> None:
    Path("film.srt").write_text(SUBTITLES, encoding="utf-8")
    Path("lines.en").write_text("red cat\nbig dog\n", encoding="utf-8")
    Path("more").mkdir()
    Path("more/lines.txt").write_text("old house\n", encoding="utf-8")
    files = ("film.srt", "lines.en", "more/lines.txt")
    said = succeed("translate", tiny_run, *files, "--out-dir", "out/de").stderr
    assert Path("out/de/film.srt").read_bytes() == translate_file(translator, "film.srt", SUBTITLES.encode())
    lines = succeed("translate", tiny_run, "lines.en").stdout
    assert Path("out/de/lines.en").read_text(encoding="utf-8") == lines
    assert sorted(path.name for path in Path("out/de").iterdir()) == ["film.srt", "lines.en", "lines.txt"]
    assert all(f"{Path('out/de') / Path(file).name}: " in said for file in files)


ACCENTED = "The café – “red”.\n"


@pytest.mark.parametrize("out", [(), ("--out", "o.txt")])
@pytest.mark.parametrize("document", [(), ("--document",)])
def test_a_windows_text_is_read_with_a_note(
    tiny_run: Path, document: tuple[str, ...], out: tuple[str, ...]
) -> None:
    Path("utf-8.txt").write_text(ACCENTED, encoding="utf-8")
    Path("windows.txt").write_text(ACCENTED, encoding="cp1252")
    found = {}
    for name in ("utf-8.txt", "windows.txt"):
        Path("o.txt").unlink(missing_ok=True)
        result = succeed("translate", tiny_run, name, *document, *out)
        found[name] = Path("o.txt").read_bytes() if out else result.stdout_bytes
        note = "windows.txt: is not UTF-8; read as cp1252 and written as UTF-8 (--encoding says otherwise)\n"
        assert (note in result.stderr) == (name == "windows.txt")
    assert found["windows.txt"] == found["utf-8.txt"]


def test_an_encoding_that_is_named_is_not_guessed(tiny_run: Path) -> None:
    expected = succeed("translate", tiny_run, stdin="Łódź\n").stdout
    Path("lines").write_text("Łódź\n", encoding="cp1250")
    result = succeed("translate", tiny_run, "lines", "--encoding", "cp1250")
    assert (result.stdout, result.stderr) == (expected, "")
    piped = succeed("translate", tiny_run, "--encoding", "cp1250", stdin=Path("lines").read_bytes())
    assert piped.stdout == expected
    wrong = error_of("translate", tiny_run, "lines", "--encoding", "ascii")
    assert wrong.startswith("error: lines line 1: not ASCII (byte 0xa3")
    line = error_of("translate", tiny_run, stdin=b"\xff\n")
    assert "say how it is encoded, as in --encoding cp1252" in line


@pytest.mark.parametrize(
    ("content", "language", "encoding"),
    [
        ("naïve café".encode(), "en", "utf-8"),
        ("naïve".encode()[:3], "en", "utf-8"),  # a character cut in two
        ("naïve".encode("cp1252"), "en", "cp1252"),
        ("Łódź".encode("cp1250"), "pl", "cp1250"),
        ("红猫".encode("gb18030"), "zh", "gb18030"),
        ("naïve".encode("utf-16"), "en", "utf-8"),
        (b"\x81\x8d", "en", "utf-8"),
        (b"\xff\x00", "en", "utf-8"),
    ],
)
def test_an_encoding_is_utf8_or_the_code_page_of_the_language(
    content: bytes, language: str, encoding: str
) -> None:
    assert guess_encoding(content, language) == encoding


def test_on_a_terminal_it_says_what_to_type(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Terminal(io.StringIO):
        buffer = io.BytesIO(b"red cat\n")

        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    chunks = Input.of("-").chunks(chunk_lines=AS_THEY_COME)
    assert [chunk.lines for chunk in chunks] == [["red cat"]]
    assert capsys.readouterr().err == "type a sentence; Ctrl-D ends\n"


def test_a_letter_is_nothing_for_a_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("letter.docx", "film.srt"):
        Path(name).touch()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with pytest.raises(ConfigError, match=r"^letter\.docx: cannot write a Word document to a terminal; giv"):
        Input.of("letter.docx", as_document=True)
    assert Input.of("letter.docx", out=Path("out.docx"), as_document=True).ending == ".docx"
    assert Input.of("film.srt", as_document=True).ending == ".srt"
