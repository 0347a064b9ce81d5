"""What several processes on CPUs gain, and what limits them: equal losses, efficiency, and where time goes.

    python benchmarks/processes.py
    python benchmarks/processes.py --processes 1 2 --updates 3 --d-model 32 --batch-tokens 500

Each process has one thread. All train on the same batches of random ids, without dropout, in fp32, with gloo.
An update of N processes is measured in three ways; the median counts:

- alone: one process computes its share, and the others wait; it has a core of its own
- together: all compute their shares at once, without exchange; longer where cores are lacking
- whole: with the exchange of gradients, as in a training
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from dragoman.data.batching import TranslationBatch
from dragoman.training.parallel.processes import joined
from measuring import TORCHRUN, Result, parser_of, python
from updates import Model, configuration

LENGTHS = (8, 40)
"""Tokens of the shortest and of the longest sentence."""
COLUMNS = {
    "processes": "", "largest difference of a loss": ".0e", "tokens/s": ",.0f", "efficiency": ".0%",
    "an update, s": ".3f", "1/N of one process": ".3f", "+ smaller shares": "+.3f",
    "+ lacking cores": "+.3f", "+ exchange": "+.3f", "efficiency with a core for each": ".0%",
}  # fmt: skip


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--updates", type=int, default=8, help="updates that are timed; the median counts")
    parser.add_argument("--d-model", type=int, default=256)
    parser.add_argument("--layers", type=int, default=3, help="of the encoder, and of the decoder")
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--batch-tokens", type=int, default=8192, help="target tokens of an update")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options)
        return
    with Result("processes", options) as result:
        measured = [measure(options, n) for n in sorted({1, *options.processes})]
        result.figure("million parameters", measured[0]["n_parameters"] / 1e6, ".1f")
        table = result.table(COLUMNS)
        for row in measured:
            table.add(*cells(row, measured[0]))


def measure(options: argparse.Namespace, n_processes: int) -> dict[str, Any]:
    """Return what `n_processes` processes have measured."""
    names = ("updates", "d_model", "layers", "vocab_size", "batch_tokens")
    settings = [f"--{name.replace('_', '-')}={getattr(options, name)}" for name in names]
    launcher = [] if n_processes == 1 else [*TORCHRUN, n_processes]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    found: dict[str, Any] = json.loads(python(*launcher, __file__, "--worker", *settings, env=environment))
    return found


def cells(row: dict[str, Any], one: dict[str, Any]) -> list[Any]:
    """Return the cells of the table for a number of processes, beside those of one process."""
    n, n_cores, ideal = row["processes"], len(os.sched_getaffinity(0)), one["whole"] / row["processes"]
    first = [f"{n}{' (more than cores)' * (n > n_cores)}"]
    rates = [row["tokens"] / row["whole"], ideal / row["whole"], row["whole"], ideal]
    if n == 1:
        return [*first, None, *rates, None, None, None, None]
    difference = max(abs(a / b - 1) for a, b in zip(row["losses"], one["losses"], strict=True))
    exchange = row["whole"] - row["together"]
    shares, lacking = row["alone"] - one["alone"] / n, row["together"] - row["alone"]
    return [*first, difference, *rates, shares, lacking, exchange, ideal / (row["alone"] + exchange)]


def work(options: argparse.Namespace) -> None:
    """Measure as one of the processes; the first prints the result."""
    torch.set_num_threads(1)
    model = (
        f"model.d_model={options.d_model}", f"model.d_ff={4 * options.d_model}", "model.dropout=0",
        f"model.n_encoder_layers={options.layers}", f"model.n_decoder_layers={options.layers}",
    )  # fmt: skip
    config = configuration(*model, learning_rate=1e-3, clip_norm=1.0, precision="fp32", device="cpu")
    with joined("cpu") as processes:
        spread = Model(config, options.vocab_size, smoothing=0.1, processes=processes)
        local = Model(config, options.vocab_size, smoothing=0.1)
        seconds: dict[str, list[float]] = {"whole": [], "together": [], "alone": []}
        losses, n_tokens = [], []
        for batch in batches(options):
            rows = torch.from_numpy(processes.share(np.arange(len(batch.src))))
            mine = TranslationBatch(batch.src[rows], batch.tgt_in[rows], batch.tgt_out[rows])
            processes.wait()
            seconds["whole"] += processes.largest(spread.update(mine))
            losses.append(spread.loss())
            processes.wait()
            seconds["together"] += processes.largest(local.update(mine))
            seconds["alone"] += processes.largest(local.update(mine) if processes.first else 0.0)
            n_tokens.append(batch.n_tokens)
        if processes.first:
            found = {
                "processes": processes.size, "losses": losses, "tokens": statistics.mean(n_tokens),
                "n_parameters": spread.state.model.n_parameters,
                **{name: statistics.median(values[1:]) for name, values in seconds.items()},
            }  # fmt: skip
            print(json.dumps(found))


def batches(options: argparse.Namespace) -> Iterator[TranslationBatch]:
    """Yield batches of sentences of like lengths; the first update is not timed."""
    rng = np.random.default_rng(1)
    for _ in range(options.updates + 1):
        length = int(rng.integers(*LENGTHS))
        shape = (max(8, options.batch_tokens // length), length)
        src, tgt = (torch.from_numpy(rng.integers(4, options.vocab_size, shape)) for _ in range(2))
        yield TranslationBatch(src, tgt, tgt.roll(-1, 1))


if __name__ == "__main__":
    main()
