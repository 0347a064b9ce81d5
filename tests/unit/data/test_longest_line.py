"""A line has a greatest length in every format, and what is longer is not read to its end."""

import json
import re
import tracemalloc
from functools import partial
from itertools import repeat
from pathlib import Path

import pytest
import zstandard

from corpus_files import COMPRESS, complaint_of, write
from dragoman.bulk.input import line_chunks
from dragoman.data.corpora import open_corpus
from dragoman.data.readers.files import LONGEST_LINE, longest_line, open_lines
from dragoman.documents import DocumentFile
from dragoman.errors import ConfigError, DataError

MOST = 200
TOO_LONG = f"is longer than {MOST:,} bytes; cut it into lines, or set DRAGOMAN_LONGEST_LINE to more"


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_LONGEST_LINE", str(MOST))


def tmx(*segments: str, note: str = "") -> str:
    variants = "".join(
        f'<tuv xml:lang="{lang}"><seg>{text}</seg></tuv>' for lang, text in zip("ab", segments, strict=False)
    )
    return f'<tmx version="1.4"><header/><body>{note}\n<tu>{variants}</tu></body></tmx>'


def parquet(**columns: object) -> bytes:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue())


def files(n: int) -> dict[str, tuple[str | bytes, str]]:
    """A file of each format whose second text has `n` bytes, and where that is."""
    text, plain = "é" * (n // 2) + "x" * (n % 2), "x" * n
    return {
        "a.tsv": (f"a\tb\nc\t{text[1:]}\n", "line 2"),
        "a.csv": (f'a,b\n1,2\n"{plain[:140]}\n","{plain[140:280]}\n{plain[280:]}"\n', "line 3"),
        "a.jsonl": (
            json.dumps({"a": "x", "b": "y"}) + "\n" + f'{{"a": "x", "b": "{text[10:]}"}}\n',
            "line 2",
        ),
        "a.tmx": (tmx("x" * (n - 80 - n % 2), note=""), "line 2"),
        "a.parquet": (parquet(a=["x", "y"], b=["z", text]), "row 2"),
        "b.parquet": (parquet(t=[{"a": "x", "b": "y"}, {"a": text, "b": "y"}]), "row 2"),
    }


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("compressed", [".gz", ".zst"])
@pytest.mark.parametrize("name", files(2))
def test_a_corpus_with_a_longer_text_is_refused_by_file_and_place(
    tmp_path: Path, name: str, compressed: str
) -> None:
    columns = {"a.tsv": (0, 1), "a.tmx": (0, 1), "b.parquet": ("t.a", "t.b")}.get(name, ("a", "b"))
    for n in (MOST - 20, 2 * MOST):
        content, where = files(n)[name]
        path = write(tmp_path / f"{name}{compressed}", content)
        corpus = open_corpus([path], src_lang="a", tgt_lang="b", columns=columns)
        if n < MOST:
            assert name == "a.tmx" or list(corpus.pairs())
        else:
            assert complaint_of(corpus.pairs) == f"{path} {where}: {TOO_LONG}"


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_the_bound_is_exact_and_line_ends_do_not_count(tmp_path: Path, end: str) -> None:
    fine, long = (f"a\n{'x' * n}{end}".encode() for n in (MOST, MOST + 1))
    path = Path(write(tmp_path / "a.gz", fine))
    assert [len(line) for line in open_lines(path)] == [1, MOST]
    path = Path(write(tmp_path / "b.txt", long))
    assert complaint_of(lambda: open_lines(path)) == f"{path} line 2: {TOO_LONG}"
    for block in (1, 1000):
        blocks = [[data[i : i + block] for i in range(0, len(data), block)] for data in (fine, long)]
        chunks = line_chunks(blocks[0], name="stdin")
        assert [len(line) for chunk in chunks for line in chunk] == [1, MOST]
        assert complaint_of(partial(line_chunks, blocks[1], name="stdin")) == f"stdin, line 2: {TOO_LONG}"


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_a_line_of_a_small_file_does_not_fill_the_memory(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"bomb.txt{suffix}"
    if suffix == ".zst":
        path.write_bytes(zstandard.compress(b"a" * (1 << 26)))
    else:
        path.write_bytes(64 * COMPRESS[suffix](b"a" * (1 << 20)))
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=f"line 1: is longer than {LONGEST_LINE:,} bytes"):
            list(open_lines(path))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    with pytest.raises(DataError, match=r"^stdin, line 1: is longer than"):
        list(line_chunks(repeat(b"a" * (1 << 16)), name="stdin"))
    assert peak < 40 * LONGEST_LINE  # of 64; a block of .zst may be 32


@pytest.mark.parametrize(
    "filling",
    ["<!--{}-->", '<note a="{}"/>', "<tu>{}</tu>", "<tu><tuv><seg>{}</seg></tuv></tu>"],
    ids=["comment", "attribute", "variants", "segment"],
)
def test_a_memory_holds_no_more_in_a_tag_or_a_unit(tmp_path: Path, filling: str) -> None:
    text = "<tuv/>" * (1 << 20) if filling == "<tu>{}</tu>" else "x" * (3 << 20)
    path = write(tmp_path / "a.tmx.gz", tmx("a", "b", note=filling.format(text)))
    with pytest.raises(DataError, match=f"^{path} line 1: is longer than {LONGEST_LINE:,} bytes"):
        list(open_corpus([path], src_lang="a", tgt_lang="b").pairs())
    path = write(tmp_path / "b.tmx", tmx("a", "b", note="<x>" * 101))
    with pytest.raises(DataError, match=f"^{path} line 1: more than 100 elements within one another"):
        list(open_corpus([path], src_lang="a", tgt_lang="b").pairs())


def test_a_length_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("many", "0", "9" * 20, "٣"):
        monkeypatch.setenv("DRAGOMAN_LONGEST_LINE", value)
        with pytest.raises(ConfigError, match=f"^DRAGOMAN_LONGEST_LINE = {value}: is not a number of bytes"):
            longest_line()


@pytest.mark.usefixtures("short")
def test_a_document_with_a_longer_paragraph_is_refused() -> None:
    for name, content, where in (
        ("a.txt", "one\n{}\n", "line 2"),
        ("a.html", "<p>one<p>{}", "paragraph 2"),
        ("a.tmx", tmx("{}"), "unit 1"),
    ):
        fine, long = (content.format("x " * n).encode() for n in (MOST // 2 - 1, MOST))
        assert DocumentFile.read(name, fine, ("a", "b")).sentences
        with pytest.raises(DataError, match=f"^{name}, {where}: {re.escape(TOO_LONG)}$"):
            DocumentFile.read(name, long, ("a", "b"))
