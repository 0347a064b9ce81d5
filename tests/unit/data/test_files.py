"""Files: found by name, decompressed by suffix, read by line; what is wrong with one is said in one line."""

import builtins
import re
from pathlib import Path

import pytest
import zstandard

from corpus_files import COMPRESS, complaint_of, write
from dragoman.data.datasets import cache_folder
from dragoman.data.readers.files import (
    find_file,
    format_suffix,
    hash_file,
    open_bytes,
    open_lines,
)
from dragoman.errors import DataError

TEXT = "Zwei Büsche.\n\n我们\t😀\r\nlast"
LINES = ["Zwei Büsche.", "", "我们\t😀", "last"]


def complaint(path: Path | str) -> str:
    return complaint_of(lambda: open_lines(Path(path)))


@pytest.mark.parametrize("suffix", COMPRESS)
def test_text_is_the_same_however_compressed_and_a_byte_order_mark_is_none_of_it(
    tmp_path: Path, suffix: str
) -> None:
    path = Path(write(tmp_path / f"text{suffix}", TEXT))
    assert list(open_lines(path)) == LINES
    with open_bytes(path) as file:
        assert file.read() == TEXT.encode()
    write(path, b"\xef\xbb\xbf" + TEXT.encode())
    assert list(open_lines(path)) == LINES


@pytest.mark.parametrize("suffix", COMPRESS)
def test_lines_are_skipped_however_compressed(tmp_path: Path, suffix: str) -> None:
    lines = [f"{i}: {'x' * (i * i % 700)}" for i in range(1000)]
    for end in ("", "\n"):
        path = Path(write(tmp_path / f"text{suffix}", "\n".join(lines) + end))
        for skip in (0, 1, 500, 999, 1000, 1001):
            assert list(open_lines(path, skip=skip)) == lines[skip:]
    path.write_bytes(b"".join(COMPRESS[suffix](f"{i}\n".encode() * 40_000) for i in range(3)))
    assert list(open_lines(path)) == [str(i // 40_000) for i in range(120_000)], "files one behind the other"


def test_only_line_feeds_end_lines(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "text", "a\x0bb\x0cc\x85d\u2028e\rf\ng\n"))
    assert list(open_lines(path)) == ["a\x0bb\x0cc\x85d\u2028e\rf", "g"]


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_a_compressed_file_cut_short_or_with_a_flipped_byte_is_reported(tmp_path: Path, suffix: str) -> None:
    text = "".join(f"{i} {i * i}\n" for i in range(20_000)).encode()
    path = Path(write(tmp_path / f"text{suffix}", text))
    data = path.read_bytes()
    for n in (2, len(data) // 2, len(data) - 4):
        path.write_bytes(data[:n])
        with pytest.raises(DataError, match=r"damaged or cut short \("), open_bytes(path) as file:
            file.read()
        message = complaint(path)
        assert f"{path}: damaged or cut short after line " in message
        assert message.endswith("; compress or fetch it again")
    path.write_bytes(b"plain text\n")  # not what its suffix says
    assert f"{path}: damaged or cut short after line 0" in complaint(path)
    checked = zstandard.ZstdCompressor(write_checksum=True)
    flipped = bytearray(checked.compress(text) if suffix == ".zst" else data)
    flipped[len(flipped) // 2] ^= 0xFF
    path.write_bytes(bytes(flipped))
    message = complaint(path)
    assert any(words in message for words in ("damaged or cut short", "not UTF-8", "a NUL byte"))


def test_invalid_utf8_is_reported_with_line_and_remedy(tmp_path: Path) -> None:
    path = write(tmp_path / "a.de", b"eins\n" + (text := "zwölf – „ “ €\n").encode("cp1252"))
    message = complaint(path)
    assert message.startswith(f"{path} line 2: not UTF-8 (byte 0xf6 at position 3)")
    named = re.search(r"iconv -f (\S+) -t utf-8$", message)
    assert named
    assert Path(path).read_bytes().decode(named[1]).endswith(text)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8"])
def test_a_nul_byte_is_reported_with_its_line_and_utf16_is_not_read_as_garbage(
    tmp_path: Path, encoding: str
) -> None:
    path = write(tmp_path / "a.gz", "one\ntw\0o\n".encode(encoding))
    message = complaint(path)
    assert message.startswith(f"{path} line {2 if encoding == 'utf-8' else 1}: holds a NUL byte; ")
    assert "if the file is UTF-16, convert it with: iconv" in message
    assert message.endswith("remove them with: tr -d '\\000'")


def test_the_format_is_told_by_the_suffix_before_that_of_compression() -> None:
    suffixes = {"a.TSV.GZ": ".tsv", "a.tmx.xz": ".tmx", "a": "", "a.gz": "", "d/b.x.csv.zst": ".csv"}
    assert {name: format_suffix(name) for name in suffixes} == suffixes


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders in which names are looked up, in their order."""
    found = [tmp_path / name for name in ("here", "data", "cache")]
    for folder in found:
        folder.mkdir()
    monkeypatch.chdir(found[0])
    monkeypatch.setenv("DRAGOMAN_DATA", str(found[1]))
    monkeypatch.setenv("DRAGOMAN_CACHE", str(found[2]))
    return found


@pytest.mark.parametrize("first", [0, 1, 2])
def test_a_name_is_looked_up_here_then_in_the_data_folder_then_in_the_cache(
    folders: list[Path], first: int
) -> None:
    for folder in folders[first:]:
        write(folder / "x", "")
    assert find_file("x").resolve() == folders[first] / "x"


def test_a_file_that_is_nowhere_is_reported_with_all_places(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, data, cache = folders
    with pytest.raises(DataError) as error:
        find_file("none")
    assert str(error.value) == (
        f"none: no such file in {here}, in $DRAGOMAN_DATA = {data}, nor in {cache}; check the path"
    )
    with pytest.raises(DataError, match=r": is a folder; name a file in it$"):
        find_file(str(here))
    monkeypatch.delenv("DRAGOMAN_DATA")
    with pytest.raises(DataError, match=r"in \$DRAGOMAN_DATA, which is not set, nor in "):
        find_file("none")
    with pytest.raises(DataError, match="/none: no such file; check the path"):
        find_file("/none")
    with pytest.raises(DataError, match=r"; get it with: dragoman data fetch multi30k$"):
        find_file("multi30k/train.en.gz")


def test_fetched_data_is_kept_in_the_cache_folder_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DRAGOMAN_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert cache_folder() == Path.home() / ".cache" / "dragoman" / "data"
    monkeypatch.setenv("XDG_CACHE_HOME", "there")
    assert cache_folder() == Path("there") / "dragoman" / "data"
    monkeypatch.setenv("DRAGOMAN_CACHE", "mine")
    assert cache_folder() == Path("mine")


def test_a_file_that_cannot_be_opened_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.tsv", "a\tb\n")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(builtins, "open", refuse)
    assert complaint(path) == f"{path}: cannot be read (Permission denied); check the path and its rights"
    with pytest.raises(DataError, match="Permission denied"):
        hash_file(Path(path))
    with pytest.raises(DataError, match="Permission denied"), open_bytes(Path(path)):
        pass
