"""The training loop: functions over an explicit state, from a configuration to a finished run."""

from __future__ import annotations

import math
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NoReturn

import torch

from dragoman.config import Config
from dragoman.data.doctor.inspection import inspect_text
from dragoman.data.named import changed_files, hashes_of
from dragoman.data.readers.files import require_readers
from dragoman.errors import ConfigError, PausedError, RunError, TrainingError, require
from dragoman.hardware import choose_dtype, keep_freed_memory, peak_memory, remember_few_shapes
from dragoman.runs import CORPORA, Run, environment, only_writer
from dragoman.training.checkpoints import averaged_files, is_static, newest_checkpoint, save_checkpoint
from dragoman.training.context import TrainingContext
from dragoman.training.listener import TrainingListener
from dragoman.training.parallel.processes import Processes, joined
from dragoman.training.state import Position, TrainState, average_weights, parameters, seed_process
from dragoman.training.tasks import make_task
from dragoman.training.updates import divergence, memory
from dragoman.training.updates.memory import Indices
from dragoman.training.updates.optimizer import make_optimizer
from dragoman.training.updates.schedule import learning_rate
from dragoman.training.updates.stepping import make_stepper
from dragoman.training.updates.update import loss_module
from dragoman.training.validation import validate

REPORT = "report.json"
"""Written last: a run that has it is finished."""

N_TRIED = 10_000
"""Batches among which the largest is looked for, to see whether it fits into memory."""

TIME_IS_UP = 1000
"""Why training pauses, beside the numbers of signals."""

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
    """Trains as `config` says into the run directory `out`, or continues there; returns its path.

    The same call on an unfinished run continues to the bit. Processes that torchrun has started train one
    model together; the first of them writes and speaks. KeyboardInterrupt and PausedError (a SIGTERM, or
    `max_hours` of this call are over) save a checkpoint. With `allow_changed_data` a run continues with other
    text than it began with, and its history says from where. Without `check`, text that cannot be right is
    reported and not refused.

    Raises:
        DataError, TrainingError: see their messages.
        RunError: another training is writing `out`; it holds another run, or one of text that has changed; it
            cannot be written.
    """
    if not max_hours >= 0:
        raise ConfigError(f"max_hours = {max_hours}: give 0, for no limit, or a number of hours")
    for _, files in config.data.corpora():
        require_readers(files)
    if config.tokenizer.splitter == "spacy":
        require("spacy", extra="spacy", purpose='tokenizer.splitter = "spacy"')
    deadline = time.monotonic() + 3600 * max_hours if max_hours else math.inf
    with joined(config.training.device) as processes, ExitStack() as held:
        listener = (listener if processes.first else None) or TrainingListener()
        with processes.first_ahead():
            if processes.first:
                report_on_text(config, out, listener.message, check=check)
                held.enter_context(only_writer(out))
            run = Run.create(out, config)
        if is_finished(run):
            listener.message(f"{run.path} is finished; choose another folder to train again")
            return run.path
        with processes.first_ahead():
            hashes = hashes_of(config)
            changed = recognise_text(run, hashes, allow_changes=allow_changed_data)
        context = start_or_continue(config, run, listener, processes, deadline=deadline)
        note_text(context, hashes, changed)
        listener.started(context.state.position, config, context.task.model.n_parameters)
        find_room(context)
        with interruption() as interrupted:
            run_until_the_end(context, interrupted)
        if processes.first:
            finish(context)
        processes.wait()
    return run.path


def report_on_text(config: Config, out: str | Path, say: Callable[[str], None], *, check: bool) -> None:
    """Say what the text of a training that has not begun in `out` looks like.

    Raises:
        DataError: the text cannot be read, or with `check` cannot be right.
    """
    if not Run(Path(out), config).config_path.exists():
        inspect_text(config).report(say, check=check)


def start_or_continue(
    config: Config, run: Run, listener: TrainingListener, processes: Processes, *, deadline: float = math.inf
) -> TrainingContext:
    """A context from the state of the newest checkpoint, or from a fresh one."""
    device = processes.device
    remember_few_shapes()
    keep_freed_memory()
    if config.training.n_threads:
        torch.set_num_threads(config.training.n_threads)
    torch.manual_seed(config.seed)
    with processes.first_ahead():
        newest = newest_checkpoint(run)
        static = is_static(newest) if newest else wants_static(config, device)
        task = make_task(config, run, device, listener, static=static)
    if newest is None:
        task.begin()
    model = task.model.train()
    model.dtype = choose_dtype(config.training.precision, device)
    module = loss_module(task, config, processes)  # shards the weights, if configured
    model.to(device)  # the model is built on the CPU first, so that sharding can place its weights
    ema = {k: v.clone() for k, v in parameters(model).items()} if config.training.ema_decay else None
    state = TrainState(model, make_optimizer(model, config.training), ema, Position(static=static))
    context = TrainingContext(config, run, device, task, state, module, listener, processes, deadline)
    if newest is not None:
        state.restore(newest, processes)
        listener.message(f"continuing from step {state.position.step}")
    else:
        seed_process(config.seed, processes)
    if processes.first:
        run.truncate_history(state.position.step, also=("back",))
    return context


def recognise_text(
    run: Run, hashes: Mapping[str, Mapping[str, str]], *, allow_changes: bool = False
) -> list[str]:
    """The files whose text has changed since the run began. RunError: there are some, not to be allowed.

    A run that was begun before runs kept hashes recognises any text.
    """
    there = run.read_json(CORPORA) if (run.path / CORPORA).exists() else {}
    changed = changed_files(there, hashes)
    if changed and not allow_changes:
        more = f" and {len(changed) - 3} more files" if len(changed) > 3 else ""
        raise RunError(
            f"{', '.join(changed[:3])}{more}: changed since the training in {run.path} began; put "
            "the old text back, choose another folder, or continue with the new text (--allow-changed-data)"
        )
    return changed


def note_text(
    context: TrainingContext, hashes: Mapping[str, Mapping[str, str]], changed: Sequence[str]
) -> None:
    """Keeps the hashes of the text in the run, and in its history where files have `changed`."""
    if changed:
        step, names = context.state.position.step, [Path(file).name for file in changed]
        write_history(context, {"kind": "data", "step": step, "changed": names})
        context.listener.message(f"continuing with changed text from step {step}: {', '.join(names)}")
    if context.processes.first and (changed or not (context.run.path / CORPORA).exists()):
        context.run.write_json(CORPORA, hashes)


def wants_static(config: Config, device: torch.device) -> bool:
    """Whether a training is to have batches of few shapes: on a GPU, if nothing speaks against it."""
    training = config.training
    if training.steps == "free":
        return False
    return training.steps == "static" or (device.type == "cuda" and not training.wants_free_steps())


@contextmanager
def interruption() -> Iterator[Callable[[], int]]:
    """Turns the first Ctrl-C or SIGTERM into an answer, its number, so that it falls between two updates.

    A second one, of either, interrupts at once. Outside the main thread signals are left alone.
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


def run_until_the_end(context: TrainingContext, interrupted: Callable[[], int]) -> None:
    """Update the weights until the training is over, with a rollback to the last checkpoint on divergence.

    KeyboardInterrupt, PausedError: interrupted before the end.
    """
    while not is_over(context.state.position, context.config):
        try:
            run_updates(context, interrupted)
        except divergence.DivergenceError as error:
            go_back(context, str(error))


def run_updates(context: TrainingContext, interrupted: Callable[[], int]) -> None:
    """Update the weights until the training is over, with validations and checkpoints.

    Raises:
        KeyboardInterrupt, PausedError: interrupted before the end, after saving a checkpoint.
        DivergenceError: the training diverges.
    """
    state, config, processes = context.state, context.config, context.processes
    training, position = config.training, state.position
    clock = time.perf_counter()
    logged_at = position.seconds
    step = make_stepper(context)
    for batches in updates(context):
        step(batches)
        context.listener.stepped(position)
        logs = position.step % training.log_every == 0 or is_over(position, config)
        if step.deferred and not (logs or is_validated(position, config)):
            continue
        done = step.settle()
        if done.skipped:
            context.listener.message(done.skipped)
        now = time.perf_counter()
        # What the processes must agree on, asked once: what is acted upon below must also have been saved.
        late = TIME_IS_UP if time.monotonic() >= context.deadline else 0
        seconds, stop = processes.largest(position.seconds + now - clock, interrupted() or late)
        position.seconds, clock = seconds, now
        last = is_over(position, config)
        if logs or last:
            record = log_record(context, done.gradient_norm, position.seconds - logged_at)
            logged_at = position.seconds
            write_history(context, record)
            context.listener.logged(record)
        settled = position.n_in_a_row == 0  # else the weights may be what is wrong: not to be gone back to
        if due := (is_validated(position, config) and settled) or last:
            validate(context)
            now = time.perf_counter()
            position.seconds, clock = position.seconds + now - clock, now
            logged_at = position.seconds
        if due or (stop and settled):
            save_checkpoint(state, context.run, config, processes)
        if stop and settled and not is_over(position, config):
            pause(context, int(stop))
        if is_over(position, config):
            return


def pause(context: TrainingContext, reason: int) -> NoReturn:
    """Says that training stops, and stops it: KeyboardInterrupt for Ctrl-C, else PausedError."""
    step = context.state.position.step
    causes = {int(signal.SIGINT): "interrupted", int(signal.SIGTERM): "asked to end (SIGTERM)"}
    what = causes.get(reason, "the time is up:")
    context.listener.message(f"{what} at step {step}; the same command continues from here")
    if reason == signal.SIGINT:
        raise KeyboardInterrupt
    raise PausedError(reason)


def go_back(context: TrainingContext, reason: str) -> None:
    """Roll back to the last checkpoint at a lower rate. TrainingError: no checkpoint, or back too often."""
    diverged, newest = context.state.position, newest_checkpoint(context.run)
    if newest is None:
        raise TrainingError(
            f"{reason}, at step {diverged.step}, and there is no checkpoint yet. {divergence.ADVICE}"
        )
    context.processes.wait()
    context.state.restore(newest, context.processes)
    position = context.state.position
    divergence.lower_rate(position, diverged, reason)
    if context.processes.first:
        context.run.truncate_history(position.step)
    record = {"kind": "back", "step": position.step, "from_step": diverged.step, "reason": reason}
    write_history(context, {**record, "rate_factor": position.rate_factor})
    context.listener.message(
        f"step {diverged.step:,}: {reason}; back to step {position.step:,} with "
        f"{position.rate_factor:g} times the rate"
    )


def write_history(context: TrainingContext, record: dict[str, Any]) -> None:
    """Adds a line to history.jsonl, in one of the processes."""
    if context.processes.first:
        context.run.append_history(record)


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
    """Return whether to validate after this update: every `valid_every` updates, or at an epoch's end."""
    every = config.training.valid_every
    return position.step % every == 0 if every else position.batch == 0


def updates(context: TrainingContext) -> Iterator[list[Indices]]:
    """The batches of one update after another, from the position on, which it advances.

    They are the same whatever the number of processes; each is spread over all of them.
    """
    position, frequency = context.state.position, context.config.training.update_freq
    while True:
        plan = plan_epoch(context)
        while position.batch < len(plan):
            batches = list(plan[position.batch : position.batch + frequency])
            position.batch += len(batches)
            if over := position.batch >= len(plan):
                position.epoch, position.batch = position.epoch + 1, 0
            yield batches
            if over:
                break


def plan_epoch(context: TrainingContext) -> Sequence[Indices]:
    """The batches of the epoch that the position is in."""
    with context.processes.first_ahead():  # with BPE-dropout it draws tokens, which all must share
        if context.config.tokenizer.dropout:
            recognise_text(context.run, hashes_of(context.config, ["train"]))
        return context.task.plan(context.state.position.epoch)


def find_room(context: TrainingContext) -> None:
    """Before the first update on a GPU: tries a largest batch, and cuts batches until it fits."""
    position, processes = context.state.position, context.processes
    spread = processes.size > 1 and context.config.training.sharding == "full"  # they compute together only
    if position.step or context.device.type != "cuda" or spread:
        return
    largest = max(plan_epoch(context)[:N_TRIED], key=context.task.memory)
    if len(mine := processes.share(largest)):
        memory.fit(context.task, position, mine, context.device)
    position.n_pieces = int(processes.largest(position.n_pieces)[0])
    if position.n_pieces > 1:
        context.listener.message(f"each batch is read in {position.n_pieces} pieces, to fit into memory")


def log_record(context: TrainingContext, gradient_norm: float, seconds: float) -> dict[str, Any]:
    """Return a record of the updates since the last log line, and reset the counters."""
    position, config = context.state.position, context.config
    peak = peak_memory(context.device)
    record = {
        "kind": "train",
        "step": position.step,
        "epoch": position.epoch,
        "train_loss": position.window_loss / position.window_items if position.window_items else math.nan,
        "lr": learning_rate(position.step, config.training, factor=position.rate_factor),
        "gradient_norm": gradient_norm,
        "tokens_per_second": position.window_tokens / max(seconds, 1e-9),
        "peak_memory_gb": None if peak is None else round(peak / 1e9, 3),  # of this process, so far
        "seconds": position.seconds,
    }
    position.window_loss, position.window_items, position.window_tokens = 0.0, 0.0, 0
    return record


def finish(context: TrainingContext) -> None:
    """Averages checkpoints, keeps the average if it scores better, and closes the run."""
    state, task, run, listener = context.state, context.task, context.run, context.listener
    training, position = context.config.training, state.position
    files = averaged_files(run, position, context.config)
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
        listener.sampled(position.step, result.samples)
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
