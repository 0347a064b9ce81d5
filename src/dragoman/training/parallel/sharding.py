"""Fully sharded data parallelism (FSDP2), for models too large for one GPU.

The weights of a layer are gathered when it is computed, and freed afterwards. Optimizer state and moving
average are sharded alike. Of a checkpoint each process writes and reads the rows that it has, so that files
do not depend on the number of processes; weights to validate are gathered. PyTorch's modules are slow to
import, and only where they are needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from dragoman.tensors import Rows, open_tensors
from dragoman.training.parallel.processes import Processes


def shard(module: nn.Module, processes: Processes) -> None:
    """Shard the parameters of `module` over the processes in place, layer by layer.

    They may be on the CPU: a device holds at most one full layer, and the parameters outside layers.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(processes.device.type, (processes.size,))
    for name, layer in module.named_modules():
        if name.rpartition(".")[0].endswith(("encoder", "decoder")):
            fully_shard(layer, mesh=mesh)
    fully_shard(module, mesh=mesh)


def whole(tensor: Tensor) -> Tensor:
    """Gather a tensor that may be sharded; every process must call this."""
    return tensor.full_tensor() if is_spread(tensor) else tensor  # type: ignore[attr-defined, unused-ignore]


def all_whole(tensors: Mapping[str, Tensor], processes: Processes) -> dict[str, Tensor]:
    """Gather all tensors in rank 0, one by one; other processes keep their shards."""
    gathered = {}
    for name, tensor in tensors.items():
        complete = whole(tensor)
        gathered[name] = complete.cpu() if processes.first and is_spread(tensor) else tensor
    return gathered


def own_rows(tensor: Tensor, processes: Processes) -> Rows:
    """Copy what this process writes of a tensor: its rows of a sharded one, of any other rank 0 all of it."""
    shape = tuple(tensor.shape)
    if is_spread(tensor):
        mine = _shard(tensor)
        return Rows(mine.values.detach().to("cpu", copy=True), mine.first, shape)
    return Rows(
        tensor.detach().to("cpu", copy=True) if processes.first else tensor.new_empty(0, device="cpu"),
        0,
        shape,
    )


def load_like(path: Path, current: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Read a safetensors file: of what is sharded in `current`, by name, only the rows of this process.

    RunError: it is missing, damaged, or larger than memory.
    """
    tensors = {}
    with open_tensors(path, "pt") as file:
        for name in file.keys():  # noqa: SIM118
            like, stored = current.get(name), file.get_slice(name)
            if like is None or not is_spread(like) or stored.get_shape() != list(like.shape):
                tensors[name] = file.get_tensor(name)
                continue
            rows, first, _ = _shard(like)
            tensors[name] = _spread(stored[first : first + len(rows)], like)
    return tensors


def _shard(tensor: Tensor) -> Rows:
    """Return the rows of a sharded tensor that are here: a process has one of equal parts, the last less."""
    spread: Any = tensor
    rows, mesh = spread.to_local(), spread.device_mesh
    each = -(-len(tensor) // mesh.size())
    return Rows(rows, min(mesh.get_local_rank() * each, len(tensor)), tuple(tensor.shape))


def _spread(rows: Tensor, like: Tensor) -> Tensor:
    """Return the tensor, sharded as `like` is, of which this process has `rows`."""
    from torch.distributed.tensor import DTensor

    spread: Any = like
    mesh, placements = spread.device_mesh, spread.placements
    return DTensor.from_local(
        rows.to(like.device), mesh, placements, run_check=False, shape=like.shape, stride=like.stride()
    )


def local(tensor: Tensor) -> Tensor:
    """Return what this process has of a tensor that may be sharded."""
    return _shard(tensor).values if is_spread(tensor) else tensor


def is_spread(tensor: Tensor) -> bool:
    """Return whether `tensor` is sharded (a DTensor)."""
    return hasattr(tensor, "full_tensor")


def accumulates(module: nn.Module, *, more: bool) -> None:
    """Tell a sharded module whether more batches follow before gradients are reduced."""
    spread: Any = module
    if hasattr(spread, "set_requires_gradient_sync"):
        spread.set_requires_gradient_sync(not more)
