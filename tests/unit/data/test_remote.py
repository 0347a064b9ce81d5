"""Files of stores: read and written as those of this machine, whole or not at all, on bad networks, too."""

import gzip
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import pytest

from dragoman import remote
from dragoman.data.corpora import open_corpus
from dragoman.data.readers import files
from dragoman.data.readers.files import find_file, format_suffix
from dragoman.errors import ConfigError, DataError, DragomanError, RunError
from dragoman.files import refuse_overwriting, replacing, replacing_folder, write_atomically
from dragoman.remote import N_ATTEMPTS, RemotePath, remote_url
from object_store import Store, serving
from web import Reply, Web
from web import web as web

TEXT = "".join(f"line {i}\n" for i in range(40_000)).encode()
S3_ATTEMPTS = 5
"""How often s3fs itself sends a request."""


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(remote.time, "sleep", lambda seconds: None)
    forget()


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    with serving(monkeypatch) as found:
        yield found


def forget() -> None:
    """Begin a new process, as far as objects are concerned."""
    files._fetch.cache_clear()


def kept(tmp_path: Path) -> list[str]:
    """The files in the cache."""
    return sorted(path.name for path in (tmp_path / "cache").rglob("*") if path.is_file())


# addresses


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("s3://bucket/a/b.gz", "s3://bucket/a/b.gz"),
        (Path("s3://bucket/a"), "s3://bucket/a"),
        ("https://host/a?b=c", "https://host/a?b=c"),
        (RemotePath("gs://bucket/a"), "gs://bucket/a"),
        ("hf:owner/name:train", None),
        ("phrasebook:train", None),
        ("C:/data/train.en", None),
        ("C:\\data\\train.en", None),
        ("train.en", None),
        ("-", None),
    ],
)
def test_an_address_is_told_from_a_path(name: str | Path, url: str | None) -> None:
    assert remote_url(name) == url


def test_a_remote_path_is_written_with_two_slashes_and_its_suffix_ends_before_a_question_mark() -> None:
    path = RemotePath("s3://bucket/a/b.tsv.gz")
    assert f"{path}" == "s3://bucket/a/b.tsv.gz"
    assert (path.name, str(path.parent)) == ("b.tsv.gz", "s3://bucket/a")

    assert format_suffix("https://host/train.tsv.gz?download=1") == ".tsv"


# reading


@pytest.mark.slow
def test_objects_are_read_as_files_are_and_have_their_fingerprint(store: Store, tmp_path: Path) -> None:
    names = []
    for lang, text in (("en", "One.\nTwo.\n"), ("de", "Eins.\nZwei.\n")):
        content = gzip.compress(text.encode())
        (tmp_path / f"train.{lang}.gz").write_bytes(content)
        names.append(store.put(f"a/train.{lang}.gz", content))
    there = open_corpus(names, src_lang="en", tgt_lang="de")
    here = open_corpus([str(tmp_path / Path(name).name) for name in names], src_lang="en", tgt_lang="de")
    assert list(there.pairs()) == list(here.pairs()) == [("One.", "Eins."), ("Two.", "Zwei.")]
    assert there.fingerprint() == here.fingerprint()


@pytest.mark.slow
def test_an_object_is_copied_once_and_again_when_it_has_changed(store: Store, tmp_path: Path) -> None:
    url = store.put("text.en", TEXT)
    first = find_file(url)
    forget()
    assert find_file(url) == first
    assert sum(request.startswith("GET") for request in store.requests) == 1
    store.put("text.en", b"other\n")
    assert find_file(url) == first, "one process sees one version"
    forget()
    assert find_file(url).read_bytes() == b"other\n"
    assert first.read_bytes() == TEXT, "another process may be reading it"


@pytest.mark.slow
def test_several_readers_make_one_copy(store: Store) -> None:
    url = store.put("text.en", TEXT)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(find_file, [url, url])
    assert first == second
    assert sum(request.startswith("GET") for request in store.requests) == 1


@pytest.mark.slow
def test_a_cut_connection_is_retried(store: Store) -> None:
    store.cuts = [("GET", 100_000)] * (S3_ATTEMPTS + 2)
    assert find_file(store.put("text.en", TEXT)).read_bytes() == TEXT
    assert not store.cuts


@pytest.mark.slow
def test_a_connection_that_is_always_cut_is_one_line(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(remote, "N_ATTEMPTS", 2)
    url = store.put("text.en", TEXT)
    store.cuts = [("GET", 100_000)] * 100
    with pytest.raises(DataError, match=r"s3://corpora/text.en: cannot be read \(.+\); check the address"):
        find_file(url)
    assert "text.en" not in kept(tmp_path)


@pytest.mark.slow
def test_a_broken_copy_is_continued(store: Store, tmp_path: Path) -> None:
    url = store.put("text.en", TEXT)
    copy = find_file(url)
    copy.rename(copy.with_name("text.en.part"))
    with copy.with_name("text.en.part").open("r+b") as part:
        part.truncate(250_000)
    store.requests.clear()
    forget()
    assert find_file(url).read_bytes() == TEXT
    assert any(request.startswith("GET bytes=250000-") for request in store.requests)


@pytest.mark.slow
def test_an_object_that_changes_while_it_is_read_is_named(store: Store, tmp_path: Path) -> None:
    url = store.put("text.en", TEXT)
    store.before = lambda: (store.put("text.en", TEXT.upper()), None)[1]
    with pytest.raises(DataError, match=r"s3://corpora/text.en: has changed while it was read"):
        find_file(url)
    assert kept(tmp_path) == []
    assert find_file(url).read_bytes() == TEXT.upper()


@pytest.mark.slow
@pytest.mark.parametrize("key", ["missing.en", "folder"])
def test_what_is_no_object_is_one_line(store: Store, key: str) -> None:
    store.put("folder/text.en", b"One.\n")
    with pytest.raises(DataError, match=f"s3://corpora/{key}: (cannot be read .there is no such|is a fold)"):
        find_file(f"s3://corpora/{key}")


@pytest.mark.slow
def test_missing_credentials_are_one_line(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    url = store.put("text.en", TEXT)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "none")
    with pytest.raises(DataError, match=r"text.en: cannot be read \(Unable to locate credentials\)"):
        find_file(url)
    with pytest.raises(RunError, match=r"out.de: cannot be written \(Unable to locate credentials\)"):
        refuse_overwriting(Path("s3://corpora/out.de"), inputs=[])


@pytest.mark.parametrize(
    ("url", "missing", "named"),
    [
        ("s3://b/k", "s3fs", "s3fs: pip install s3fs"),
        ("gs://b/k", "gcsfs", "gcsfs: pip install gcsfs"),
        ("http://h/k", "aiohttp", "aiohttp: pip install 'dragoman.remote.'"),
    ],
)
def test_the_package_of_a_store_is_named_when_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, url: str, missing: str, named: str
) -> None:
    registry = import_module("fsspec.registry")
    monkeypatch.delitem(registry._registry, url.partition(":")[0], raising=False)
    monkeypatch.delitem(sys.modules, "fsspec.implementations.http", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(DragomanError, match=f"{url} needs the package {named}"):
        find_file(url)


def test_what_is_no_address_that_can_be_read_or_written_is_one_line() -> None:
    with pytest.raises(DataError, match="nowhere://b/k: is not an address that can be read"):
        find_file("nowhere://b/k")
    with pytest.raises(RunError, match=r"https://host/out.de: a web server takes no files"):
        refuse_overwriting(Path("https://host/out.de"), inputs=[])


# the web


@pytest.mark.parametrize("ranges", [True, False])
def test_a_file_of_the_web_is_read(web: Web, monkeypatch: pytest.MonkeyPatch, ranges: bool) -> None:
    content = TEXT * 20  # more than fsspec asks for at once
    web.replies = [Reply(ranges=ranges)] * 10
    assert find_file(web.put("text.en?download=1", content)).read_bytes() == content


def test_a_file_of_the_web_that_is_cut_is_continued(web: Web) -> None:
    url = web.put("text.en", TEXT)
    web.replies = [Reply(drop_after=100_000), Reply(drop_after=200_000)]
    assert find_file(url).read_bytes() == TEXT


def test_a_file_of_the_web_that_changes_is_named(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    url = web.put("text.en", TEXT)
    answer = web.answer

    def changing(handler: object, reply: Reply) -> None:
        answer(handler, reply)  # type: ignore[arg-type]
        if handler.command == "GET":  # type: ignore[attr-defined]
            web.put("text.en", TEXT.upper(), etag='"second"')

    monkeypatch.setattr(web, "answer", changing)
    with pytest.raises(DataError, match=r"text.en: has changed while it was read"):
        find_file(url)


def test_a_missing_page_and_a_missing_server_are_one_line(web: Web) -> None:
    with pytest.raises(DataError, match=r"missing.en: cannot be read \(there is no such object\)"):
        find_file(web.url("missing.en"))
    with pytest.raises(DataError, match=r"http://127.0.0.1:1/text.en: cannot be read \(.*connect"):
        find_file("http://127.0.0.1:1/text.en")


def test_a_file_of_which_only_the_size_is_known_is_not_kept(web: Web, tmp_path: Path) -> None:
    web.put("text.en", b"One.\n", etag="")
    assert find_file(web.url("text.en")).read_bytes() == b"One.\n"
    web.put("text.en", b"Two.\n", etag="")
    forget()
    assert find_file(web.url("text.en")).read_bytes() == b"Two.\n"
    assert kept(tmp_path) == []


# writing


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"", b"One.\n", bytes(12 << 20)], ids=["empty", "small", "multipart"])
def test_an_object_is_written(store: Store, tmp_path: Path, content: bytes) -> None:
    write_atomically(Path("s3://corpora/out/text.de"), content)
    assert store.get("out/text.de") == content
    assert store.uploads() == []
    assert kept(tmp_path) == []


def test_an_object_appears_when_it_is_whole(store: Store, tmp_path: Path) -> None:
    store.put("out.de", b"former")

    def write_half() -> None:
        with replacing(Path("s3://corpora/out.de")) as file:
            file.write(b"half")
            file.flush()
            assert store.get("out.de") == b"former"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_half()
    assert store.get("out.de") == b"former"
    assert kept(tmp_path) == []


@pytest.mark.slow
def test_a_cut_upload_is_retried(store: Store) -> None:
    store.cuts = [("PUT", 0)] * (S3_ATTEMPTS + 2)
    write_atomically(Path("s3://corpora/out.de"), TEXT)
    assert store.get("out.de") == TEXT
    assert not store.cuts
    assert store.uploads() == []


def test_what_cannot_be_uploaded_is_kept(store: Store) -> None:
    path = Path("s3://nobody/out.de")
    with pytest.raises(RunError, match=r"s3://nobody/out.de: cannot be written \(.*kept as (.+)") as caught:
        write_atomically(path, TEXT)
    assert Path(str(caught.value).rpartition(" kept as ")[2]).read_bytes() == TEXT
    assert store.names() == []


@pytest.mark.slow
def test_an_output_that_cannot_be_is_refused_early(store: Store) -> None:
    with pytest.raises(RunError, match=r"s3://nobody/out.de: there is no nobody"):
        refuse_overwriting(Path("s3://nobody/out.de"), inputs=[])


def test_no_input_is_overwritten(store: Store) -> None:
    for name in ("s3://corpora/text.en", "s3a://corpora/text.en"):
        with pytest.raises(ConfigError, match=r"s3a?://corpora/text.en: is an input, which would be lost"):
            refuse_overwriting(Path(name), inputs=["s3://corpora/text.en"])
    with pytest.raises(ConfigError, match="is named for two outputs"):
        refuse_overwriting(Path("s3://corpora/a"), Path("s3://corpora/a"), inputs=[])
    refuse_overwriting(Path("s3://corpora/text.de"), inputs=["s3://corpora/text.en", "-", "text.de"])


def test_a_folder_has_to_be_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with (
        pytest.raises(RunError, match=r"s3://corpora/clean: has to be a folder of this machine"),
        replacing_folder(Path("s3://corpora/clean")),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_the_pauses_between_attempts_double(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(remote.time, "sleep", pauses.append)
    with pytest.raises(DataError, match="connect"):
        find_file("http://127.0.0.1:1/text.en")
    assert pauses == [2.0**i for i in range(N_ATTEMPTS - 1)]
