"""Compiled parts of a search (native.c): built with the machine's C compiler when first wanted, and kept.

They need GCC or Clang. Processors with AVX-512 or AVX2 have code of their own, all others the compiler's
vectors. Without them, PyTorch computes the same, slower.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from dragoman.files import WINDOWS, cache_folder

SOURCE = Path(__file__).with_suffix(".c")
FLAGS = ("-O3", "-fno-math-errno", "-shared", "-fPIC")
AVX512 = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "fma", "f16c", "bmi2")
AVX2 = ("avx2", "fma", "f16c", "bmi2")
"""Features of a processor, as Linux calls them and compilers with -m before it."""
HELPFUL = {
    AVX512: {"avx512_vnni": "-mavx512vnni", "avx512_bf16": "-mavx512bf16"},
    AVX2: {"avx_vnni": "-mavxvnni"},
    (): {},
}
"""Features that the source uses beside these (products in int8, in bf16), and their flags."""
BUILT = SOURCE.with_name("compiled")
"""Libraries that came with the installation; see `build`."""
DIGEST_BYTES = 32
"""Bytes behind a compiled library: the SHA-256 of what stands before them."""
SECONDS = 120
"""Maximum time of the compiler."""
SWITCH = "DRAGOMAN_NATIVE"
"""Environment variable: 0 leaves compiled parts aside; avx2 takes those for AVX2 beside AVX-512, too, and any
those for any processor."""

Pointer, Int, Long, Double = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_double
FUNCTIONS = {
    "dragoman_kinds": (Int, []),
    "dragoman_processor": (ctypes.c_char_p, []),
    "dragoman_packed_bytes": (Long, [Int, Int, Int]),
    "dragoman_pack": (None, [Int, Pointer, Pointer, Int, Int, Pointer]),
    "dragoman_begin": (
        Pointer,
        [Pointer, Pointer, Int, Pointer, Pointer, Int, Pointer, Pointer, Int, Pointer],
    ),
    "dragoman_encode": (Int, [Pointer, Pointer, Pointer, Int, Pointer]),
    "dragoman_end": (None, [Pointer]),
    "dragoman_step": (Int, [Pointer, Pointer, Pointer, Int, Pointer, Pointer, Pointer]),
    "dragoman_top": (Int, [Pointer, Long, Long, Int, Int, Pointer, Pointer]),
    "dragoman_beam": (Int, [Pointer, Pointer, Long, Int, Long]),
}
"""Result and arguments of each function."""


class Native(NamedTuple):
    """The compiled parts, or why there are none."""

    library: ctypes.CDLL | None
    reason: str
    """Why not; "" where they are there."""

    def __str__(self) -> str:
        if self.library is None:
            return f"by PyTorch ({self.reason})"
        return f"compiled, with {self.library.dragoman_processor().decode()}"


class _UnavailableError(Exception):
    """Why there are no compiled parts."""


@cache
def native() -> Native:
    """Return the compiled parts; the first call on a machine compiles them, in some seconds."""
    try:
        library = ctypes.CDLL(str(_built()))
    except (_UnavailableError, OSError) as error:
        return Native(None, str(error))
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return Native(library, "")


def build(folder: Path = BUILT) -> list[Path]:
    """Compile for every processor of this kind, into `folder`: for images without a compiler."""
    flags = [
        _flags(frozenset({*needed, *some}))
        for needed, helpful in HELPFUL.items()
        for n in range(len(helpful) + 1)
        for some in combinations(helpful, n)
    ]
    made = [folder / _name(each) for each in flags]
    for library, each in zip(made, flags, strict=True):
        _compile(_compiler(), each, library)
    for path in (folder, *made):
        path.chmod(0o755)  # another user than the builder runs an image
    return made


def _built() -> Path:
    if os.environ.get(SWITCH) == "0":
        raise _UnavailableError(f"{SWITCH}=0")
    flags = _flags(_features())
    library = BUILT / _name(flags)
    if not _is_whole(library):
        library = cache_folder() / "native" / _name(flags)
    if not _is_whole(library):
        _compile(_compiler(), flags, library)
    for path in (library, library.parent):  # that somebody else than this user, or root, can have written
        status = path.stat()
        if status.st_uid not in (0, os.getuid()) or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise _UnavailableError(f"{path}: others can write it; delete it")
    if not _is_whole(library):  # to load it would end the process
        raise _UnavailableError(f"{library}: is damaged; delete it")
    return library


def _flags(features: frozenset[str]) -> list[str]:
    """Return the compiler's flags for the widest vectors that a processor with these features has."""
    choices = {"avx2": (AVX2, ()), "any": ((),)}.get(os.environ.get(SWITCH, ""), (AVX512, AVX2, ()))
    needed = next(some for some in choices if features.issuperset(some))
    helpful = [flag for name, flag in HELPFUL[needed].items() if name in features]
    return [*FLAGS, *(f"-m{name}" for name in needed), *helpful]


def _name(flags: list[str]) -> str:
    """Return the name of the library of this source, compiled with these flags."""
    content = SOURCE.read_bytes() + repr(flags).encode()
    return f"{hashlib.sha256(content).hexdigest()[:32]}.so"


def _compiler() -> list[str]:
    compiler = shlex.split(os.environ.get("CC", "")) or [shutil.which("cc") or shutil.which("gcc") or "cc"]
    if shutil.which(compiler[0]) is None:
        raise _UnavailableError("there is no C compiler; install gcc")
    return compiler


def _is_whole(file: Path) -> bool:
    """Whether a library is there, with its digest behind it."""
    if not file.exists():
        return False
    content = file.read_bytes()
    return hashlib.sha256(content[:-DIGEST_BYTES]).digest() == content[-DIGEST_BYTES:]


def _features() -> frozenset[str]:
    """Return what an x86-64 processor can do, as Linux calls it; nothing, of others and elsewhere."""
    if WINDOWS:
        raise _UnavailableError("not under Windows")
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return frozenset()
    with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as lines:
        flags = next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), [])
    return frozenset(flags)


def _compile(compiler: list[str], flags: list[str], library: Path) -> None:
    library.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        made = Path(folder) / library.name
        command = [*compiler, *flags, "-o", str(made), str(SOURCE), "-lm"]
        try:
            done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _UnavailableError(f"{compiler[0]}: {error}") from error
        if done.returncode:
            first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
            raise _UnavailableError(f"{compiler[0]} does not compile {SOURCE.name}: {first}")
        made.chmod(0o700)  # whatever the user's mask
        digest = hashlib.sha256(made.read_bytes()).digest()
        with made.open("ab") as file:
            file.write(digest)  # a loader reads nothing behind the library
        made.replace(library)
