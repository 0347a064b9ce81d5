"""Recipes of the real package mtdata; a proxy on this machine answers for the real addresses.

mtdata pins its dependencies, so that it may be in another Python, which DRAGOMAN_MTDATA_PYTHON names.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands import error_of, succeed
from dragoman.data.catalog import mtdata
from dragoman.data.corpora import open_corpus
from web import Page, Reply, Web, serving

pytestmark = pytest.mark.slow
PYTHON = os.environ.get(mtdata.PYTHON, sys.executable)
NC = "http://data.statmt.org/wmt18/translation-task/training-parallel-nc-v13.tgz"
EUROPARL7 = "http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz"
CRAWL = "http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz"
DEV = "http://data.statmt.org/wmt20/translation-task/dev.tgz"
TEST = "http://data.statmt.org/wmt20/translation-task/test.tgz"
EUROPARL10 = "http://www.statmt.org/europarl/v10/training/europarl-v10.de-en.tsv.gz"
ECDC = "http://optima.jrc.it/Resources/ECDC-TM/ECDC-TM.zip"
RECIPE = "mtdata:vaswani_etal_2017_ende"


def tgz(**texts: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, text in texts.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


def sgm(*segments: str) -> str:
    lines = [f'<seg id="{i}">{text}</seg>' for i, text in enumerate(segments, start=1)]
    return "\n".join(["<srcset>", *lines, "</srcset>"])


def tmx(*pairs: tuple[str, str]) -> str:
    units = "".join(
        f'<tu><tuv xml:lang="EN"><seg>{en}</seg></tuv><tuv xml:lang="BG"><seg>{bg}</seg></tuv></tu>'
        for en, bg in pairs
    )
    return f'<?xml version="1.0" encoding="utf-8"?><tmx><body>{units}</body></tmx>'


def crawl(german: str = "Guten Tag.\n\nJa.\n") -> bytes:
    return tgz(**{"commoncrawl.de-en.de": german, "commoncrawl.de-en.en": "Good day.\nLost.\nYes.\n"})


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of mtdata's index, which it makes once, from what is in its package."""
    done = subprocess.run([PYTHON, "-W", "ignore", "-c", "import mtdata"], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"{PYTHON} has no package mtdata; {mtdata.PYTHON} names a Python that has it")
    return tmp_path_factory.mktemp("mtdata")


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: Path) -> Iterator[Web]:
    """A proxy that has the files of the recipe, as far as their addresses are of plain http."""
    for name in ("DRAGOMAN_DATA", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    settings = {"DRAGOMAN_CACHE": str(tmp_path / "cache"), "COLUMNS": "160", "MTDATA": str(index)}
    with serving() as server:
        proxies = dict.fromkeys(("http_proxy", "https_proxy"), server.url("").rstrip("/"))
        for name, value in {**settings, **proxies, mtdata.PYTHON: PYTHON}.items():
            monkeypatch.setenv(name, value)
        europarl = {f"training/europarl-v7.de-en.{lang}": f"{lang} {lang}\n" for lang in ("de", "en")}
        news = "training-parallel-nc-v13/news-commentary-v13.de-en"
        dev = {"dev/newstest2013.en": "A house.\n", "dev/newstest2013.de": "Ein Haus.\n"}
        dev["dev/newstest2014-deen-src.de.sgm"] = sgm("Der  Hund.", "Ja &amp; nein.")
        dev["dev/newstest2014-deen-ref.en.sgm"] = sgm("The dog.", "Yes &amp; no.")
        files = {
            CRAWL: crawl(),
            EUROPARL7: tgz(**europarl),
            NC: tgz(**{f"{news}.de": "Zażółć.\n", f"{news}.en": "Yellow.\n", f"{news}.fr": "other\n"}),
            DEV: tgz(**dev),
        }
        server.pages.update({url: Page(content) for url, content in files.items()})
        yield server


def lines(folder: Path, name: str) -> list[str]:
    return gzip.decompress((folder / name).read_bytes()).decode().splitlines()


def rows(name: str) -> list[list[str]]:
    found = succeed("data", "list", name).stdout.splitlines()
    return [[cell.strip() for cell in row.split("│")[1:-1]] for row in found if row.startswith("│")]


def test_recipes_and_the_data_sets_of_a_pair_are_listed(web: Web, tmp_path: Path) -> None:
    """A recipe in the working directory counts, as it does for mtdata; a module there is not imported."""
    recipe = "- id: mine\n  langs: eng-deu\n  train: Statmt-europarl-10-deu-eng\n"
    Path("mtdata.recipes.mine.yml").write_text(recipe, encoding="utf-8")
    Path("mtdata_mine.py").write_text("raise SystemExit(9)\n", encoding="utf-8")
    listed = rows("mtdata:")
    assert listed[0] == [RECIPE, "en → de", "3", "1", "1", "Transformer - Attention is all you need"]
    assert listed[-1][:5] == ["mtdata:mine", "en → de", "1", "0", "0"]
    assert ["mtdata:Statmt-newstest-2013-eng-deu", "dev", "txt", "data.statmt.org"] in rows(RECIPE)
    found = json.loads(succeed("data", "list", "mtdata:de-en", "--json").stdout)
    (europarl,) = (one for one in found if one["id"] == "Statmt-europarl-10-deu-eng")
    assert europarl["urls"] == [EUROPARL10]
    assert len(found) > 300
    assert web.requests == [], "all of this is in mtdata's package"


def test_a_recipe_is_fetched_and_trained_on(web: Web, tmp_path: Path) -> None:
    done = succeed("data", "fetch", RECIPE)
    folder = tmp_path / "cache" / "mtdata" / "vaswani_etal_2017_ende"
    assert done.stdout == f"{folder}\n"
    assert lines(folder, "train.en.gz") == ["Good day.", "Yes.", "en en", "Yellow."]
    assert lines(folder, "train.de.gz") == ["Guten Tag.", "Ja.", "de de", "Zażółć."]
    assert lines(folder, "dev.en.gz") == ["A house."]
    assert lines(folder, "test.en.gz") == ["The dog.", "Yes & no."], "from German: turned round, unescaped"
    assert lines(folder, "test.de.gz") == ["Der Hund.", "Ja & nein."]
    assert "train: Statmt-commoncrawl_wmt13-1-deu-eng, 2 pairs" in done.stderr
    assert "left out 1 pairs of Statmt-commoncrawl_wmt13-1-deu-eng with an empty side" in done.stderr
    assert [request["path"] for request in web.requests].count(DEV) == 1, "one download for two data sets"
    facts = json.loads((folder / "mtdata.json").read_text(encoding="utf-8"))["data"]
    assert [fact["n"] for fact in facts] == [2, 1, 1, 1, 2]
    source = json.loads((folder / "source.json").read_text(encoding="utf-8"))
    assert "ws-2014-statistical" in source["citation"]
    options = [f"{folder}/{name}.gz" for name in ("train.en", "train.de", "dev.en", "dev.de")]
    command = "dragoman train --src {} --tgt {} --valid-src {} --valid-tgt {}".format(*options)
    assert command.removeprefix("dragoman ") in done.stderr
    names = [f"mtdata/vaswani_etal_2017_ende/train.{lang}.gz" for lang in ("en", "de")]
    assert len(list(open_corpus(names, src_lang="en", tgt_lang="de").pairs())) == 4
    web.requests.clear()
    again = succeed("data", "fetch", RECIPE)
    assert again.stdout == f"{folder}\n"
    assert web.requests == []
    assert not (tmp_path / "cache" / "downloads").exists()


def test_a_download_that_is_cut_is_continued(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    web.replies = [Reply(drop_after=100)]
    succeed("data", "fetch", RECIPE)
    assert [request.get("Range") for request in web.requests][:2] == [None, "bytes=100-"]


def test_what_cannot_be_had_is_named_and_left_out_only_by_choice(web: Web, tmp_path: Path) -> None:
    """One data set of the package's own recipe is in no index of its own; others are of https, not served."""
    web.pages[EUROPARL10] = Page(
        gzip.compress("Hallo.\tHello.\t\t\t\t\t\nTschüss.\tBye.\t\t\t\t\t\n".encode())
    )
    web.pages[TEST] = Page(tgz(**{"sgm/newstest2020-ende-src.en.sgm": sgm("One.")}))
    name = "mtdata:test_02_with_mono"
    error = error_of("data", "fetch", name)
    assert "Statmt-europarl-v10-deu: mtdata's index has no data set of this id" in error
    assert "Statmt-news_crawl-2021-deu: news.2021.de.shuffled." in error
    assert "add --partial" in error
    folder = tmp_path / "cache" / "mtdata" / "test_02_with_mono"
    assert not folder.exists()
    done = succeed("data", "fetch", name, "--partial")
    assert lines(folder, "train.en.gz") == ["Hello.", "Bye."]
    assert "left out: Statmt-newstest_ende-2020-eng-deu: " in done.stderr
    assert "sgm/newstest2020-ende-ref.de.sgm in it, and there is no such file" in done.stderr
    facts = json.loads((folder / "mtdata.json").read_text(encoding="utf-8"))["data"]
    assert [fact["id"] for fact in facts if not fact["problem"]] == ["Statmt-europarl-10-deu-eng"]
    assert all(fact["problem"] for fact in facts if not fact["n"])
    assert sorted(path.name for path in folder.glob("*.gz")) == ["train.de.gz", "train.en.gz"]


def test_sides_that_do_not_match_are_in_no_file(web: Web, tmp_path: Path) -> None:
    web.pages[CRAWL] = Page(crawl("Guten Tag.\n"))
    assert "unequal number of segments" in error_of("data", "fetch", RECIPE)
    succeed("data", "fetch", RECIPE, "--partial")
    assert lines(tmp_path / "cache" / "mtdata" / "vaswani_etal_2017_ende", "train.en.gz") == [
        "en en",
        "Yellow.",
    ]


def test_a_data_set_is_fetched_by_its_id(web: Web, tmp_path: Path) -> None:
    """A translation memory in a zip; what mtdata's reader warns of is passed on."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as zipped:
        zipped.writestr("ECDC-TM/ECDC.tmx", tmx(("One.", "Едно."), ("Two.", "")))
    web.pages[ECDC] = Page(packed.getvalue())
    done = succeed("data", "fetch", "mtdata:EU-ecdc-1-eng-bul", "--to", tmp_path / "data")
    folder = tmp_path / "data" / "mtdata" / "EU-ecdc-1-eng-bul"
    assert (lines(folder, "train.en.gz"), lines(folder, "train.bg.gz")) == (["One."], ["Едно."])
    assert "Skipped 1 entries due to language mismatch" in done.stderr
    assert f"train en → bg: dragoman train --src {folder}/train.en.gz" in done.stderr.replace(
        f"{sys.executable} -m dragoman", "dragoman"
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mtdata:no-such-thing", "mtdata has no recipe and no data set of this name"),
        ("mtdata:xx-yy", "mtdata has no recipe and no data set of this name"),
        ("mtdata:Google-wmt24pp-1-eng-ara_EG", "on the Hugging Face hub: name hf:google/wmt24pp as a corpus"),
    ],
)
def test_what_mtdata_does_not_have_is_one_line(web: Web, name: str, message: str) -> None:
    assert message in error_of("data", "fetch", name)


def test_without_the_package_one_line_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mtdata", None)
    monkeypatch.delenv(mtdata.PYTHON, raising=False)
    assert "mtdata: needs the package mtdata: " in error_of("data", "list", "mtdata:")
    assert "pip install 'dragoman[mtdata]'" in error_of("data", "fetch", "mtdata:not_asked_before")
    monkeypatch.setenv(mtdata.PYTHON, "/no/such/python")
    assert "/no/such/python: cannot be started" in error_of("data", "list", "mtdata:")
