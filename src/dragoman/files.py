"""Write files: whole or not at all, through links and devices, one process at a time.

All that Dragoman writes under a name that a user gave goes through here. This module imports no torch.
"""

from __future__ import annotations

import errno
import glob
import importlib
import os
import re
import secrets
import shutil
import socket
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from dragoman.errors import ConfigError, RunError

WINDOWS = os.name == "nt"

LOCKED_BYTE = 1 << 30
"""Which byte of a lock file is locked on Windows: one behind its text, which others may read."""

LOCKS_UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL}
"""What file systems answer that have no locks."""

FOLDERS_NOT_SYNCED = {errno.EACCES, errno.EPERM, errno.EINVAL, errno.ENOTSUP}
"""Errors of syncing a folder that may be written and not read, or whose file system cannot do it."""


def write_atomically(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Put a file at `path`, whole or not at all; it is on the disk when this returns. See `replacing`."""
    with replacing(path, mode=mode) as file:
        file.write(content)


@contextmanager
def replacing(path: Path, *, mode: int | None = None) -> Iterator[BinaryIO]:
    """Open a file that takes the place of `path` when the block ends without an error.

    A link is followed. Devices and pipes are written through, as is stdout, called -. The new file has the
    permissions `mode`; without it, those of the file that it replaces, and its owner if the system allows it.

    Raises:
        RunError: no space or no right to write; nothing is left behind then.
    """
    try:
        target = destination(path)
        if target is None:
            with open_through(path) as stream:
                yield stream
            return
        temporary = target.with_name(f"{_temporary_prefix(target)}{secrets.token_hex(8)}.tmp")
        try:
            with _open(temporary, os.O_CREAT | os.O_EXCL, mode or 0o666) as file:
                _set_rights(temporary, target, mode)
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
            sync(target.parent)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
    except BrokenPipeError:
        raise
    except OSError as error:
        raise cannot_write(path, error) from error


def remove_unfinished(path: Path) -> None:
    """Remove what a process that was killed while it wrote `path` left beside it.

    For those who hold a lock that keeps other writers of `path` off.
    """
    prefix = _temporary_prefix(path)
    with suppress(OSError):
        for temporary in path.parent.glob(f"{glob.escape(prefix)}*.tmp"):
            if re.fullmatch(r"[0-9a-f]{16}\.tmp", temporary.name[len(prefix) :]):
                temporary.unlink()


def _temporary_prefix(path: Path) -> str:
    return f".{path.name[:40]}."


@contextmanager
def room_for(path: Path | None) -> Iterator[None]:
    """Make the folder of the output `path`; it goes again if the block leaves nothing in it. None: stdout.

    Raises:
        RunError: the folder cannot be made.
    """
    missing = [folder for folder in (path.parents if path else ()) if not folder.exists()]
    try:
        if missing:
            make_folder(missing[0])
        yield
    finally:
        for folder in missing:
            with suppress(OSError):  # it holds something
                folder.rmdir()


def cache_folder() -> Path:
    """Where fetched data is kept: $DRAGOMAN_CACHE, or dragoman/data in the user's cache folder."""
    user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("DRAGOMAN_CACHE") or Path(user, "dragoman", "data"))


def recipes_folder() -> Path:
    """Where the recipes are that come with Dragoman: in the package, or beside src in the repository."""
    package = Path(__file__).resolve().parent
    installed = package / "recipes"
    return installed if installed.is_dir() else package.parents[1] / "recipes"


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, unless it is there. RunError: it cannot be made."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from error


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder."""
    files = [each for each in path.rglob("*") if each.is_file()] if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)


def put_in_place(temporary: Path, target: Path) -> None:
    """Rename a finished file, which is on the disk; rights as in `replacing`. OSError: it cannot be."""
    _set_rights(temporary, target, None)
    temporary.replace(target)
    sync(target.parent)


def _set_rights(temporary: Path, target: Path, mode: int | None) -> None:
    """Give `temporary` the permissions `mode`, or those and the owner of `target`, if that exists."""
    try:
        existing = target.stat()
    except OSError:
        existing = None
    if existing is not None and hasattr(os, "chown"):
        for owner in (existing.st_uid, -1):  # a group may be changed by those who may not give files away
            with suppress(OSError):
                os.chown(temporary, owner, existing.st_gid)
                break
    if mode is None and existing is not None:
        mode = stat.S_IMODE(existing.st_mode) & 0o777
    if mode is not None:
        with suppress(OSError):  # some file systems know no permissions
            temporary.chmod(mode)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Make a folder that takes the place of the folder `path` when the block ends without an error.

    A kill leaves the old folder or the new one; one process at a time may be in such a block.

    Raises:
        RunError: another process is in one; no space or no right to write.
    """
    path = path.resolve()
    partial, former, lock = (path.with_name(f".{path.name}.{kind}") for kind in ("partial", "former", "lock"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(lock, what=path):
            if former.exists() and not path.exists():  # killed between the two renames
                former.rename(path)
            for leftover in (former, partial):
                if leftover.exists():
                    shutil.rmtree(leftover)
            partial.mkdir()
            try:
                yield partial
                for inner in sorted(partial.rglob("*"), reverse=True):
                    sync(inner)
                if path.exists():
                    path.rename(former)
                partial.rename(path)
                sync(path.parent)
            finally:
                if former.exists() and not path.exists():
                    former.rename(path)
                for leftover in (former, partial):
                    shutil.rmtree(leftover, ignore_errors=True)
    except OSError as error:
        raise cannot_write(path, error) from error


def destination(path: Path) -> Path | None:
    """Return the file to which writing to `path` leads, behind its links; None for a device or pipe.

    Raises:
        OSError: it is a folder, or its links lead in a circle.
    """
    if _descriptor(path) is not None:
        return None
    try:
        kind = path.stat().st_mode
    except FileNotFoundError:
        kind = stat.S_IFREG
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(kind):
        return None
    return path.resolve() if path.is_symlink() else path


def open_through(path: Path) -> BinaryIO:
    """Open a device, a pipe, or one of this process's streams (-, /dev/stdout, /dev/fd/3) for writing."""
    number = _descriptor(path)
    if number is None:
        return _open(path)
    if number == 1 and sys.stdout is not None:
        sys.stdout.flush()
    return os.fdopen(os.dup(number), "wb")  # opening the path again would write from its beginning


def _open(path: Path, flags: int = 0, mode: int = 0) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | flags | getattr(os, "O_BINARY", 0), mode), "wb")


def _descriptor(path: Path) -> int | None:
    """Return the number of the open stream that `path` names, if it names one."""
    named = {"-": 1, "/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}.get(path.as_posix())
    match = re.fullmatch(r"/(?:dev|proc/self)/fd/(\d+)", path.as_posix())
    return int(match[1]) if match else named


def refuse_overwriting(*outputs: Path | None, inputs: Iterable[str | Path]) -> None:
    """Check that no output is one of the inputs, nor another output, be it under another name or by a link.

    None and - among `outputs` are stdout, "-" among `inputs` stdin. What is no regular file cannot be lost.

    Raises:
        ConfigError: two of them are one file.
    """
    read = [("stdin", _regular(0)) if str(name) == "-" else (name, _regular(name)) for name in inputs]
    written: list[tuple[Path | None, os.stat_result | None]] = []
    for output in (None if path == Path("-") else path for path in outputs):
        state, name = _regular(1 if output is None else output), output or "stdout"
        for source, source_state in read:
            if state and source_state and os.path.samestat(state, source_state):
                raise ConfigError(f"{name}: is the input {source}, which would be lost; name another output")
        for other, other_state in written:
            is_same = (output and output.absolute()) == (other and other.absolute())
            if state and other_state:
                is_same = os.path.samestat(state, other_state)
            if is_same:
                raise ConfigError(f"{name}: is named for two outputs; give each its own file")
        written.append((output, state))


def _regular(file: str | Path | int) -> os.stat_result | None:
    """Return the `os.stat` of a regular file; None = missing, or not a regular file."""
    try:
        state = os.stat(file)  # noqa: PTH116  # takes an open stream's number too
    except (OSError, ValueError):
        return None
    return state if stat.S_ISREG(state.st_mode) else None


def sync(path: Path) -> None:
    """Wait until a file is on the disk, or a folder's list of names, if the system can do that."""
    folder = path.is_dir()
    if folder and WINDOWS:
        return  # it opens no folders
    try:
        handle = os.open(path, os.O_RDWR if WINDOWS else os.O_RDONLY)  # Windows: only what may be written
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if not folder or error.errno not in FOLDERS_NOT_SYNCED:
            raise


def cannot_write(path: Path, error: OSError) -> RunError:
    """Return the complaint about a file, or a folder of files, that cannot be written."""
    reason, remedy = error.strerror or str(error), "free some space, or choose a folder that is yours"
    if isinstance(error, FileExistsError | NotADirectoryError):
        reason, remedy = "a file is where a folder is needed", "choose another path"
    elif isinstance(error, IsADirectoryError):
        reason, remedy = "it is a folder", "name a file"
    return RunError(f"{path}: cannot be written ({reason}); {remedy}")


@contextmanager
def locked(path: Path, *, what: str | Path, wait: float = 0.0) -> Iterator[None]:
    """Hold the lock file `path` until the block ends or this process dies; then the file goes too.

    `what` is what the lock protects, in the words of the error message. `wait`: seconds to wait for another
    process. A file system without locks protects nothing.

    Raises:
        RunError: another process holds the lock; the message names it. Or the file cannot be made.
    """
    deadline = time.monotonic() + wait
    try:
        while (file := _lock(path)) is None:
            if time.monotonic() >= deadline:
                other = holder(path) or "another process"
                raise RunError(f"{what}: {other} is writing it; wait until that has ended, or choose another")
            time.sleep(0.05)
    except OSError as error:
        raise cannot_write(path, error) from error
    try:
        yield
    finally:
        if WINDOWS:  # deletes no open file, nor one that another process has opened by now
            file.close()
        with suppress(OSError):
            path.unlink()
        file.close()


def _lock(path: Path) -> BinaryIO | None:
    """Open and lock a lock file, with this process's number in it. None: another process holds it."""
    while True:
        file = path.open("a+b")
        try:
            if not _acquire(file):
                file.close()
                return None
            if path.exists() and os.path.samestat(path.stat(), os.fstat(file.fileno())):
                file.seek(0)
                if not re.fullmatch(rb"|\d+ \S*\n", file.read(300)):
                    raise RunError(f"{path}: is not a lock file of Dragoman; move it elsewhere")
                file.truncate(0)
                file.write(f"{os.getpid()} {socket.gethostname()}\n".encode())
                file.flush()
                return file
        except BaseException:
            file.close()
            raise
        file.close()  # its holder deleted it in between


def _acquire(file: BinaryIO) -> bool:
    """Lock an open file until it is closed. False: another process holds the lock."""
    try:
        try:
            fcntl: Any = importlib.import_module("fcntl")
        except ImportError:
            msvcrt: Any = importlib.import_module("msvcrt")
            file.seek(LOCKED_BYTE)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            return False
        if error.errno not in LOCKS_UNSUPPORTED:
            raise
    return True


def holder(path: Path) -> str:
    """Return the process that holds the lock file `path`, by the number in it, in words; "" = none."""
    try:
        file = path.open("r+b")
    except OSError:  # there is none, or nobody may lock it here
        return ""
    with file, suppress(OSError, ValueError):
        if _acquire(file):
            return ""
        number, host = file.read().decode().split()
        return f"process {number}" + (f" on {host}" if host != socket.gethostname() else "")
    return "another process"
