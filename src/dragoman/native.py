"""The compiled parts of a search (native.c): the library beside this file, which an installation builds.

It holds a variant for each kind of processor; without it PyTorch computes the same, slower.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

from dragoman.files import WINDOWS

SOURCE = Path(__file__).with_suffix(".c")
"""Of a checkout; an installation has none."""
LIBRARY = Path(__file__).with_name(f"libdragoman.{'dll' if WINDOWS else 'so'}")
VARIANTS = ("avx512_bf16", "avx512", "avx2_vnni", "avx2", "dotprod", "any")
"""Of the library, those for the fewest processors first; see setup.py."""
SWITCH = "DRAGOMAN_NATIVE"
"""Environment variable: 0 leaves the library aside; a variant takes that one, if the processor has it."""

Pointer, Int, Long, Double = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_double
FUNCTIONS = {
    "dragoman_kinds": (Int, []),
    "dragoman_shift": (Int, []),
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

    library: SimpleNamespace | None
    """The functions of the best variant, by their names in `FUNCTIONS`."""
    reason: str
    """Why there are none; "" if there are."""
    variants: tuple[str, ...] = ()
    """Those that this processor can run, the best first."""

    def __str__(self) -> str:
        return f"by PyTorch ({self.reason})" if self.reason else f"compiled, with {self.variants[0]}"


@cache
def native() -> Native:
    """Return the compiled parts for this processor."""
    switch = os.environ.get(SWITCH, "")
    if switch == "0":
        return Native(None, f"{SWITCH}=0")
    if SOURCE.exists() and not (LIBRARY.exists() and LIBRARY.stat().st_mtime >= SOURCE.stat().st_mtime):
        return Native(None, f"{LIBRARY} is missing or older than {SOURCE.name}; run make native")
    if not LIBRARY.exists():
        return Native(None, "installed without a C compiler; install GCC or Clang, then dragoman again")
    try:
        library = ctypes.CDLL(str(LIBRARY))
    except OSError as error:
        return Native(None, str(error))
    compiled = [name for name in VARIANTS if hasattr(library, f"dragoman_step_{name}")]
    variants = [name for name in compiled if library.dragoman_can_run(name.encode())]
    if switch in variants:
        variants = variants[variants.index(switch) :]
    functions = SimpleNamespace()
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, f"{name}_{variants[0]}")
        function.restype, function.argtypes = result, arguments
        setattr(functions, name, function)
    return Native(functions, "", tuple(variants))
