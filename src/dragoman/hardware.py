"""Which device to compute on, and in which type."""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch

from dragoman.errors import ConfigError


def choose_device(name: str) -> torch.device:
    """The device called `name`; "auto" is the first GPU where there is one, else the CPU.

    ConfigError: there is no such device here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f'device = "{name}" is not a device; try "cpu", "cuda" or "cuda:1"') from None
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            f'device = "{name}": this machine has {torch.cuda.device_count()} CUDA devices; '
            'use device = "auto" or "cpu"'
        )
    return device


def choose_dtype(precision: str, device: torch.device) -> torch.dtype:
    """The type of activations: "fp32", "bf16", "fp16", or for "auto" bf16 where `device` multiplies in it."""
    if precision == "auto":
        precision = "bf16" if has_bf16(device) else "fp32"
    return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]


def has_bf16(device: torch.device) -> bool:
    """Whether `device` has bf16 arithmetic of its own (AVX-512 BF16, AMX, or a GPU of 2020 and later)."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags


def keep_freed_memory() -> None:
    """Lets the C library keep the memory that one update frees for the next, where it is glibc.

    By default it hands large blocks back to the system and asks for them anew, which slows a training
    on the CPU (docs/decisions.md). The memory is given back when the process ends.
    """
    mmap_threshold, trim_threshold, top_pad = -3, -1, -2  # M_... in glibc's malloc.h
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return
    mallopt(mmap_threshold, 32 << 20)  # the most it accepts
    mallopt(trim_threshold, 2**31 - 1)
    mallopt(top_pad, 64 << 20)
