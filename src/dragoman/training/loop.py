"""The training loop: functions over an explicit state, from a configuration to a finished run."""

from __future__ import annotations

import json
import math
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import nn

from dragoman.config import Config, TrainingConfig
from dragoman.errors import PausedError, TrainingError
from dragoman.hardware import choose_device, choose_dtype, keep_freed_memory
from dragoman.runs import Run, environment
from dragoman.training import memory, trouble
from dragoman.training.checkpoints import averaged_files, newest_checkpoint, save_checkpoint
from dragoman.training.listener import TrainingListener
from dragoman.training.memory import Indices, OutOfMemoryError
from dragoman.training.optimizer import make_optimizer
from dragoman.training.processes import Processes, joined
from dragoman.training.schedule import learning_rate
from dragoman.training.sharding import all_whole
from dragoman.training.state import Position, TrainState, average_weights, parameters, seed_process
from dragoman.training.task import Task, Validation, Weights
from dragoman.training.update import Part, Updated, loss_module, update

REPORT = "report.json"
"""Written last: a run that has it is finished."""

TIME_IS_UP = 1000
"""Why training pauses, beside the numbers of signals."""

MIN_STEPS = 100
"""Updates after which a model may be suspected at the earliest."""


@dataclass(frozen=True)
class Sitting:
    """One call of `train`: what its functions share."""

    config: Config
    run: Run
    device: torch.device
    task: Task[Any]
    state: TrainState
    module: nn.Module
    """The task's loss, shared between the processes where there are several."""
    listener: TrainingListener
    processes: Processes
    deadline: float = math.inf
    """When it has to end, in seconds of `time.monotonic`."""


def train(
    config: Config,
    out: str | Path,
    *,
    listener: TrainingListener | None = None,
    max_hours: float = 0.0,
) -> Path:
    """Trains as `config` says into the run directory `out`, or continues there; returns its path.

    The same call on an unfinished run continues to the bit. Processes that torchrun has started train one
    model together; the first of them writes and speaks. DataError, RunError, TrainingError: see their
    messages. KeyboardInterrupt and PausedError (a SIGTERM, or `max_hours` of this call are over) save a
    checkpoint.
    """
    deadline = time.monotonic() + 3600 * max_hours if max_hours else math.inf
    with joined(config.training.device) as processes:
        listener = (listener if processes.first else None) or TrainingListener()
        with processes.first_ahead():
            run = Run.create(out, config)
        if is_finished(run):
            listener.message(f"{run.path} is finished; choose another folder to train again")
            return run.path
        sitting = start_or_continue(config, run, listener, processes, deadline=deadline)
        listener.started(sitting.state.position, config, sitting.task.model.n_parameters)
        find_room(sitting)
        with interruption() as interrupted:
            run_until_the_end(sitting, interrupted)
        if processes.first:
            finish(sitting)
        processes.wait()
    return run.path


def start_or_continue(
    config: Config, run: Run, listener: TrainingListener, processes: Processes, *, deadline: float = math.inf
) -> Sitting:
    """A sitting from the state of the newest checkpoint, or from a fresh one."""
    device = choose_device(config.training.device) if processes.size == 1 else processes.device
    keep_freed_memory()
    if config.training.n_threads:
        torch.set_num_threads(config.training.n_threads)
    torch.manual_seed(config.seed)
    with processes.first_ahead():
        task = make_task(config, run, device, listener)
    newest = newest_checkpoint(run)
    if newest is None:
        task.begin()
    model = task.model.train()
    model.dtype = choose_dtype(config.training.precision, device)
    module = loss_module(task, config, processes)  # spreads the weights, where they are to be spread
    ema = {k: v.clone() for k, v in parameters(model).items()} if config.training.ema_decay else None
    state = TrainState(model, make_optimizer(model, config.training), ema, Position())
    sitting = Sitting(config, run, device, task, state, module, listener, processes, deadline)
    if newest is not None:
        state.restore(newest, processes)
        listener.message(f"continuing from step {state.position.step}")
    else:
        seed_process(config.seed, processes)
    if processes.first:
        run.truncate_history(state.position.step)
    return sitting


def make_task(config: Config, run: Run, device: torch.device, listener: TrainingListener) -> Task[Any]:
    """The task that `config` describes, its data read and its model fresh, in the type it is trained in."""
    if config.task == "classification":
        from dragoman.training.classification import ClassificationTask

        return ClassificationTask(config, run, device, listener)
    from dragoman.training.translation import TranslationTask

    return TranslationTask(config, run, device, listener)


@contextmanager
def interruption() -> Iterator[Callable[[], int]]:
    """Turns the first Ctrl-C or SIGTERM into an answer, its number, so that it falls between two updates.

    A second one interrupts at once. Outside the main thread signals are left alone.
    """
    requested = 0
    previous: dict[int, Any] = {}
    signals = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()

    def request(signum: int, frame: Any) -> None:
        nonlocal requested
        requested = signum
        signal.signal(signum, previous[signum])

    for signum in signals:
        previous[signum] = signal.signal(signum, request)
    try:
        yield lambda: requested
    finally:
        for signum in signals:
            signal.signal(signum, previous[signum])


def run_until_the_end(sitting: Sitting, interrupted: Callable[[], int]) -> None:
    """Updates the weights until the training is over, going back to the last checkpoint when in trouble.

    KeyboardInterrupt, PausedError: it was to stop before.
    """
    while not is_over(sitting.state.position, sitting.config):
        try:
            run_updates(sitting, interrupted)
        except trouble.InTroubleError as error:
            go_back(sitting, str(error))


def run_updates(sitting: Sitting, interrupted: Callable[[], int]) -> None:
    """Updates the weights until the training is over, validating and saving on the way.

    KeyboardInterrupt, PausedError: it was to stop before, with a checkpoint. InTroubleError: it goes wrong.
    """
    state, config, processes = sitting.state, sitting.config, sitting.processes
    training, position = config.training, state.position
    clock = time.perf_counter()
    logged_at = position.seconds
    for batches in updates(sitting):
        done = update_that_fits(sitting, batches)
        if done.left_out:
            sitting.listener.message(f"step {position.step:,} left out: {done.left_out}")
        sitting.listener.stepped(position)
        now = time.perf_counter()
        # What the processes must agree on, asked once: what is acted upon below must also have been saved.
        late = TIME_IS_UP if time.monotonic() >= sitting.deadline else 0
        seconds, stop = processes.largest(position.seconds + now - clock, interrupted() or late)
        position.seconds, clock = seconds, now
        last = is_over(position, config)
        if position.step % training.log_every == 0 or last:
            record = log_record(state, config, done.gradient_norm, position.seconds - logged_at)
            logged_at = position.seconds
            write_history(sitting, record)
            sitting.listener.logged(record)
        settled = position.n_in_a_row == 0  # else the weights may be what is wrong: not to be gone back to
        if due := (is_validated(position, config) and settled) or last:
            validate(sitting)
            now = time.perf_counter()
            position.seconds, clock = position.seconds + now - clock, now
            logged_at = position.seconds
        if due or (stop and settled):
            save_checkpoint(state, sitting.run, config, processes)
        if stop and settled and not is_over(position, config):
            pause(sitting, int(stop))
        if is_over(position, config):
            return


def pause(sitting: Sitting, reason: int) -> NoReturn:
    """Says that training stops, and stops it: KeyboardInterrupt for Ctrl-C, else PausedError."""
    step = sitting.state.position.step
    causes = {int(signal.SIGINT): "interrupted", int(signal.SIGTERM): "asked to end (SIGTERM)"}
    what = causes.get(reason, "the time is up:")
    sitting.listener.message(f"{what} at step {step}; the same command continues from here")
    if reason == signal.SIGINT:
        raise KeyboardInterrupt
    raise PausedError(reason)


def go_back(sitting: Sitting, reason: str) -> None:
    """Returns to the last checkpoint with a lower rate. TrainingError: there is none, or it was enough."""
    troubled, newest = sitting.state.position, newest_checkpoint(sitting.run)
    if newest is None:
        raise TrainingError(
            f"{reason}, at step {troubled.step}, and there is no checkpoint yet. {trouble.ADVICE}"
        )
    sitting.processes.wait()
    sitting.state.restore(newest, sitting.processes)
    position = sitting.state.position
    trouble.lower_rate(position, troubled, reason)
    if sitting.processes.first:
        sitting.run.truncate_history(position.step)
    record = {"kind": "back", "step": position.step, "from_step": troubled.step, "reason": reason}
    write_history(sitting, {**record, "rate_factor": position.rate_factor})
    sitting.listener.message(
        f"step {troubled.step:,}: {reason}; back to step {position.step:,} with "
        f"{position.rate_factor:g} times the rate"
    )


def write_history(sitting: Sitting, record: dict[str, Any]) -> None:
    """Adds a line to history.jsonl, in one of the processes."""
    if sitting.processes.first:
        sitting.run.append_history(record)


def is_over(position: Position, config: Config) -> bool:
    """Whether steps, passes, time or patience have come to their end."""
    training = config.training
    return (
        position.step >= training.max_steps
        or 0 < training.max_epochs <= position.epoch
        or 0 < 60 * training.max_minutes <= position.seconds
        or 0 < training.patience <= position.n_worse
    )


def is_validated(position: Position, config: Config) -> bool:
    """Whether the weights are to be scored after this update: every so many, or where an epoch ended."""
    every = config.training.valid_every
    return position.step % every == 0 if every else position.batch == 0


def updates(sitting: Sitting) -> Iterator[list[Indices]]:
    """The batches of one update after another, from the position on, which it advances.

    They are the same whatever the number of processes; each is spread over all of them.
    """
    position, frequency = sitting.state.position, sitting.config.training.update_freq
    while True:
        plan = plan_epoch(sitting)
        while position.batch < len(plan):
            batches = list(plan[position.batch : position.batch + frequency])
            position.batch += len(batches)
            if over := position.batch >= len(plan):
                position.epoch, position.batch = position.epoch + 1, 0
            yield batches
            if over:
                break


def plan_epoch(sitting: Sitting) -> Sequence[Indices]:
    """The batches of the epoch that the position is in."""
    with sitting.processes.first_ahead():  # with BPE-dropout it draws tokens, which all must share
        return sitting.task.plan(sitting.state.position.epoch)


def find_room(sitting: Sitting) -> None:
    """Before the first update on a GPU: tries the largest batch, and cuts batches until it fits."""
    position, processes = sitting.state.position, sitting.processes
    spread = processes.size > 1 and sitting.config.training.sharding == "full"  # they compute together only
    if position.step or sitting.device.type != "cuda" or spread:
        return
    largest = max(plan_epoch(sitting), key=sitting.task.memory)
    memory.fit(sitting.task, position, processes.share(largest), sitting.device)
    position.n_pieces = int(processes.largest(position.n_pieces)[0])
    if position.n_pieces > 1:
        sitting.listener.message(f"each batch is read in {position.n_pieces} pieces, to fit into memory")


def update_that_fits(sitting: Sitting, batches: list[Indices]) -> Updated:
    """An update by `batches`, in smaller pieces from here on where memory is too little for it.

    TrainingError: it is too little for one example, or there are other processes, which wait by now.
    """
    state, task, processes = sitting.state, sitting.task, sitting.processes
    while True:
        try:
            parts = [part for batch in batches for part in parts_of(sitting, batch)]
            return update(state, task, parts, sitting.config, module=sitting.module, processes=processes)
        except OutOfMemoryError:
            if processes.size > 1:
                raise TrainingError(
                    f"out of memory at step {state.position.step}; the last checkpoint stands. "
                    "Set a smaller training.batch_tokens, and a larger training.update_freq"
                ) from None
            state.optimizer.zero_grad()
        # Outside of the handler, which would keep what is to be freed.
        memory.cut_smaller(state.position, max(batches, key=len))
        sitting.listener.message(
            f"out of memory: each batch is read in {state.position.n_pieces} pieces from here on; "
            "the updates are the same"
        )


def parts_of(sitting: Sitting, batch: Indices) -> list[Part]:
    """What this process has of a batch, in pieces that fit."""
    task, device = sitting.task, sitting.device
    mine = sitting.processes.share(batch)
    if not len(mine):
        return [Part(task.batch(batch[:1], device), weight=0.0)]
    n_pieces = sitting.state.position.n_pieces
    return [Part(task.batch(piece, device)) for piece in memory.pieces(mine, n_pieces)]


def log_record(state: TrainState, config: Config, gradient_norm: float, seconds: float) -> dict[str, Any]:
    """What happened since the last log line; the window starts anew."""
    position = state.position
    record = {
        "kind": "train",
        "step": position.step,
        "epoch": position.epoch,
        "train_loss": position.window_loss / position.window_items if position.window_items else math.nan,
        "lr": learning_rate(position.step, config.training, factor=position.rate_factor),
        "gradient_norm": gradient_norm,
        "tokens_per_second": position.window_tokens / max(seconds, 1e-9),
        "seconds": position.seconds,
    }
    position.window_loss, position.window_items, position.window_tokens = 0.0, 0.0, 0
    return record


def validate(sitting: Sitting) -> None:
    """Scores the weights and keeps them if they are the best yet; the first process does it for all."""
    state, processes = sitting.state, sitting.processes
    sitting.listener.validating()
    weights = all_whole(state.weights(), processes)
    if processes.first:
        score(sitting, weights)
    if processes.size > 1:
        shared = json.loads(processes.from_first(json.dumps(asdict(state.position))))
        for name, value in shared.items():
            setattr(state.position, name, value)


def score(sitting: Sitting, weights: Weights) -> None:
    """Scores `weights`, keeps them if they are the best yet, and writes down what came out."""
    run, listener = sitting.run, sitting.listener
    training, position = sitting.config.training, sitting.state.position
    result = sitting.task.validate(weights)
    position.scores[str(position.step)] = result.score
    best = position.best_score is None or result.score > position.best_score
    if best:
        position.best_score, position.best_step = result.score, position.step
        position.n_worse = position.n_stalled = position.n_times_back = 0
        run.save_weights(weights)
    else:
        position.n_worse += 1
        position.n_stalled += 1
    if training.schedule == "plateau" and position.n_stalled >= training.plateau_patience:
        position.rate_factor, position.n_stalled = position.rate_factor * training.plateau_factor, 0
    record = {
        "kind": "valid",
        "step": position.step,
        "epoch": position.epoch,
        **result.record,
        "best": best,
    }
    run.append_history({**record, "seconds": position.seconds})
    listener.logged(record)
    if should_be_learning(position, training):
        warn(position, result, listener)


def should_be_learning(position: Position, training: TrainingConfig) -> bool:
    """Whether something may be expected of a model by now: warmed up, with a pass over the data behind it.

    Where the training makes less than five passes, a fifth of its updates will do.
    """
    passed = position.epoch >= 1 or 5 * position.step >= training.max_steps
    return passed and position.step > max(MIN_STEPS, 3 * training.warmup_steps)


def warn(position: Position, result: Validation, listener: TrainingListener) -> None:
    """Says what is suspicious about the model, each thing once in a training."""
    for name, warning in result.warnings.items():
        if name not in position.warned:
            position.warned.append(name)
            listener.message(f"warning: {warning}")


def finish(sitting: Sitting) -> None:
    """Averages checkpoints, keeps the average if it scores better, and closes the run."""
    state, task, run, listener = sitting.state, sitting.task, sitting.run, sitting.listener
    training, position = sitting.config.training, state.position
    files = averaged_files(run, position, sitting.config)
    kept = "best"
    if training.average != "none" and len(files) > 1:
        listener.validating()
        mean = average_weights(files)
        result = task.validate(mean)
        better = position.best_score is None or result.score > position.best_score
        if better:
            kept = "average"
            position.best_score = result.score
            run.save_weights(mean)
        record = {
            "kind": "average",
            "step": position.step,
            "n": len(files),
            **result.record,
            "best": better,
        }
        run.append_history({**record, "seconds": position.seconds})
        listener.logged(record)
    task.finish(run.load_weights())
    run.write_json("environment.json", environment())
    run.write_json(
        REPORT,
        {
            "kept": kept,
            "best_step": position.best_step,
            "steps": position.step,
            "steps_left_out": position.n_left_out,
            "epochs": position.epoch,
            "minutes": position.seconds / 60,
            "n_parameters": state.model.n_parameters,
            f"valid_{training.metric}": position.best_score,
        },
    )
    shutil.rmtree(run.path / "cache", ignore_errors=True)


def is_finished(run: Run) -> bool:
    """Whether the training came to its end: its report is the last thing it writes."""
    return (run.path / REPORT).exists()
