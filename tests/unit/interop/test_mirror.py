"""Models of a mirror: the run comes whole and unchanged, or one line says why not and nothing is left."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from commands import dragoman, error_of, succeed
from dragoman import Translator
from dragoman.data.catalog.download import download
from dragoman.files import new_folder
from dragoman.hub import is_published
from dragoman.interop.mirror import INDEX
from dragoman.interop.publishing import published_files
from dragoman.runs import Run
from release_models import pack
from web import Reply, Web, serving

GOLDEN = Path(__file__).parents[2] / "compatibility" / "0.2"
NAME = "tiny-en-de"
ARCHIVE = f"{NAME}.tar.gz"


def entry(folder: Path, **changes: Any) -> dict[str, Any]:
    """What an index says of the archive in `folder`."""
    content = (folder / ARCHIVE).read_bytes()
    archive = {
        "file": ARCHIVE, "size": len(content), "sha256": hashlib.sha256(content).hexdigest(),
        "n_files": 10, "unpacked": 1 << 20,
    }  # fmt: skip
    score = {"test_set": "test", "metric": "BLEU", "value": 31.07, "interval": [29.8, 32.4]}
    return {
        "name": NAME, "task": "translation", "subject": "en → de", "directions": ["en-de"], "licence": "MIT",
        "scores": [score], "archive": archive | changes.pop("archive", {}), "exports": [], "refused": {},
    } | changes  # fmt: skip


def write_index(folder: Path, *models: dict[str, Any], **more: Any) -> None:
    (folder / INDEX).write_text(json.dumps({"format": 1, "models": models, **more}), encoding="utf-8")


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mirror with the golden translator; the working directory, the cache and the setting are empty."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    pack(published_files(Run.open(GOLDEN / "translation")), NAME, folder)
    write_index(folder, entry(folder))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("DRAGOMAN_MODELS", raising=False)
    monkeypatch.setitem(download.__kwdefaults__, "pause", lambda seconds: None)
    return folder


@pytest.fixture
def web(mirror: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    """A server of the mirror's files, which is the one that the setting names."""
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serving() as server:
        for file in mirror.iterdir():
            server.put(f"models/{file.name}", file.read_bytes())
        monkeypatch.setenv("DRAGOMAN_MODELS", server.url("models/"))
        yield server


def left() -> list[str]:
    """Whatever is in the working directory."""
    return sorted(path.as_posix() for path in Path().rglob("*"))


def requests_of_archive(web: Web) -> list[dict[str, str]]:
    return [request for request in web.requests if request["path"].endswith(ARCHIVE)]


# What arrives


def test_a_fetched_model_translates_as_the_run_does(web: Web, tmp_path: Path) -> None:
    result = succeed("get", NAME)
    assert result.stdout == f"runs/{NAME}\n"
    assert result.stderr.endswith(f"translate runs/{NAME} input.txt\n")
    here, there = Translator.load(f"runs/{NAME}"), Translator.load(GOLDEN / "translation")
    assert here.translate(["the red cat"]) == there.translate(["the red cat"])
    assert list(Path("runs").iterdir()) == [Path("runs") / NAME], "nothing stays beside it"
    assert not (tmp_path / "cache" / "models").exists(), "the archive is not kept"


def test_a_folder_is_a_mirror_too_and_stays_as_it_is(mirror: Path, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in mirror.iterdir()}
    succeed("get", NAME, "--from", mirror, "--out", "deep/er")
    assert Run.open("deep/er").config.name == "golden"
    assert {path.name: path.read_bytes() for path in mirror.iterdir()} == before
    assert not (tmp_path / "cache").exists()


def test_the_next_command_names_a_direction_where_there_are_several(mirror: Path, tiny_many: Path) -> None:
    """Paths are cut from what is published, so a run of other files can be fetched."""
    pack(published_files(Run.open(tiny_many)), NAME, mirror)
    write_index(mirror, entry(mirror, archive={"n_files": 20}))
    assert succeed("get", NAME, "--from", mirror).stderr.endswith(f"runs/{NAME} input.txt --to en-de\n")


def test_a_classifier_is_used_by_classify(mirror: Path) -> None:
    pack(published_files(Run.open(GOLDEN / "classification")), NAME, mirror)
    write_index(mirror, entry(mirror, task="classification"))
    assert f"classify runs/{NAME}" in succeed("get", NAME, "--from", mirror).stderr


def test_the_table_has_task_languages_score_licence_and_size(web: Web, mirror: Path) -> None:
    write_index(mirror, entry(mirror, archive={"size": 12_345_678}))
    web.put(f"models/{INDEX}", (mirror / INDEX).read_bytes())
    table = succeed("models").stdout
    (row,) = [line for line in table.splitlines() if NAME in line]
    cells = [cell.strip() for cell in row.split("│")[1:-1]]
    assert cells == [NAME, "translation", "en → de", "BLEU 31.1 (29.8 – 32.4)", "MIT", "12.3"]


def test_the_list_in_json_is_what_the_index_says(mirror: Path) -> None:
    assert json.loads(succeed("models", "--from", mirror, "--json").stdout) == [entry(mirror)]


def test_scores_of_several_test_sets_are_a_range_and_none_is_a_dash(mirror: Path) -> None:
    scores = [{"test_set": str(v), "metric": "BLEU", "value": v, "interval": None} for v in (31.07, 23.5)]
    write_index(mirror, entry(mirror, scores=scores))
    assert "BLEU 23.5 – 31.1 (2 test sets)" in succeed("models", "--from", mirror).stdout
    write_index(mirror, entry(mirror, scores=scores[:1]))
    assert "BLEU 31.1 " in succeed("models", "--from", mirror).stdout
    write_index(mirror, entry(mirror, scores=[]))
    assert "│ –" in succeed("models", "--from", mirror).stdout


def test_an_index_cannot_command_the_terminal(mirror: Path) -> None:
    write_index(mirror, entry(mirror, licence="\x1b[31m[red]MIT"))
    assert "\\x1b[31m[red]MIT" in succeed("models", "--from", mirror).stdout


def test_what_later_versions_add_to_an_index_is_skipped(mirror: Path) -> None:
    write_index(mirror, entry(mirror, later=1), also=2)
    succeed("get", NAME, "--from", mirror)


# The place


@pytest.mark.parametrize("command", [("models",), ("get", NAME)])
def test_without_a_mirror_one_line_says_what_to_do(mirror: Path, command: tuple[str, ...]) -> None:
    message = error_of(*command)
    assert message.startswith("error: there is no public address of models yet; name a mirror ")
    for remedy in ("--from or DRAGOMAN_MODELS", "hf:user/model", "reproduce"):
        assert remedy in message


def test_the_option_comes_before_the_setting(web: Web, tmp_path: Path) -> None:
    assert f"{tmp_path}/none/{INDEX}: cannot be read" in error_of("models", "--from", tmp_path / "none")
    assert "or DRAGOMAN_MODELS" in error_of("models", "--from", tmp_path / "none")


def test_a_server_without_an_index_is_named(web: Web) -> None:
    message = error_of("get", NAME, "--from", web.url("elsewhere"))
    assert f"{web.url('elsewhere')}/{INDEX}: HTTP 404" in message
    assert message.endswith("; check the address in --from or DRAGOMAN_MODELS")


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("{", "the file: Invalid JSON"),
        ("[" * 100_000, "the file: Invalid JSON"),
        ('{"format": 2, "models": []}', "format: "),
        ('{"format": 1, "models": [{"name": "../x"}]}', "models.0.name: "),
    ],
)
def test_another_file_in_place_of_the_index_is_one_line(mirror: Path, content: str, place: str) -> None:
    (mirror / INDEX).write_text(content)
    assert f"{INDEX}: is not an index of models that this version reads ({place}" in error_of(
        "models", "--from", mirror
    )


@pytest.mark.parametrize("file", ["../secret.tar.gz", "/etc/passwd", "a/b.tar.gz", ".hidden", ""])
def test_an_index_names_only_files_beside_it(mirror: Path, file: str) -> None:
    write_index(mirror, entry(mirror, archive={"file": file}))
    assert "models.0.archive.file: " in error_of("get", NAME, "--from", mirror)


def test_an_index_that_is_too_large_is_refused(mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.interop.mirror.MAX_INDEX", 10)
    assert "has more than 10 bytes" in error_of("models", "--from", mirror)


def test_a_misspelt_name_is_guessed(mirror: Path) -> None:
    assert error_of("get", "tiny-en-d", "--from", mirror).endswith(f"name; did you mean {NAME}?")
    assert error_of("get", "other", "--from", mirror).endswith(f"name; there are {NAME}")


def test_a_name_of_the_hub_needs_no_mirror(mirror: Path) -> None:
    message = error_of("get", "hf:user/model", "--from", mirror)
    assert message.endswith("is a name of the hub, and --from names a mirror; omit one of them")


# The network


def test_a_cut_connection_is_continued(web: Web) -> None:
    web.replies = [Reply(), Reply(drop_after=20_000)]
    succeed("get", NAME)
    assert [request.get("Range") for request in requests_of_archive(web)] == [None, "bytes=20000-"]


def test_the_next_command_continues_a_download_that_was_given_up(web: Web) -> None:
    web.replies = [Reply(), Reply(drop_after=20_000), *[Reply(status=503)] * 4]
    message = error_of("get", NAME)
    assert message.endswith("; run the same command again, or name another mirror")
    assert left() == []
    succeed("get", NAME)
    assert requests_of_archive(web)[-1]["Range"] == "bytes=20000-"


def test_a_file_that_changed_in_between_is_fetched_from_its_beginning(web: Web, mirror: Path) -> None:
    """A server that gives one file another mark is believed; the sum decides."""
    web.replies = [Reply(), Reply(drop_after=20_000), *[Reply(status=503)] * 4]
    error_of("get", NAME)
    web.put(f"models/{ARCHIVE}", (mirror / ARCHIVE).read_bytes(), etag='"second"')
    succeed("get", NAME)


@pytest.mark.parametrize("n_bytes", [-100, 0, 100])
def test_a_file_that_is_not_the_one_of_the_index_is_not_used(web: Web, mirror: Path, n_bytes: int) -> None:
    content = bytearray((mirror / ARCHIVE).read_bytes())
    content[1000] ^= 1
    web.put(f"models/{ARCHIVE}", bytes(content[:n_bytes]) if n_bytes < 0 else bytes(content) + bytes(n_bytes))
    message = error_of("get", NAME)
    assert message.endswith("; run the same command again, or name another mirror")
    assert ("are more than the limit of" if n_bytes > 0 else "the index's one is") in message
    assert left() == []


def test_a_folder_with_another_file_than_its_index_says_is_not_used(mirror: Path) -> None:
    (mirror / ARCHIVE).write_bytes(b"other")
    message = error_of("get", NAME, "--from", mirror)
    assert f"{ARCHIVE}: its sha256 is " in message
    assert message.endswith("; copy the mirror again")
    (mirror / ARCHIVE).unlink()
    assert f"{ARCHIVE}: cannot be read" in error_of("get", NAME, "--from", mirror)
    assert left() == []


# Archives of strangers


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", content: bytes = b"") -> Any:
    one = tarfile.TarInfo(name)
    one.type, one.linkname, one.size = kind, link, len(content)
    return one, io.BytesIO(content)


HOSTILE = {
    "parent": (member(f"{NAME}/../../x"), "leads out of the folder"),
    "absolute": (member("/tmp/x"), "leads out of the folder"),
    "symlink": (member(f"{NAME}/config.toml", tarfile.SYMTYPE, "/etc/passwd"), "not a plain file"),
    "hard link": (member(f"{NAME}/config.toml", tarfile.LNKTYPE, "/etc/passwd"), "not a plain file"),
    "device": (member(f"{NAME}/labels.json", tarfile.CHRTYPE), "not a plain file"),
    "pipe": (member(f"{NAME}/labels.json", tarfile.FIFOTYPE), "not a plain file"),
    "other folder": (member("other/config.toml"), "not a file of a run"),
    "pickle": (member(f"{NAME}/model.pkl"), "not a file of a run"),
    "deep": (member(f"{NAME}/x/config.toml"), "not a file of a run"),
    "bomb": (member(f"{NAME}/scores.json", content=bytes(12_000_000)), "unpacks to more than"),
    "twice": (member(f"{NAME}/config.toml", content=b"x"), "holds config.toml twice"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_archive_is_one_line_and_leaves_nothing(mirror: Path, kind: str) -> None:
    (one, content), reason = HOSTILE[kind]
    golden = (GOLDEN / "translation" / "config.toml").read_bytes()
    with tarfile.open(mirror / ARCHIVE, "w:gz") as tar:
        tar.addfile(*member(f"{NAME}/{'config.toml' if kind == 'twice' else 'README.md'}", content=golden))
        tar.addfile(one, content)
        content.seek(0)
    write_index(mirror, entry(mirror))
    message = error_of("get", NAME, "--from", mirror)
    assert reason in message
    assert message.endswith("do not use it")
    assert left() == []


@pytest.mark.parametrize("limit", [{"n_files": 2}, {"unpacked": 20_000}])
def test_an_archive_that_holds_more_than_the_index_says_is_refused(
    mirror: Path, limit: dict[str, int]
) -> None:
    write_index(mirror, entry(mirror, archive=limit))
    assert f"unpacks to more than {max(limit.values()):,} " in error_of("get", NAME, "--from", mirror)
    assert left() == []


def test_a_damaged_archive_is_one_line(mirror: Path) -> None:
    (mirror / ARCHIVE).write_bytes((mirror / ARCHIVE).read_bytes()[:-5000])
    write_index(mirror, entry(mirror))
    assert "is damaged, cut short" in error_of("get", NAME, "--from", mirror)
    assert left() == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda files: files.pop("config.toml"), "holds no run"),
        (lambda files: files.update({"config.toml": b"task = 1"}), "holds no run"),
        (lambda files: files.pop("model.safetensors"), "holds no model.safetensors"),
        (
            lambda files: files.update(
                {"config.toml": files["config.toml"].replace(b"phrasebook:valid", b"/etc/passwd")}
            ),
            "names /etc/passwd as data.valid; a model from elsewhere cannot choose among your files",
        ),
    ],
)
def test_an_archive_without_a_usable_run_is_refused(
    mirror: Path, change: Callable[[dict[str, Any]], object], reason: str
) -> None:
    files = published_files(Run.open(GOLDEN / "translation"))
    change(files)
    pack(files, NAME, mirror)
    write_index(mirror, entry(mirror))
    assert reason in error_of("get", NAME, "--from", mirror)
    assert left() == []


def test_only_files_of_a_run_are_published_ones() -> None:
    assert all(map(is_published, ("config.toml", "tokenizer/src.json", "README.md")))
    for other in ("x/config.toml", "tokenizer/a/b.json", "tokenizer", "model.pkl", "tokenizer/x.py", ""):
        assert not is_published(other)


# The target


@pytest.mark.parametrize("kind", ["folder", "empty", "file", "link"])
def test_what_is_there_is_never_overwritten_nor_anything_fetched_for_it(web: Web, kind: str) -> None:
    target = Path("runs") / NAME
    target.parent.mkdir()
    if kind == "file":
        target.write_text("mine")
    elif kind == "link":
        target.symlink_to("nowhere")
    else:
        target.mkdir()
    if kind == "folder":
        (target / "mine.txt").write_text("mine")
    before = left()
    message = error_of("get", NAME)
    assert message == (
        f"error: {target}: is there already and stays as it is; remove it, or choose another folder"
    )
    assert left() == before
    assert requests_of_archive(web) == []


def test_a_folder_that_comes_in_between_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "run"

    def make() -> None:
        with new_folder(path) as folder:
            (folder / "ours").write_text("")
            path.mkdir()
            (path / "mine").write_text("")

    with pytest.raises(Exception, match="is there already"):
        make()
    assert [p.relative_to(tmp_path).as_posix() for p in sorted(tmp_path.rglob("*"))] == ["run", "run/mine"]


def test_one_process_at_a_time_makes_a_folder(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with new_folder(path), pytest.raises(Exception, match="is writing it"), new_folder(path):
        pass
    assert path.is_dir()


def test_a_full_disk_is_noticed_before_anything_is_unpacked(
    mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(0, 0, 1000))
    message = error_of("get", NAME, "--from", mirror)
    assert f"1 MB are needed for {NAME} and 0 MB are free; make room" in message
    assert left() == []


def test_a_disk_that_fills_up_leaves_nothing(mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "cannot be written (No space left on device)" in error_of("get", NAME, "--from", mirror)
    assert left() == []


def test_a_target_below_a_file_is_one_line(mirror: Path) -> None:
    Path("file").write_text("mine")
    assert "cannot be written" in error_of("get", NAME, "--from", mirror, "--out", "file/run")
    assert left() == ["file"]


# Kills

KILLED = """
import os, signal, sys
from dragoman.cli import main
from dragoman.interop import mirror
from dragoman import files

def kill(*arguments, **options):
    os.kill(os.getpid(), signal.SIGKILL)

where, n = sys.argv.pop(1), iter(range(100))
write = mirror.write_member
def write_half(path, content, *, archive):
    if next(n) == 1:
        path.write_bytes(b"half")
        kill()
    write(path, content, archive=archive)
if where == "writing":
    mirror.write_member = write_half
elif where == "checking":
    mirror._check = kill
elif where == "renaming":
    original = files.sync
    files.sync = lambda path: kill() if path.suffix == ".safetensors" else original(path)
main()
"""


def killed(where: str, *arguments: object) -> None:
    environment = {**os.environ, "DRAGOMAN_NATIVE": "0"}  # there is nothing compiled in this cache
    command = [sys.executable, "-c", KILLED, where, *map(str, arguments)]
    done = subprocess.run(command, env=environment, check=False)
    assert done.returncode == -9


@pytest.mark.slow
@pytest.mark.parametrize("where", ["writing", "checking", "renaming"])
def test_a_kill_leaves_no_run_and_the_same_command_makes_it(mirror: Path, where: str) -> None:
    killed(where, "get", NAME, "--from", mirror)
    assert not (Path("runs") / NAME).exists()
    succeed("get", NAME, "--from", mirror)
    assert left()[:2] == ["runs", f"runs/{NAME}"], "what the kill left is gone"
    assert Translator.load(f"runs/{NAME}").translate(["the red cat"])


@pytest.mark.slow
def test_a_kill_in_mid_download_is_continued(web: Web, tmp_path: Path) -> None:
    web.replies = [Reply(), Reply(hang_after=20_000)]
    command = [sys.executable, "-m", "dragoman", "get", NAME]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            if any(part.stat().st_size == 20_000 for part in (tmp_path / "cache").rglob("*.part")):
                break
            time.sleep(0.01)
        process.kill()
        process.communicate()
    assert left() == []
    succeed("get", NAME)
    assert requests_of_archive(web)[-1]["Range"] == "bytes=20000-"


def test_help_names_the_setting() -> None:
    assert "$DRAGOMAN_MODELS" in dragoman("get", "--help").output
