"""Weights as arrays of NumPy, which knows no bfloat16; and the table of positions that no file holds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dragoman.errors import RunError

BF16 = np.dtype([("bf16", "<u2")])
"""The type of an array of bfloat16: its bits, under a name that says so."""

Weights: TypeAlias = Mapping[str, npt.NDArray[Any]]
"""By their names in a run's file; tied ones may be there once."""

Floats: TypeAlias = npt.NDArray[np.float32]
Shapes: TypeAlias = Mapping[str, tuple[int, ...]]

FLOATS = (np.dtype(np.float32), BF16, np.dtype(np.float16), np.dtype(np.float64))
"""Types that weights may have in a file."""


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


def compare_shapes(expected: Shapes, shapes: Shapes, *, where: str) -> None:
    """RunError: `shapes` of weights, by name, are not the `expected` ones of the model."""
    missing, unknown = (
        [name[:80] for name in sorted(names)[:3]]
        for names in (expected.keys() - shapes.keys(), shapes.keys() - expected.keys())
    )
    if missing or unknown:
        raise RunError(
            f"{where}: is not for this configuration; missing {missing}, unknown {unknown}; "
            "config.toml and weights must come from the same run"
        )
    for name, shape in shapes.items():
        if shape != expected[name]:
            raise RunError(
                f"{where}: {name} has shape {shape}, the configuration says {expected[name]}; "
                "config.toml and weights must come from the same run"
            )


def check_numbers(weights: Weights, *, where: str) -> None:
    """RunError: a number of a file's `weights` is not finite, or each matrix holds one number alone."""
    varies: list[bool] = []
    for name, array in weights.items():
        if array.dtype not in FLOATS:
            raise RunError(f"{where}: {name} holds {array.dtype}, which weights are not; the file is damaged")
        if array.size == 0:
            continue
        numbers = in_fp32(array) if array.dtype == BF16 else array
        lowest, highest = numbers.min(), numbers.max()
        if not (np.isfinite(lowest) and np.isfinite(highest)):
            raise RunError(f"{where}: {name} holds numbers that are not finite; the file is damaged")
        if array.ndim > 1 and array.size > 1:
            varies.append(bool(lowest < highest))
    if varies and not any(varies):  # single ones may: a layer that is to be learnt begins as the identity
        raise RunError(f"{where}: each matrix holds one number alone; the file is damaged, copy it again")
