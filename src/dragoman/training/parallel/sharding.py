"""Weights spread over the processes, each of which holds a share (FSDP2), for models too large for one GPU.

A layer's weights are put together when it is computed, and given back after. Optimizer and moving average
are spread alike. What leaves the training, a checkpoint or weights to validate, is put together on the way,
so that files are the same whatever wrote them. PyTorch's modules are slow to import, and only where they are
needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from dragoman.training.parallel.processes import Processes


def shard(module: nn.Module, processes: Processes) -> None:
    """Spreads the parameters of `module` over the processes, layer by layer, in their place.

    They may lie on the CPU: no device holds more at once than one layer, and what is in none.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(processes.device.type, (processes.size,))
    for name, layer in module.named_modules():
        if name.rpartition(".")[0].endswith(("encoder", "decoder")):
            fully_shard(layer, mesh=mesh)
    fully_shard(module, mesh=mesh)


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor, which may be spread; every process has to ask for it."""
    return tensor.full_tensor() if is_spread(tensor) else tensor  # type: ignore[attr-defined, unused-ignore]


def all_whole(tensors: Mapping[str, Tensor], processes: Processes) -> dict[str, Tensor]:
    """All of every tensor in the first process, put together one by one; the others keep what they have."""
    found = {}
    for name, tensor in tensors.items():
        complete = whole(tensor)
        found[name] = complete.cpu() if processes.first and is_spread(tensor) else tensor
    return found


def spread_like(tensor: Tensor, like: Tensor) -> Tensor:
    """A whole tensor as `like` is: on its device, and spread where that is."""
    tensor = tensor.to(like.device)
    if not is_spread(like):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    spread: Any = like
    return distribute_tensor(tensor, spread.device_mesh, spread.placements)


def is_spread(tensor: Tensor) -> bool:
    """Whether this process holds but a share of `tensor` (a DTensor)."""
    return hasattr(tensor, "full_tensor")


def accumulates(module: nn.Module, *, more: bool) -> None:
    """Tells a spread module whether more batches follow before gradients are exchanged."""
    spread: Any = module
    if hasattr(spread, "set_requires_gradient_sync"):
        spread.set_requires_gradient_sync(not more)
