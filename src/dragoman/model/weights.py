"""Weights as arrays of NumPy, which knows no bfloat16; and the table of positions that no file holds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

BF16 = np.dtype([("bf16", "<u2")])
"""The type of an array of bfloat16: its bits, under a name that says so."""

Weights: TypeAlias = Mapping[str, npt.NDArray[Any]]
"""By their names in a run's file; tied ones may be there once."""

Floats: TypeAlias = npt.NDArray[np.float32]


def in_fp32(array: npt.NDArray[Any]) -> Floats:
    """Return an array of bfloat16 or of another type of floats in fp32; one of fp32 itself."""
    if array.dtype != BF16:
        return np.ascontiguousarray(array, np.float32)
    bits = np.ascontiguousarray(array).view(np.uint16).astype(np.uint32)
    return (bits << 16).view(np.float32)


def in_bf16(array: Floats) -> npt.NDArray[np.uint16]:
    """Return the bits of an array in bfloat16, rounded to nearest, of two the even one."""
    bits = np.ascontiguousarray(array).view(np.uint32)
    rounded = (bits + (0x7FFF + (bits >> 16 & 1))) >> 16
    return np.where(np.isnan(array), 0x7FC0, rounded).astype(np.uint16)


def sinusoids(n_positions: int, d_model: int) -> Floats:
    """(n_positions, D) position encodings: sine at even dimensions, cosine at odd (section 3.5)."""
    position = np.arange(n_positions, dtype=np.float64)[:, None]
    rate = np.exp(np.arange(0, d_model, 2, dtype=np.float64) * (-math.log(10000.0) / d_model))
    encodings = np.empty((n_positions, d_model), np.float32)
    encodings[:, 0::2] = np.sin(position * rate)
    encodings[:, 1::2] = np.cos(position * rate)
    return encodings
