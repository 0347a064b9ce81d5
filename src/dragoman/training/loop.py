"""The training loop: functions over an explicit state, from a configuration to a finished run."""

from __future__ import annotations

import math
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from dragoman.config import Config, TrainingConfig
from dragoman.errors import TrainingError
from dragoman.hardware import choose_device, choose_dtype, keep_freed_memory
from dragoman.runs import Run, environment
from dragoman.training.listener import TrainingListener
from dragoman.training.optimizer import make_optimizer, set_learning_rate
from dragoman.training.schedule import learning_rate
from dragoman.training.state import Position, TrainState, average_weights, parameters
from dragoman.training.task import Task, Validation

REPORT = "report.json"
"""Written last: a run that has it is finished."""

MIN_STEPS = 100
"""Updates after which a model may be suspected at the earliest."""


def train(config: Config, out: str | Path, *, listener: TrainingListener | None = None) -> Path:
    """Trains as `config` says into the run directory `out`, or continues there; returns its path.

    The same call on an unfinished run continues to the bit. DataError, RunError, TrainingError: see
    their messages. KeyboardInterrupt saves a checkpoint first.
    """
    listener = listener or TrainingListener()
    run = Run.create(out, config)
    if is_finished(run):
        listener.message(f"{run.path} is finished; choose another folder to train again")
        return run.path
    device = choose_device(config.training.device)
    keep_freed_memory()
    if config.training.n_threads:
        torch.set_num_threads(config.training.n_threads)
    torch.manual_seed(config.seed)
    task = make_task(config, run, device, listener)
    state = start_or_continue(task, config, run, listener)
    listener.started(state.position, config, task.model.n_parameters)
    with interruption() as interrupted:
        run_updates(state, task, config, run, listener, interrupted)
    if interrupted():
        listener.message(f"interrupted at step {state.position.step}; the same command continues from here")
        raise KeyboardInterrupt
    finish(state, task, config, run, listener)
    return run.path


def make_task(config: Config, run: Run, device: torch.device, listener: TrainingListener) -> Task[Any]:
    """The task that `config` describes, its data read and its model fresh, in the type it is trained in."""
    if config.task == "classification":
        from dragoman.training.classification import ClassificationTask

        return ClassificationTask(config, run, device, listener)
    from dragoman.training.translation import TranslationTask

    return TranslationTask(config, run, device, listener)


@contextmanager
def interruption() -> Iterator[Callable[[], bool]]:
    """Turns the first Ctrl-C or SIGTERM into an answer of True, so that it falls between two updates.

    A second one interrupts at once. Outside the main thread signals are left alone.
    """
    requested = False
    previous: dict[int, Any] = {}
    signals = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()

    def request(signum: int, frame: Any) -> None:
        nonlocal requested
        requested = True
        signal.signal(signum, previous[signum])

    for signum in signals:
        previous[signum] = signal.signal(signum, request)
    try:
        yield lambda: requested
    finally:
        for signum in signals:
            signal.signal(signum, previous[signum])


def start_or_continue(task: Task[Any], config: Config, run: Run, listener: TrainingListener) -> TrainState:
    """The state of the newest checkpoint, or a fresh one."""
    model = task.model.train()
    model.dtype = choose_dtype(config.training.precision, next(model.parameters()).device)
    ema = {k: v.clone() for k, v in parameters(model).items()} if config.training.ema_decay else None
    state = TrainState(model, make_optimizer(model, config.training), ema, Position())
    newest = newest_checkpoint(run)
    if newest is not None:
        state.restore(newest)
        listener.message(f"continuing from step {state.position.step}")
    run.truncate_history(state.position.step)
    return state


def run_updates(
    state: TrainState,
    task: Task[Any],
    config: Config,
    run: Run,
    listener: TrainingListener,
    interrupted: Callable[[], bool],
) -> None:
    """Updates the weights until there is a reason to stop, validating and saving on the way."""
    training, position = config.training, state.position
    if is_over(position, config):
        return
    clock = time.perf_counter()
    logged_at = position.seconds
    for batches in updates(state, task, config):
        gradient_norm = update(state, task, batches, config)
        now = time.perf_counter()
        position.seconds, clock = position.seconds + now - clock, now
        listener.stepped(position)
        last = is_over(position, config)
        stop = interrupted()  # asked once: what is acted upon below must also have been saved
        if position.step % training.log_every == 0 or last:
            record = log_record(state, config, gradient_norm, position.seconds - logged_at)
            logged_at = position.seconds
            run.append_history(record)
            listener.logged(record)
        if is_validated(position, config) or last:
            listener.validating()
            validate(state, task, config, run, listener)
            now = time.perf_counter()
            position.seconds, clock = position.seconds + now - clock, now
            logged_at = position.seconds
            save_checkpoint(state, run, config)
        elif stop:
            save_checkpoint(state, run, config)
        if stop or is_over(position, config):
            return


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


def updates(state: TrainState, task: Task[Any], config: Config) -> Iterator[list[Any]]:
    """The batches of one update after another, for ever, from the position on, which it advances."""
    position, training = state.position, config.training
    device = next(state.model.parameters()).device
    while True:
        plan = task.plan(position.epoch)
        while position.batch < len(plan):
            chosen = plan[position.batch : position.batch + training.update_freq]
            batches = [task.batch(position.epoch, indices, device) for indices in chosen]
            position.batch += len(chosen)
            if position.batch >= len(plan):
                position.epoch, position.batch = position.epoch + 1, 0
                yield batches
                break
            yield batches


def update(state: TrainState, task: Task[Any], batches: list[Any], config: Config) -> float:
    """One update of the weights from the gradients of `batches`; returns the norm of the gradient.

    The loss is divided by the items of the whole update, so that it does not matter how they are cut into
    batches: gradients are summed first and divided once. TrainingError: the loss or the gradient is not
    a finite number.
    """
    training, position = config.training, state.position
    scale = position.loss_scale if state.model.dtype == torch.float16 else 1.0
    n_items = sum(task.n_items(batch) for batch in batches)
    results = []
    for batch in batches:
        result = task.loss(batch)
        (result.loss * (scale / n_items)).backward()  # type: ignore[no-untyped-call]
        results.append(result)
    total = sum(result.loss.item() for result in results)
    if scale != 1.0:
        for parameter in state.model.parameters():
            if parameter.grad is not None:
                parameter.grad /= scale
    limit = training.clip_norm or math.inf
    gradient_norm = float(torch.nn.utils.clip_grad_norm_(state.model.parameters(), limit))
    rate = learning_rate(position.step + 1, training, plateau_factor=position.rate_factor)
    overflowed = scale != 1.0 and math.isfinite(total) and not math.isfinite(gradient_norm)
    if overflowed:
        lower_loss_scale(position)
    elif not (math.isfinite(total) and math.isfinite(gradient_norm)):
        raise _diverged(position, rate, what="gradient" if math.isfinite(total) else "loss")
    else:
        set_learning_rate(state.optimizer, rate)
        state.optimizer.step()
        raise_loss_scale(position)
    state.optimizer.zero_grad()
    position.step += 1
    state.update_ema(training.ema_decay)
    position.window_loss += total
    position.window_items += n_items
    position.window_tokens += sum(result.n_tokens for result in results)
    return gradient_norm


def lower_loss_scale(position: Position) -> None:
    """After an update that is left out because fp16 gradients overflowed (Micikevicius et al. 2018).

    TrainingError: the scale is so low that it is not the scale's fault.
    """
    position.loss_scale, position.n_unscaled = position.loss_scale / 2, 0
    if position.loss_scale < 2**-10:
        raise TrainingError(
            f"fp16 gradients overflow at step {position.step + 1} whatever the loss is scaled by; the last "
            'checkpoint stands. Use training.precision = "bf16" or "fp32"'
        )


def raise_loss_scale(position: Position) -> None:
    """After a good update: twice the scale every 2000 of them."""
    position.n_unscaled += 1
    if position.n_unscaled >= 2000:
        position.loss_scale, position.n_unscaled = min(2 * position.loss_scale, 2.0**24), 0


def _diverged(position: Position, rate: float, *, what: str) -> TrainingError:
    return TrainingError(
        f"the {what} is not a number at step {position.step + 1} (learning rate {rate:.1e}); the last "
        "checkpoint stands. Try a lower training.learning_rate, more training.warmup_steps, or "
        'training.precision = "fp32"'
    )


def log_record(state: TrainState, config: Config, gradient_norm: float, seconds: float) -> dict[str, Any]:
    """What happened since the last log line; the window starts anew."""
    position = state.position
    record = {
        "kind": "train",
        "step": position.step,
        "epoch": position.epoch,
        "train_loss": position.window_loss / position.window_items,
        "lr": learning_rate(position.step, config.training, plateau_factor=position.rate_factor),
        "gradient_norm": gradient_norm,
        "tokens_per_second": position.window_tokens / max(seconds, 1e-9),
        "seconds": position.seconds,
    }
    position.window_loss, position.window_items, position.window_tokens = 0.0, 0.0, 0
    return record


def validate(
    state: TrainState, task: Task[Any], config: Config, run: Run, listener: TrainingListener
) -> None:
    """Scores the weights and keeps them if they are the best yet."""
    position = state.position
    result = task.validate(state.weights())
    position.scores[str(position.step)] = result.score
    best = position.best_score is None or result.score > position.best_score
    if best:
        position.best_score, position.best_step = result.score, position.step
        position.n_worse = position.n_stalled = 0
        run.save_weights(state.weights())
    else:
        position.n_worse += 1
        position.n_stalled += 1
    if position.n_stalled >= config.training.plateau_patience:
        position.rate_factor, position.n_stalled = position.rate_factor * config.training.plateau_factor, 0
    record = {
        "kind": "valid",
        "step": position.step,
        "epoch": position.epoch,
        **result.record,
        "best": best,
    }
    run.append_history({**record, "seconds": position.seconds})
    listener.logged(record)
    if should_be_learning(position, config.training):
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


def finish(state: TrainState, task: Task[Any], config: Config, run: Run, listener: TrainingListener) -> None:
    """Averages checkpoints, keeps the average if it scores better, and closes the run."""
    training, position = config.training, state.position
    files = [run.checkpoints / _name(step) / "model.safetensors" for step in _kept_steps(position, config)]
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


def _name(step: int | str) -> str:
    return f"step-{int(step):06d}"


def newest_checkpoint(run: Run) -> Path | None:
    """The complete checkpoint with the most steps; half-written ones have another name and never count."""
    found = sorted(run.checkpoints.glob("step-*")) if run.checkpoints.exists() else []
    return max(found, key=lambda folder: int(folder.name.removeprefix("step-")), default=None)


def save_checkpoint(state: TrainState, run: Run, config: Config) -> None:
    """Writes the state, then removes the checkpoints that are no longer needed."""
    position = state.position
    state.save(run.checkpoints / _name(position.step))
    needed = {_name(step) for step in _kept_steps(position, config)} | {_name(position.step)}
    for folder in run.checkpoints.glob("step-*"):
        if folder.name not in needed:
            shutil.rmtree(folder, ignore_errors=True)


def _kept_steps(position: Position, config: Config) -> list[str]:
    """The validated steps whose checkpoints are to be averaged: the last ones, or those that scored best."""
    training = config.training
    steps = sorted(position.scores, key=int)
    if training.average == "best":
        steps = sorted(steps, key=lambda step: position.scores[step])
    return steps[-training.keep_checkpoints :]
