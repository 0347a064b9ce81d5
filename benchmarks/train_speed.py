"""How fast a training step is, beside other toolkits, and how much of the machine's ceiling it reaches.

    python benchmarks/train_speed.py
    python benchmarks/train_speed.py --marian PYTHON --joeynmt PYTHON

Source + target tokens a second, padding not counted, of whole updates (forward, backward, clipping, AdamW) of
a model of 7.6 M parameters (d_model 256, 3+3 layers, d_ff 1024, one vocabulary of 8000, dropout 0.3) on the
batches of Multi30k, 4096 target tokens each, from $DRAGOMAN_DATA. Every library is a process of its own, and
all of them make the same updates in turn, so that a noisy machine slows them alike; the median counts, and
"ours" is how many times as fast the fastest Dragoman is. The other toolkits want an environment of their own,
whose Python is named; benchmarks/peers/training.py says what is in it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dragoman.data.batching import TranslationBatch, make_batch
from dragoman.hardware import has_bf16, matrix_ceiling
from dragoman.runs import Run
from dragoman.tasks.translation.objective import TranslationObjective
from dragoman.text.vocabulary import EOS_ID, PAD_ID
from dragoman.training.trainer import TrainingListener
from measuring import TORCHRUN, PeerProcess, Result, parser_of
from updates import configuration, matrix_flops

WORKER = str(Path(__file__).parent / "peers" / "training.py")
PRECISIONS = {"fp32": torch.float32} | ({"bf16": torch.bfloat16} if has_bf16(torch.device("cpu")) else {})
"""Without bf16 in the processor an update in it takes minutes."""


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=12, help="updates of each that are timed")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="cores to use")
    parser.add_argument("--marian", help="a Python that has transformers")
    parser.add_argument("--joeynmt", help="a Python that has JoeyNMT 2.3.0")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as folder, Result("train_speed", options) as result:
        ceilings = {precision: matrix_ceiling(dtype) for precision, dtype in PRECISIONS.items()}
        for precision, ceiling in ceilings.items():
            result.figure(f"matrix-product ceiling {precision}, TFLOP/s", ceiling / 1e12, ".2f")
        batches, vocab_size = prepare(Path(folder), options.rounds + 1)
        flops = [matrix_flops(configuration(), batch, vocab_size) for batch in batches]
        libraries = workers(Path(folder) / "batches.npz", vocab_size, options)
        seconds: dict[str, list[float]] = {library.name: [] for library in libraries}
        try:
            for library in libraries:
                library.start()
            for number in range(len(batches)):
                for library in libraries:
                    seconds[library.name].append(float(library.ask(str(number))))
        finally:
            for library in libraries:
                library.end()
        columns = {"": "", "tokens/s (median)": ",.0f", "min": ",.0f", "max": ",.0f", "of ceiling": ".0%"}
        table = result.table(columns | {"ours": ".1f"})
        # The first update is not counted: it prepares this and that.
        speeds = {
            name: [batch.n_tokens / each for batch, each in zip(batches[1:], taken[1:], strict=True)]
            for name, taken in seconds.items()
        }
        best = max(statistics.median(each) for name, each in speeds.items() if name.startswith("Dragoman"))
        for name, each in speeds.items():
            ceiling = ceilings["bf16" if "bf16" in name else "fp32"]
            reached = (n / taken / ceiling for n, taken in zip(flops[1:], seconds[name][1:], strict=True))
            median = statistics.median(each)
            table.add(name, median, min(each), max(each), statistics.median(reached), best / median)


def prepare(folder: Path, n_batches: int) -> tuple[list[TranslationBatch], int]:
    """Write the batches for the workers: src{i} (B, S), and tgt{i} (B, T + 1) from start to end token.

    Return them, and the size of the vocabulary.
    """
    config, cpu = configuration(), torch.device("cpu")
    task = TranslationObjective(config, Run.create(folder / "run", config), cpu, TrainingListener())
    batches = [make_batch(task.epoch_store, indices) for indices in task.plan(0)[:n_batches]]
    arrays: dict[str, Any] = {}
    for i, batch in enumerate(batches):
        arrays[f"src{i}"] = batch.src.numpy()
        arrays[f"tgt{i}"] = np.concatenate([batch.tgt_in[:, :1].numpy(), batch.tgt_out.numpy()], axis=1)
        assert (arrays[f"tgt{i}"] == EOS_ID).any(1).all()
        assert PAD_ID == 0
    np.savez(folder / "batches.npz", **arrays)
    return batches, task.tokenizers.src.vocab_size


def workers(batches: Path, vocab_size: int, options: argparse.Namespace) -> list[PeerProcess]:
    """Return the libraries that are here."""
    given, n = [str(batches), str(vocab_size)], options.threads
    ours = [WORKER, "dragoman", *given]
    found = [
        PeerProcess(
            f"Dragoman, {precision}, {kernels} kernels", [sys.executable, *ours, precision, kernels], n
        )
        for precision in PRECISIONS
        for kernels in ("plain", "fast")
    ]
    if n > 1 and "bf16" in PRECISIONS:
        command = [sys.executable, *TORCHRUN, str(n), *ours, "bf16", "fast"]
        found.append(PeerProcess(f"Dragoman, bf16, fast, {n} processes", command, 1))
    others = (
        ("torch.nn.Transformer", sys.executable, "torch"),
        ("Hugging Face MarianMTModel", options.marian, "marian"),
        ("JoeyNMT 2.3.0", options.joeynmt, "joeynmt"),
    )
    return found + [PeerProcess(name, [path, WORKER, lib, *given], n) for name, path, lib in others if path]


if __name__ == "__main__":
    main()
