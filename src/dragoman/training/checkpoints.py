"""Checkpoints of a run: save, find, delete, and keep within a disk budget."""

from __future__ import annotations

import shutil
from pathlib import Path
from threading import Thread

from dragoman.config import Config
from dragoman.files import size_of
from dragoman.runs import Run
from dragoman.training.parallel.processes import ALONE, Processes
from dragoman.training.state import Snapshot, TrainPosition, TrainState, read_position


def newest_checkpoint(run: Run) -> Path | None:
    """Return the complete checkpoint with the most steps; partial ones have another name."""
    return max(_checkpoints(run), key=_step, default=None)


def is_static(checkpoint: Path) -> bool:
    """Return whether the training that wrote `checkpoint` uses batches of few shapes."""
    try:
        return read_position(checkpoint).static
    except (OSError, ValueError):
        return False  # damaged: restoring it says so


class CheckpointWriter:
    """Writes the checkpoints of a run, one at a time, in a thread beside the training."""

    def __init__(self, run: Run, config: Config, processes: Processes = ALONE) -> None:
        self.run, self.config, self.processes = run, config, processes
        self._thread: Thread | None = None
        self._error: BaseException | None = None

    def save(self, state: TrainState) -> None:
        """Copy the state, and begin to write it when the checkpoint before is written.

        All processes take part. RunError: the one before cannot be written, or this one not begun.
        """
        self.wait()
        self.processes.wait()  # a slow disk of one must not time out the others
        snapshot = state.snapshot(self.processes)
        folder = self.run.checkpoints / _name(snapshot.position.step)
        if self.processes.first:
            make_room(self.run, self.config, snapshot.position)
            snapshot.begin(folder)
        if snapshot.n_writers > 1:
            self.processes.wait()
        if self.processes.rank < snapshot.n_writers:
            # A daemon: where another process has died, what it should write is not waited for.
            self._thread = Thread(target=self._write, args=(snapshot, folder), daemon=True)
            self._thread.start()

    def _write(self, snapshot: Snapshot, folder: Path) -> None:
        """Write a checkpoint, and delete those that are no longer needed."""
        try:
            snapshot.fill(folder)
            if self.processes.first:
                steps = wanted_steps(snapshot.position, self.config)
                needed = {folder.name, *map(_name, steps)}
                for other in _checkpoints(self.run):
                    if other.name not in needed:
                        shutil.rmtree(other, ignore_errors=True)
        except BaseException as error:  # for the thread that trains
            self._error = error

    def check(self) -> None:
        """RunError: what was being written cannot be written. Does not wait."""
        if self._thread is not None and not self._thread.is_alive():
            self.wait()

    def wait(self, seconds: float | None = None) -> None:
        """Wait until what is being written is on the disk, `seconds` at most.

        RunError: it cannot be written. TimeoutError: it is not yet.
        """
        if self._thread is not None:
            self._thread.join(seconds)  # one that still frees tensors while Python ends makes it abort
            if self._thread.is_alive():
                raise TimeoutError
        error, self._thread, self._error = self._error, None, None
        if error is not None:
            raise error


def make_room(run: Run, config: Config, position: TrainPosition) -> None:
    """Delete checkpoints until another one fits into `training.max_disk_gb`.

    The newest is always kept, so that a full disk cannot cost the run. Checkpoints that are no longer needed
    are deleted first, then those with the worst scores.
    """
    budget = config.training.max_disk_gb * 1e9
    newest = newest_checkpoint(run)
    if not budget or newest is None:
        return
    steps = wanted_steps(position, config)

    def worth(folder: Path) -> tuple[bool, float, int]:
        step = _step(folder)
        return str(step) in steps, _score(folder, position), step

    older = sorted((folder for folder in _checkpoints(run) if folder != newest), key=worth)
    sizes = {folder: size_of(folder) for folder in [newest, *older]}
    for folder in older:
        if sum(sizes.values()) + sizes[newest] <= budget:
            return
        shutil.rmtree(folder, ignore_errors=True)
        del sizes[folder]


def averaged_steps(position: TrainPosition, config: Config) -> list[str]:
    """Return the validated steps whose checkpoints are averaged: the last ones, or the best ones."""
    training = config.training
    steps = sorted(position.scores, key=int)
    if training.average == "best":
        steps = sorted(steps, key=lambda step: position.scores[step])
    return steps[-training.keep_checkpoints :]


def wanted_steps(position: TrainPosition, config: Config) -> set[str]:
    """Return the validated steps whose checkpoints are kept in a training: those to average, and the best."""
    best = sorted(position.scores, key=lambda step: position.scores[step], reverse=True)
    averaged = [] if config.training.average == "none" else averaged_steps(position, config)
    return {*averaged, *best[: max(1, config.training.keep_best)]}


def keep_best(run: Run, position: TrainPosition, config: Config) -> None:
    """Delete the checkpoints of a finished training except the best, from which more steps can be made."""
    by_score = sorted(_checkpoints(run), key=lambda folder: _score(folder, position), reverse=True)
    for folder in by_score[max(1, config.training.keep_best) :]:
        shutil.rmtree(folder, ignore_errors=True)


def averaged_files(run: Run, position: TrainPosition, config: Config) -> list[Path]:
    """Return the weight files to average, as far as they still exist."""
    folders = [run.checkpoints / _name(step) for step in averaged_steps(position, config)]
    return [folder / "model.safetensors" for folder in folders if folder.is_dir()]


def _checkpoints(run: Run) -> list[Path]:
    return sorted(run.checkpoints.glob("step-*")) if run.checkpoints.exists() else []


def _name(step: int | str) -> str:
    return f"step-{int(step):06d}"


def _step(folder: Path) -> int:
    return int(folder.name.removeprefix("step-"))


def _score(folder: Path, position: TrainPosition) -> float:
    """Return the validation score of a checkpoint; -inf = it was not validated."""
    return position.scores.get(str(_step(folder)), float("-inf"))
