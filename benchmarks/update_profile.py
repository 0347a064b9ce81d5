"""Where the time of an update goes, by operation, on the model and the batches of train_speed.py.

    python benchmarks/update_profile.py

Prints the operations of Dragoman's update (fast kernels, in bf16 or whatever precision "auto" means) by their
own time, matrix products together, and what the products of its shapes reach beside one large product: what
is left to win. The last table repeats a few batches: were it costly to meet a shape for the first time, later
rounds would be faster.
"""

from __future__ import annotations

import statistics
import tempfile
from collections import Counter
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from dragoman.hardware import choose_dtype, matrix_ceiling
from measuring import Result, parser_of
from train_speed import prepare
from updates import Model, configuration, matrix_flops

PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm")
N_SHOWN = 12


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3, help="how often the batches are repeated")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Result("update_profile", options) as result:
        batches, vocab_size = prepare(Path(folder), options.batches)
        config = configuration("model.dropout=0.3", learning_rate=2e-3, clip_norm=1.0)
        model = Model(config, vocab_size, smoothing=0.1)
        model.update(batches[0])  # the first one of a process prepares this and that
        rounds = [list(map(model.update, batches)) for _ in range(options.rounds)]
        own: Counter[str] = Counter()
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            for batch in batches:
                model.update(batch)
        for event in profiler.key_averages():
            own["matrix products" if event.key in PRODUCTS else event.key] += event.self_cpu_time_total
        ceiling = matrix_ceiling(choose_dtype("auto", torch.device("cpu")))
        result.figure("matrix-product ceiling, TFLOP/s", ceiling / 1e12, ".2f")
        operations = sum(matrix_flops(config, batch, vocab_size) for batch in batches)
        reached = operations / (own["matrix products"] / 1e6)
        result.figure("products of an update, padding not counted, TFLOP/s", reached / 1e12, ".2f")
        table = result.table({"operation": "", "share": ".1%"}, "operations")
        for name, microseconds in own.most_common(N_SHOWN):
            table.add(name, microseconds / own.total())
        table = result.table({"when the same batches come": "", "tokens/s (median)": ",.0f"}, "rounds")
        for i, times in enumerate(rounds, start=1):
            speeds = (batch.n_tokens / each for batch, each in zip(batches, times, strict=True))
            table.add(f"{i}. time", statistics.median(speeds))


if __name__ == "__main__":
    main()
