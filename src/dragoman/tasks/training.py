"""Train: from a configuration to a finished run."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch

from dragoman.config import Config
from dragoman.data.doctor.inspection import inspect_text
from dragoman.data.named import PLACES, hashes_of, places_of
from dragoman.errors import ConfigError, require
from dragoman.hardware import choose_dtype, has_bf16, keep_freed_memory, remember_few_shapes
from dragoman.runs import CORPORA, Run, only_writer
from dragoman.tasks import task_of
from dragoman.training.checkpoints import CheckpointWriter, is_static, newest_checkpoint
from dragoman.training.parallel.processes import Processes, joined
from dragoman.training.state import TrainPosition, TrainState, parameters, seed_process
from dragoman.training.trainer import Trainer, TrainingListener, is_finished, recognise_text
from dragoman.training.updates.optimizer import make_optimizer
from dragoman.training.updates.updater import loss_module

ECHO = 5.0
"""Seconds in which a second SIGTERM is the first one again: schedulers send it to a launcher, which passes it
on, and to all that it has started."""


def train(
    config: Config,
    out: str | Path,
    *,
    listener: TrainingListener | None = None,
    max_hours: float = 0.0,
    allow_changed_data: bool = False,
    check: bool = True,
) -> Path:
    """Train into the run directory `out`, or continue there; return its path.

    The same call on an unfinished run continues to the bit. Processes started by torchrun train one model
    together; rank 0 writes files and prints. With `allow_changed_data`, a run continues with other text than
    it began with, and its history says from where. Without `check`, text that cannot be right is reported
    but not refused.

    Raises:
        ConfigError: `max_hours` is negative, or a setting does not fit this machine.
        DataError: the text cannot be read, or cannot be right.
        KeyboardInterrupt, PausedError: Ctrl-C; SIGTERM, or `max_hours` of this call are over. A checkpoint
            was saved.
        RunError: another training is writing `out`; it holds another run, or one of text that has changed; it
            cannot be written.
        TrainingError: the training diverges, or does not fit into memory.
    """
    if not max_hours >= 0:
        raise ConfigError(f"max_hours = {max_hours}: give 0, for no limit, or a number of hours")
    if config.tokenizer.splitter == "spacy":
        require("spacy", extra="spacy", purpose='tokenizer.splitter = "spacy"')
    deadline = time.monotonic() + 3600 * max_hours if max_hours else math.inf
    together = joined(config.training.device, timeout_minutes=config.training.timeout_minutes)
    with together as processes, ExitStack() as held:
        listener = (listener if processes.first else None) or TrainingListener()
        with processes.first_ahead():
            if processes.first:
                report_on_text(config, out, listener.message, check=check)
                held.enter_context(only_writer(out))
            run = Run.create(out, config)
        if is_finished(run):
            more = f"more than {config.training.max_steps:,} steps (--set training.max_steps=N)"
            listener.message(f"{run.path} is finished; choose {more}, or another folder to train again")
            return run.path
        with processes.first_ahead():
            hashes = hashes_of(config)
            changed = recognise_text(run, hashes, allow_changes=allow_changed_data)
        trainer = start_or_continue(config, run, listener, processes, deadline=deadline)
        note_text(trainer, hashes, changed)
        listener.started(trainer.state.position, config, trainer.state.model.n_parameters)
        trainer.find_room()
        with interruption() as interrupted:
            trainer.train(interrupted)
        if processes.first:
            trainer.finish()
        processes.wait()
    return run.path


def report_on_text(config: Config, out: str | Path, say: Callable[[str], None], *, check: bool) -> None:
    """Say what the text of a training that has not begun in `out` looks like.

    DataError: the text cannot be read, or with `check` cannot be right.
    """
    if not Run(Path(out), config).config_path.exists():
        for inspection in inspect_text(config):
            inspection.report(say, check=check)


def start_or_continue(
    config: Config, run: Run, listener: TrainingListener, processes: Processes, *, deadline: float = math.inf
) -> Trainer:
    """Return a trainer with the state of the newest checkpoint, or with a fresh one."""
    device = processes.device
    remember_few_shapes()
    keep_freed_memory()
    if config.training.n_threads:
        torch.set_num_threads(config.training.n_threads)
    torch.manual_seed(config.seed)
    with processes.first_ahead():
        newest = newest_checkpoint(run)
        on_gpu = device.type == "cuda" and not config.training.wants_free_steps()
        configured = {"free": False, "static": True, "auto": on_gpu}[config.training.steps]
        static = is_static(newest) if newest else configured  # batches of few shapes
        objective = task_of(config).objective(config, run, device, listener, static=static)
    if newest is None:
        training = config.training
        if training.warmup_steps >= training.max_steps:
            listener.message(
                f"warning (warm-up): training.warmup_steps = {training.warmup_steps:,} are not over when "
                f"training.max_steps = {training.max_steps:,} are: the learning rate never reaches its peak; "
                "set training.warmup_steps to a fifth of them"
            )
        objective.begin()
    model = objective.model.train()
    model.dtype = choose_dtype(config.training.precision, device)
    if model.dtype == torch.bfloat16 and not has_bf16(device):
        listener.message(
            'training.precision = "bf16": there are no instructions for it here, so that it takes many times '
            'as long as "fp32"; "auto" chooses what is fast'
        )
    module = loss_module(objective, config, processes)  # shards the weights, if configured
    model.to(device)  # the model is built on the CPU first, so that sharding can place its weights
    ema = {k: v.clone() for k, v in parameters(model).items()} if config.training.ema_decay else None
    state = TrainState(model, make_optimizer(model, config.training), ema, TrainPosition(static=static))
    if newest is not None:
        state.restore(newest, processes)
        listener.message(f"continuing from step {state.position.step}")
    else:
        seed_process(config.seed, processes)
    if processes.first:
        run.truncate_history(state.position.step, also=("back",))
    checkpoints = CheckpointWriter(run, config, processes)
    return Trainer(config, run, objective, state, module, listener, processes, checkpoints, deadline)


def note_text(trainer: Trainer, hashes: Mapping[str, Mapping[str, str]], changed: Sequence[str]) -> None:
    """Keep the hashes and places of the text in the run, and files that have `changed` in its history."""
    if changed:
        step, names = trainer.state.position.step, [Path(file).name for file in changed]
        trainer.write_history({"kind": "data", "step": step, "changed": names})
        trainer.listener.message(f"continuing with changed text from step {step}: {', '.join(names)}")
    if trainer.processes.first and (changed or not (trainer.run.path / CORPORA).exists()):
        trainer.run.write_json(CORPORA, {**hashes, PLACES: places_of(trainer.config)})


@contextmanager
def interruption() -> Iterator[Callable[[], int]]:
    """Defer Ctrl-C and SIGTERM: yield a function that returns the number of the first one received, else 0.

    A second signal interrupts at once. Outside the main thread, signals are left alone.
    """
    requested, since = 0, 0.0
    previous: dict[int, Any] = {}
    signals = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()

    def request(signum: int, frame: Any) -> None:
        nonlocal requested, since
        echo = requested == signum == signal.SIGTERM and time.monotonic() - since <= ECHO
        if not requested:
            requested, since = signum, time.monotonic()
        elif not echo:
            give_back()
            signal.raise_signal(signum)

    def give_back() -> None:
        for signum, handler in previous.items():
            signal.signal(signum, handler)

    for signum in signals:
        previous[signum] = signal.signal(signum, request)
    try:
        yield lambda: requested
    finally:
        give_back()
