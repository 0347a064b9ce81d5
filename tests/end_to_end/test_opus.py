"""Corpora of OPUS: listed and fetched from a stand-in that answers as the real interface does."""

import gzip
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from commands import error_of, succeed
from dragoman.data.corpora import open_corpus
from web import PROXIES, Web, serving

POLISH = "Zażółć gęślą jaźń.\nTak.\n"


def record(corpus: str, n_pairs: int | None, url: str, **other: object) -> dict[str, object]:
    """A record as the interface has it; it counts sizes in KiB."""
    return {
        "alignment_pairs": n_pairs, "corpus": corpus, "documents": 2, "id": 321123, "latest": "True",
        "preprocessing": "moses", "size": 60, "source": "en", "source_tokens": 4393, "target": "pl",
        "target_tokens": None, "url": url, "version": "v1", **other,
    }  # fmt: skip


def archive(**changes: str) -> bytes:
    """A zip as OPUS has them: two aligned files, their alignment, licence and description."""
    texts = {
        "README": "Books\n", "LICENSE": "Free for research.\n", "Books.en-pl.en": "One.\nYes.\n",
        "Books.en-pl.pl": POLISH, "Books.en-pl.xml": "<cesAlign/>\n", **changes,
    }  # fmt: skip
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, text in texts.items():
            zipped.writestr(name, text)
    return packed.getvalue()


def answer(web: Web, *records: dict[str, object], corpus: str = "", version: str = "latest") -> None:
    query = {"source": "en", "target": "pl", "preprocessing": "moses", "version": version}
    query |= {"corpus": corpus} if corpus else {}
    web.put(f"opusapi/?{urlencode(query)}", json.dumps({"corpora": records}).encode())


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    for name in (*PROXIES, "DRAGOMAN_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "120")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    with serving() as server:
        monkeypatch.setenv("DRAGOMAN_OPUS", server.url("opusapi/"))
        url = server.put("OPUS-Books/v1/moses/en-pl.txt.zip", archive())
        answer(server, record("Books", 2859, url), record("QED", 70_000, url), record("Tanzil", None, url))
        answer(server, record("Books", 2859, url), corpus="Books")
        answer(server, record("Books", 2000, url, version="v0"), corpus="Books", version="v0")
        answer(server, corpus="Bookz")
        yield server


def test_the_corpora_of_a_pair_are_listed_the_largest_first(web: Web) -> None:
    rows = [
        [cell.strip() for cell in line.split("│")[1:-1]]
        for line in succeed("data", "list", "opus:en-pl").stdout.splitlines()
        if line.startswith("│")
    ]
    assert rows == [
        ["opus:QED/en-pl", "v1", "70,000", "0.1"],
        ["opus:Books/en-pl", "v1", "2,859", "0.1"],
        ["opus:Tanzil/en-pl", "v1", "0", "0.1"],
    ]
    (books,) = json.loads(succeed("data", "list", "opus:Books/pl-en", "--json").stdout)
    assert (books["corpus"], books["n_pairs"], books["size"]) == ("Books", 2859, 60 * 1024)


def test_a_corpus_is_fetched_once_and_found_by_its_name(web: Web, tmp_path: Path) -> None:
    said = succeed("data", "fetch", "opus:Books/en-pl")
    folder = tmp_path / "cache" / "opus" / "Books" / "en-pl"
    assert said.stdout == f"{folder}\n"
    assert "https://opus.nlpl.eu/Books/en&pl/v1/Books" in said.stderr
    assert "licence: see LICENSE" in said.stderr
    options = f"--src {folder}/train.en.gz --tgt {folder}/train.pl.gz"
    assert said.stderr.endswith(f" train {options}\n")
    assert (folder / "LICENSE").read_text() == "Free for research.\n"
    assert gzip.decompress((folder / "train.pl.gz").read_bytes()).decode() == POLISH
    source = json.loads((folder / "source.json").read_text(encoding="utf-8"))
    assert source["downloads"][0]["url"].endswith("/v1/moses/en-pl.txt.zip")
    assert "Tiedemann" in source["citation"]
    names = [f"opus/Books/en-pl/train.{lang}.gz" for lang in ("pl", "en")]
    assert list(open_corpus(names, src_lang="pl", tgt_lang="en").pairs())[1] == ("Tak.", "Yes.")
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["opus"]
    web.requests.clear()
    assert succeed("data", "fetch", "opus:Books/pl-en").stdout == f"{folder}\n"
    assert web.requests == [], "it is here: OPUS is not asked"


def test_a_version_has_a_folder_of_its_own_and_texts_that_do_not_match_none(web: Web, tmp_path: Path) -> None:
    fetched = succeed("data", "fetch", "opus:Books/v0/en-pl", "--to", tmp_path / "data").stdout
    assert fetched == f"{tmp_path / 'data' / 'opus' / 'Books-v0' / 'en-pl'}\n"
    web.put("OPUS-Books/v1/moses/en-pl.txt.zip", archive(**{"Books.en-pl.en": "One.\n"}))
    assert "do not match line by line: 1 in en and 2 in pl" in error_of("data", "fetch", "opus:Books/en-pl")
    assert not (tmp_path / "cache" / "opus" / "Books" / "en-pl").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("opus:Bookz/en-pl", "opus:Bookz/en-pl: OPUS has no such corpus; see: dragoman data list opus:en-pl"),
        ("opus:en-pl", "opus:en-pl: names no corpus; choose one with: dragoman data list opus:en-pl"),
        ("opus:Books/en-en", "opus:Books/en-en: is not a corpus of OPUS; write opus:Books/en-pl"),
    ],
)
def test_a_name_that_is_not_a_corpus_is_one_line(web: Web, name: str, message: str) -> None:
    assert message in error_of("data", "fetch", name)


def test_an_answer_that_is_not_one_of_opus_is_one_line(web: Web) -> None:
    for content in (b"[]", b"no JSON", b'{"corpora": [{"target": "pl"}]}'):
        answer(web)
        (path,) = (path for path in web.pages if path.endswith("version=latest"))
        web.put(path[1:], content)
        assert "is not an answer of OPUS" in error_of("data", "list", "opus:en-pl")
