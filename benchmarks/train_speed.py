"""How fast a training step is, beside other toolkits, and how much of the machine's ceiling it reaches.

    python benchmarks/train_speed.py
    python benchmarks/train_speed.py --marian PYTHON --joeynmt PYTHON

Source + target tokens a second, padding not counted, of whole updates (forward, backward, clipping, AdamW) of
a model of 7.6 M parameters (d_model 256, 3+3 layers, d_ff 1024, one vocabulary of 8000, dropout 0.3) on the
batches of Multi30k, 4096 target tokens each, from $DRAGOMAN_DATA. Every library is a process of its own, and
all of them make the same updates in turn, so that a noisy machine slows them alike; the median counts. The
other toolkits want an environment of their own, whose Python is named; benchmarks/peers says what is in
it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dragoman.config import TranslationConfig, parse_config
from dragoman.data.batching import TranslationBatch, make_batch
from dragoman.hardware import environment, has_bf16, matrix_ceiling
from dragoman.runs import Run
from dragoman.tasks.translation.objective import TranslationObjective
from dragoman.text.vocabulary import EOS_ID, PAD_ID
from dragoman.training.trainer import TrainingListener
from peer_process import PeerProcess

PEERS = Path(__file__).parent / "peers"
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
PRECISIONS = {"fp32": torch.float32} | ({"bf16": torch.bfloat16} if has_bf16(torch.device("cpu")) else {})
"""Without bf16 in the processor an update in it takes minutes."""


@dataclass
class Row(PeerProcess):
    """A line of the table: a library, and its worker."""

    precision: str = "fp32"
    speeds: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)

    def seconds(self, number: int) -> float:
        """Return the seconds of an update on the batch of this number."""
        return float(self.ask(str(number)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12, help="updates of each that are timed")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="cores to use")
    parser.add_argument("--marian", help="a Python that has transformers")
    parser.add_argument("--joeynmt", help="a Python that has JoeyNMT 2.3.0")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    facts = environment()
    print(f"{facts['cpu']}, {options.threads} threads, PyTorch {torch.__version__}")
    ceilings = {name: matrix_ceiling(dtype) for name, dtype in PRECISIONS.items()}
    for name, ceiling in ceilings.items():
        print(f"matrix-product ceiling {name}: {ceiling / 1e12:.2f} TFLOP/s")
    with tempfile.TemporaryDirectory() as folder:
        config, batches, vocab_size = prepare(Path(folder), options.rounds + 1)
        table = rows(str(Path(folder) / "batches.npz"), vocab_size, options)
        try:
            measure(table, config, batches, vocab_size, ceilings)
        finally:
            for row in table:
                row.end()
    report(table)


def prepare(folder: Path, n_batches: int) -> tuple[TranslationConfig, list[TranslationBatch], int]:
    """Return the batches for the workers: src{i} (B, S), and tgt{i} (B, T + 1) from start to end token."""
    config = configuration()
    task = TranslationObjective(
        config, Run.create(folder / "run", config), torch.device("cpu"), TrainingListener()
    )
    plan = task.plan(0)[:n_batches]
    batches = [make_batch(task.epoch_store, indices) for indices in plan]
    arrays: dict[str, Any] = {}
    for i, batch in enumerate(batches):
        arrays[f"src{i}"] = batch.src.numpy()
        arrays[f"tgt{i}"] = np.concatenate([batch.tgt_in[:, :1].numpy(), batch.tgt_out.numpy()], axis=1)
        assert (arrays[f"tgt{i}"] == EOS_ID).any(1).all()
        assert PAD_ID == 0
    np.savez(folder / "batches.npz", **arrays)
    return config, batches, task.tokenizers.src.vocab_size


def rows(batches: str, vocab_size: int, options: argparse.Namespace) -> list[Row]:
    """Return the libraries that are here, each started."""
    given, n = [batches, str(vocab_size)], options.threads
    ours = str(PEERS / "with_dragoman.py")
    found = [
        Row(f"Dragoman, {precision}, {kernels} kernels", [sys.executable, ours, *given, precision, kernels],
            n, precision=precision)
        for precision in PRECISIONS for kernels in ("plain", "fast")
    ]  # fmt: skip
    if n > 1 and "bf16" in PRECISIONS:
        command = [sys.executable, *TORCHRUN, str(n), ours, *given, "bf16", "fast"]
        found.append(Row(f"Dragoman, bf16, fast, {n} processes", command, 1, precision="bf16"))
    found.append(Row("torch.nn.Transformer", [sys.executable, str(PEERS / "with_torch.py"), *given], n))
    for name, python, script in (
        ("Hugging Face MarianMTModel", options.marian, "with_marian.py"),
        ("JoeyNMT 2.3.0", options.joeynmt, "with_joeynmt.py"),
    ):
        if python:
            found.append(Row(name, [python, str(PEERS / script), *given], n))
    for row in found:
        row.start()
    return found


def measure(
    table: list[Row],
    config: TranslationConfig,
    batches: list[TranslationBatch],
    vocab_size: int,
    ceilings: dict[str, float],
) -> None:
    """Let all make the same updates in turn; the first is not counted."""
    for i, batch in enumerate(batches):
        flops = matrix_flops(config, batch, vocab_size)
        for row in table:
            seconds = row.seconds(i)
            if i > 0:
                row.speeds.append(batch.n_tokens / seconds)
                row.shares.append(flops / seconds / ceilings[row.precision])


def report(table: list[Row]) -> None:
    """Print the table: median, spread, and how many times as fast our fastest is."""
    best = max(statistics.median(row.speeds) for row in table if row.name.startswith("Dragoman"))
    print(f"\n{'':36}{'tokens/s (median)':>18}{'min':>8}{'max':>8}{'of ceiling':>12}{'best of ours':>14}")
    for row in table:
        median = statistics.median(row.speeds)
        print(
            f"{row.name:36}{median:18,.0f}{min(row.speeds):8,.0f}{max(row.speeds):8,.0f}"
            f"{statistics.median(row.shares):12.0%}{best / median:13.1f}x"
        )


def configuration() -> TranslationConfig:
    config = parse_config(
        {
            "name": "train-speed",
            "data": {
                "src_lang": "en",
                "tgt_lang": "de",
                "train": [f"multi30k/train.{lang}.gz" for lang in ("en", "de")],
                "valid": [f"multi30k/val.{lang}.gz" for lang in ("en", "de")],
            },
            "tokenizer": {"vocab_size": 8000},
            "model": {"d_model": 256, "d_ff": 1024, "n_encoder_layers": 3, "n_decoder_layers": 3},
            "training": {"batch_tokens": 4096},
        }
    )
    assert config.task == "translation"
    return config


def matrix_flops(config: TranslationConfig, batch: TranslationBatch, vocab_size: int) -> float:
    """Operations of the weights' matrix products for one update of `batch`: 6 per weight and real token."""
    of_src, of_tgt = weights_per_token(config, vocab_size)
    return 6.0 * (of_src * batch.n_src_tokens + of_tgt * batch.n_tgt_tokens)


def weights_per_token(config: TranslationConfig, vocab_size: int) -> tuple[int, int]:
    """Return the weights that a source token is multiplied with, and those that a target token is."""
    d, d_ff = config.model.d_model, config.model.d_ff
    encoder = config.model.n_encoder_layers * (4 * d * d + 2 * d * d_ff)
    memory = config.model.n_decoder_layers * 2 * d * d  # keys and values of the source
    decoder = config.model.n_decoder_layers * (6 * d * d + 2 * d * d_ff) + vocab_size * d
    return encoder + memory, decoder


if __name__ == "__main__":
    main()
