"""Where the time of an update goes, by operation, on the model and the batches of train_speed.py.

    python benchmarks/update_profile.py

Prints the operations of Dragoman's update (fast kernels, in bf16 or whatever precision "auto" means) by their
own time, matrix products together, and what the products of its shapes reach beside one large product: what
is left to win. The last table repeats a few batches: were it costly to meet a shape for the first time, later
rounds would be faster.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from dragoman.hardware import choose_dtype, environment, matrix_ceiling
from train_speed import PEERS, configuration, prepare, weights_per_token

sys.path.insert(0, str(PEERS))
from with_dragoman import make_step  # type: ignore[import-not-found]  # in peers/, untyped

PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm")
N_SHOWN = 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3, help="how often the batches are repeated")
    options = parser.parse_args()
    print(f"{environment()['cpu']}, {torch.get_num_threads()} threads, PyTorch {torch.__version__}")
    dtype = choose_dtype("auto", torch.device("cpu"))
    precision, ceiling = ("bf16" if dtype == torch.bfloat16 else "fp32"), matrix_ceiling(dtype)
    with tempfile.TemporaryDirectory() as folder:
        _, batches, vocab_size = prepare(Path(folder), options.batches)
        arrays = dict(np.load(Path(folder) / "batches.npz"))
    step = make_step(vocab_size, precision=precision, kernels="fast")
    updates = [
        partial(step, *(torch.from_numpy(arrays[f"{side}{i}"]) for side in ("src", "tgt")))
        for i in range(len(batches))
    ]
    updates[0]()  # the first one of a process prepares this and that
    rounds = [time_of(updates) for _ in range(options.rounds)]
    shares, seconds = profiled(updates)
    of_src, of_tgt = weights_per_token(configuration(), vocab_size)
    operations = 6.0 * sum(b.n_src_tokens * of_src + b.n_tgt_tokens * of_tgt for b in batches)
    print(f"matrix-product ceiling {precision}: {ceiling / 1e12:.2f} TFLOP/s")
    reached = operations / (shares["matrix products"] * seconds)
    print(f"products of an update: {reached / 1e12:.2f} TFLOP/s, padding not counted\n")
    for name, share in shares.most_common(N_SHOWN):
        print(f"{name:40}{share:8.1%}")
    print("\ntokens/s (median) when the same batches come for the")
    for i, times in enumerate(rounds, start=1):
        speeds = [batch.n_tokens / each for batch, each in zip(batches, times, strict=True)]
        print(f"{i}. time {statistics.median(speeds):12,.0f}")


def time_of(updates: Sequence[Callable[[], None]]) -> list[float]:
    """Return the seconds that each update takes."""
    seconds = []
    for update in updates:
        start = time.perf_counter()
        update()
        seconds.append(time.perf_counter() - start)
    return seconds


def profiled(updates: Sequence[Callable[[], None]]) -> tuple[Counter[str], float]:
    """Each operation's own part of the time of all updates, and that time in seconds."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        time_of(updates)
    own: Counter[str] = Counter()
    for event in profiler.key_averages():
        name = "matrix products" if event.key in PRODUCTS else event.key
        own[name] += event.self_cpu_time_total
    total = own.total()
    return Counter({name: each / total for name, each in own.items()}), total / 1e6


if __name__ == "__main__":
    main()
