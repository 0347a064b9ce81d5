"""What the fast kernels bring: dropout, attention, loss and matrix products, plain beside fast.

    python benchmarks/kernels.py
    python benchmarks/kernels.py --rounds 50

Prints milliseconds for the shapes that one training step of the 7.6 M model meets: 4096 target tokens,
d_model 256, 4 heads, vocabulary 8000, bf16 where the processor has it. Plain and fast run in turn, so that a
noisy machine slows both. The fastest round counts, for whatever else the machine does can only slow a round
down; the median is in brackets. docs/notebook.md cites this table.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.hardware import choose_dtype, environment
from dragoman.model.kernels import FAST, PLAIN, Kernels

TOKENS, D, H, V = 4096, 256, 4, 8000
B, T = 227, 18
"""A batch of sentences of the corpus' usual length."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="times that each operation is timed")
    rounds = parser.parse_args().rounds
    dtype = choose_dtype("auto", torch.device("cpu"))
    name = str(dtype).removeprefix("torch.")
    facts = environment()
    print(f"{facts['cpu']}, {torch.get_num_threads()} threads, PyTorch {torch.__version__}, {name}\n")
    print(f"{'milliseconds':52}{'plain':>22}{'fast':>22}{'ratio':>8}")
    torch.manual_seed(1)
    compare(f"dropout, {TOKENS} x {D}", dropout_step(dtype), rounds)
    compare(f"attention, {B} x {H} heads x {T} x {D // H}: forward", attention_step(dtype), rounds)
    compare("    forward and backward", attention_step(dtype, backward=True), rounds)
    compare(f"loss, {TOKENS} x {V}: forward and backward", loss_step(dtype), rounds)
    compare(f"    of two passes of {TOKENS // 2} (R-Drop)", loss_step(dtype, consistency=3.0), rounds)
    print(f"\n{'matrix products, TFLOP/s':52}{'weight (out, in)':>22}{'weight (in, out)':>22}{'ratio':>8}")
    for kind in dict.fromkeys([torch.float32, dtype]):
        products(kind, rounds)


def compare(what: str, step: Callable[[Kernels], None], rounds: int) -> None:
    """Print a line with the time of `step` with either set of kernels."""
    plain, fast = in_turn([lambda: step(PLAIN), lambda: step(FAST)], rounds)
    ratio = min(plain) / min(fast)
    print(f"{what:52}{milliseconds(plain):>22}{milliseconds(fast):>22}{ratio:8.1f}")


def products(dtype: torch.dtype, rounds: int) -> None:
    """Print the speed of x W^T for a feed-forward block with W stored by rows, and by columns."""
    for d_in, d_out in ((D, 4 * D), (4 * D, D)):
        x = torch.randn(TOKENS, d_in).to(dtype)
        by_rows = torch.randn(d_out, d_in).to(dtype)
        by_columns = by_rows.t().contiguous()
        operations = 2.0 * TOKENS * d_in * d_out
        rates = [
            operations / min(seconds) / 1e12
            for seconds in in_turn([lambda: F.linear(x, by_rows), lambda: x @ by_columns], rounds)  # noqa: B023
        ]
        what = f"{str(dtype).removeprefix('torch.')}, {TOKENS} x {d_in} x {d_out}"
        print(f"{what:52}{rates[0]:22.2f}{rates[1]:22.2f}{rates[1] / rates[0]:8.1f}")


def dropout_step(dtype: torch.dtype) -> Callable[[Kernels], None]:
    x = torch.randn(TOKENS, D).to(dtype)

    def step(kernels: Kernels) -> None:
        kernels.dropout(x, 0.3)

    return step


def attention_step(dtype: torch.dtype, *, backward: bool = False) -> Callable[[Kernels], None]:
    q, k, v, out = (torch.randn(B, H, T, D // H).to(dtype) for _ in range(4))
    bias = torch.zeros(B, 1, 1, T)
    bias[::2, ..., -2:] = float("-inf")  # every other sentence has padding
    for tensor in (q, k, v):
        tensor.requires_grad_(backward)

    def step(kernels: Kernels) -> None:
        context = kernels.attention(q, k, v, bias, 0.0)
        if backward:
            context.backward(out)  # type: ignore[no-untyped-call]
            forget([q, k, v])

    return step


def loss_step(dtype: torch.dtype, *, consistency: float = 0.0) -> Callable[[Kernels], None]:
    hidden = torch.randn(TOKENS, D).to(dtype).requires_grad_()
    weight = torch.randn(V, D).mul_(D**-0.5).requires_grad_()
    targets = torch.randint(V, (TOKENS,))

    def step(kernels: Kernels) -> None:
        if consistency:
            first = targets[: TOKENS // 2]
            smoothed, _ = kernels.consistent_cross_entropy(hidden, weight, first, 0.1, consistency)
        else:
            smoothed, _ = kernels.linear_cross_entropy(hidden, weight, targets, 0.1)
        smoothed.backward()  # type: ignore[no-untyped-call]
        forget([hidden, weight])

    return step


def forget(tensors: list[Tensor]) -> None:
    """Drop the gradients, so that none is added up."""
    for tensor in tensors:
        tensor.grad = None


def in_turn(functions: list[Callable[[], object]], rounds: int) -> list[list[float]]:
    """Return the seconds of each function in each round, after two rounds to warm up."""
    seconds: list[list[float]] = [[] for _ in functions]
    for i in range(rounds + 2):
        for function, times in zip(functions, seconds, strict=True):
            start = time.perf_counter()
            function()
            if i >= 2:
                times.append(time.perf_counter() - start)
    return seconds


def milliseconds(seconds: list[float]) -> str:
    return f"{1000 * min(seconds):.2f} ({1000 * statistics.median(seconds):.2f})"


if __name__ == "__main__":
    main()
