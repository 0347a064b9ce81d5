"""`dragoman translate` with documents, protection, alignment and consensus."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import error_of, succeed
from dragoman.predict.alignment import align
from dragoman.predict.documents import translate_document
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
