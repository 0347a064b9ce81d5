"""The catalogue: every set is described in full, found where it lies, and right when it is fetched."""

import gzip
import hashlib
import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.data import catalog, datasets
from dragoman.data.catalog import Dataset
from dragoman.data.catalog.preparation import STEPS
from dragoman.data.readers.files import find_file
from dragoman.errors import DataError
from originals import originals
from originals import web as web
from web import Reply, Web

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[3]
NAMES = [
    "multi30k", "iwslt17-en-de", "small-en-zh", "translation2019zh", "tatoeba-en-de", "tatoeba-en-pl",
    "tatoeba-en-zh", "opensubtitles-en-pl", "imdb",
]  # fmt: skip


@pytest.fixture
def cached(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that $DRAGOMAN_DATA names, which is not there yet."""
    monkeypatch.setenv("DRAGOMAN_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def fetch(name: str, **options: object) -> tuple[Path, list[str]]:
    """The folder, and what was reported."""
    reported: list[str] = []
    return catalog.fetch(name, report=reported.append, **options), reported  # type: ignore[arg-type]


def complaint(name: str, **options: object) -> str:
    with pytest.raises(DataError) as error:
        fetch(name, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def change(monkeypatch: pytest.MonkeyPatch, name: str, **fields: object) -> Dataset:
    """Changes an entry of the catalogue."""
    changed = replace(catalog.get(name), **fields)  # type: ignore[arg-type]
    entries = {**datasets._catalogue(), name: changed}
    monkeypatch.setattr(datasets, "_catalogue", lambda: entries)
    return changed


def place_by_hand(folder: Path, name: str) -> Path:
    """Puts a set's prepared files into a folder, as a user would who has them from elsewhere."""
    dataset = catalog.get(name)
    (folder / dataset.folder).mkdir(parents=True)
    for part in dataset.parts:
        content = f"{part.path}\n".encode()
        (folder / dataset.folder / part.path).write_bytes(
            gzip.compress(content) if part.path.endswith(".gz") else content
        )
    return folder / dataset.folder


def sum_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


# The entries


@pytest.mark.parametrize("name", NAMES)
def test_every_entry_is_complete_with_plain_names_and_known_sums(name: str) -> None:
    dataset = catalog.get(name)
    assert catalog.names() == NAMES
    assert [catalog.get(other).folder for other in NAMES].count(dataset.folder) == 1
    lines = (dataset.title, dataset.licence, dataset.homepage, dataset.n_examples)
    assert all(value.strip() == value != "" and "\n" not in value for value in lines)
    assert len(dataset.languages) == {"translation": 2, "classification": 1}[dataset.task]
    assert dataset.step in STEPS
    if "\n" in dataset.citation:
        assert re.fullmatch(r"@\w+\{[^\s,]+,\n(  .*\n)+\}", dataset.citation)
    downloads, parts = dataset.downloads, dataset.parts
    for url in (dataset.homepage, *(url for item in downloads for url in item.urls)):
        assert re.fullmatch(r"https://\S+", url)
    assert not all(part.optional for part in parts)
    for files in ([item.file for item in downloads], [part.path for part in parts]):
        assert len(set(files)) == len(files) > 0
        assert all(Path(file).name == file for file in files)
    for checksum in " ".join(item.checksum for item in downloads).split():
        assert re.fullmatch(r"md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}", checksum)
    for checksum in " ".join(part.text_sha256 for part in parts).split():
        assert re.fullmatch(r"[0-9a-f]{64}", checksum)


def test_every_file_that_a_recipe_names_comes_from_a_set() -> None:
    for recipe in ROOT.glob("recipes/*/*.toml"):
        content = tomllib.loads(recipe.read_text(encoding="utf-8"))
        data = content.get("data", {})
        learnt = [] if "distillation" in content else [data.get("train", []), data.get("valid", [])]
        corpora = [*learnt, *data.get("test", {}).values()]
        for file in (file for corpus in corpora for file in corpus):
            assert file.startswith("phrasebook:") or catalog.providing(file), f"{recipe}: {file}"


def test_a_set_is_found_by_its_name_or_by_that_of_a_file_in_recipes() -> None:
    assert complaint("multi30") == "multi30: no data set has this name; did you mean multi30k?"
    assert complaint("xyz") == f"xyz: no data set has this name; there are {', '.join(NAMES)}"
    files = {"iwslt17/tst2013.de.gz": "iwslt17-en-de", "iwslt17/tst2030.de.gz": "", "tst2013.de.gz": ""}
    assert {file: getattr(catalog.providing(file), "name", "") for file in files} == files


# Fetching


@pytest.mark.parametrize("name", NAMES)
def test_a_set_is_fetched_prepared_and_found(web: Web, cached: Path, name: str) -> None:
    assert catalog.locate(name) is None
    folder, _ = fetch(name)
    dataset = catalog.get(name)
    assert folder == cached / dataset.folder == catalog.locate(name)
    for part in dataset.present(folder):
        assert find_file(f"{dataset.folder}/{part.path}") == folder / part.path
    assert [p.name for p in cached.iterdir()] == [dataset.folder]
    sums = dict(line.split("  ")[::-1] for line in (folder / "SHA256SUMS").read_text().splitlines())
    assert sums == {part.path: sum_of(folder / part.path) for part in dataset.present(folder)}


def test_licence_and_source_are_said_before_and_kept_with_the_set(web: Web) -> None:
    folder, reported = fetch("imdb")
    dataset = catalog.get("imdb")
    assert reported[0].startswith("imdb: Film reviews")
    assert reported[1] == f"licence: {dataset.licence}"
    source = json.loads((folder / "source.json").read_text(encoding="utf-8"))
    content = originals("imdb")["aclImdb_v1.tar.gz"]
    assert (source["licence"], source["citation"]) == (dataset.licence, dataset.citation)
    (download,) = source["downloads"]
    assert download == {
        "file": "aclImdb_v1.tar.gz", "url": dataset.downloads[0].urls[0],
        "size": len(content), "sha256": hashlib.sha256(content).hexdigest(),
    }  # fmt: skip


def test_force_fetches_what_is_here_already(web: Web) -> None:
    folder, _ = fetch("multi30k")
    (folder / "train.en.gz").write_bytes(b"broken")
    (folder / "mine").mkdir()
    (folder / "mine" / "clean.en").write_text("a user's own", encoding="utf-8")
    n_requests = len(web.requests)
    fetch("multi30k", force=True)
    assert len(web.requests) == n_requests + 6
    assert [p.name for p in folder.parent.iterdir()] == ["multi30k"]
    fetch("multi30k")  # the sums are right
    assert (folder / "mine" / "clean.en").read_text(encoding="utf-8") == "a user's own"


def test_a_fetch_that_breaks_off_is_continued_by_the_next(web: Web, cached: Path) -> None:
    dataset = catalog.get("imdb")
    (cached / "downloads" / "imdb").mkdir(parents=True)
    (cached / ".imdb.partial" / "official").mkdir(parents=True)  # what a kill left is removed
    part = cached / "downloads" / "imdb" / "aclImdb_v1.tar.gz.part"
    part.write_bytes(originals("imdb")["aclImdb_v1.tar.gz"][:100])
    note = {"url": dataset.downloads[0].urls[0], "mark": '"first"'}
    part.with_name(f"{part.name}.json").write_text(json.dumps(note))
    fetch("imdb")
    assert web.requests[-1]["Range"] == "bytes=100-"
    assert [p.name for p in cached.iterdir()] == ["imdb"]


def test_a_preparation_that_fails_leaves_the_download_and_the_set_that_a_kill_left_without_its_name(
    web: Web, cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = fetch("imdb")
    folder.rename(cached / ".imdb.former")
    parts = tuple(replace(part, n_lines=99) for part in catalog.get("imdb").parts)
    change(monkeypatch, "imdb", parts=parts)
    assert "where 99 belong" in complaint("imdb")
    assert catalog.locate("imdb") == folder
    assert sorted(p.name for p in cached.iterdir()) == ["downloads", "imdb"]


# Checksums


def test_a_download_without_a_published_sum_is_trusted_once(web: Web) -> None:
    folder, reported = fetch("tatoeba-en-de")
    content = originals("tatoeba-en-de")["deu-eng.zip"]
    found = hashlib.sha256(content).hexdigest()
    assert f"deu-eng.zip: no checksum is published; kept for the next time: sha256 {found}" in reported
    _, reported = fetch("tatoeba-en-de", force=True)
    assert not any("no checksum" in line for line in reported)
    web.put("tatoeba-en-de/deu-eng.zip", b"something else")
    message = complaint("tatoeba-en-de", force=True)
    other = hashlib.sha256(b"something else").hexdigest()
    assert f"its sha256 is {other}, the first download's ({folder}/source.json) one is {found}" in message
    assert catalog.locate("tatoeba-en-de") == folder, "what was there stays"
    shutil.rmtree(folder)
    web.put("tatoeba-en-de/deu-eng.zip", content, etag='"third"')
    fetch("tatoeba-en-de")


def test_a_file_that_was_changed_is_found(web: Web) -> None:
    folder, _ = fetch("multi30k")
    expected = sum_of(folder / "val.de.gz")
    (folder / "val.de.gz").write_bytes(gzip.compress(b"other\n"))
    found = sum_of(folder / "val.de.gz")
    assert complaint("multi30k") == (
        f"{folder}/val.de.gz: its sha256 is {found}, SHA256SUMS says {expected}; the file was changed or "
        f"damaged: remove {folder} and run dragoman data fetch multi30k"
    )


def test_sums_beside_the_folder_of_the_set_are_checked_too(web: Web, data: Path) -> None:
    folder = place_by_hand(data, "small-en-zh")
    _, reported = fetch("small-en-zh")
    assert reported == [f"small-en-zh is in {folder}: 2 files, without SHA256SUMS to compare them with"]
    right = sum_of(folder / "dev.tsv.gz")
    (data / "SHA256SUMS").write_text(f"{right} *small-en-zh/dev.tsv.gz\nnonsense\n")
    _, reported = fetch("small-en-zh")
    assert reported[0].endswith("2 files, 1 with the sums that SHA256SUMS says, 1 that it does not name")
    (data / "SHA256SUMS").write_text(f"{'0' * 64}  small-en-zh/dev.tsv.gz\n")
    assert "SHA256SUMS says 000" in complaint("small-en-zh")
    assert web.requests == []


def test_other_text_than_measured_is_named(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    train = gzip.compress(b"")
    parts = [replace(part, text_sha256="0" * 64) for part in catalog.get("small-en-zh").parts]
    change(monkeypatch, "small-en-zh", parts=tuple(parts))
    _, reported = fetch("small-en-zh")
    assert reported[-1] == (
        "note: train.tsv.gz, dev.tsv.gz: other text than that with which results were measured; "
        "scores may differ"
    )
    folder = catalog.locate("small-en-zh")
    assert folder is not None
    (folder / "SHA256SUMS").unlink()
    (folder / "dev.tsv.gz").write_bytes(train[:-4])
    assert "damaged or cut short" in complaint("small-en-zh")


# Where sets are


def test_a_set_that_lacks_a_file_is_complete_for_those_who_do_not_need_it(
    web: Web, cached: Path, data: Path
) -> None:
    folder = place_by_hand(data, "iwslt17-en-de")
    (folder / "train_small.en.gz").unlink()
    assert catalog.locate("iwslt17-en-de") == folder, "an optional file may be missing"
    (folder / "train.de.gz").unlink()
    assert catalog.locate("iwslt17-en-de") is None
    assert catalog.whereabouts(catalog.get("iwslt17-en-de")).missing == ("train.de.gz",)
    assert fetch("iwslt17-en-de", needs=["tst2013.de.gz"], to=data)[0] == folder
    assert fetch("iwslt17-en-de", needs=["train.en.gz", "tst2013.de.gz"])[0] == folder
    assert web.requests == []
    folder, reported = fetch("iwslt17-en-de", needs=["train.de.gz"])
    assert folder == cached / "iwslt17"
    assert f"note: files in {data}/iwslt17 are taken before those in {folder}" in reported


def test_a_folder_that_was_not_fetched_is_not_replaced(web: Web, cached: Path) -> None:
    folder = cached / "multi30k"
    folder.mkdir(parents=True)
    (folder / "train.en.gz").write_bytes(b"mine")
    assert complaint("multi30k") == (
        f"{folder}: is there already and was not fetched; remove it, or choose another folder with --to"
    )
    assert (folder / "train.en.gz").read_bytes() == b"mine"
    assert web.requests == []


# Without a network


def test_without_a_network_one_line_says_what_to_put_where(web: Web, cached: Path) -> None:
    web.replies = [Reply(status=404)]
    url = catalog.get("imdb").downloads[0].urls[0]
    assert complaint("imdb") == (
        f"aclImdb_v1.tar.gz could not be downloaded: {url}: HTTP 404 Not Found: there is no such file any "
        f"more; get the file by other means into {cached}/downloads/imdb and run the same command again, or "
        "put train.tsv.gz into imdb/ in the folder that $DRAGOMAN_DATA names"
    )


def test_a_file_that_the_user_put_there_is_taken_and_kept_or_refused(web: Web, cached: Path) -> None:
    downloads = cached / "downloads" / "imdb"
    downloads.mkdir(parents=True)
    (downloads / "aclImdb_v1.tar.gz").write_bytes(b"not it")
    assert "; remove the file to download it again" in complaint("imdb")
    content = originals("imdb")["aclImdb_v1.tar.gz"]
    (downloads / "aclImdb_v1.tar.gz").write_bytes(content)
    folder, _ = fetch("imdb")
    assert web.requests == []
    assert json.loads((folder / "source.json").read_text())["downloads"][0]["url"] == ""
    assert [p.name for p in downloads.iterdir()] == ["aclImdb_v1.tar.gz"]
