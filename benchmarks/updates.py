"""The model of 7.6 M parameters that training is measured with: its updates, and their operations."""

from __future__ import annotations

import time
from typing import Any, NoReturn

import torch

from dragoman.config import TranslationConfig, parse_config
from dragoman.data.batching import TranslationBatch
from dragoman.hardware import choose_dtype, keep_freed_memory, remember_few_shapes
from dragoman.model.kernels import choose_kernels
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.tasks.translation.loss import batch_loss
from dragoman.training.objective import BatchResult, Objective
from dragoman.training.parallel.processes import ALONE, Processes
from dragoman.training.state import TrainPosition, TrainState
from dragoman.training.updates.optimizer import make_optimizer
from dragoman.training.updates.updater import BatchShare, SyncUpdater, loss_module
from texts import files_of


def configuration(*overrides: str, **training: Any) -> TranslationConfig:
    """Return the settings of the model on Multi30k, with changes."""
    settings = {
        "name": "speed",
        "data": {
            "src_lang": "en", "tgt_lang": "de",
            "train": files_of("multi30k", "train"), "valid": files_of("multi30k", "val"),
        },
        "tokenizer": {"vocab_size": 8000},
        "model": {"d_model": 256, "d_ff": 1024, "n_encoder_layers": 3, "n_decoder_layers": 3},
        "training": {"batch_tokens": 4096, **training},
    }  # fmt: skip
    config = parse_config(settings, overrides=overrides)
    assert config.task == "translation"
    return config


def weights_per_token(config: TranslationConfig, vocab_size: int) -> tuple[int, int]:
    """Return the weights that a source token is multiplied with, and those that a target token is.

    An update has 6 operations for each of them: two forward, four backward.
    """
    d, d_ff = config.model.d_model, config.model.d_ff
    encoder = config.model.n_encoder_layers * (4 * d * d + 2 * d * d_ff)
    memory = config.model.n_decoder_layers * 2 * d * d  # keys and values of the source
    decoder = config.model.n_decoder_layers * (6 * d * d + 2 * d * d_ff) + vocab_size * d
    return encoder + memory, decoder


def matrix_flops(config: TranslationConfig, batch: TranslationBatch, vocab_size: int) -> float:
    """Operations of the weights' matrix products for one update of `batch`, padding not counted."""
    of_src, of_tgt = weights_per_token(config, vocab_size)
    return 6.0 * (of_src * batch.n_src_tokens + of_tgt * batch.n_tgt_tokens)


class Batches(Objective[TranslationBatch]):
    """The loss of translation, on batches that come from outside."""

    def __init__(self, model: Seq2SeqTransformer, smoothing: float) -> None:
        self.model = self.translator = model
        self.smoothing = smoothing

    def n_items(self, batch: TranslationBatch) -> int:
        return batch.n_tgt_tokens

    def loss(self, batch: TranslationBatch) -> BatchResult:
        loss = batch_loss(self.translator, batch, smoothing=self.smoothing)
        return BatchResult(loss.smoothed, batch.n_tokens)

    def _no_corpus(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError

    plan = batch = memory = validate = _no_corpus


class Model:
    """A model on the processor with its updates; equal in all processes."""

    def __init__(
        self, config: TranslationConfig, vocab_size: int, *, smoothing: float, processes: Processes = ALONE
    ) -> None:
        cpu = torch.device("cpu")
        remember_few_shapes()
        keep_freed_memory()
        torch.manual_seed(1)
        model = Seq2SeqTransformer(
            config.model, src_vocab_size=vocab_size, tgt_vocab_size=vocab_size,
            kernels=choose_kernels(config.training.kernels, cpu),
        ).train()  # fmt: skip
        model.dtype = choose_dtype(config.training.precision, cpu)
        task = Batches(model, smoothing)
        module = loss_module(task, config, processes)
        self.state = TrainState(model, make_optimizer(model, config.training), None, TrainPosition())
        self.updater = SyncUpdater(task, self.state, config, module=module, processes=processes)

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
