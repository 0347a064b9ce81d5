"""What Windows does not have is not needed: training, translating and writing files do without it.

A process of Linux is made to look like one of Windows, as far as Python's modules go: no modules and signals
of POSIX, no folder can be opened, only a file open for writing can be synced, and no open file can be
renamed, replaced or deleted.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tiny import TINY, write_corpus

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

WINDOWS = """
import errno, fcntl, multiprocessing, os, platform, shutil, signal, subprocess, sys, tempfile, types

flags_of, accessible, really = fcntl.fcntl, os.O_ACCMODE, types.SimpleNamespace(**vars(os))
import sacrebleu, torch  # those for Linux need what is taken away next

shutil._use_fd_functions = False
platform.machine = lambda: "AMD64"  # x86_64 there
tempfile.TemporaryFile = tempfile.NamedTemporaryFile
for name in ("fcntl", "grp", "pwd", "resource", "termios", "_posixshmem"):
    sys.modules[name] = None
missing = {
    os: "fork forkpty fchmod fchown chown lchown mkfifo mknod setsid killpg getpgid getuid geteuid getgid "
        "sched_getaffinity sysconf statvfs pread register_at_fork O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NOCTTY",
    signal: "SIGALRM SIGCHLD SIGHUP SIGKILL SIGQUIT SIGUSR1 SIGUSR2 alarm pthread_kill pthread_sigmask "
            "setitimer sigwait",
}
for module, names in missing.items():
    for name in names.split():
        delattr(module, name)


def fsync(number):
    if flags_of(number, 3) & accessible == os.O_RDONLY:  # F_GETFL
        raise OSError(errno.EBADF, "Bad file descriptor")


def open_(path, *args, **more):
    if os.path.isdir(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))
    return really.open(path, *args, **more)


def unless_open(act):
    def checked(*paths, **more):
        names = {os.path.realpath(path) for path in paths if not os.path.isdir(path)}
        for number in os.listdir("/proc/self/fd"):
            if os.path.realpath(f"/proc/self/fd/{number}") in names:
                raise PermissionError(errno.EACCES, "in use by another process", *map(str, paths[:1]))
        return act(*paths, **more)

    return checked


os.fsync, os.open = fsync, open_
for name in ("rename", "replace", "unlink", "remove"):
    setattr(os, name, unless_open(getattr(really, name)))
msvcrt = types.ModuleType("msvcrt")
msvcrt.LK_NBLCK, msvcrt.locking = 2, lambda number, mode, n_bytes: None
sys.modules["msvcrt"] = msvcrt

import dragoman.files

dragoman.files.WINDOWS = True
"""

COMMANDS = """
from pathlib import Path

from dragoman.__main__ import main
from dragoman.files import locked, replacing_folder, write_atomically


def dragoman_(*words):
    sys.argv = ["dragoman", *words]
    try:
        main()
    except SystemExit as end:
        assert not end.code, (words, end.code)


for text in (b"old", b"new"):
    write_atomically(Path("file"), text)
    with replacing_folder(Path("folder")) as folder:
        write_atomically(folder / "file", text)
assert (Path("file").read_bytes(), Path("folder/file").read_bytes()) == (b"new", b"new")
with locked(Path("lock"), what="a lock"):
    pass
assert not Path("lock").exists()

dragoman_("train", "--src", "train.en", "--tgt", "train.de", "--out", "run", *sys.argv[1:])
Path("in.txt").write_text("red cat\\nblue dog\\n")
dragoman_("translate", "run", "in.txt")
dragoman_("translate", "run", "in.txt", "--out", "bulk.txt")
dragoman_("translate", "run", "in.txt", "--protect", "all", "--out", "lines.txt")
assert len(Path("bulk.txt").read_text().splitlines()) == len(Path("lines.txt").read_text().splitlines()) == 2
"""


def test_windows_trains_and_translates(tmp_path: Path) -> None:
    write_corpus(tmp_path, "train", 200, seed=1)
    settings = [*TINY, "training.max_steps=2", "training.valid_every=1", "data.n_held_out=20"]
    options = [word for setting in settings for word in ("--set", setting)]
    done = subprocess.run(
        [sys.executable, "-c", WINDOWS + COMMANDS, *options],
        cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    run, *translations = done.stdout.splitlines()
    assert (run, len(translations)) == ("run", 2)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {
        "train.en", "train.de", "train.tsv", "file", "folder", "run", "in.txt", "bulk.txt", "lines.txt",
    }  # fmt: skip
