"""All that changes during training, as one object, so that a run can continue to the bit."""

from __future__ import annotations

import copy
import json
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from pydantic import ConfigDict, TypeAdapter, ValidationError

from dragoman.errors import RunError
from dragoman.files import sync, write_atomically
from dragoman.model.transformer import Transformer
from dragoman.predict.networks import fill
from dragoman.tensors import Rows, allocate, load_tensors, write_rows
from dragoman.training.objective import Weights
from dragoman.training.parallel.processes import ALONE, Processes
from dragoman.training.parallel.sharding import is_spread, load_like, local, own_rows

KEPT = ({"step", "exp_avg", "exp_avg_sq"}, {"momentum_buffer"})
"""What AdamW keeps of a parameter, and what Muon does."""

PARTIAL = ".partial"
"""How the folders of checkpoints end that are being written."""


@dataclass
class TrainPosition:
    """Where a training stands: counters and scores, everything that JSON can hold."""

    __pydantic_config__ = ConfigDict(strict=True, extra="forbid")

    step: int = 0
    """Updates made."""
    epoch: int = 0
    """Passes over the data completed."""
    batch: int = 0
    """Batches of this epoch already used."""
    seconds: float = 0.0
    """Time spent in training, validation included, over all sittings."""
    best_score: float | None = None
    """The best validation score so far, of `metric`, higher is better."""
    best_step: int = 0
    static: bool = False
    """Whether batches are of few shapes: other batches than of any shape, so that it stays with a run."""
    n_pieces: int = 1
    """Pieces that batches are read in, so that they fit into memory (updater.py)."""
    n_worse: int = 0
    """Validations since the best one."""
    n_stalled: int = 0
    """Validations without a better score since the rate was last lowered (schedule "plateau")."""
    rate_factor: float = 1.0
    """Factor of the learning rate so far, from the schedule "plateau" and from rollbacks."""
    loss_scale: float = 65536.0
    """For fp16: what the loss is multiplied by, so that small gradients do not become 0 ..."""
    n_unscaled: int = 0
    """... and the updates since it was last changed."""
    usual_loss: float | None = None
    """Moving average of the loss in nats per item, to detect divergence (divergence.py)."""
    lowest_loss: float | None = None
    """Minimum of the moving average."""
    n_good: int = 0
    """Updates that were made."""
    n_left_out: int = 0
    """Updates that were skipped."""
    n_in_a_row: int = 0
    """Consecutive skipped updates up to now."""
    n_times_back: int = 0
    """Rollbacks since the best score."""
    scores: dict[str, float] = field(default_factory=dict)
    """Validation score by step, of all validations."""
    window_loss: float = 0.0
    """Since the last log line: summed smoothed loss in nats ..."""
    window_items: float = 0.0
    """... what it is a sum over (target tokens, or texts) ..."""
    window_tokens: int = 0
    """... tokens read ..."""
    window_seconds: float = 0.0
    """... and time spent in updates, validation excluded."""
    warned: list[str] = field(default_factory=list)
    """Names of the warnings already given."""


@dataclass
class TrainState:
    """The model, the optimizer, the averaged weights if any, and the position.

    PyTorch's own random state belongs to it too: it is read when saving and set when restoring.
    """

    model: Transformer
    optimizer: torch.optim.Optimizer
    ema: Weights | None
    position: TrainPosition

    def snapshot(self, processes: Processes = ALONE) -> Snapshot:
        """Copy all of it into memory. All processes must call this."""
        files = {
            "model": parameters(self.model),
            "optimizer": {
                f"{kind}:{name}": tensor
                for name, parameter in self.model.named_parameters()
                for kind, tensor in self.optimizer.state.get(parameter, {}).items()
            },
            "random": random_states(processes, self.model.device),
        }
        if self.ema is not None:
            files["ema"] = self.ema
        return Snapshot(
            copy.deepcopy(self.position),
            {
                name: {key: own_rows(tensor, processes) for key, tensor in tensors.items()}
                for name, tensors in files.items()
            },
            n_writers=processes.size if any(map(is_spread, files["model"].values())) else 1,
            rank=processes.rank,
        )

    def restore(self, folder: Path, processes: Processes = ALONE) -> None:
        """Take over everything that a snapshot wrote. RunError: a file is missing or damaged.

        A process that was not there when it was saved draws its random numbers from where it is now.
        """
        weights = parameters(self.model)
        moments = {
            f"{kind}:{name}": weights[name] for kept in KEPT for kind in kept - {"step"} for name in weights
        }
        try:
            model = load_like(folder / "model.safetensors", weights)
            optimizer = _states(load_like(folder / "optimizer.safetensors", moments), self.model)
            random = load_tensors(folder / "random.safetensors")
            own_random = torch.get_rng_state()
            _check_like(random, {name: own_random for name in ("cpu", *random) if name.startswith("cpu")})
            ema = load_like(folder / "ema.safetensors", self.ema) if self.ema else {}
            _check_like(ema, self.ema or {})
            position = read_position(folder)
        except (OSError, RunError, ValueError) as error:
            raise RunError(
                f"{folder}: the checkpoint is damaged ({error}); "
                "remove this folder to continue from the one before"
            ) from error
        fill(self.model, model, where=str(folder / "model.safetensors"), local=local)
        self.optimizer.state.clear()
        for name, parameter in self.model.named_parameters():
            if name in optimizer:
                self.optimizer.state[parameter] = {
                    kind: tensor if is_spread(tensor) else tensor.to(parameter.device)
                    for kind, tensor in optimizer[name].items()
                }
        self.optimizer.zero_grad()  # an update that was broken off has left some
        for name, average in (self.ema or {}).items():
            average.copy_(ema[name])
        self.position = position
        rank = processes.rank or ""
        if f"cpu{rank}" in random:
            torch.set_rng_state(random[f"cpu{rank}"])
        else:
            seed_process(self.position.step, processes)
        if f"cuda{rank}" in random and self.model.device.type == "cuda":
            torch.cuda.set_rng_state(random[f"cuda{rank}"], self.model.device)

    def weights(self) -> Weights:
        """Return the weights to validate and to use: the moving average where there is one."""
        return self.ema if self.ema is not None else parameters(self.model)

    def update_ema(self, decay: float) -> None:
        """Move the average towards the current weights; younger averages move faster."""
        if self.ema is None:
            return
        decay = min(decay, (1 + self.position.step) / (10 + self.position.step))
        current = parameters(self.model)
        torch._foreach_lerp_(list(self.ema.values()), [current[name] for name in self.ema], 1 - decay)


@dataclass(frozen=True)
class Snapshot:
    """A state as it was once, in memory of its own: training goes on while it becomes a checkpoint.

    One process writes it all, or, of weights that are spread, each one what it has.
    """

    position: TrainPosition
    files: dict[str, dict[str, Rows]]
    n_writers: int = 1
    rank: int = 0

    def begin(self, folder: Path) -> None:
        """Make the files that all are to fill, in rank 0. RunError: they cannot be made."""
        with self._in_words(folder):
            for abandoned in folder.parent.glob(f".*{PARTIAL}"):
                shutil.rmtree(abandoned, ignore_errors=True)
            partial = _partial(folder)
            partial.mkdir(parents=True)
            for name, tensors in self.files.items():
                allocate(partial / f"{name}.safetensors", tensors)

    def fill(self, folder: Path) -> None:
        """Write what this process has; in rank 0, when all have, `folder` appears whole.

        RunError: it cannot be written.
        """
        with self._in_words(folder):
            partial = _partial(folder)
            for name, tensors in self.files.items():
                write_rows(partial / f"{name}.safetensors", tensors)
            if self.rank:
                (partial / f"{self.rank}.done").touch()
                return
            markers = [partial / f"{rank}.done" for rank in range(1, self.n_writers)]
            while not all(done.exists() for done in markers):
                if not partial.exists():
                    raise OSError("another process could not write its part")
                time.sleep(0.01)
            for done in markers:
                done.unlink()
            write_atomically(partial / "position.json", json.dumps(asdict(self.position), indent=1).encode())
            shutil.rmtree(folder, ignore_errors=True)
            partial.replace(folder)
            sync(folder.parent)

    def save(self, folder: Path) -> None:
        """Write the checkpoint `folder`, where there is one process. RunError: it cannot be written."""
        self.begin(folder)
        self.fill(folder)

    @contextmanager
    def _in_words(self, folder: Path) -> Iterator[None]:
        try:
            yield
        except (OSError, RunError) as error:
            shutil.rmtree(_partial(folder), ignore_errors=True)  # which tells the other processes, too
            earlier = any(folder.parent.glob("step-*"))
            raise RunError(
                f"{folder}: the checkpoint cannot be written ({error}); "
                f"{'the last one is kept' if earlier else 'there is no earlier one'}; "
                "put that right and run the same command again"
            ) from error


def _partial(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}{PARTIAL}")


def random_states(processes: Processes, device: torch.device) -> Weights:
    """Where the random numbers of all processes stand: "cpu" of the first, "cpu1" of the second, ...

    And "cuda", "cuda1", ... where they train on GPUs: that of each one's own `device`.
    """
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return {
        f"{kind}{rank or ''}": each
        for kind, mine in states.items()
        for rank, each in enumerate(processes.gather(mine))
    }


def seed_process(seed: int, processes: Processes) -> None:
    """Let each process but the first draw random numbers of its own, for dropout."""
    if not processes.first:
        torch.manual_seed(1_000_003 * processes.rank + seed)


def parameters(model: Transformer) -> Weights:
    """Return the weights by name, tied ones once, without gradients."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def average_weights(files: Sequence[Path]) -> Weights:
    """Return the mean of the weights in checkpoint files (Vaswani et al. 2017, section 6.1)."""
    mean: Weights = {}
    for i, file in enumerate(files):
        for name, tensor in load_tensors(file).items():
            mean[name] = tensor if i == 0 else mean[name] + (tensor - mean[name]) / (i + 1)
    return mean


def read_position(checkpoint: Path) -> TrainPosition:
    """Return the position of a checkpoint. OSError: no file. ValueError: a value is unknown, or no value."""
    try:
        return TypeAdapter(TrainPosition).validate_json((checkpoint / "position.json").read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"position.json: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def _states(tensors: Weights, model: Transformer) -> dict[str, Weights]:
    """Return the optimizer's tensors by parameter and kind. ValueError: it is not of this model."""
    states: dict[str, Weights] = {}
    for key, tensor in tensors.items():
        kind, _, name = key.partition(":")
        states.setdefault(name, {})[kind] = tensor
    weights = parameters(model)
    for name, kept in states.items():
        if name not in weights or kept.keys() not in KEPT:
            raise ValueError(f"the optimizer's {' and '.join(sorted(kept))} of {name} are not of this model")
        scalar = torch.zeros(())
        _check_like(kept, {kind: scalar if kind == "step" else weights[name] for kind in kept})
    return states


def _check_like(tensors: Weights, like: Weights) -> None:
    """ValueError: a tensor that is in `like` is missing, or of another shape or type."""
    for name, expected in like.items():
        tensor = tensors.get(name)
        if tensor is None or (tensor.shape, tensor.dtype) != (expected.shape, expected.dtype):
            raise ValueError(f"{name} is missing, or of another shape or type")
