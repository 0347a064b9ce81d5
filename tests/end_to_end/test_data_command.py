"""`dragoman data` as its users meet it: what is listed, what is fetched, what is said where."""

import gzip
import json
from pathlib import Path
from urllib.parse import urlencode

import pytest

from commands import error_of, succeed
from dragoman.data import catalog
from dragoman.data.corpora import open_corpus
from originals import pack_zip
from originals import web as web
from web import Web

# list


def test_each_set_is_listed_with_its_place(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    succeed("data", "fetch", "multi30k")
    succeed("data", "fetch", "imdb", "--to", tmp_path / "data")
    (tmp_path / "data" / "small-en-zh").mkdir()
    (tmp_path / "data" / "small-en-zh" / "dev.tsv.gz").write_bytes(b"")
    monkeypatch.setenv("DRAGOMAN_DATA", str(tmp_path / "data"))
    rows = {}
    for line in succeed("data", "list").stdout.splitlines():
        cells = [cell.strip() for cell in line.split("│")[1:-1]]
        if cells and cells[0]:
            rows[cells[0]] = cells[1:]
    assert list(rows) == catalog.names()
    assert rows["multi30k"] == ["en → de", "29,000", "none stated", "cache"]
    assert rows["imdb"] == ["en → label", "25,000", "none stated", "$DRAGOMAN_DATA"]
    assert rows["small-en-zh"][-1] == "partly in $DRAGOMAN_DATA"
    assert rows["tatoeba-en-pl"] == ["en → pl", "grows", "CC BY 2.0 FR", "not here"]


def test_the_list_in_json_says_all_there_is_to_know(web: Web, tmp_path: Path) -> None:
    succeed("data", "fetch", "imdb")
    records = {record["name"]: record for record in json.loads(succeed("data", "list", "--json").stdout)}
    assert list(records) == catalog.names()
    imdb, tatoeba = records["imdb"], records["tatoeba-en-de"]
    assert imdb["folder"] == str(tmp_path / "cache" / "imdb")
    assert (imdb["place"], imdb["missing"], imdb["bytes"]) == ("cache", [], 84_125_825)
    assert imdb["citation"] == catalog.get("imdb").citation
    assert (tatoeba["place"], tatoeba["folder"], tatoeba["bytes"]) == ("not here", None, None)
    assert "tatoeba-en-de/train.de.gz" in tatoeba["files"]


def test_one_set_is_told_about_in_full(web: Web) -> None:
    text = succeed("data", "list", "imdb").stdout
    dataset = catalog.get("imdb")
    for part in (dataset.licence, dataset.homepage, dataset.downloads[0].urls[0], dataset.note):
        assert part in text
    assert "here      no: dragoman data fetch imdb" in text
    assert "no checksum is published" in succeed("data", "list", "multi30k").stdout
    assert json.loads(succeed("data", "list", "imdb", "--json").stdout)[0]["name"] == "imdb"


# fetch


def test_what_is_in_dragoman_data_is_checked_and_not_fetched(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = succeed("data", "fetch", "multi30k", "--to", tmp_path / "data").stderr.splitlines()
    assert any(line.startswith("licence: none stated") for line in first[:2])
    assert first[-1].startswith(f"multi30k is in {tmp_path}/data/multi30k: ")
    monkeypatch.setenv("DRAGOMAN_DATA", str(tmp_path / "data"))
    n_requests = len(web.requests)
    result = succeed("data", "fetch", "multi30k")
    assert result.stdout == f"{tmp_path}/data/multi30k\n"
    assert result.stderr == (
        f"multi30k is in {tmp_path}/data/multi30k: 6 files, all with the sums that SHA256SUMS says\n"
    )
    assert len(web.requests) == n_requests
    (tmp_path / "data" / "multi30k" / "val.en.gz").write_bytes(b"")
    assert "SHA256SUMS says" in error_of("data", "fetch", "multi30k")


def test_mistakes_are_answered_in_one_line(web: Web) -> None:
    assert error_of("data", "fetch", "imbd") == "error: imbd: no data set has this name; did you mean imdb?"
    assert "did you mean imdb?" in error_of("data", "list", "imbd")
    web.put("opensubtitles-en-pl/en-pl.txt.zip", b"PK but not a zip")
    assert "no archive of this kind" in error_of("data", "fetch", "opensubtitles-en-pl")


# opus:


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
    return pack_zip({name: text.encode() for name, text in texts.items()})


def answer(web: Web, *records: dict[str, object], corpus: str = "", version: str = "latest") -> None:
    query = {"source": "en", "target": "pl", "preprocessing": "moses", "version": version}
    query |= {"corpus": corpus} if corpus else {}
    web.put(f"opusapi/?{urlencode(query)}", json.dumps({"corpora": records}).encode())


@pytest.fixture
def opus(web: Web, monkeypatch: pytest.MonkeyPatch) -> Web:
    """A stand-in that answers as the real interface does."""
    monkeypatch.setenv("DRAGOMAN_OPUS", web.url("opusapi/"))
    url = web.put("OPUS-Books/v1/moses/en-pl.txt.zip", archive())
    answer(web, record("Books", 2859, url), record("QED", 70_000, url), record("Tanzil", None, url))
    answer(web, record("Books", 2859, url), corpus="Books")
    answer(web, record("Books", 2000, url, version="v0"), corpus="Books", version="v0")
    answer(web, corpus="Bookz")
    return web


def test_the_corpora_of_a_pair_are_listed_the_largest_first(opus: Web) -> None:
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


def test_a_corpus_is_fetched_once_and_found_by_its_name(opus: Web, tmp_path: Path) -> None:
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
    opus.requests.clear()
    assert succeed("data", "fetch", "opus:Books/pl-en").stdout == f"{folder}\n"
    assert opus.requests == [], "it is here: OPUS is not asked"


def test_a_version_has_a_folder_of_its_own_and_texts_that_do_not_match_none(
    opus: Web, tmp_path: Path
) -> None:
    fetched = succeed("data", "fetch", "opus:Books/v0/en-pl", "--to", tmp_path / "data").stdout
    assert fetched == f"{tmp_path / 'data' / 'opus' / 'Books-v0' / 'en-pl'}\n"
    opus.put("OPUS-Books/v1/moses/en-pl.txt.zip", archive(**{"Books.en-pl.en": "One.\n"}))
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
def test_a_name_that_is_not_a_corpus_is_one_line(opus: Web, name: str, message: str) -> None:
    assert message in error_of("data", "fetch", name)


def test_an_answer_that_is_not_one_of_opus_is_one_line(opus: Web) -> None:
    for content in (b"[]", b"no JSON", b'{"corpora": [{"target": "pl"}]}'):
        answer(opus)
        (path,) = (path for path in opus.pages if path.endswith("version=latest"))
        opus.put(path[1:], content)
        assert "is not an answer of OPUS" in error_of("data", "list", "opus:en-pl")
