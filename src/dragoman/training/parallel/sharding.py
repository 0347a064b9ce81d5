"""Fully sharded data parallelism (FSDP2), for models too large for one GPU.

The weights of a layer are gathered when it is computed, and freed afterwards. Optimizer state and moving
average are sharded alike. Checkpoints and weights to validate are gathered, so that files do not depend on
the number of processes. PyTorch's modules are slow to import, and only where they are
needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

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
    found = {}
    for name, tensor in tensors.items():
        complete = whole(tensor)
        found[name] = complete.cpu() if processes.first and is_spread(tensor) else tensor
    return found


def spread_like(tensor: Tensor, like: Tensor) -> Tensor:
    """Return a full tensor on the device of `like`, sharded if `like` is."""
    tensor = tensor.to(like.device)
    if not is_spread(like):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    spread: Any = like
    return distribute_tensor(tensor, spread.device_mesh, spread.placements)


def is_spread(tensor: Tensor) -> bool:
    """Return whether `tensor` is sharded (a DTensor)."""
    return hasattr(tensor, "full_tensor")


def accumulates(module: nn.Module, *, more: bool) -> None:
    """Tell a sharded module whether more batches follow before gradients are reduced."""
    spread: Any = module
    if hasattr(spread, "set_requires_gradient_sync"):
        spread.set_requires_gradient_sync(not more)
