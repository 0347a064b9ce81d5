"""Dragoman's own training step, as a worker like the others: alone, or as several processes under torchrun.

python with_dragoman.py BATCHES.npz VOCAB_SIZE bf16 fast
torchrun --nproc-per-node 2 with_dragoman.py BATCHES.npz VOCAB_SIZE bf16 fast
"""

import sys
from functools import partial

import numpy as np
import torch
import worker

from dragoman.config import ModelConfig, parse_config
from dragoman.data.batching import TranslationBatch
from dragoman.hardware import choose_dtype, keep_freed_memory, remember_few_shapes
from dragoman.model.kernels import choose_kernels
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.tasks.translation.loss import batch_loss
from dragoman.training.objective import BatchResult, Objective
from dragoman.training.parallel.processes import ALONE, joined
from dragoman.training.state import TrainPosition, TrainState
from dragoman.training.updates.optimizer import make_optimizer
from dragoman.training.updates.updater import BatchShare, SyncUpdater, loss_module

CPU = torch.device("cpu")


class Batches(Objective[TranslationBatch]):
    """The loss of translation, on batches that come from outside."""

    def __init__(self, model, config):
        self.model, self.config = model, config

    def plan(self, epoch):
        raise NotImplementedError

    def batch(self, indices, device):
        raise NotImplementedError

    def memory(self, indices):
        raise NotImplementedError

    def validate(self, weights):
        raise NotImplementedError

    def n_items(self, batch):
        return batch.n_tgt_tokens

    def loss(self, batch):
        loss = batch_loss(self.model, batch, smoothing=worker.SMOOTHING)
        return BatchResult(loss.smoothed, batch.n_tokens)


def make_step(vocab_size, *, precision, kernels, processes=ALONE):
    settings = {
        "d_model": worker.D_MODEL, "d_ff": worker.D_FF, "n_heads": worker.N_HEADS,
        "n_encoder_layers": worker.N_LAYERS, "n_decoder_layers": worker.N_LAYERS,
        "dropout": worker.DROPOUT,
    }  # fmt: skip
    config = parse_config(
        {
            "name": "speed",
            "data": {"src_lang": "en", "tgt_lang": "de", "train": ["train.tsv"]},
            "model": settings,
            "training": {"learning_rate": worker.RATE, "clip_norm": 1.0},
        }
    )
    remember_few_shapes()
    keep_freed_memory()
    torch.manual_seed(1)
    model = Seq2SeqTransformer(
        ModelConfig(**settings), src_vocab_size=vocab_size, tgt_vocab_size=vocab_size,
        kernels=choose_kernels(kernels, CPU),
    ).train()  # fmt: skip
    model.dtype = choose_dtype(precision, CPU)
    task = Batches(model, config)
    module = loss_module(task, config, processes)
    state = TrainState(model, make_optimizer(model, config.training), None, TrainPosition())
    updater = SyncUpdater(task, state, config, module=module, processes=processes)

    def step(src, tgt):
        inputs, targets = worker.teacher_forcing(tgt)
        rows = torch.from_numpy(processes.share(np.arange(len(src))))
        batch = TranslationBatch(*(ids[rows] for ids in (src, inputs, targets)))
        updater.update([BatchShare(batch)])

    return step


def numbers(processes):
    """Yield the numbers of the batches: the first process reads them and tells the others."""
    lines = iter(sys.stdin)
    while True:
        line = next(lines, "") if processes.first else ""
        number = int(processes.largest(float(line) if line else -1.0)[0])
        if number < 0:
            return
        yield number


def main():
    precision, kernels = sys.argv[3:5]
    with joined("cpu") as processes:
        make = partial(make_step, precision=precision, kernels=kernels, processes=processes)
        worker.serve(make, numbers(processes), speaks=processes.first)


if __name__ == "__main__":
    main()
