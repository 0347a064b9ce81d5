"""`dragoman translate` with documents, protection, alignment and consensus."""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path

import docx
import pytest

from commands import error_of, succeed
from dragoman.cli.translating import document_ending
from dragoman.errors import ConfigError
from dragoman.predict.alignment import align
from dragoman.predict.documents import translate_document, translate_file
from dragoman.predict.reranking import minimum_risk
from dragoman.predict.translator import Translator

DOCUMENT = "  The red cat. A dog!\r\n\r\n\tBig house\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test works in an empty folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DRAGOMAN_DATA", raising=False)
    return tmp_path


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


def test_a_line_too_long_for_the_model_is_translated_and_said_so(
    tiny_run: Path, translator: Translator
) -> None:
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
    result = succeed(
        "translate", tiny_run, "--json", "--align", "--pharaoh", "links.txt", stdin="red cat\n\nbig dog\n"
    )
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


def test_consensus_is_the_candidate_of_least_risk(tiny_run: Path, translator: Translator) -> None:
    beam_size = translator.config.search.beam_size
    expected = minimum_risk(translator.translate(["big old house"], n_best=beam_size)[0])
    assert succeed("translate", tiny_run, "--mbr", stdin="big old house\n").stdout == f"{expected.text}\n"
    shown = succeed("translate", tiny_run, "--mbr", "--json", "--n-best", "2", stdin="big old house\n")
    two = minimum_risk(translator.translate(["big old house"], n_best=2)[0])
    assert [a["translation"] for a in json.loads(shown.stdout)["alternatives"]] == [
        a.text for a in two.alternatives
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--document", "--json"], "error: --document gives text; leave --json and --pharaoh away"),
        (["--document", "--pharaoh", "x"], "error: --document gives text; leave --json and --pharaoh away"),
        (["--align"], "error: --align is for --json; for a file of links say --pharaoh"),
        (["--protect", "names"], 'error: "names" cannot be protected; there are tags, urls, emails'),
        (["--protect-pattern", "("], "error: '(': is no regular expression"),
        (["--mbr", "--beam-size", "1"], "error: --mbr chooses among candidates; give a --beam-size"),
        (["--n-best", "2"], "error: --n-best is for --json and --mbr"),
    ],
)
def test_options_that_mean_nothing_are_refused(tiny_run: Path, options: list[str], message: str) -> None:
    assert error_of("translate", tiny_run, *options, stdin="red cat\n").startswith(message)


def test_a_document_that_is_not_utf8_is_refused_and_nothing_written(tiny_run: Path) -> None:
    Path("bad.txt").write_bytes(b"fine\nno\xff\n")
    message = error_of("translate", tiny_run, "bad.txt", "--document", "--out", "out.txt")
    assert message == "error: bad.txt, line 2: is not UTF-8; convert the text to UTF-8"
    assert not Path("out.txt").exists()


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


def test_subtitles_memories_and_letters_are_written_as_python_writes_them(
    tiny_run: Path, translator: Translator
) -> None:
    Path("film.srt").write_text(SUBTITLES, encoding="utf-8")
    Path("memory.tmx").write_text(MEMORY, encoding="utf-8")
    write_letter("letter.docx")
    for name in ("film.srt", "memory.tmx", "letter.docx"):
        expected = translate_file(translator, name, Path(name).read_bytes())
        out = f"out{Path(name).suffix}"
        assert succeed("translate", tiny_run, name, "--document", "--out", out).stdout == ""
        piped = succeed("translate", tiny_run, name, "--document").stdout_bytes
        if name == "letter.docx":
            found = [
                docx.Document(file).paragraphs for file in (io.BytesIO(expected), out, io.BytesIO(piped))
            ]
            first, *others = ([[(r.text, r.bold) for r in p.runs] for p in file] for file in found)
            assert all(other == first for other in others)
        else:
            assert Path(out).read_bytes() == piped == expected


def test_a_document_may_be_compressed(tiny_run: Path, translator: Translator) -> None:
    Path("film.srt.gz").write_bytes(gzip.compress(SUBTITLES.encode()))
    succeed("translate", tiny_run, "film.srt.gz", "--document", "--out", "out.srt.gz")
    expected = translate_file(translator, "film.srt", SUBTITLES.encode())
    assert gzip.decompress(Path("out.srt.gz").read_bytes()) == expected


def test_a_document_of_another_format_is_refused(tiny_run: Path) -> None:
    write_letter("letter.docx")
    Path("doc.txt").write_bytes(DOCUMENT.encode())
    without = error_of("translate", tiny_run, "letter.docx")
    assert without.startswith("error: letter.docx: is no text of a sentence a line; say --document")
    other = error_of("translate", tiny_run, "letter.docx", "--document", "--out", "out.pdf")
    assert other.startswith(
        "error: --out out.pdf: a document keeps its format; give a name that ends in .docx"
    )
    other = error_of("translate", tiny_run, "doc.txt", "--document", "--out", "out.docx")
    assert other.startswith(
        "error: --out out.docx: a document keeps its format; give a name that ends in .txt"
    )
    Path("bad.docx").write_bytes(b"Hello")
    bad = error_of("translate", tiny_run, "bad.docx", "--document", "--out", "out.docx")
    assert bad.startswith("error: bad.docx: is damaged, cut short, or no .docx")
    assert not Path("out.docx").exists()


def test_a_letter_is_nothing_for_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with pytest.raises(
        ConfigError, match=r"^letter\.docx: a Word document is nothing for a terminal; give --out"
    ):
        document_ending("letter.docx", None, as_document=True)
    assert document_ending("letter.docx", Path("out.docx"), as_document=True) == ".docx"
    assert document_ending("film.srt", None, as_document=True) == ".srt"
