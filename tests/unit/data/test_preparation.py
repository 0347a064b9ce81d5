"""Preparation: what the sources give becomes the files that recipes name."""

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data import catalog
from dragoman.data.catalog import Dataset, preparation
from dragoman.data.catalog.preparation import prepare, review_key, split_by_sentence
from dragoman.data.readers.files import open_lines
from dragoman.errors import DataError
from originals import iwslt17, originals, pack_tar, pack_zip, sentences, serve, text
from web import Web, serving


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    with serving() as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "set").mkdir()
    return tmp_path / "set"


def made(web: Web, name: str, folder: Path, **changed: bytes) -> tuple[Dataset, list[str]]:
    """Prepares a set in `folder`; the set, and what was reported."""
    dataset = serve(web, name)
    downloads = folder.parent / "downloads"
    downloads.mkdir(exist_ok=True)
    for file, content in {**originals(name), **changed}.items():
        (downloads / file).write_bytes(content)
    reported: list[str] = []
    prepare(dataset, downloads, folder, reported.append)
    return dataset, reported


def lines(path: Path) -> list[str]:
    return list(open_lines(path))


@pytest.mark.parametrize("name", catalog.names())
def test_every_set_becomes_its_files_and_nothing_else_and_the_same_bytes_each_time(
    web: Web, folder: Path, name: str
) -> None:
    dataset, _ = made(web, name, folder)
    expected = {part.path for part in dataset.parts} - {"test_5k.tsv.gz"}  # its texts are not in the original
    assert {p.name for p in folder.iterdir()} == expected
    assert all(lines(p) for p in folder.iterdir())
    again = folder.parent / "again"
    again.mkdir()
    made(web, name, again)
    for path in folder.iterdir():
        assert (again / path.name).read_bytes() == path.read_bytes()
        if path.suffix == ".gz" and name == "imdb":  # neither name nor time
            assert (path.read_bytes()[3], path.read_bytes()[4:8]) == (0, bytes(4))


def test_talks_lose_their_tags_and_the_small_part_is_the_beginning_of_the_usable_pairs(
    web: Web, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "N_TRAIN_SMALL", 4)
    made(web, "iwslt17-en-de", folder)
    train = [f"{s} R&D in en" for s in sentences(12, seed=1)]
    assert lines(folder / "train.en.gz") == train
    assert lines(folder / "train.de.gz")[1] == ""
    assert lines(folder / "train_small.en.gz") == [train[0], *train[2:5]]
    assert lines(folder / "tst2010.de.gz") == ["The R&D  <ää> of de", *sentences(3, seed=3)[1:]]


def longer_talks() -> bytes:
    """The archive of talks, with a line more on one side."""
    with tarfile.open(fileobj=io.BytesIO(iwslt17()["en-de.tgz"])) as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar}  # type: ignore[union-attr]
    files["en-de/train.tags.en-de.de"] += b"one more\n"
    return pack_tar(files)


@pytest.mark.parametrize(
    ("name", "file", "content", "message"),
    [
        ("iwslt17-en-de", "en-de.tgz", longer_talks(), "parallel files must match line by line"),
        ("tatoeba-en-de", "deu-eng.zip", pack_zip({"x.txt": b"a\tb\n"}),
         r"holds no deu\.txt; the source has changed"),
        ("opensubtitles-en-pl", "en-pl.txt.zip", pack_zip({"OpenSubtitles.en-pl.en": b"a\n"}),
         r"nothing downloaded gives OpenSubtitles\.en-pl\.pl; the source has"),
        ("imdb", "aclImdb_v1.tar.gz", pack_tar({"aclImdb/test/neg/0_1.txt": b"\xff"}),
         r"aclImdb/test/neg/0_1\.txt is not UTF-8"),
    ],
)  # fmt: skip
def test_a_source_that_is_not_what_it_was_is_refused(
    web: Web, folder: Path, name: str, file: str, content: bytes, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        made(web, name, folder, **{file: content})


def test_captions_json_lines_and_subtitles_are_left_as_they_are(web: Web, folder: Path) -> None:
    for name in ("multi30k", "translation2019zh", "opensubtitles-en-pl"):
        made(web, name, folder)
    for name, content in originals("multi30k").items():
        assert (folder / name).read_bytes() == content
    record = json.loads(lines(folder / "translation2019zh_train.json")[0])
    assert record == {"english": "Hello.", "chinese": "你好。"}
    assert (folder / "OpenSubtitles.en-pl.pl").read_bytes() == text(sentences(5, seed=5))


def test_everyday_sentences_are_split_and_what_is_left_out_is_counted(web: Web, folder: Path) -> None:
    _, reported = made(web, "tatoeba-en-de", folder)
    assert reported == ["left out 1 lines of deu.txt that have no two columns with text"]
    parts = {name: lines(folder / f"{name}.en.gz") for name in ("train", "val", "test")}
    assert {name: len(part) for name, part in parts.items()} == {"train": 370, "val": 20, "test": 10}
    assert sorted(s for part in parts.values() for s in part) == sorted(sentences(400, seed=0))
    for name, part in parts.items():
        assert lines(folder / f"{name}.de.gz") == [f"deu {s[::-1]}" for s in part]


def test_reviews_become_a_line_each_negative_ones_first_and_the_sample_is_found_by_its_keys(
    web: Web, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, reported = made(web, "imdb", folder)
    test = lines(folder / "test.tsv.gz")
    assert [line.split("\t")[0] for line in test] == ["0"] * 3 + ["1"] * 3
    first = lines(folder / "train.tsv.gz")[0]  # neg/10_7.txt sorts before neg/8_7.txt
    assert first == f"0\ttrain neg {sentences(3, seed=len('trainneg'))[0]}<br />"
    assert reported == ["test_5k.tsv.gz is left out: 5,000 of its 5,000 texts are not in the archive"]
    chosen = [test[4], test[0], test[4]]
    package = folder.parent / "package"
    package.mkdir()
    (package / preparation.SAMPLE).write_text(" ".join(map(review_key, chosen)))
    monkeypatch.setattr(preparation.resources, "files", lambda name: package)
    made(web, "imdb", folder)
    assert lines(folder / "test_5k.tsv.gz") == chosen


# The split

WORD = st.sampled_from(["a", "A", "b", "c", "d ", "e", "f", "g", "h"])
PAIRS = st.lists(st.tuples(WORD, WORD), max_size=60)


@given(PAIRS, st.lists(st.integers(0, 8), max_size=3), st.randoms())
def test_no_sentence_is_in_two_parts_no_pair_is_lost_and_the_order_does_not_matter(
    pairs: list[tuple[str, str]], sizes: list[int], random: Random
) -> None:
    parts = split_by_sentence(pairs, sizes)
    assert sorted(pair for part in parts for pair in part) == sorted(pairs)
    assert all(len(part) <= size for part, size in zip(parts[1:], sizes, strict=True))
    for side in (0, 1):
        sides = [{pair[side].casefold().strip() for pair in part} for part in parts]
        assert sum(map(len, sides)) == len(set().union(*sides))
    again = split_by_sentence(random.sample(pairs, len(pairs)), sizes)
    assert [set(part) for part in parts] == [set(part) for part in again]


def test_parts_are_as_large_as_asked_where_sentences_are_many_and_keep_their_order() -> None:
    pairs = [(f"s{i}", f"t{i}") for i in range(1000)]
    assert list(map(len, split_by_sentence(pairs, [50, 30]))) == [920, 50, 30]
    assert list(map(len, split_by_sentence(pairs, [500, 30]))) == [870, 100, 30]
    for part in split_by_sentence(pairs, [50, 30]):
        assert part == sorted(part, key=pairs.index)
    group = [("Tom", f"t{i}") for i in range(50)]
    assert all(pair[0] != "Tom" for pair in split_by_sentence([*group, *pairs[:950]], [90])[1])
