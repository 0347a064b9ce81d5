"""`dragoman data` as its users meet it: what is listed, what is fetched, what is said where."""

import json
from pathlib import Path

import pytest

from commands import error_of, succeed
from dragoman.data import catalog
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
