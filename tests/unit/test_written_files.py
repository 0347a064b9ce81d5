"""Files are written whole, through links and devices, under a lock, and never over what is read."""

import errno
import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from dragoman import files
from dragoman.errors import ConfigError, RunError
from dragoman.files import locked, refuse_overwriting, replacing, write_atomically


def names(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()]


def test_a_file_is_synced_before_it_takes_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    seen = []

    def fsync(handle: int) -> None:
        seen.append(("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file", path.read_bytes()))

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(path, b"new")
    assert seen == [("file", b"old"), ("folder", b"new")]
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    monkeypatch.setattr(os, "fsync", Mock(side_effect=failure))
    with pytest.raises((RunError, KeyboardInterrupt)) as error:
        write_atomically(path, b"new")
    if isinstance(failure, OSError):
        why = "(No space left on device); free some space, or choose a folder that is yours"
        assert str(error.value) == f"{path}: cannot be written {why}"
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("file/x", r"x: cannot be written \(.+\)"),
        ("none/x", r"x: cannot be written \(.+\)"),
        ("circle", r"circle: cannot be written \("),
        (".", r"cannot be written \(it is a folder\); name a file"),
        ("/dev/full", r"^/dev/full: cannot be written \(No space left on device\)"),
    ],
)
def test_what_cannot_be_written_is_a_run_error(tmp_path: Path, path: str, why: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises(RunError, match=why):
        write_atomically(tmp_path / path, b"x")


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    link, target = tmp_path / "link", tmp_path / "folder" / "target"
    link.symlink_to(target)
    for content in (b"new", b"newer"):  # a link that leads nowhere yet, too
        write_atomically(link, content)
        assert link.is_symlink()
        assert target.read_bytes() == content
    assert names(tmp_path / "folder") == ["target"]


def test_the_mode_of_a_replaced_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    for mode in (0o600, 0o640, 0o664):
        path.chmod(mode)
        write_atomically(path, b"new")
        assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_new_file_has_the_usual_mode_or_the_one_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    write_atomically(tmp_path / "new", b"")
    write_atomically(tmp_path / "secret", b"", mode=0o600)
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in names(tmp_path)}
    assert modes["new"] == modes["usual"]
    assert modes["secret"] == 0o600
    with replacing(tmp_path / "file", mode=0o600):  # which is never readable by others
        (temporary,) = {*tmp_path.iterdir()} - {tmp_path / name for name in modes}
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o600


def test_owner_and_group_of_a_replaced_file_are_kept_as_far_as_the_system_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.touch()
    asked = []

    def chown(name: Path, user: int, group: int) -> None:
        asked.append((user, group))
        if user != -1:
            raise PermissionError

    monkeypatch.setattr(os, "chown", chown)
    write_atomically(path, b"new")
    there = path.stat()
    assert asked == [(there.st_uid, there.st_gid), (-1, there.st_gid)]


def test_writers_of_one_name_do_not_share_a_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with replacing(path) as first, replacing(path) as second:
        first.write(b"first")
        second.write(b"second")
    assert path.read_bytes() == b"first"  # the last one to end
    assert names(tmp_path) == ["file"]
    write_atomically(tmp_path / ("ä" * 127), b"new")  # a long name leaves room for the temporary one


def test_devices_pipes_and_streams_are_written_through(tmp_path: Path) -> None:
    before = Path("/dev/null").stat()
    write_atomically(Path("/dev/null"), b"gone")
    assert os.path.samestat(before, Path("/dev/null").stat())

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_atomically(pipe, b"through")
    reader.join()
    assert read == [b"through"]
    assert names(tmp_path) == ["pipe"]
    with (tmp_path / "file").open("w+b") as file:
        file.write(b"before ")
        file.flush()
        write_atomically(Path(f"/dev/fd/{file.fileno()}"), b"after")
        assert (tmp_path / "file").read_bytes() == b"before after"


@pytest.mark.parametrize("name", ["in", "another spelling", "symbolic", "hard"])
def test_an_output_that_is_an_input_is_refused(tmp_path: Path, name: str) -> None:
    source = tmp_path / "in"
    source.touch()
    (tmp_path / "symbolic").symlink_to(source)
    (tmp_path / "hard").hardlink_to(source)
    out = tmp_path / (f"../{tmp_path.name}/in" if name == "another spelling" else name)
    with pytest.raises(ConfigError) as error:
        refuse_overwriting(tmp_path / "other", out, inputs=["-", source])
    assert str(error.value) == f"{out}: is the input {source}, which would be lost; name another output"
    refuse_overwriting(Path("/dev/null"), tmp_path / "new", inputs=["/dev/null", source, "missing"])


def test_two_outputs_are_two_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"new: is named for two outputs; give each its own file"):
        refuse_overwriting(tmp_path / "new", tmp_path / "new", inputs=[])
    (tmp_path / "old").touch()
    (tmp_path / "link").symlink_to("old")
    with pytest.raises(ConfigError, match=r"link: is named for two outputs"):
        refuse_overwriting(tmp_path / "old", tmp_path / "link", inputs=[])
    refuse_overwriting(Path("/dev/null"), Path("/dev/zero"), None, tmp_path / "new", inputs=[])


def test_a_lock_is_held_by_one_and_names_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locked(path, what="runs/x"):
        for content, holder in (
            (path.read_text(), f"process {os.getpid()}"),
            ("7 elsewhere\n", "process 7 on elsewhere"),
            ("", "another process"),
        ):
            path.write_text(content)
            line = f"^runs/x: {holder} is writing it; wait until that has ended, or choose another$"
            with pytest.raises(RunError, match=line), locked(path, what="runs/x"):
                pass
    assert not path.exists()
    with locked(path, what="runs/x"):
        assert path.read_text() == f"{os.getpid()} {socket.gethostname()}\n"
    nowhere = tmp_path / "no" / "lock"
    with pytest.raises(RunError, match=r"lock: cannot be written \("), locked(nowhere, what="x"):
        pass
    with pytest.MonkeyPatch.context() as patch:  # a file system may be without locks
        patch.setattr("fcntl.flock", Mock(side_effect=OSError(errno.ENOLCK, "No locks available")))
        with locked(path, what="x"), locked(path, what="x"):
            pass


def test_a_lock_waits_for_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    order = []

    def wait() -> None:
        with locked(path, what="x", wait=60):
            order.append("second")

    with locked(path, what="x"):
        waiting = threading.Thread(target=wait)
        waiting.start()
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    code = (
        "import os, signal, sys; from pathlib import Path; from dragoman.files import locked\n"
        "with locked(Path(sys.argv[1]), what='x'): os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == -9
    assert path.exists()
    with locked(path, what="x"):
        pass


def test_a_lock_deleted_while_it_was_opened_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lock"
    acquire = files._acquire

    def late(file: Any) -> bool:
        monkeypatch.setattr(files, "_acquire", acquire)
        path.unlink()
        return acquire(file)

    monkeypatch.setattr(files, "_acquire", late)
    with locked(path, what="x"):
        assert path.exists()
        with pytest.raises(RunError, match="is writing it"), locked(path, what="x"):
            pass


def test_what_a_killed_writer_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "out[1].txt"
    killed = (
        "import os, sys; from pathlib import Path; from dragoman.files import replacing\n"
        "with replacing(Path(sys.argv[1])): os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", killed, path], check=False).returncode == 9
    (left,) = names(tmp_path)
    others = [".out[1].txt.mine.tmp", ".out1.txt.0123456789abcdef.tmp", "out[1].txt", f"{left}.txt"]
    for name in others:
        (tmp_path / name).write_bytes(b"")
    files.remove_unfinished(path)
    assert sorted(names(tmp_path)) == sorted(others)
