"""All that changes during training, as one object, so that a run can continue to the bit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from pydantic import ConfigDict, TypeAdapter, ValidationError

from dragoman.errors import RunError
from dragoman.files import sync, write_atomically
from dragoman.model.transformer import Transformer
from dragoman.predict.loading import load_weights
from dragoman.tensors import load_tensors, save_tensors
from dragoman.training.parallel.processes import ALONE, Processes
from dragoman.training.parallel.sharding import all_whole, spread_like
from dragoman.training.task import Weights

KEPT = ({"step", "exp_avg", "exp_avg_sq"}, {"momentum_buffer"})
"""What AdamW keeps of a parameter, and what Muon does."""


@dataclass
class Position:
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
    """Pieces that batches are read in, so that they fit into memory (memory.py)."""
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
    """... and tokens read."""
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
    position: Position

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.model.parameters()).device

    def save(self, folder: Path, files: dict[str, Weights] | None = None) -> None:
        """Write the checkpoint `folder`; it appears whole or not at all.

        `files` are the `tensors` of all processes together, this one's unless given. RunError: it cannot be
        written.
        """
        temporary = folder.with_name(f".{folder.name}.partial")
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            temporary.mkdir(parents=True)
            for name, tensors in (files or self.tensors(ALONE)).items():
                save_tensors(temporary / f"{name}.safetensors", tensors)
            write_atomically(
                temporary / "position.json", json.dumps(asdict(self.position), indent=1).encode()
            )
            shutil.rmtree(folder, ignore_errors=True)
            temporary.replace(folder)
            sync(folder.parent)
        except (OSError, RunError) as error:
            shutil.rmtree(temporary, ignore_errors=True)
            raise RunError(
                f"{folder}: the checkpoint cannot be written ({error}); "
                "the last one stands; put that right and run the same command again"
            ) from None

    def restore(self, folder: Path, processes: Processes = ALONE) -> None:
        """Take over everything that `save` wrote. RunError: a file is missing or damaged.

        A process that was not there when it was saved draws its random numbers from where it is now.
        """
        try:
            model = load_tensors(folder / "model.safetensors")
            optimizer = _states(load_tensors(folder / "optimizer.safetensors"), self.model)
            random = load_tensors(folder / "random.safetensors")
            own_random = torch.get_rng_state()
            _check_like(random, {name: own_random for name in ("cpu", *random) if name.startswith("cpu")})
            ema = load_tensors(folder / "ema.safetensors") if self.ema is not None else None
            if self.ema is not None and ema is not None:
                _check_like(ema, self.ema)
            position = _position((folder / "position.json").read_bytes())
        except (OSError, RunError, ValueError) as error:
            raise RunError(
                f"{folder}: the checkpoint is damaged ({error}); "
                "remove this folder to continue from the one before"
            ) from None
        load_weights(self.model, model, where=str(folder / "model.safetensors"), placed=spread_like)
        self.optimizer.state.clear()
        for name, parameter in self.model.named_parameters():
            if name in optimizer:
                self.optimizer.state[parameter] = {
                    kind: tensor.to(parameter.device) if kind == "step" else spread_like(tensor, parameter)
                    for kind, tensor in optimizer[name].items()
                }
        self.optimizer.zero_grad()  # an update that was broken off has left some
        if self.ema is not None and ema is not None:
            for name, average in self.ema.items():
                average.copy_(spread_like(ema[name], average))
        self.position = position
        rank = processes.rank or ""
        if f"cpu{rank}" in random:
            torch.set_rng_state(random[f"cpu{rank}"])
        else:
            seed_process(self.position.step, processes)
        if self.device.type == "cuda" and f"cuda{rank}" in random:
            torch.cuda.set_rng_state(random[f"cuda{rank}"], self.device)

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

    def tensors(self, processes: Processes) -> dict[str, Weights]:
        """Return the tensors of a checkpoint's files, whole in rank 0. All processes must call this."""
        files = {
            "model": parameters(self.model),
            "optimizer": _optimizer_tensors(self.optimizer, self.model),
            "random": random_states(processes, self.device),
        }
        if self.ema is not None:
            files["ema"] = self.ema
        return {name: all_whole(tensors, processes) for name, tensors in files.items()}


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


def _optimizer_tensors(optimizer: torch.optim.Optimizer, model: Transformer) -> Weights:
    return {
        f"{key}:{name}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def _position(content: bytes) -> Position:
    """Return the position in a JSON file. ValueError: a value is unknown or of another type."""
    try:
        return TypeAdapter(Position).validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"position.json: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _states(tensors: Weights, model: Transformer) -> dict[str, Weights]:
    """Return the optimizer's tensors by parameter and kind. ValueError: it is not of this model."""
    found: dict[str, Weights] = {}
    for key, tensor in tensors.items():
        kind, _, name = key.partition(":")
        found.setdefault(name, {})[kind] = tensor
    own = parameters(model)
    for name, kept in found.items():
        if name not in own or kept.keys() not in KEPT:
            raise ValueError(f"the optimizer's {' and '.join(sorted(kept))} of {name} are not of this model")
        scalar = torch.zeros(())
        _check_like(kept, {kind: scalar if kind == "step" else own[name] for kind in kept})
    return found


def _check_like(tensors: Weights, like: Weights) -> None:
    """ValueError: a tensor that is in `like` is missing, or of another shape or type."""
    for name, expected in like.items():
        found = tensors.get(name)
        if found is None or (found.shape, found.dtype) != (expected.shape, expected.dtype):
            raise ValueError(f"{name} is missing, or of another shape or type")
