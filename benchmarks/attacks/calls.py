"""Calls of `dragoman` in forks of this process, and the small runs that they are given."""

from __future__ import annotations

import atexit
import copy
import faulthandler
import gc
import hashlib
import importlib
import multiprocessing.util
import os
import pkgutil
import random
import re
import resource
import select
import shutil
import signal
import stat
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

SECONDS = 60.0
"""Wall time of a call; a third of it on the processor."""
GIB = 1 << 30
SLOW = (
    "torch._dynamo", "sklearn.linear_model", "sklearn.feature_extraction.text", "matplotlib.pyplot",
    "matplotlib.backends.backend_svg", "sacrebleu", "docx",
)  # fmt: skip
"""Packages that commands import when they need them."""

Fault = tuple[str, str]
"""("traceback" | "hang" | "wrong" | "undetectable", what)."""

Show = Callable[[str], None]
"""Takes what --case prints about a case."""


@dataclass
class Ended:
    """Result of a call of `dragoman`."""

    code: int
    """Negative: the signal that ended it."""
    hung: bool
    stdout: bytes
    stderr: str

    def __str__(self) -> str:
        return f"exit code {self.code}\nstdout {self.stdout[:2000]!r}\nstderr {self.stderr[-3000:]}"


def preload() -> None:
    """Import what commands import, so that forks have it."""
    import dragoman

    ours = [module.name for module in pkgutil.walk_packages(dragoman.__path__, "dragoman.")]
    for name in (*(each for each in ours if "standalone" not in each), *SLOW):
        with suppress(ImportError):
            importlib.import_module(name)
    import torch
    import typer

    from dragoman.cli import app

    torch.set_num_threads(1)
    typer.main.get_command = cache(typer.main.get_command)  # forks need not build the commands again
    typer.main.get_command(app)
    gc.collect()
    gc.freeze()  # a collection in a fork would copy every page


def call(
    argv: Sequence[str],
    folder: Path,
    *,
    stdin: bytes | None = b"",
    stdout: str = "file",
    stderr: str = "file",
    seconds: float = SECONDS,
) -> Ended:
    """Run `dragoman *argv` in `folder`. A `stdin` of None is closed.

    `stdout` and `stderr` are "file", "closed", "full" or "broken". A call that serves is sent SIGTERM.
    """
    beside = folder.with_name(folder.name + ".streams")
    for name in ("home", "tmp"):
        (beside / name).mkdir(parents=True, exist_ok=True)
    (beside / "in").write_bytes(stdin or b"")
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            code = _inside(argv, folder, beside, ("closed" if stdin is None else "file", stdout, stderr))
        except BaseException:
            (beside / "err").write_text(f"this script is wrong: {traceback.format_exc()}")
        finally:
            os._exit(code)
    hung = not _ends(pid, seconds, beside / "err", "serving ")
    if hung:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGABRT)  # it says where it is
        _ends(pid, 5.0, beside / "err", "")
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    out, err = (path.read_bytes() if path.is_file() else b"" for path in (beside / "out", beside / "err"))
    return Ended(code, hung or code == -signal.SIGXCPU, out, err.decode(errors="replace"))


def _ends(pid: int, seconds: float, said: Path, stop: str) -> bool:
    """Whether the process ends in time; it is asked to, when it has said `stop`."""
    watched = os.pidfd_open(pid)
    try:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([watched], [], [], min(left, 0.5))[0]:
                return True
            if stop and said.exists() and stop.encode() in said.read_bytes():
                os.kill(pid, signal.SIGTERM)
        return False
    finally:
        os.close(watched)


def _inside(argv: Sequence[str], folder: Path, beside: Path, streams: Sequence[str]) -> int:
    """Return the exit code of the command line in this fork, which looks like a new process to it."""
    os.setsid()
    os.chdir(folder)
    atexit._clear()  # what this script has registered
    atexit.register(multiprocessing.util._exit_function)  # type: ignore[attr-defined]
    hidden = {"HOME": "home", "TMPDIR": "tmp", "XDG_CACHE_HOME": "home", "DRAGOMAN_CACHE": "home"}
    os.environ.update({name: str(beside / place) for name, place in hidden.items()})
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTPS_PROXY"), "http://127.0.0.1:9")
    os.environ.update(nowhere, NO_COLOR="1", COLUMNS="100", WANDB_MODE="disabled")
    tempfile.tempdir = None
    seconds = int(SECONDS / 3)
    limits = {"CORE": (0, 0), "FSIZE": (GIB, GIB), "AS": (12 * GIB,) * 2, "CPU": (seconds, seconds + 2)}
    for name, limit in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), limit)
    opened = [_open(kind, beside / name) for kind, name in zip(streams, ("in", "out", "err"), strict=True)]
    for number, descriptor in enumerate(opened):
        if descriptor is None:
            os.close(number)
        else:
            os.dup2(descriptor, number)
            os.close(descriptor)
    sys.stdin, sys.stdout, sys.stderr = (
        None if kind == "closed" else open(number, "w" if number else "r", closefd=False)  # noqa: SIM115
        for number, kind in enumerate(streams)
    )
    vars(sys).update(__stdin__=sys.stdin, __stdout__=sys.stdout, __stderr__=sys.stderr)
    sys.argv = ["dragoman", *argv]
    sys.modules["__main__"] = importlib.import_module("dragoman.__main__")
    if sys.stderr is not None:
        faulthandler.enable(sys.stderr)
    code = _exit_code()
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, AttributeError):
                print("Exception ignored in: stdout, flushed when leaving", file=sys.stderr, flush=True)
            code = LOST
    return code


def _open(kind: str, path: Path) -> int | None:
    """Return a stream of this kind; None: a closed one."""
    if kind == "closed":
        return None
    if kind == "broken":
        reading, writing = os.pipe()
        os.close(reading)
        return writing
    flags = os.O_RDONLY if path.name == "in" else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    return os.open("full" if kind == "full" else path, flags, 0o600)


def _exit_code() -> int:
    """Return the exit code that Python makes of how the program ends."""
    try:
        sys.modules["__main__"].main()
    except SystemExit as left:
        if left.code is None or isinstance(left.code, int):
            return (left.code or 0) & 255
        print(left.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


USUAL_CODES = {0, 1, 2, 75, 130, 141, 143}
LOST = 120
"""What Python leaves with where stdout or stderr took not all of it."""
NOISE = re.compile(r"Traceback \(most|Exception ignored|\w+Warning: |Fatal Python error|site-packages/")
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What a readable message of one line does not have."""


def faults_of(ended: Ended, *, has_stderr: bool = True, longest: int = 0) -> Iterator[Fault]:
    """Return the faults of any call, whatever it was for; its words had up to `longest` characters."""
    said = ended.stderr + ended.stdout.decode(errors="replace")
    if ended.hung:
        yield "hang", ended.stderr[ended.stderr.rfind("Current thread") :][:1500] or ended.stderr[-300:]
    elif ended.code not in USUAL_CODES and not (ended.code == LOST and not has_stderr):
        yield "traceback", f"exit code {ended.code}: {said[-300:]}"
    elif noise := NOISE.search(ended.stderr):
        yield "traceback", said[noise.start() :].strip()[-600:]
    elif ended.code == 1 and has_stderr:
        lines = ended.stderr.splitlines()
        errors = [line for line in lines if line.startswith("error: ")]
        if len(errors) != 1 or lines[-1:] != errors:
            yield "wrong", f"exit code 1 without one error in the last line: {lines[-3:]}"
        elif CONTROLS.search(errors[0]) or len(errors[0]) > 2000 + 2 * longest:
            said = f"{errors[0][:200]!r}, {len(errors[0])} characters"
            yield "wrong", f"the error is not a readable line: {said}"


TINY = {
    "tokenizer.vocab_size": 300, "model.d_model": 8, "model.n_heads": 2, "model.d_ff": 16,
    "model.n_encoder_layers": 1, "model.n_decoder_layers": 1, "training.max_steps": 4,
    "training.batch_tokens": 200, "training.update_freq": 1, "training.warmup_steps": 1,
    "training.log_every": 2, "training.valid_every": 2, "training.n_threads": 1, "search.beam_size": 2,
    "search.max_length_extra": 3, "search.max_length_factor": 1.0,
}  # fmt: skip
TINY_CLASSIFIER = {
    **{name: value for name, value in TINY.items() if "decoder" not in name and "search" not in name},
    "model.ngram_bits": 8,
}
RECIPE = """
name = "tiny"
[data]
src_lang = "en"
tgt_lang = "de"
train = ["train.en", "train.de"]
valid = ["valid.en", "valid.de"]
[data.test]
tiny = ["test.en", "test.de"]
"""


def settings(values: dict[str, Any]) -> list[str]:
    return [part for name, value in values.items() for part in ("--set", f"{name}={value}")]


class Stage:
    """A folder with small runs and texts, from which each case copies what it needs."""

    TRAIN: ClassVar = ["train", "recipe.toml", *settings(TINY), "--out"]
    STOPPED: ClassVar = ["--set", "training.max_steps=6", "--max-hours", "1e-9"]
    CLASSIFY: ClassVar = ["train", "labelled.tsv", "--task", "classification", *settings(TINY_CLASSIFIER)]
    COMMANDS: ClassVar = {
        "run": [[*TRAIN, "run"], ["evaluate", "run", "--json"]],
        "paused": [[*TRAIN, "paused", *STOPPED]],
        "classifier": [[*CLASSIFY, "--out", "classifier"]],
    }
    """What makes each run."""

    def __init__(self, folder: Path) -> None:
        from dragoman.data.phrasebook import phrases

        self.folder, self.case = folder, folder / "case"
        self.pairs = [(phrase.en, phrase.de) for phrase in phrases("train")[:200]]
        for split, chosen in (("train", slice(160)), ("valid", slice(160, 180)), ("test", slice(180, 190))):
            for lang, lines in zip(("en", "de"), zip(*self.pairs[chosen], strict=True), strict=True):
                (folder / f"{split}.{lang}").write_text("".join(f"{line}\n" for line in lines))
        rng = random.Random(0)
        rows = [f"{rng.choice(['good', 'bad'])}\t{en}\n" for en, _ in self.pairs]
        (folder / "labelled.tsv").write_text("".join(rows))
        (folder / "recipe.toml").write_text(RECIPE)

    def made(self, name: str) -> Path:
        """Return a run, or a file; runs are trained when they are first asked for."""
        if not (self.folder / name).exists():
            for argv in self.COMMANDS[name]:
                ended = call(argv, self.folder, seconds=300)
                if ended.code not in (0, 75):
                    sys.exit(f"dragoman {' '.join(argv)}: exit code {ended.code}\n{ended.stderr}")
        return self.folder / name

    def part(self, number: int) -> Stage:
        """Return a stage with the same runs and texts, whose cases are in a folder of their own."""
        for name in self.COMMANDS:
            self.made(name)
        other = copy.copy(self)
        other.case = self.folder.with_name(f"part-{number}") / "case"
        other.case.parent.mkdir()
        return other

    def fresh(self, *names: str) -> Path:
        """Return an empty folder for a case, with copies of these, and of the texts of the recipe."""
        texts = [f"{split}.{lang}" for split in ("train", "valid", "test") for lang in ("en", "de")]
        sources = [self.made(name) for name in (*names, *(texts if "recipe.toml" in names else []))]
        for path in (self.case, self.case.with_name("case.streams")):
            shutil.rmtree(path, ignore_errors=True)
        self.case.mkdir()
        for source in sources:
            if source.is_dir():
                shutil.copytree(source, self.case / source.name, ignore=shutil.ignore_patterns("*.svg"))
            else:
                shutil.copy(source, self.case)
        return self.case

    def left_in_tmp(self) -> list[str]:
        tmp = self.case.with_name("case.streams") / "tmp"
        return [path.name for path in tmp.rglob("*") if path.is_file()]


def snapshot(folder: Path) -> dict[str, str]:
    """Kind and content of everything under `folder`."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        content = str(path.readlink()) if stat.S_ISLNK(mode) else ""
        if stat.S_ISREG(mode):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        found[str(path.relative_to(folder))] = f"{stat.filemode(mode)} {content}"
    return found
