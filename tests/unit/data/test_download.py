"""Downloads: whatever the network and the server do, the file is right or one line says why it is not."""

import hashlib
import os
import random
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from dragoman.data.catalog import download as module
from dragoman.data.catalog.download import Downloaded, download
from dragoman.errors import DataError, RunError
from dragoman.files import locked
from waiting import LONGEST
from web import Reply, Web
from web import web as web

CONTENT = random.Random(0).randbytes(300_000)
OTHER = random.Random(1).randbytes(310_000)
SHA256 = "sha256:" + hashlib.sha256(CONTENT).hexdigest()
MD5 = "md5:" + hashlib.md5(CONTENT).hexdigest()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "downloads" / "file.bin"


def fetch(*urls: str, to: Path, **options: Any) -> Downloaded:
    with pytest.MonkeyPatch.context() as patch:
        for name, usual in (("sleep", lambda _: None), ("TIMEOUT", LONGEST), ("N_ATTEMPTS", 5)):
            patch.setattr(module, name, options.pop(name, usual))
        return download(urls, to, **options)


def complaint(*urls: str, to: Path, **options: object) -> str:
    with pytest.raises(DataError) as error:
        fetch(*urls, to=to, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def files_beside(path: Path) -> list[str]:
    return sorted(p.name for p in path.parent.iterdir() if p.suffix != ".lock")


def interrupt(web: Web, url: str, path: Path, after: int) -> None:
    """Leaves the first `after` bytes of the file behind."""
    web.replies = [Reply(drop_after=after)]
    complaint(url, to=path, N_ATTEMPTS=1)
    assert (path.parent / "file.bin.part").stat().st_size == after


# The file that arrives


@pytest.mark.parametrize("checksum", ["", SHA256, f"md5:{'0' * 32} {MD5}"])
def test_the_file_is_what_the_server_has(web: Web, path: Path, checksum: str) -> None:
    url = web.put("file.bin", CONTENT)
    assert fetch(url, to=path, checksum=checksum) == Downloaded(path, url, len(CONTENT), SHA256[7:])
    assert path.read_bytes() == CONTENT
    assert files_beside(path) == ["file.bin"]


def test_a_file_that_is_empty_or_whose_size_is_not_known_arrives(web: Web, path: Path) -> None:
    assert fetch(web.put("empty", b""), to=path).size == 0
    for reply in (Reply(length=False), Reply(headers={"Content-Length": "9" * 5000})):
        path.unlink()
        web.replies = [reply]
        assert fetch(web.put("file.bin", CONTENT), to=path, checksum=SHA256).size == len(CONTENT)


def test_a_file_that_is_there_is_checked_and_not_fetched(web: Web, path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    assert fetch(web.put("file.bin", OTHER), to=path, checksum=MD5).url == ""
    assert web.requests == []
    path.write_bytes(OTHER)
    message = complaint(web.url("file.bin"), to=path, checksum=MD5)
    assert f"its md5 is {hashlib.md5(OTHER).hexdigest()}, the published one is {MD5[4:]}" in message
    assert message.endswith("; remove the file to download it again")


def test_the_next_address_is_asked_when_one_does_not_give_the_file(web: Web, path: Path) -> None:
    urls = [web.url("gone"), web.put("wrong", OTHER), web.put("right", CONTENT)]
    assert fetch(*urls, to=path, checksum=SHA256).url == urls[2]


def test_what_several_addresses_answer_alike_is_said_once(web: Web, path: Path) -> None:
    a, b, c = web.url("a"), web.put("b", CONTENT), web.url("c")
    web.replies = [Reply(), Reply(status=403)]
    assert complaint(a, b, c, to=path) == (
        f"file.bin could not be downloaded: {a} and {c}: HTTP 404 Not Found: there is no such file any more; "
        f"{b}: HTTP 403 Forbidden"
    )


# Interruptions


def test_a_dropped_connection_is_continued_where_it_broke(web: Web, path: Path) -> None:
    url = web.put("file.bin", CONTENT)
    web.replies = [Reply(drop_after=100_000), Reply(drop_after=150_000)]
    fetch(url, to=path, checksum=SHA256)
    assert [request.get("Range") for request in web.requests] == [None, "bytes=100000-", "bytes=250000-"]
    assert {request.get("If-Range") for request in web.requests[1:]} == {'"first"'}
    assert files_beside(path) == ["file.bin"]


def reply(**what: Any) -> Callable[[Web, Path], None]:
    return lambda web, path: web.replies.append(Reply(**what))


def left(name: str, content: bytes) -> Callable[[Web, Path], object]:
    return lambda web, path: path.with_name(name).write_bytes(content)


def changed(etag: str, **what: Any) -> Callable[[Web, Path], None]:
    def change(web: Web, path: Path) -> None:
        web.put("file.bin", OTHER, etag=etag)
        web.replies += [Reply(**what)] if what else []

    return change


MEANWHILE: dict[str, tuple[Callable[[Web, Path], object], bytes, int]] = {
    "the server ignores ranges": (reply(ranges=False), CONTENT, 2),
    "the server sends a wrong range": (reply(shift=-10), CONTENT, 3),
    "the file changed": (changed('"second"'), OTHER, 2),
    "the file changed unnoticed": (changed('"first"', headers={"ETag": '"second"'}), OTHER, 3),
    "the part is whole": (left("file.bin.part", CONTENT), CONTENT, 2),
    "the part is too long": (left("file.bin.part", CONTENT + b"more"), CONTENT, 3),
    "another address": (lambda web, path: None, OTHER, 2),
    "the note is damaged": (left("file.bin.part.json", b'["what"]'), CONTENT, 2),
}
"""What happens between two commands, the file that the second one has, and the requests of both."""


@pytest.mark.parametrize("name", MEANWHILE)
def test_an_interrupted_download_becomes_the_file_of_the_server(web: Web, path: Path, name: str) -> None:
    happen, content, n_requests = MEANWHILE[name]
    url = web.put("file.bin", CONTENT)
    interrupt(web, url, path, 70_000)
    happen(web, path)
    fetch(web.put("mirror", OTHER) if name == "another address" else url, to=path)
    assert path.read_bytes() == content
    assert len(web.requests) == n_requests


@pytest.mark.parametrize("etag", ["", 'W/"weak"'])
def test_without_a_trusted_validator_the_download_starts_again(web: Web, path: Path, etag: str) -> None:
    url = web.put("file.bin", CONTENT, etag)
    interrupt(web, url, path, 70_000)
    fetch(url, to=path)
    assert "Range" not in web.requests[-1]
    assert path.read_bytes() == CONTENT
    path.unlink()
    date = "Wed, 21 Oct 2015 07:28:00 GMT"
    web.replies = [Reply(drop_after=100_000, headers={"Last-Modified": date})]
    fetch(url, to=path)
    assert web.requests[-1].get("If-Range") == date


# Servers that fail


def test_pauses_double_up_to_the_longest_unless_the_server_says_how_long(web: Web, path: Path) -> None:
    url = web.put("file.bin", CONTENT)
    pauses: list[float] = []
    web.replies = [Reply(status=503)] * 8
    message = complaint(url, to=path, N_ATTEMPTS=8, sleep=pauses.append)
    assert pauses == [1, 2, 4, 8, 16, 30, 30]
    assert "HTTP 503 Service Unavailable (8 attempts)" in message
    pauses.clear()
    waits = ["7", "600", "Wed, 21 Oct 2015 07:28:00 GMT", "soon"]
    web.replies = [Reply(status=429, headers={"Retry-After": value}) for value in waits]
    fetch(url, to=path, sleep=pauses.append)
    assert pauses == [7, 30, 4, 8]


def test_attempts_that_bring_something_new_do_not_count(web: Web, path: Path) -> None:
    url = web.put("file.bin", CONTENT)
    web.replies = [Reply(drop_after=70_000)] * 4
    fetch(url, to=path, checksum=SHA256, N_ATTEMPTS=2)
    assert len(web.requests) == 5


HTML = {"Content-Type": "text/html; charset=utf-8"}
FAILURES = [
    (Reply(status=404), "HTTP 404 Not Found: there is no such file any more", 1),
    (Reply(status=403), "HTTP 403 Forbidden", 1),
    (Reply(headers=HTML), "answered with a web page in place of the file", 1),
    (Reply(status=416), "HTTP 416: the server has no such range of the file (2 attempts)", 2),
    (Reply(hang_after=0), "the server stopped sending (2 attempts)", 2),
]
"""An answer, what is said of it, and how often is asked: what will not change is not tried again."""


@pytest.mark.parametrize(("answer", "said", "n_requests"), FAILURES, ids=lambda value: str(value)[:30])
def test_a_file_that_does_not_come_is_reported(
    web: Web, path: Path, answer: Reply, said: str, n_requests: int
) -> None:
    url = web.put("file.bin", CONTENT)
    web.replies = [answer] * 2
    message = complaint(url, to=path, TIMEOUT=0.6, N_ATTEMPTS=2)
    assert message == f"file.bin could not be downloaded: {url}: {said}"
    assert len(web.requests) == n_requests
    assert not path.exists()


def test_an_address_that_gives_nothing_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        message = complaint(url, to=path, TIMEOUT=0.1, N_ATTEMPTS=2)
        assert message == f"file.bin could not be downloaded: {url}: no answer in 0.1 s (2 attempts)"
    assert "cannot be reached (Connection refused)" in complaint(url, to=path)
    for url in ("file:///etc/passwd", "http://[", "nonsense"):
        assert "is not an address of the web" in complaint(url, to=path)
    unknown = Mock(side_effect=socket.gaierror(socket.EAI_NONAME, "Name or service not known"))
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    message = complaint("http://data.example/file.bin", to=path)
    assert "the server's name is not known here (Name or service not known); is there a network?" in message


def test_redirects_are_followed_but_not_to_a_local_file_or_out_of_https(web: Web, path: Path) -> None:
    target = web.put("target", CONTENT)
    url = web.put("file.bin", b"")
    for status in (301, 308):
        web.replies = [Reply(status=status, headers={"Location": target})]
        fetch(url, to=path, checksum=SHA256)
        path.unlink()
    web.replies = [Reply(status=302, headers={"Location": "file:///etc/passwd"})]
    assert "HTTP 302" in complaint(url, to=path)
    redirects, request = module._Redirects(), module.Request("https://a/")
    body: Any = None
    with pytest.raises(module._AddressError, match="which is not encrypted"):
        redirects.redirect_request(request, body, 302, "", module.HTTPMessage(), "http://a/")


# Checksums, sizes, disks


def test_a_wrong_checksum_is_told_with_both_sums_and_the_file_is_put_aside(web: Web, path: Path) -> None:
    url = web.put("file.bin", OTHER)
    message = complaint(url, to=path, checksum=SHA256)
    found = hashlib.sha256(OTHER).hexdigest()
    said = f"{url}: its sha256 is {found}, the published one is {SHA256[7:]}; what came is kept as "
    assert said in message
    assert files_beside(path) == ["file.bin.wrong"]
    assert (path.parent / "file.bin.wrong").read_bytes() == OTHER
    message = complaint(url, to=path, checksum=f"{MD5} {SHA256}", checksum_origin="first")
    assert (
        f"the first one is {MD5[4:]}, and its sha256 is {found}, the first one is {SHA256[7:]}; " in message
    )


@pytest.mark.parametrize("length", [True, False])
def test_a_file_over_the_limit_is_refused(web: Web, path: Path, length: bool) -> None:
    web.replies = [Reply(length=length)]
    message = complaint(web.put("file.bin", CONTENT), to=path, max_bytes=200_000)
    assert "the limit of 200,000" in message
    assert not path.exists()


def test_a_full_disk_is_foreseen(web: Web, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = web.put("file.bin", CONTENT)
    (path.parents[1] / "file").write_text("")
    assert "cannot be made" in complaint(url, to=path.parents[1] / "file" / "folder" / "x")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Mock(free=100_000))
    assert complaint(url, to=path) == (
        f"{path.parent}: 0 MB are needed for file.bin and 0 MB are free; make room, or choose another folder"
    )


def test_a_disk_that_fills_up_is_reported_and_what_came_is_kept(web: Web, path: Path) -> None:
    resource = pytest.importorskip("resource")
    url = web.put("file.bin", CONTENT)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        message = complaint(url, to=path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert f"{path}.part: cannot be written (File too large); make room or check the rights, " in message
    fetch(url, to=path, checksum=SHA256)
    assert web.requests[-1]["Range"] == "bytes=100000-"


def test_two_downloads_of_one_file_do_not_mix(web: Web, path: Path) -> None:
    path.parent.mkdir()
    url = web.put("file.bin", CONTENT)
    with locked(path.with_name(".file.bin.lock"), what=path), pytest.raises(RunError) as error:
        fetch(url, to=path)
    assert f"{path}: process {os.getpid()} is writing it; wait until that has ended" in str(error.value)
