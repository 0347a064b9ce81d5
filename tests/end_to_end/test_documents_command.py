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

SUBTITLES = (
    "1\n00:00:01,000 --> 00:00:02,000\n<i>The red cat.</i>\n\n2\n00:00:03,000 --> 00:00:04,000\nA dog!\n\n"
)


@pytest.fixture(scope="module")
def translator(tiny_run: Path) -> Translator:
    return Translator.load(tiny_run)


def test_a_document_is_what_python_makes_of_it_compressed_or_not(
    tiny_run: Path, translator: Translator
) -> None:
    Path("film.srt").write_text(SUBTITLES, encoding="utf-8")
    expected = translate_file(translator, "film.srt", SUBTITLES.encode())
    said = succeed("translate", tiny_run, "film.srt", "--out", "out.srt")
    assert said.stdout == ""
    assert re.search(r"^out.srt: \d sentences? in \d+\.\d s$", said.stderr, re.MULTILINE)
    piped = succeed("translate", tiny_run, "film.srt", "--document").stdout_bytes
    assert Path("out.srt").read_bytes() == piped == expected
    Path("film.srt.gz").write_bytes(gzip.compress(SUBTITLES.encode()))
    succeed("translate", tiny_run, "film.srt.gz", "--document", "--out", "out.srt.gz")
    assert gzip.decompress(Path("out.srt.gz").read_bytes()) == expected
    text = "  The red cat. A dog!\r\n\r\n\tBig house\n"
    document = succeed("translate", tiny_run, "--document", stdin=text.encode()).stdout_bytes
    assert document == translate_document(translator, text).encode()


def test_links_are_those_of_python_in_json_and_in_a_file(tiny_run: Path, translator: Translator) -> None:
    options = ("--json", "--align", "--pharaoh", "links.txt")
    result = succeed("translate", tiny_run, *options, stdin="red cat\n\nbig dog\n")
    records = [json.loads(line) for line in result.stdout.splitlines()]
    sources, targets = ([record[side] for record in records] for side in ("source", "translation"))
    expected = align(translator, sources, targets)
    links = [[(*link["source"], *link["target"]) for link in record["alignment"]] for record in records]
    assert links == [[link[:4] for link in each] for each in expected]
    lines = Path("links.txt").read_text(encoding="utf-8").splitlines()
    assert (len(lines), lines[1]) == (3, "")


def write_letter(path: str) -> None:
    document = docx.Document()
    document.add_paragraph("The red cat. A dog!")
    document.save(path)


KEEPS = "a document keeps its format; give a name that ends in"
REFUSED = [
    ("a.srt --skip-long", "--skip-long is for lines; a document needs all of its sentences"),
    ("--document --json", "--json and --pharaoh are for lines, not for documents"),
    ("--align", "--align is for --json; for a file of links say --pharaoh"),
    ("--protect names", '"names" cannot be protected; there are tags, urls, emails'),
    ("--protect-pattern (", "'(': is no regular expression"),
    ("bad.txt --document --out out.txt", "bad.txt, line 2: is not UTF-8; convert the text to UTF-8\n"),
    ("letter.docx --document --out out.pdf", f"--out out.pdf: {KEEPS} .docx"),
    ("bad.docx --document --out out.docx", "bad.docx: is damaged, cut short, or no .docx"),
    ("a.en --out out.docx", f"--out out.docx: {KEEPS} .txt\n"),
    ("a.doc", "a.doc: .doc is no format of documents; save it as .docx first; there are .txt"),
    ("a.xhtml", "a.xhtml: .xhtml is no format of documents; save it as .html first"),
    ("a.en b.en", "several files need --out-dir DIR"),
    ("a.en --out c --out-dir d", "--out is one file, --out-dir the folder of several"),
    ("a.en - --out-dir d", "--out-dir is for files, whose names the translations have"),
    ("a.en more/a.en --out-dir d", "d/a.en: is named for two outputs"),
    ("a.en b.en --out-dir .", "a.en: is the input a.en, which would be lost"),
    ("a.en a.pdf --out-dir d", "a.pdf: .pdf is no format of documents"),
    ("a.en b.en --out-dir d --pharaoh links", "--pharaoh has a line for each of one FILE"),
    ("a.en --encoding nonsense", "--encoding nonsense: is unknown; try cp1252, latin-1 or gb18030"),
    ("a.en --encoding utf-16", "--encoding utf-16: has no line ends of one byte; convert the text to UTF-8"),
    ("a.tmx --encoding cp1252", "--encoding cp1252: is not for a.tmx, which says itself how"),
    ("a.srt --encoding ascii", "a.srt, line 3: is not ASCII; convert the text to UTF-8"),
]
"""What stands behind `translate RUN`, and how the error begins; with a line end, it is all of it."""


@pytest.mark.parametrize(("arguments", "said"), REFUSED, ids=[arguments for arguments, _ in REFUSED])
def test_what_cannot_be_is_refused_and_nothing_is_written(tiny_run: Path, arguments: str, said: str) -> None:
    Path("more").mkdir()
    for ending in ("en", "txt", "doc", "pdf", "xhtml", "tmx", "srt"):
        Path(f"a.{ending}").write_text(SUBTITLES.replace("red", "réd"), encoding="utf-8")
    for name in ("b.en", "more/a.en", "bad.docx"):
        Path(name).write_text("red cat\n", encoding="utf-8")
    Path("bad.txt").write_bytes(b"fine\nno\x81\n")
    write_letter("letter.docx")
    before = sorted(Path().rglob("*"))
    line = error_of("translate", tiny_run, *arguments.split(), stdin="red cat\n")
    assert f"{line}\n".startswith(f"error: {said}")
    assert sorted(Path().rglob("*")) == before


def test_a_structured_file_is_refused_unless_its_lines_are_meant(tiny_run: Path) -> None:
    for name in ("app.po", "a.json", "page.md", "conf.yaml.gz", "strings.xml", "t.csv", "a.tex", "film.vtt"):
        content = b"red cat\n"
        Path(name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        if name == "film.vtt":  # a document
            continue
        said = error_of("translate", tiny_run, name, "--out", "out")
        assert said.startswith(f"error: {name}: ")
        assert said.endswith(" or translate each line as it is with --lines")
        assert not Path("out").exists()
    expected = succeed("translate", tiny_run, stdin="red cat\n").stdout
    succeed("translate", tiny_run, "conf.yaml.gz", "film.vtt", "--lines", "--out-dir", "out")
    assert gzip.decompress(Path("out/conf.yaml.gz").read_bytes()).decode() == expected
    assert Path("out/film.vtt").read_text(encoding="utf-8") == expected


def test_a_glossary_none_of_whose_terms_occurs_says_so(tiny_run: Path) -> None:
    note = "terms.tsv: none of its terms occurs in the text; they are looked for as whole words"
    for term, n in (("xylophone", 1), ("red", 0)):
        Path("terms.tsv").write_text(f"{term}\trot\n", encoding="utf-8")
        said = succeed("translate", tiny_run, "--glossary", "terms.tsv", stdin="a red cat\n")
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


def test_a_windows_text_is_read_with_a_note(tiny_run: Path) -> None:
    for encoding in ("utf-8", "cp1252"):
        Path(f"{encoding}.txt").write_text("The café – “red”.\n", encoding=encoding)
    note = "cp1252.txt: is not UTF-8; read as cp1252 and written as UTF-8 (--encoding says otherwise)\n"
    for options in ([], ["--document", "--out", "o.txt"]):
        expected = succeed("translate", tiny_run, "utf-8.txt", *options[:1])
        result = succeed("translate", tiny_run, "cp1252.txt", *options)
        assert note in result.stderr
        assert note not in expected.stderr
        assert (Path("o.txt").read_bytes() if options else result.stdout_bytes) == expected.stdout_bytes


def test_an_encoding_that_is_named_is_not_guessed(tiny_run: Path) -> None:
    expected = succeed("translate", tiny_run, stdin="Łódź\n").stdout
    result = succeed("translate", tiny_run, "--encoding", "cp1250", stdin="Łódź\n".encode("cp1250"))
    assert (result.stdout, result.stderr) == (expected, "")
    wrong = error_of("translate", tiny_run, "--encoding", "ascii", stdin="Łódź\n")
    assert wrong.startswith("error: stdin, line 1: is not ASCII (byte 1); convert it")
    line = error_of("translate", tiny_run, stdin=b"\xff\n")
    assert "say how it is encoded, as in --encoding cp1252" in line


def test_an_encoding_is_utf8_or_the_code_page_of_the_language() -> None:
    for text, language, encoding in (
        ("naïve café", "en", "utf-8"), ("naïve", "en", "cp1252"), ("Łódź", "pl", "cp1250"),
        ("红猫", "zh", "gb18030"),
    ):  # fmt: skip
        assert guess_encoding(text.encode(encoding), language) == encoding
    for content in ("naïve".encode()[:3], b"\x81\x8d"):  # a character cut in two, and what is no text
        assert guess_encoding(content, "en") == "utf-8"


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
