"""The trainer: updates, validations, checkpoints and rollbacks of one training, until it is over."""

from __future__ import annotations

import math
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from torch import nn

from dragoman.config import Config, TrainingConfig
from dragoman.data.batching import Indices
from dragoman.data.named import changed_files, hashes_of
from dragoman.errors import DataError, PausedError, RunError, TrainingError
from dragoman.hardware import environment, peak_memory
from dragoman.runs import Run
from dragoman.training.checkpoints import CheckpointWriter, averaged_files, keep_best, newest_checkpoint
from dragoman.training.objective import Objective, Sample, Validation, Weights
from dragoman.training.parallel.processes import Processes
from dragoman.training.parallel.sharding import all_whole
from dragoman.training.state import TrainPosition, TrainState, average_weights
from dragoman.training.updates import divergence
from dragoman.training.updates.schedule import learning_rate
from dragoman.training.updates.updater import AsyncUpdater, SyncUpdater, fit

REPORT = "report.json"
"""Written last: a run that has it is finished."""

N_TRIED = 10_000
"""Batches among which the largest is looked for, to see whether it fits into memory."""

TIME_IS_UP = 1000
"""Why training pauses, beside the numbers of signals."""

PATIENCE = 60.0
"""Seconds that a checkpoint may still be written for when a training ends by an error."""

MAX_EMPTY = 100
"""Epochs without a batch, one after the other, after which the text is taken to have none."""

MIN_STEPS = 100
"""Minimum updates before warnings about a model."""


@dataclass(frozen=True)
class Trainer:
    """One call of `train`: an objective, the state of its training, and the run that keeps it."""

    config: Config
    run: Run
    objective: Objective[Any]
    state: TrainState
    module: nn.Module
    """The objective's loss, wrapped if there are several processes."""
    listener: TrainingListener
    processes: Processes
    checkpoints: CheckpointWriter
    deadline: float = math.inf
    """When to pause, in seconds of `time.monotonic`."""

    def train(self, interrupted: Callable[[], int]) -> None:
        """Update the weights until the training is over, with a rollback on divergence.

        `interrupted` returns the number of the signal that asks for a pause, or 0.

        Raises:
            KeyboardInterrupt, PausedError: interrupted before the end, after saving a checkpoint.
        """
        try:
            while not is_over(self.state.position, self.config):
                try:
                    self.make_updates(interrupted)
                except divergence.DivergenceError as error:
                    self.roll_back(str(error))
        except BaseException:
            with suppress(RunError, TimeoutError):
                self.checkpoints.wait(PATIENCE)
            raise
        self.checkpoints.wait()

    def make_updates(self, interrupted: Callable[[], int]) -> None:
        """Update the weights, with validations and checkpoints: `train` without rollbacks.

        DivergenceError: the training diverges.
        """
        objective, state, config, processes = self.objective, self.state, self.config, self.processes
        cls = AsyncUpdater if objective.static and processes.size == 1 else SyncUpdater
        message = self.listener.message
        updater = cls(objective, state, config, module=self.module, processes=processes, message=message)
        training, position = config.training, state.position
        clock = time.perf_counter()
        for batches in self.batches():
            updater(batches)
            self.checkpoints.check()
            self.listener.stepped(position)
            logs = position.step % training.log_every == 0 or is_over(position, config)
            if updater.deferred and not (logs or is_validated(position, config)):
                continue
            done = updater.settle()
            if done.skipped:
                message(done.skipped)
            now = time.perf_counter()
            # Agreed among the processes once: what is acted upon below must also have been saved.
            late = TIME_IS_UP if time.monotonic() >= self.deadline else 0
            seconds, stop = processes.largest(position.seconds + now - clock, interrupted() or late)
            position.window_seconds += seconds - position.seconds
            position.seconds, clock = seconds, now
            last = is_over(position, config)
            if logs or last:
                record = self.log_record(done.gradient_norm)
                self.write_history(record)
                self.listener.logged(record)
            settled = position.n_in_a_row == 0  # else the weights may be wrong, and not to return to
            if due := (is_validated(position, config) and settled) or last:
                self.validate()
                now = time.perf_counter()
                position.seconds, clock = position.seconds + now - clock, now
            if due or (stop and settled):
                self.checkpoints.save(state)
            if stop and settled and not is_over(position, config):
                self.pause(int(stop))
            if is_over(position, config):
                return

    def batches(self) -> Iterator[list[Indices]]:
        """Yield the batches of one update after another from the position on, which is advanced.

        They do not depend on the number of processes; each batch is spread over all of them.
        """
        position, frequency = self.state.position, self.config.training.update_freq
        while True:
            plan = self.plan()
            while position.batch < len(plan):
                batches = list(plan[position.batch : position.batch + frequency])
                position.batch += len(batches)
                if over := position.batch >= len(plan):
                    position.epoch, position.batch = position.epoch + 1, 0
                yield batches
                if over:
                    break

    def plan(self) -> Sequence[Indices]:
        """Return the batches of the epoch of the position, which moves past epochs without a batch.

        Such is the last one of a stage if less than a pair is left of it. DataError: all are.
        """
        position = self.state.position
        with self.processes.first_ahead():  # it may draw tokens, which all must share
            if self.config.draws_epochs:
                recognise_text(self.run, hashes_of(self.config, ["train"]))
            for _ in range(MAX_EMPTY):
                if len(plan := self.objective.plan(position.epoch)):
                    return plan
                position.epoch += 1
        what = f"the training text gives no batch in {MAX_EMPTY} epochs up to {position.epoch}"
        raise DataError(f"{what}; check the lengths and shares of data.stages, and data.max_length")

    def find_room(self) -> None:
        """Try a largest batch before the first update on a GPU, and split batches until it fits."""
        position, processes = self.state.position, self.processes
        spread = processes.size > 1 and self.config.training.sharding == "full"  # they compute together only
        if position.step or processes.device.type != "cuda" or spread:
            return
        largest = max(self.plan()[:N_TRIED], key=self.objective.memory)
        if len(mine := processes.share(largest)):
            fit(self.objective, position, mine, processes.device)
        position.n_pieces = int(processes.largest(position.n_pieces)[0])
        if position.n_pieces > 1:
            self.listener.message(f"each batch is read in {position.n_pieces} pieces, to fit into memory")

    def log_record(self, gradient_norm: float) -> dict[str, Any]:
        """Return a record of the updates since the last log line, and reset the counters."""
        position = self.state.position
        peak = peak_memory(self.processes.device)
        n_items = position.window_items
        record = {
            "kind": "train",
            "step": position.step,
            "epoch": position.epoch,
            "train_loss": position.window_loss / n_items if n_items else math.nan,
            "lr": learning_rate(position.step, self.config.training, factor=position.rate_factor),
            "gradient_norm": gradient_norm,
            "tokens_per_second": position.window_tokens / max(position.window_seconds, 1e-9),
            "peak_memory_gb": None if peak is None else round(peak / 1e9, 3),  # of this process, so far
            "seconds": position.seconds,
            **self.objective.passes(position.epoch, position.batch),
        }
        position.window_loss = position.window_items = position.window_seconds = 0.0
        position.window_tokens = 0
        return record

    def write_history(self, record: dict[str, Any]) -> None:
        """Add a line to history.jsonl, in one of the processes."""
        if self.processes.first:
            self.run.append_history(record)

    def pause(self, reason: int) -> NoReturn:
        """Stop when the checkpoint is written: KeyboardInterrupt for Ctrl-C, otherwise PausedError."""
        self.checkpoints.wait()
        step = self.state.position.step
        causes = {int(signal.SIGINT): "interrupted", int(signal.SIGTERM): "asked to end (SIGTERM)"}
        what = causes.get(reason, "the time is up:")
        self.listener.message(f"{what} at step {step}; the same command continues from here")
        if reason == signal.SIGINT:
            raise KeyboardInterrupt
        raise PausedError(reason)

    def roll_back(self, reason: str) -> None:
        """Return to the last checkpoint, with a lower learning rate.

        TrainingError: there is no checkpoint, or rollbacks do not help.
        """
        self.checkpoints.wait()
        self.processes.wait()
        diverged, newest = self.state.position, newest_checkpoint(self.run)
        if newest is None:
            raise TrainingError(
                f"{reason}, at step {diverged.step}, and there is no checkpoint yet. {divergence.ADVICE}"
            )
        self.state.restore(newest, self.processes)
        position = self.state.position
        divergence.lower_rate(position, diverged, reason)
        if self.processes.first:
            self.run.truncate_history(position.step)
        record = {"kind": "back", "step": position.step, "from_step": diverged.step, "reason": reason}
        self.write_history({**record, "rate_factor": position.rate_factor})
        self.listener.message(
            f"step {diverged.step:,}: {reason}; back to step {position.step:,} with "
            f"{position.rate_factor:g} times the rate"
        )

    def validate(self) -> None:
        """Score the weights in rank 0, and keep them if they are the best so far."""
        position, processes = self.state.position, self.processes
        self.listener.validating()
        weights = all_whole(self.state.weights(), processes)
        if processes.first:
            self.score(weights)
        processes.wait()  # which may take longer than the timeout of what follows
        vars(position).update(processes.from_first(vars(position)))

    def score(self, weights: Weights) -> None:
        """Score `weights`, keep them if they are the best so far, and record the result."""
        training, position = self.config.training, self.state.position
        result, best = self.judge(weights, "valid", epoch=position.epoch)
        position.scores[str(position.step)] = result.score
        if best:
            position.best_step = position.step
            position.n_worse = position.n_stalled = position.n_times_back = 0
        else:
            position.n_worse += 1
            position.n_stalled += 1
        if training.schedule == "plateau" and position.n_stalled >= training.plateau_patience:
            position.rate_factor, position.n_stalled = position.rate_factor * training.plateau_factor, 0
        if should_be_learning(position, training):
            warn(position, result, self.listener)

    def judge(self, weights: Weights, kind: str, **facts: int) -> tuple[Validation, bool]:
        """Return the scores of `weights`, and whether they are the best so far, which the run then keeps.

        A record of this `kind`, with these `facts`, is added to the history.
        """
        position, result = self.state.position, self.objective.validate(weights)
        best = position.best_score is None or result.score > position.best_score
        if best:
            position.best_score = result.score
            self.run.save_weights(weights, probe=result.probe)
        record = {"kind": kind, "step": position.step, **facts, **result.record, "best": best}
        self.run.append_history({**record, "seconds": position.seconds})
        self.listener.logged(record)
        self.listener.sampled(position.step, result.samples)
        return result, best

    def finish(self) -> None:
        """Average checkpoints, keep the average if it scores better, and close the run."""
        run, training, position = self.run, self.config.training, self.state.position
        files = averaged_files(run, position, self.config)
        kept = "best"
        if training.average != "none" and len(files) > 1:
            self.listener.validating()
            if self.judge(average_weights(files), "average", n=len(files))[1]:
                kept = "average"
        facts = self.objective.finish(run.load_weights())
        run.write_json("environment.json", environment())
        report = {
            "kept": kept,
            "best_step": position.best_step,
            "steps": position.step,
            "steps_left_out": position.n_left_out,
            "epochs": position.epoch,
            "minutes": position.seconds / 60,
            "n_parameters": self.state.model.n_parameters,
            f"valid_{training.metric}": position.best_score,
        }
        run.write_json(REPORT, report | facts)
        keep_best(run, position, self.config)
        shutil.rmtree(run.path / "cache", ignore_errors=True)


def is_over(position: TrainPosition, config: Config) -> bool:
    """Return whether steps, passes, time or patience have come to their end."""
    training = config.training
    return (
        position.step >= training.max_steps
        or 0 < training.max_epochs <= position.epoch
        or 0 < 60 * training.max_minutes <= position.seconds
        or 0 < training.patience <= position.n_worse
    )


def is_validated(position: TrainPosition, config: Config) -> bool:
    """Return whether to validate after this update: every `valid_every` updates, or at an epoch's end."""
    every = config.training.valid_every
    return position.step % every == 0 if every else position.batch == 0


def is_finished(run: Run) -> bool:
    """Return whether the training came to its end: its report is the last thing it writes."""
    return (run.path / REPORT).exists()


def recognise_text(
    run: Run, hashes: Mapping[str, Mapping[str, str]], *, allow_changes: bool = False
) -> list[str]:
    """Return the files whose text has changed since the run began.

    A run of a version that kept no hashes recognises any text.

    Raises:
        RunError: some have, and `allow_changes` is not set.
    """
    changed = changed_files(run.text_hashes(), hashes)
    if changed and not allow_changes:
        more = f" and {len(changed) - 3} more files" if len(changed) > 3 else ""
        raise RunError(
            f"{', '.join(changed[:3])}{more}: changed since the training in {run.path} began; put "
            "the old text back, choose another folder, or continue with the new text (--allow-changed-data)"
        )
    return changed


def should_be_learning(position: TrainPosition, training: TrainingConfig) -> bool:
    """Return whether warnings make sense yet: after warm-up, and after one pass over the data.

    If the training makes fewer than five passes, a fifth of its updates replaces the pass.
    """
    passed = position.epoch >= 1 or 5 * position.step >= training.max_steps
    return passed and position.step > max(MIN_STEPS, 3 * training.warmup_steps)


def warn(position: TrainPosition, result: Validation, listener: TrainingListener) -> None:
    """Print warnings about the model, each one once per training."""
    for name, warning in result.warnings.items():
        if name not in position.warned:
            position.warned.append(name)
            listener.message(f"warning: {warning}")


class TrainingListener:
    """Is told what happens during a training. This one says nothing; override what you want to hear."""

    def message(self, text: str) -> None:
        """Receive a sentence for the user."""

    def tokenized(self, n_pairs: int) -> None:
        """`n_pairs` pairs of a corpus have become tokens by now; called often."""

    def started(self, position: TrainPosition, config: Config, n_parameters: int) -> None:
        """Handle the start, before the first update of this call."""

    def stepped(self, position: TrainPosition) -> None:
        """One update was made."""

    def logged(self, record: dict[str, Any]) -> None:
        """Receive a record that was added to history.jsonl."""

    def validating(self) -> None:
        """Training pauses for a validation."""

    def sampled(self, step: int, samples: Sequence[Sample]) -> None:
        """Receive the outputs for some validation examples, always the same ones."""


class Listeners(TrainingListener):
    """A listener that forwards every event to several listeners."""

    def __init__(self, listeners: Sequence[TrainingListener]) -> None:
        def forward(event: str, *arguments: Any) -> None:
            for listener in listeners:
                getattr(listener, event)(*arguments)

        for event in vars(TrainingListener):
            if not event.startswith("_"):
                setattr(self, event, partial(forward, event))
