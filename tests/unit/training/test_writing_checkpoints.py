"""Checkpoints are written beside the training, and by those who have the weights."""

import subprocess
import sys
import threading
import time
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch

from dragoman.errors import RunError
from dragoman.runs import Run
from dragoman.tasks.training import train
from dragoman.training import state as state_module
from dragoman.training.checkpoints import CheckpointWriter, newest_checkpoint
from dragoman.training.state import Snapshot, TrainPosition, TrainState, parameters
from dragoman.training.trainer import TrainingListener
from recording import corpus as corpus
from recording import tiny_config, tiny_state


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Event:
    """Hold every writer up until this is set."""
    go_on, fill = Event(), Snapshot.fill

    def held_up(snapshot: Snapshot, folder: Path) -> None:
        assert go_on.wait(60)
        fill(snapshot, folder)

    monkeypatch.setattr(Snapshot, "fill", held_up)
    return go_on


def fill_all(state: TrainState, value: float) -> None:
    with torch.no_grad():
        for parameter in state.model.parameters():
            parameter.fill_(value).view(-1)[0] = 0.0  # one number alone in each would be a damaged file
    state.position.step = int(value)
    state.position.scores[str(int(value))] = value


def test_training_goes_on_while_the_checkpoint_of_a_moment_is_written(tmp_path: Path, waiting: Event) -> None:
    config = tiny_config()
    run, state = Run.create(tmp_path / "run", config), tiny_state(config)
    writer = CheckpointWriter(run, config)
    fill_all(state, 1)
    writer.save(state)
    fill_all(state, 2)
    writer.check()
    assert newest_checkpoint(run) is None
    with pytest.raises(TimeoutError):
        writer.wait(0.01)
    waiting.set()
    writer.save(state)
    fill_all(state, 3)
    writer.wait()
    assert newest_checkpoint(run) == run.checkpoints / "step-000002"
    for step in (1, 2):
        other = tiny_state(config)
        other.restore(run.checkpoints / f"step-{step:06d}")
        assert other.position.step == step
        assert all((value.flatten()[1:] == step).all() for value in parameters(other.model).values())


def test_no_writer_outlives_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that still frees tensors while Python ends makes the process abort."""
    write = CheckpointWriter._write

    def slow_to_end(*arguments: Any) -> None:
        write(*arguments)
        time.sleep(0.5)

    monkeypatch.setattr(CheckpointWriter, "_write", slow_to_end)
    config = tiny_config()
    writer = CheckpointWriter(Run.create(tmp_path / "run", config), config)
    n_before = threading.active_count()
    writer.save(tiny_state(config))
    writer.wait()
    assert threading.active_count() == n_before


def test_what_cannot_be_written_is_said_at_the_next_update(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = Event()

    def fail(path: Path, tensors: object) -> None:
        failed.set()
        raise OSError(28, "No space left on device")

    class Patient(TrainingListener):
        last = 0

        def stepped(self, position: TrainPosition) -> None:
            Patient.last = position.step
            if position.step == 7:
                assert failed.wait(60)

    monkeypatch.setattr(state_module, "write_rows", fail)
    with pytest.raises(RunError, match="No space left on device"):
        train(tiny_config(), "run", listener=Patient())
    assert Patient.last < 12


def test_what_was_being_written_when_a_training_fails_is_kept() -> None:
    class Failing(TrainingListener):
        def stepped(self, position: TrainPosition) -> None:
            if position.step == 7:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train(tiny_config(), "run", listener=Failing())
    assert newest_checkpoint(Run.open("run")) == Path("run/checkpoints/step-000006")


SPREAD = """
import sys
from pathlib import Path
import torch
from torch import distributed as dist
from dragoman.training.parallel.processes import Processes
from dragoman.training.parallel.sharding import local, shard
from dragoman.training.parallel import sharding
from dragoman.training.state import TrainPosition, TrainState, parameters
from dragoman.training.updates.optimizer import make_optimizer
from recording import tiny_config, tiny_state

rank, size, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=size)
processes = Processes(rank, size)

def spread_state(seed):
    config = tiny_config()
    state = tiny_state(config)
    generator = torch.Generator().manual_seed(seed)
    for parameter in state.model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator)
    whole = {name: value.clone() for name, value in parameters(state.model).items()}
    shard(state.model, processes)
    ema = {name: value.clone() for name, value in parameters(state.model).items()}
    optimizer = make_optimizer(state.model, config.training)
    for name, parameter in state.model.named_parameters():
        parameter.grad = parameter.detach() * 0.1
    optimizer.step()
    return TrainState(state.model, optimizer, ema, TrainPosition(step=seed)), whole

state, whole = spread_state(1)
snapshot = state.snapshot(processes)
for name in ("model", "ema", "optimizer"):
    for key, rows in snapshot.files[name].items():  # no process holds more than its share
        assert not rows.shape or len(rows.values) <= -(-rows.shape[0] // size), key
if rank == 0:
    snapshot.begin(folder / "step-000001")
dist.barrier()
snapshot.fill(folder / "step-000001")
dist.barrier()
read = []
original = sharding._spread
sharding._spread = lambda rows, like: read.append(len(rows) <= -(-len(like) // size)) or original(rows, like)
other, _ = spread_state(2)
other.restore(folder / "step-000001", processes)
assert all(read) and len(read) == 4 * len(whole), (len(read), len(whole))
for a, b in ((state, other),):
    for name, value in parameters(a.model).items():
        assert torch.equal(local(value), local(parameters(b.model)[name])), ("model", name)
    for p, q in zip(a.model.parameters(), b.model.parameters(), strict=True):
        for kind, value in a.optimizer.state[p].items():
            assert torch.equal(local(value), local(b.optimizer.state[q][kind])), kind
for name, value in other.ema.items():
    assert torch.equal(value.full_tensor(), whole[name]), ("ema", name)
dist.destroy_process_group()
"""


@pytest.mark.nightly
@pytest.mark.parametrize("size", [2, 3])
def test_of_spread_weights_each_process_writes_and_reads_its_rows(tmp_path: Path, size: int) -> None:
    tests = str(Path(__file__).parents[2])
    program = f"import sys; sys.path.insert(0, {tests!r})\n{SPREAD}"
    command = [sys.executable, "-c", program]
    ranks = [
        subprocess.Popen([*command, str(rank), str(size), tmp_path], stderr=subprocess.PIPE, text=True)
        for rank in range(size)
    ]
    for rank in ranks:
        said = rank.communicate(timeout=600)[1]
        assert rank.returncode == 0, said
    alone = tiny_state(tiny_config())
    alone.restore(tmp_path / "step-000001")
    assert alone.position.step == 1
    names = {path.name for path in (tmp_path / "step-000001").iterdir()}
    assert names == {*(f"{n}.safetensors" for n in alone.snapshot().files), "position.json"}
