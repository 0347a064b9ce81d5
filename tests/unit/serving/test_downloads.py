"""Files that wait to be fetched: bounded, unguessable, and gone in the end."""

import errno
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.serving.downloads import MAX_STEM, Downloads, safe_name
from dragoman.serving.errors import HTTPError


def made(tmp_path: Path, *, seconds: float = 100.0, max_bytes: int = 100) -> Downloads:
    return Downloads(seconds=seconds, max_bytes=max_bytes, within=tmp_path)


def test_a_file_is_fetched_by_the_name_it_was_kept_under(tmp_path: Path) -> None:
    downloads = made(tmp_path)
    first, second = downloads.keep("a b.de.txt", b"one"), downloads.keep("a b.de.txt", b"two")
    assert first != second
    assert downloads.fetch(first) == ("a b.de.txt", b"one") == downloads.fetch(first)
    assert downloads.fetch(second) == ("a b.de.txt", b"two")
    assert downloads.fetch("a b.de.txt") is None
    assert downloads.fetch(second[:-1]) is None


def test_files_go_when_their_time_is_over_and_the_oldest_when_there_is_no_room(tmp_path: Path) -> None:
    downloads = made(tmp_path, seconds=50, max_bytes=120)
    kept = [downloads.keep(f"{i}.txt", b"x" * 40) for i in range(3)]
    for age, name in zip((51, 20, 10), kept, strict=True):
        moment = time.time() - age
        os.utime(downloads.folder / name, (moment, moment))
    with pytest.raises(HTTPError, match=r"121 bytes are more than the 120 that limits\.kept_bytes allows"):
        downloads.keep("b.txt", b"x" * 121)
    assert [downloads.fetch(name) is not None for name in kept] == [False, True, True]
    assert not (downloads.folder / kept[0]).exists()
    newest = [downloads.keep(f"{i}.txt", b"x" * 40) for i in (3, 4)]
    assert [downloads.fetch(name) is not None for name in (*kept[1:], *newest)] == [False, True, True, True]


@pytest.mark.parametrize(("number", "status"), [(errno.ENOSPC, 507), (errno.EROFS, 503)])
def test_a_file_that_cannot_be_written_is_refused_without_its_path_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, status: int
) -> None:
    downloads = made(tmp_path)

    def write_half(path: Path, content: bytes) -> None:
        with path.open("wb") as file:
            file.write(content[:1])
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(Path, "write_bytes", write_half)
    with pytest.raises(HTTPError) as refused:
        downloads.keep("a.txt", b"content")
    assert refused.value.status_code == status
    assert str(tmp_path) not in refused.value.detail
    assert "/v1/documents answers with the file itself" in refused.value.detail
    assert list(downloads.folder.iterdir()) == []


def test_only_the_process_that_made_the_folder_deletes_it(tmp_path: Path) -> None:
    downloads = made(tmp_path)
    assert list(tmp_path.iterdir()) == [], "nothing is there before the first file"
    downloads.keep("a.txt", b"x")
    child = os.fork()
    if child == 0:  # another worker
        downloads.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert list(tmp_path.iterdir()) == [downloads.folder]
    downloads.close()
    assert list(tmp_path.iterdir()) == []


@given(st.text(st.characters(exclude_categories=[])))
def test_a_safe_name_is_one_that_a_folder_and_a_header_take(name: str) -> None:
    safe = safe_name(name)
    assert 0 < len(safe.encode()) <= 255 - 33
    assert not set(safe) & set('/\\"\r\n\0;%')
    assert safe not in (".", "..")
    assert safe_name(safe) == safe
    assert safe_name("C:\\letters\\żółw (1).docx") == "żółw (1).docx"
    assert safe_name("a" * 100 + ".txt") == "a" * MAX_STEM + ".txt"
