"""The clean copy: what passes, in files of the same layout, all or nothing, and the original as it was."""

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from dragoman.data.corpora import open_corpus
from dragoman.data.doctor import check_corpus, kinds_to_drop, write_clean
from dragoman.data.labelled import open_labelled
from dragoman.errors import DataError

EN = ["one", "two", "two", "", "five", "six <b>"]
DE = ["eins", "zwei", "zwei", "vier", "fünf", "sechs"]
KEPT = [0, 1, 4, 5]


def clean(*files: Path, to: Path, columns: tuple[int | str, int | str] = (0, 1)) -> list[str]:
    """Checks and cleans a corpus; the names of the files written."""
    corpus = open_corpus([str(file) for file in files], src_lang="en", tgt_lang="de", columns=columns)
    written = write_clean(corpus, check_corpus(corpus), to, kinds=kinds_to_drop(), langs=("en", "de"))
    assert sorted(path.name for path in written) == sorted(path.name for path in to.iterdir())
    return [path.name for path in written]


def dropped_in(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "dropped.jsonl").read_text(encoding="utf-8").splitlines()]


def lines(texts: list[str]) -> str:
    return "".join(f"{text}\n" for text in texts)


def test_aligned_files_stay_two_files_of_their_names_and_compression(tmp_path: Path) -> None:
    (tmp_path / "a.en.gz").write_bytes(gzip.compress(lines(EN).encode()))
    (tmp_path / "a.de.xz").write_bytes(lzma.compress(lines(DE).encode()))
    before = [(tmp_path / name).read_bytes() for name in ("a.en.gz", "a.de.xz")]
    out = tmp_path / "new" / "clean"
    names = clean(tmp_path / "a.en.gz", tmp_path / "a.de.xz", to=out)
    assert names == ["a.en.gz", "a.de.xz", "dropped.jsonl"]
    assert gzip.decompress((out / "a.en.gz").read_bytes()).decode() == lines([EN[i] for i in KEPT])
    assert lzma.decompress((out / "a.de.xz").read_bytes()).decode() == lines([DE[i] for i in KEPT])
    assert dropped_in(out) == [
        {"number": 3, "reasons": ["duplicate"], "src": "two", "tgt": "zwei"},
        {"number": 4, "reasons": ["empty"], "src": "", "tgt": "vier"},
    ]
    assert [(tmp_path / name).read_bytes() for name in ("a.en.gz", "a.de.xz")] == before


def test_files_of_one_name_are_told_apart_by_language(tmp_path: Path) -> None:
    for folder, texts in (("x", EN), ("y", DE)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train").write_text(lines(texts), encoding="utf-8")
    names = clean(tmp_path / "x" / "train", tmp_path / "y" / "train", to=tmp_path / "clean")
    assert names == ["en.train", "de.train", "dropped.jsonl"]


CSV = 'en,de\n"one\nmore","eins"\ntwo,zwei\n"two",zwei\n"three\nand",\nfour,vier\n'
TSV = ["n\ten\tde\tx", *(f"{i}\t{en}\t{de}\tmore" for i, (en, de) in enumerate(zip(EN, DE, strict=True)))]
JSONL = [json.dumps({"id": i, "en": en, "de": de}) for i, (en, de) in enumerate(zip(EN, DE, strict=True))]


@pytest.mark.parametrize(
    ("name", "text", "kept", "numbers"),
    [
        ("a.tsv", lines(TSV), lines([TSV[0], *(TSV[1 + i] for i in KEPT)]), [4, 5]),
        ("a.csv", CSV, 'en,de\n"one\nmore","eins"\ntwo,zwei\nfour,vier\n', [5, 6]),
        ("a.jsonl", lines(JSONL), lines([JSONL[i] for i in KEPT]), [3, 4]),
    ],
)
def test_records_go_or_stay_whole_with_all_their_columns(
    tmp_path: Path, name: str, text: str, kept: str, numbers: list[int]
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    clean(tmp_path / name, to=tmp_path / "clean", columns=("en", "de"))
    assert (tmp_path / "clean" / name).read_text(encoding="utf-8") == kept
    assert [one["number"] for one in dropped_in(tmp_path / "clean")] == numbers, "the line each begins on"


def test_other_formats_become_aligned_files(tmp_path: Path) -> None:
    units = "".join(
        f'<tu><tuv xml:lang="en"><seg>{en}</seg></tuv><tuv xml:lang="de"><seg>{de}</seg></tuv></tu>'
        for en, de in zip(["one", "two", "two"], ["eins", "zwei", "zwei"], strict=True)
    )
    (tmp_path / "a.tmx").write_text(f'<tmx version="1.4"><body>{units}</body></tmx>', encoding="utf-8")
    assert clean(tmp_path / "a.tmx", to=tmp_path / "clean") == ["a.en", "a.de", "dropped.jsonl"]
    assert (tmp_path / "clean" / "a.de").read_text(encoding="utf-8") == "eins\nzwei\n"


def test_labelled_text_is_cleaned_too(tmp_path: Path) -> None:
    text = "1\tgood\n0\tbad\n1\tgood\n1\t\n0\tso\n1\tso\n"
    (tmp_path / "a.tsv").write_text(text, encoding="utf-8")
    corpus = open_labelled([str(tmp_path / "a.tsv")])
    write_clean(corpus, check_corpus(corpus), tmp_path / "clean", kinds=kinds_to_drop())
    assert (tmp_path / "clean" / "a.tsv").read_text(encoding="utf-8") == "1\tgood\n0\tbad\n"
    reasons = [one["reasons"] for one in dropped_in(tmp_path / "clean")]
    assert reasons == [["duplicate"], ["empty"], ["conflict"], ["conflict"]]
    reviews = open_labelled(["phrasebook:reviews-valid"])
    (copy, _) = write_clean(reviews, check_corpus(reviews), tmp_path / "r", kinds=kinds_to_drop())
    assert list(open_labelled([str(copy)]).examples()) == list(reviews.examples())


def test_what_is_there_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tb\nc\td\n", encoding="utf-8")
    for folder in (tmp_path, tmp_path / "a.tsv"):
        with pytest.raises(DataError, match="exists already; name a new folder for the clean corpus"):
            clean(tmp_path / "a.tsv", to=folder)
    (tmp_path / "empty").mkdir()
    clean(tmp_path / "a.tsv", to=tmp_path / "empty")
    assert (tmp_path / "a.tsv").read_text(encoding="utf-8") == "a\tb\nc\td\n"


def test_a_copy_that_would_be_cut_short_or_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("one\ntwo\n", encoding="utf-8")
    (tmp_path / "a.de").write_text("eins\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"no clean copy of a corpus that cannot be read .*2 lines"):
        clean(tmp_path / "a.en", tmp_path / "a.de", to=tmp_path / "clean")
    assert not (tmp_path / "clean").exists()
    (tmp_path / "a.tsv").write_text("no \ufffd\tnein\nyes \ufffd\tja\n", encoding="utf-8")
    with pytest.raises(DataError, match="nothing would be left of 2 lines; keep some kinds of findings"):
        clean(tmp_path / "a.tsv", to=tmp_path / "clean")


def test_what_comes_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.tsv").write_text("a\tb\nc\td\n", encoding="utf-8")
    (tmp_path / "clean").mkdir()
    other = tmp_path / "clean" / "other"
    monkeypatch.setattr("dragoman.data.doctor.clean._write", lambda *_: other.touch())
    with pytest.raises(DataError, match="clean: exists already; name a new folder"):
        clean(tmp_path / "a.tsv", to=tmp_path / "clean")
    assert [*(tmp_path / "clean").iterdir()] == [other]
