"""Weights without PyTorch are those of PyTorch, and so are positions."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch

from dragoman.model.weights import BF16, in_bf16, in_fp32, sinusoids
from dragoman.tensors import of_tensors


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_every_type_of_floats_is_read(dtype: torch.dtype) -> None:
    tensor = torch.randn(3, 5, generator=torch.Generator().manual_seed(1)).to(dtype)
    array = of_tensors({"x": tensor})["x"]
    assert (array.dtype == BF16) == (dtype == torch.bfloat16)
    np.testing.assert_array_equal(in_fp32(array), tensor.float().numpy())


def test_bf16_is_rounded_as_by_pytorch() -> None:
    """Halves to the even one, and what is not finite stays so."""
    bits = np.random.default_rng(1).integers(0, 2**32, 100_000, dtype=np.uint32)
    bits[::2] = bits[::2] & 0xFFFF0000 | 0x8000
    bits[:4] = np.array([np.nan, -np.inf, 3.4e38, 0.0], np.float32).view(np.uint32)
    numbers = bits.view(np.float32)
    expected = of_tensors({"x": torch.from_numpy(numbers).bfloat16()})["x"]
    np.testing.assert_array_equal(in_fp32(in_bf16(numbers).view(BF16)), in_fp32(expected))


@pytest.mark.parametrize(("n", "d_model"), [(512, 256), (1000, 36), (7, 8)])
def test_sinusoids_are_those_of_pytorch_to_the_bit(n: int, d_model: int) -> None:
    """Runs were trained with these."""
    position = torch.arange(n, dtype=torch.float64)[:, None]
    rate = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10000.0) / d_model))
    table = sinusoids(n, d_model)
    np.testing.assert_array_equal(table[:, 0::2], torch.sin(position * rate).float().numpy())
    np.testing.assert_array_equal(table[:, 1::2], torch.cos(position * rate).float().numpy())


def test_what_computes_without_pytorch_does_not_import_it() -> None:
    code = "import dragoman.model.compiled_classifier, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
