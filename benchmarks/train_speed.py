"""How fast a training step is, and how much of the machine's matrix-product ceiling it reaches.

    python benchmarks/train_speed.py            # Multi30k from $DRAGOMAN_DATA
    python benchmarks/train_speed.py --corpus phrasebook

Prints source + target tokens a second, padding not counted, of whole updates (batch from the store,
forward, backward, clipping, AdamW) of a model of 7.6 M parameters (d_model 256, 3+3 layers, d_ff 1024,
vocabulary 8000, dropout 0.3, batches of 4096 target tokens). Every setting runs the
same batches in turn, so that a noisy machine slows all of them; the median counts.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from dragoman.config import TranslationConfig, parse_config
from dragoman.data.batching import TranslationBatch
from dragoman.hardware import choose_dtype, matrix_ceiling
from dragoman.runs import Run, environment
from dragoman.training.listener import TrainingListener
from dragoman.training.optimizer import make_optimizer
from dragoman.training.state import Position, TrainState
from dragoman.training.translation import TranslationTask
from dragoman.training.update import Part, update

CORPORA = {
    "multi30k": {
        "train": [f"multi30k/train.{lang}.gz" for lang in ("en", "de")],
        "valid": [f"multi30k/val.{lang}.gz" for lang in ("en", "de")],
    },
    "phrasebook": {"train": ["phrasebook:train"], "valid": ["phrasebook:valid"]},
}

SETTINGS = {
    "fp32, plain kernels": ("fp32", "plain"),
    "fp32, fast kernels": ("fp32", "fast"),
    "bf16, plain kernels": ("bf16", "plain"),
    "bf16, fast kernels": ("bf16", "fast"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--corpus", choices=CORPORA, default="multi30k")
    parser.add_argument("--rounds", type=int, default=12, help="updates of each setting that are timed")
    options = parser.parse_args()
    facts = environment()
    print(f"{facts['cpu']}, {torch.get_num_threads()} threads, PyTorch {torch.__version__}")
    ceilings = {
        name: matrix_ceiling(dtype) for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16))
    }
    for name, ceiling in ceilings.items():
        print(f"matrix-product ceiling {name}: {ceiling / 1e12:.2f} TFLOP/s")
    with tempfile.TemporaryDirectory() as folder:
        report(Path(folder), options.corpus, options.rounds, ceilings)


def report(folder: Path, corpus: str, rounds: int, ceilings: dict[str, float]) -> None:
    config = configuration(corpus)
    run = Run.create(folder / "run", config)
    cpu = torch.device("cpu")
    steps = {}
    for name, (precision, kernels) in SETTINGS.items():
        own = configuration(corpus, f"training.precision={precision}", f"training.kernels={kernels}")
        task = TranslationTask(own, run, cpu, TrainingListener())
        task.model.train().dtype = choose_dtype(precision, cpu)
        state = TrainState(task.model, make_optimizer(task.model, own.training), None, Position())
        steps[name] = state, task
    plan = task.plan(0)
    print(f"{corpus}: {task.model.n_parameters / 1e6:.2f} M parameters, {len(plan)} batches an epoch\n")
    speeds: dict[str, list[float]] = {name: [] for name in steps}
    shares: dict[str, list[float]] = {name: [] for name in steps}
    for i in range(rounds + 1):
        batch = task.batch(0, plan[i % len(plan)], cpu)
        for name, (state, task) in steps.items():
            seconds = timed(partial(update, state, task, [Part(batch)], task.config))
            if i == 0:
                continue  # warm-up
            speeds[name].append(batch.n_tokens / seconds)
            ceiling = ceilings[SETTINGS[name][0]]
            shares[name].append(
                matrix_flops(config, batch, task.model.output.weight.shape[0]) / seconds / ceiling
            )
    print(f"{'':22}{'tokens/s (median)':>20}{'min':>9}{'max':>9}{'of ceiling':>12}")
    for name in steps:
        values = speeds[name]
        print(
            f"{name:22}{statistics.median(values):20,.0f}{min(values):9,.0f}{max(values):9,.0f}"
            f"{statistics.median(shares[name]):12.0%}"
        )


def configuration(corpus: str, *overrides: str) -> TranslationConfig:
    config = parse_config(
        {
            "name": "train-speed",
            "data": {"src_lang": "en", "tgt_lang": "de", **CORPORA[corpus]},
            "tokenizer": {"vocab_size": 8000},
            "model": {
                "d_model": 256,
                "d_ff": 1024,
                "n_encoder_layers": 3,
                "n_decoder_layers": 3,
                "dropout": 0.3,
            },
            "training": {"batch_tokens": 4096},
        },
        overrides=overrides,
    )
    assert config.task == "translation"
    return config


def matrix_flops(config: TranslationConfig, batch: TranslationBatch, vocab_size: int) -> float:
    """Operations of the weights' matrix products for one update of `batch`: 6 per weight and real token."""
    d, d_ff = config.model.d_model, config.model.d_ff
    encoder = config.model.n_encoder_layers * (4 * d * d + 2 * d * d_ff)
    memory = config.model.n_decoder_layers * 2 * d * d  # keys and values of the source
    decoder = config.model.n_decoder_layers * (6 * d * d + 2 * d * d_ff) + vocab_size * d
    return 6.0 * ((encoder + memory) * batch.n_src_tokens + decoder * batch.n_tgt_tokens)


def timed(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
