"""Checkpoints of a run: save, find, delete, and keep within a disk budget."""

from __future__ import annotations

import shutil
from pathlib import Path

from dragoman.config import Config, parse_json
from dragoman.runs import Run
from dragoman.training.parallel.processes import ALONE, Processes
from dragoman.training.state import Position, TrainState


def newest_checkpoint(run: Run) -> Path | None:
    """Return the complete checkpoint with the most steps; partial ones have another name."""
    return max(_checkpoints(run), key=_step, default=None)


def is_static(checkpoint: Path) -> bool:
    """Return whether the training that wrote `checkpoint` uses batches of few shapes."""
    try:
        position = parse_json((checkpoint / "position.json").read_bytes())
        return bool(position.get("static", False))
    except (OSError, ValueError, AttributeError):
        return False  # damaged: restoring it says so


def save_checkpoint(state: TrainState, run: Run, config: Config, processes: Processes = ALONE) -> None:
    """Save the state, then delete checkpoints that are no longer needed.

    All processes take part; rank 0 writes. RunError: the checkpoint cannot be written.
    """
    files = state.tensors(processes)
    if processes.first:
        folder = run.checkpoints / _name(state.position.step)
        make_room(run, config, state.position)
        state.save(folder, files)
        needed = {_name(step) for step in wanted_steps(state.position, config)} | {folder.name}
        for other in _checkpoints(run):
            if other.name not in needed:
                shutil.rmtree(other, ignore_errors=True)
    processes.wait()


def make_room(run: Run, config: Config, position: Position) -> None:
    """Delete checkpoints until another one fits into `training.max_disk_gb`.

    The newest is always kept, so that a full disk cannot cost the run. Checkpoints that are no longer needed
    are deleted first, then those with the worst scores.
    """
    budget = config.training.max_disk_gb * 1e9
    newest = newest_checkpoint(run)
    if not budget or newest is None:
        return
    wanted = wanted_steps(position, config)

    def worth(folder: Path) -> tuple[bool, float, int]:
        step = _step(folder)
        return str(step) in wanted, position.scores.get(str(step), float("-inf")), step

    others = sorted((folder for folder in _checkpoints(run) if folder != newest), key=worth)
    sizes = {folder: _size(folder) for folder in [newest, *others]}
    for folder in others:
        if sum(sizes.values()) + sizes[newest] <= budget:
            return
        shutil.rmtree(folder, ignore_errors=True)
        del sizes[folder]


def averaged_steps(position: Position, config: Config) -> list[str]:
    """Return the validated steps whose checkpoints are averaged: the last ones, or the best ones."""
    training = config.training
    steps = sorted(position.scores, key=int)
    if training.average == "best":
        steps = sorted(steps, key=lambda step: position.scores[step])
    return steps[-training.keep_checkpoints :]


def wanted_steps(position: Position, config: Config) -> set[str]:
    """Return the validated steps whose checkpoints are kept: those to average, and the `keep_best` best."""
    best = sorted(position.scores, key=lambda step: position.scores[step], reverse=True)
    return {*averaged_steps(position, config), *best[: config.training.keep_best]}


def averaged_files(run: Run, position: Position, config: Config) -> list[Path]:
    """Return the weight files to average, as far as they still exist."""
    folders = [run.checkpoints / _name(step) for step in averaged_steps(position, config)]
    return [folder / "model.safetensors" for folder in folders if folder.is_dir()]


def _checkpoints(run: Run) -> list[Path]:
    return sorted(run.checkpoints.glob("step-*")) if run.checkpoints.exists() else []


def _name(step: int | str) -> str:
    return f"step-{int(step):06d}"


def _step(folder: Path) -> int:
    return int(folder.name.removeprefix("step-"))


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
