"""Choose device and precision, and describe the machine.

PyTorch is imported where it is asked something: who translates on a processor needs none.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.errors import ConfigError
from dragoman.files import WINDOWS
from dragoman.processes import usable_cores

if TYPE_CHECKING:
    import torch

GPU_FILES = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvmap", "/dev/dxg", "/dev/kfd")
"""Files of which there is one where there is a GPU that PyTorch computes on: NVIDIA's, WSL's and AMD's."""
PRECISIONS = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
"""The types of a setting, as PyTorch calls them."""


def on_processor(name: str) -> bool:
    """Whether the device called `name` is the processor. ConfigError: as `find_device`.

    PyTorch is asked only where a GPU is, or is named.
    """
    if str(name) == "cpu" or (str(name) == "auto" and not _may_have_gpu()):
        return True
    return find_device(name).type == "cpu"


def n_gpus() -> int:
    """Return the number of GPUs that PyTorch computes on."""
    if not _may_have_gpu():
        return 0
    import torch

    return torch.cuda.device_count()


def _may_have_gpu() -> bool:
    is_here = WINDOWS or any(Path(file).exists() for file in GPU_FILES)
    return is_here and find_spec("torch") is not None


def n_threads() -> int:
    """Return how many threads compute together on the processor: OMP_NUM_THREADS, or its cores."""
    if torch := sys.modules.get("torch"):
        return int(torch.get_num_threads())
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, int(limit)) if limit.isdecimal() else usable_cores()


def set_threads(n: int) -> None:
    """Let PyTorch, if it is imported, compute in `n` threads what this thread asks for."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(n)


def limit_threads(n: int) -> None:
    """Let this process compute in `n` threads at most, whatever computes."""
    n = min(n, n_threads())
    os.environ["OMP_NUM_THREADS"] = str(n)
    set_threads(n)


def choose_device(name: str) -> torch.device:
    """Return the device `name` and make it this thread's current one; "auto" = the first GPU, or the CPU.

    ConfigError: there is no such device here, it cannot be used, or its kind is not supported.
    """
    import torch

    device = find_device(name)
    if device.type == "cuda":
        try:
            torch.cuda.set_device(device)
            torch.backends.cuda.enable_cudnn_sdp(False)  # cuDNN builds a plan for each shape
        except RuntimeError as error:
            reason = str(error).strip().partition("\n")[0]
            raise ConfigError(f'device = "{name}": cannot be used ({reason}); use device = "cpu"') from error
    return device


def find_device(name: str) -> torch.device:
    """Return the device called `name`, left alone.

    ConfigError: it is not here, or its kind is not supported.
    """
    import torch

    if str(name) == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    match = re.fullmatch(r"cpu|cuda(?::([0-9]+))?", str(name))
    if match is None:
        raise ConfigError(f'device = "{name}": is not supported; use "auto", "cpu", "cuda" or "cuda:1"')
    if match[0] == "cpu":
        return torch.device("cpu")
    number = int(match[1] or 0)
    if number >= torch.cuda.device_count():
        raise ConfigError(
            f'device = "{name}": this machine has {torch.cuda.device_count()} CUDA devices; '
            'use device = "auto" or "cpu"'
        )
    return torch.device("cuda", number)


def choose_dtype(precision: str, device: torch.device) -> torch.dtype:
    """Return the type of activations: "fp32", "bf16", "fp16"; "auto" = bf16 if `device` supports it.

    ConfigError: unknown precision.
    """
    import torch

    dtype: torch.dtype = getattr(torch, choose_precision(precision, device))
    return dtype


def choose_precision(precision: str, device: torch.device | None = None) -> str:
    """Return the same by its name in PyTorch, "float32"; None is the processor."""
    if precision == "auto":
        precision = "bf16" if has_bf16(device) else "fp32"
    if precision not in PRECISIONS:
        raise ConfigError(f'precision {precision}: is not one of "auto", "fp32", "bf16" and "fp16"')
    return PRECISIONS[precision]


def has_bf16(device: torch.device | None = None) -> bool:
    """Whether `device` has bf16 arithmetic of its own (AVX-512 BF16, AMX, or a GPU of 2020 and later).

    None is the processor.
    """
    if device is not None and device.type == "cuda":
        import torch

        with torch.cuda.device(device):
            return torch.cuda.is_bf16_supported(including_emulation=False)
    return bool({"avx512_bf16", "amx_bf16"} & processor()[1])


def resident_bytes(device: torch.device) -> float:
    """Return the bytes of GPU memory that a corpus or recorded steps may occupy: an eighth; 0 on a CPU."""
    if device.type != "cuda":
        return 0.0
    import torch

    return torch.cuda.get_device_properties(device).total_memory / 8


def peak_memory(device: torch.device) -> int | None:
    """Return the most bytes that this process has held so far, on `device`.

    None where that is not to be had.
    """
    if device.type == "cuda":
        import torch

        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def remember_few_shapes(n_products: int = 50) -> None:
    """Limit oneDNN's primitive cache to `n_products` entries, not 1024; call before the first bf16 product.

    Nearly every training batch has other shapes, so most entries are never used again and take gigabytes
    (docs/notebook.md). Environment variables that are already set are kept.
    """
    for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(name, str(n_products))


def prepare_for_translating() -> None:
    """Configure memory and oneDNN's cache for a process that translates for long."""
    keep_freed_memory()
    remember_few_shapes(256)


def keep_freed_memory() -> None:
    """Make glibc keep freed memory for the next update; does nothing with other C libraries.

    By default glibc returns large blocks to the system and requests them again, which slows training on the
    CPU (docs/notebook.md). The memory is freed when the process ends.
    """
    mmap_threshold, trim_threshold, top_pad = -3, -1, -2  # M_... in glibc's malloc.h
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return
    mallopt(mmap_threshold, 32 << 20)  # the most it accepts
    mallopt(trim_threshold, 2**31 - 1)
    mallopt(top_pad, 64 << 20)


def release_freed_memory() -> None:
    """Return the memory that `keep_freed_memory` keeps to the system, for an idle process."""
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def resident_memory() -> int:
    """Bytes that this process has in memory now; 0 where the system does not say."""
    with suppress(IndexError, AttributeError):
        return int(_text("/proc/self/statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def look_around() -> dict[str, Any]:
    """Return `environment` with facts that are measured now, for `dragoman doctor`; it takes some seconds.

    Bytes of memory, of it what is free, and of free disk in the working directory; operations a second of a
    large matrix product, by type, on the device that "auto" means.
    """
    device = choose_device("auto")
    total, free = memory()
    return {
        **environment(),
        "n_cores": usable_cores(),
        "has_bf16": has_bf16(),
        "memory": total,
        "free_memory": free,
        "free_disk": shutil.disk_usage(".").free,
        "ceilings": {
            name: matrix_ceiling(choose_dtype(name, device), device=device) for name in ("fp32", "bf16")
        },
    }


def matrix_ceiling(dtype: torch.dtype, *, n: int = 2048, device: torch.device | None = None) -> float:
    """Operations per second of an n × n × n product, or of a smaller one if nine take over two seconds.

    Each is the best of nine.
    """
    import torch

    for size in (n // 8, n // 4, n // 2, n):
        a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
        seconds = []
        for _ in range(9):
            start = time.perf_counter()
            a @ b
            if a.is_cuda:
                torch.cuda.synchronize(a.device)
            seconds.append(time.perf_counter() - start)
        best = min(seconds[1:])
        if 9 * 8 * best > 2.0:
            break
    return 2.0 * size**3 / best


def memory() -> tuple[int, int]:
    """Return the bytes of memory, and those that are free; of the control group where that has fewer.

    0 where nobody says.
    """
    facts = _facts("/proc/meminfo")
    sizes = (facts.get(name, "0").split()[0] for name in ("MemTotal", "MemAvailable"))  # in kB
    total, free = (1024 * int(size) for size in sizes)
    limit = _text("/sys/fs/cgroup/memory.max").strip()
    used = _text("/sys/fs/cgroup/memory.current").strip()
    if limit.isdecimal() and used.isdecimal():
        total, free = min(total, int(limit)), min(free, int(limit) - int(used))
    return total, free


def processor() -> tuple[str, frozenset[str]]:
    """Return the name of this machine's first processor, "" = unknown, and what the kernel says it can do.

    The name has family and model, for hosts of virtual machines shorten names: two generations of "AMD EPYC",
    one with twice the bf16 products of the other, are families 25 and 26.
    """
    facts = _facts("/proc/cpuinfo")
    name, family, model = (facts.get(key, "") for key in ("model name", "cpu family", "model"))
    generation = f" (family {family}, model {model})" if name and family and model else ""
    return name + generation, frozenset((facts.get("flags") or facts.get("Features", "")).split())


def _facts(path: str) -> dict[str, str]:
    """Return the values of a file of the kernel by their names, of its first paragraph."""
    first, _, _ = _text(path).partition("\n\n")
    return dict(re.findall(r"^(\S.*?)\s*:[ \t]*(.*)$", first, re.MULTILINE))


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def environment() -> dict[str, Any]:
    """Return what results depend on beside settings, as JSON: versions, processor, threads, GPUs.

    None where something is not known.
    """
    import torch

    name, flags = processor()
    return {
        **versions(),
        "commit": commit(),
        "torch": str(torch.__version__),  # names the build too: 2.13.0+cu130
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": name or platform.processor() or platform.machine(),
        "cpu_bf16": bool(flags & {"avx512_bf16", "amx_bf16", "bf16"}) if flags else None,
        "cpu_amx": "amx_tile" in flags if flags else None,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "n_cores": os.cpu_count(),
        "n_threads": torch.get_num_threads(),
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "cuda": torch.version.cuda,
    }


def versions() -> dict[str, str | None]:
    """Return the versions of this package and of those that results depend on; None: it is not installed."""
    packages = ("dragoman", "numpy", "tokenizers", "safetensors", "sacrebleu", "torch")
    numbers: dict[str, str | None] = dict.fromkeys(packages)
    for package in packages:
        with suppress(PackageNotFoundError):
            numbers[package] = version(package)
    return numbers


@cache
def commit() -> str | None:
    """Return the commit of this package's source, with "-dirty" if files differ; None outside a checkout."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
