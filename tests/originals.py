"""Small files in the formats of the named data sets' originals, and a catalogue that fetches them."""

import gzip
import hashlib
import io
import json
import random
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from dragoman.data import catalog, datasets
from dragoman.data.catalog import Dataset
from web import PROXIES, Web, serving

WORDS = ["red", "blue", "green", "big", "small", "old", "cat", "dog", "bird", "house", "tree", "river"]


def sentences(n: int, *, seed: int) -> list[str]:
    """Different sentences, capitalised, with a full stop."""
    chosen = random.Random(seed)
    return [f"{' '.join(chosen.choices(WORDS, k=6)).capitalize()} {i}." for i in range(n)]


def pack_zip(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, content in files.items():
            zipped.writestr(name, content)
    return buffer.getvalue()


def pack_tar(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def text(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def multi30k() -> dict[str, bytes]:
    sizes = {"train": 29, "val": 4, "test_2016_flickr": 3}
    return {
        f"{name}.{lang}.gz": gzip.compress(text([f"{s} ({lang})" for s in sentences(n, seed=n)]))
        for name, n in sizes.items()
        for lang in ("en", "de")
    }


def iwslt17(n_train: int = 12) -> dict[str, bytes]:
    files = {"en-de/README": b"Tagged files look like XML and are not."}
    tests = ("dev2010", "tst2010", "tst2011", "tst2012", "tst2013", "tst2014", "tst2015")
    for lang in ("en", "de"):
        talk = [f"<url>http://www.ted.com/{lang}</url>", "<keywords>a, b</keywords>", "<talkid>1</talkid>"]
        body = [f" {s} R&D in {lang} " for s in sentences(n_train, seed=1)]
        body[1] = "" if lang == "de" else body[1]
        files[f"en-de/train.tags.en-de.{lang}"] = text([*talk, *body[:5], *talk, *body[5:]])
        for k, name in enumerate(tests, start=2):
            segments = [f'<seg id="{i}"> {s} </seg>' for i, s in enumerate(sentences(k, seed=k), start=1)]
            xml = ['<?xml version="1.0"?>', "<mteval>", '<doc docid="1">', "<title>R&amp;D</title>"]
            segments[0] = f'<seg id="1"> The R&amp;D  &lt;&#228;&#xE4;&gt; of {lang} </seg>'
            files[f"en-de/IWSLT17.TED.{name}.en-de.{lang}.xml"] = text(
                [*xml, *segments, "</doc>", "</mteval>"]
            )
    return {"en-de.tgz": pack_tar(files)}


def small_en_zh() -> dict[str, bytes]:
    sizes = {"train": 7, "dev": 2}
    return {f"{k}.txt": text([f"{s}\t{s[::-1]}" for s in sentences(n, seed=n)]) for k, n in sizes.items()}


def translation2019zh() -> dict[str, bytes]:
    record = json.dumps({"english": "Hello.", "chinese": "你好。"}, ensure_ascii=False)
    names = ("translation2019zh_train.json", "translation2019zh_valid.json")
    return {"translation2019zh.zip": pack_zip({name: text([record] * 3) for name in names})}


def tatoeba(code: str, n: int = 400) -> dict[str, bytes]:
    lines = [f"{s}\t{code} {s[::-1]}\tCC-BY 2.0 (France) #{i}" for i, s in enumerate(sentences(n, seed=0))]
    files = {"_about.txt": b"From the Tatoeba Project.", f"{code}.txt": text([*lines, "no columns"])}
    return {f"{code}-eng.zip": pack_zip(files)}


def opensubtitles() -> dict[str, bytes]:
    names = ("OpenSubtitles.en-pl.en", "OpenSubtitles.en-pl.pl", "OpenSubtitles.en-pl.ids", "README")
    return {"en-pl.txt.zip": pack_zip({name: text(sentences(5, seed=5)) for name in names})}


def imdb() -> dict[str, bytes]:
    files = {"aclImdb/README": b"", "aclImdb/train/unsup/0_0.txt": b"not labelled"}
    for split in ("test", "train"):
        for label in ("pos", "neg"):
            for i, s in enumerate(sentences(3, seed=len(split + label))):
                files[f"aclImdb/{split}/{label}/{10 - i}_7.txt"] = f"{split} {label}\n{s}<br />".encode()
    return {"aclImdb_v1.tar.gz": pack_tar(files)}


@cache  # archives hold the time at which they were made
def originals(name: str) -> dict[str, bytes]:
    """What the sources of a data set give, by the names of the downloads."""
    makers = {
        "multi30k": multi30k,
        "iwslt17-en-de": iwslt17,
        "small-en-zh": small_en_zh,
        "translation2019zh": translation2019zh,
        "tatoeba-en-de": lambda: tatoeba("deu"),
        "tatoeba-en-pl": lambda: tatoeba("pol"),
        "tatoeba-en-zh": lambda: tatoeba("cmn"),
        "opensubtitles-en-pl": opensubtitles,
        "imdb": imdb,
    }
    return makers[name]()


def serve(web: Web, name: str) -> Dataset:
    """The catalogue's entry of this name, changed so that the small originals come from `web`."""
    dataset = datasets._catalogue()[name]
    content = originals(name)
    downloads = []
    for item in dataset.downloads:
        data = content[item.file]
        checksum = f"md5:{hashlib.md5(data).hexdigest()}" if item.checksum else ""
        url = web.put(f"{name}/{item.file}", data)
        downloads.append(replace(item, urls=(url,), checksum=checksum))
    sizes = {"val.": 20, "test.": 10} if name.startswith("tatoeba") else {}
    parts = [
        replace(
            part, n_lines=next((n for k, n in sizes.items() if part.path.startswith(k)), 0), text_sha256=""
        )
        for part in dataset.parts
    ]
    return replace(dataset, downloads=tuple(downloads), parts=tuple(parts))


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    """A server with the small originals, a catalogue that points at it, and no data sets anywhere."""
    for name in (*PROXIES, "DRAGOMAN_DATA"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "100")
    with serving() as server:
        entries = {name: serve(server, name) for name in catalog.names()}
        monkeypatch.setattr(datasets, "_catalogue", lambda: entries)
        yield server
