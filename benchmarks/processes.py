"""What several processes on CPUs gain, and what limits them: equal losses, efficiency, and where time goes.

    python benchmarks/processes.py
    python benchmarks/processes.py --processes 1 2 --updates 3 --d-model 32 --batch-tokens 500

Prints Markdown. Each process has one thread. All train on the same batches of random ids, without dropout,
in fp32, with gloo. An update of N processes is measured in three ways:

- alone: one process computes its share, and the others wait; it has a core of its own
- together: all compute their shares at once, without exchange; longer where cores are lacking
- whole: with the exchange of gradients, as in a training
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch

from dragoman.config import ModelConfig, TranslationConfig, parse_config
from dragoman.data.batching import TranslationBatch
from dragoman.hardware import environment, keep_freed_memory, remember_few_shapes
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.tasks.translation.loss import batch_loss
from dragoman.training.objective import BatchResult, Objective
from dragoman.training.parallel.processes import ALONE, Processes, joined
from dragoman.training.state import TrainPosition, TrainState
from dragoman.training.updates.optimizer import make_optimizer
from dragoman.training.updates.updater import BatchShare, SyncUpdater, loss_module

N_HEADS = 4
LENGTHS = (8, 40)
"""Tokens of the shortest and of the longest sentence."""
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]


class Batches(Objective[TranslationBatch]):
    """The loss of translation, on batches that come from outside."""

    def __init__(self, model: Seq2SeqTransformer) -> None:
        self.model = self.translator = model

    def n_items(self, batch: TranslationBatch) -> int:
        return batch.n_tgt_tokens

    def loss(self, batch: TranslationBatch) -> BatchResult:
        return BatchResult(batch_loss(self.translator, batch, smoothing=0.1).smoothed, batch.n_tokens)

    def plan(self, epoch: int) -> NoReturn:
        raise NotImplementedError

    def batch(self, indices: Any, device: torch.device) -> NoReturn:
        raise NotImplementedError

    def memory(self, indices: Any) -> NoReturn:
        raise NotImplementedError

    def validate(self, weights: Any) -> NoReturn:
        raise NotImplementedError


class Model:
    """A model of its own with its updates; equal in all processes."""

    def __init__(self, options: argparse.Namespace, processes: Processes) -> None:
        config = configuration(options)
        torch.manual_seed(1)
        model = Seq2SeqTransformer(
            config.model, src_vocab_size=options.vocab_size, tgt_vocab_size=options.vocab_size
        ).train()
        task = Batches(model)
        self.state = TrainState(model, make_optimizer(model, config.training), None, TrainPosition())
        self.updater = SyncUpdater(
            task, self.state, config, module=loss_module(task, config, processes), processes=processes
        )

    def update(self, batch: TranslationBatch) -> float:
        """Return the seconds of an update."""
        begun = time.perf_counter()
        self.updater.update([BatchShare(batch)])
        return time.perf_counter() - begun

    def loss(self) -> float:
        """Return the mean loss since the last call."""
        position = self.state.position
        mean = position.window_loss / position.window_items
        position.window_loss = position.window_items = 0.0
        return mean


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--updates", type=int, default=8, help="updates that are timed; the median counts")
    parser.add_argument("--d-model", type=int, default=256)
    parser.add_argument("--layers", type=int, default=3, help="of the encoder, and of the decoder")
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--batch-tokens", type=int, default=8192, help="target tokens of an update")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options)
    else:
        print(report(options, [measured(options, n) for n in sorted({1, *options.processes})]))


def measured(options: argparse.Namespace, n_processes: int) -> dict[str, Any]:
    """Return what `n_processes` processes have measured."""
    settings = [
        part
        for name in ("updates", "d_model", "layers", "vocab_size", "batch_tokens")
        for part in (f"--{name.replace('_', '-')}", str(getattr(options, name)))
    ]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "measured.json"
        launcher = [] if n_processes == 1 else [*TORCHRUN, str(n_processes)]
        subprocess.run(
            [sys.executable, *launcher, __file__, "--worker", str(out), *settings],
            env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True,
        )  # fmt: skip
        found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return found


def work(options: argparse.Namespace) -> None:
    """Measure as one of the processes; the first writes the result."""
    torch.set_num_threads(1)
    remember_few_shapes()
    keep_freed_memory()
    with joined("cpu") as processes:
        spread, local = Model(options, processes), Model(options, ALONE)
        whole, alone, together, losses = [], [], [], []
        for batch in batches(options):
            rows = torch.from_numpy(processes.share(np.arange(len(batch.src))))
            mine = TranslationBatch(batch.src[rows], batch.tgt_in[rows], batch.tgt_out[rows])
            processes.wait()
            whole += processes.largest(spread.update(mine))
            losses.append(spread.loss())
            processes.wait()
            together += processes.largest(local.update(mine))
            alone += processes.largest(local.update(mine) if processes.first else 0.0)
        if processes.first:
            seconds = {"whole": whole, "together": together, "alone": alone}
            found: dict[str, Any] = {
                "processes": processes.size,
                "losses": losses,
                "n_parameters": spread.state.model.n_parameters,
                "tokens": statistics.mean(batch.n_tokens for batch in batches(options)),
                **{name: statistics.median(values[1:]) for name, values in seconds.items()},
            }
            Path(options.worker).write_text(json.dumps(found), encoding="utf-8")


def batches(options: argparse.Namespace) -> Iterator[TranslationBatch]:
    """Yield batches of sentences of like lengths; the first update is not timed."""
    rng = np.random.default_rng(1)
    for _ in range(options.updates + 1):
        length = int(rng.integers(*LENGTHS))
        shape = (max(8, options.batch_tokens // length), length)
        src, tgt = (torch.from_numpy(rng.integers(4, options.vocab_size, shape)) for _ in range(2))
        yield TranslationBatch(src, tgt, tgt.roll(-1, 1))


def configuration(options: argparse.Namespace) -> TranslationConfig:
    model = ModelConfig(
        d_model=options.d_model, d_ff=4 * options.d_model, n_heads=N_HEADS, dropout=0.0,
        n_encoder_layers=options.layers, n_decoder_layers=options.layers,
    )  # fmt: skip
    config = parse_config(
        {
            "name": "processes",
            "data": {"src_lang": "en", "tgt_lang": "de", "train": ["train.tsv"]},
            "model": model.model_dump(),
            "training": {"learning_rate": 1e-3, "clip_norm": 1.0, "precision": "fp32", "device": "cpu"},
        }
    )
    assert config.task == "translation"
    return config


def report(options: argparse.Namespace, rows: list[dict[str, Any]]) -> str:
    """Return the table in Markdown."""
    n_cores, one = len(os.sched_getaffinity(0)), rows[0]
    lines = [
        f"{environment()['cpu']}, {n_cores} cores, PyTorch {torch.__version__}; "
        f"{one['n_parameters'] / 1e6:.1f} M parameters, "
        f"{options.batch_tokens:,} target tokens an update, a thread a process, medians of "
        f"{options.updates} updates",
        "",
        "| processes | largest difference of a loss | tokens/s | efficiency | an update, s "
        "| 1/N of one process | + smaller shares | + lacking cores | + exchange "
        "| efficiency with a core for each |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        n = row["processes"]
        ideal = one["whole"] / n
        exchange = row["whole"] - row["together"] if n > 1 else 0.0
        shares = row["alone"] - one["alone"] / n
        lacking = row["together"] - row["alone"]
        difference = max(abs(a / b - 1) for a, b in zip(row["losses"], one["losses"], strict=True))
        cells = (
            f"{n}{' (more than cores)' * (n > n_cores)}",
            f"{difference:.0e}" if n > 1 else "",
            f"{row['tokens'] / row['whole']:,.0f}",
            f"{ideal / row['whole']:.0%}",
            f"{row['whole']:.3f}",
            f"{ideal:.3f}",
            *(f"{seconds:+.3f}" if n > 1 else "" for seconds in (shares, lacking, exchange)),
            f"{ideal / (row['alone'] + exchange):.0%}" if n > 1 else "",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
