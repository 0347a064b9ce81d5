"""Optimizers: AdamW with parameter groups for weight decay, alone or beside Muon."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from dragoman.config import TrainingConfig
from dragoman.hardware import has_bf16
from dragoman.model.layers import Embedding, MultiHeadAttention
from dragoman.model.transformer import Transformer

Method = TypeVar("Method", bound=Callable[..., Any])


def _eager(method: Method) -> Method:
    """Return a method of PyTorch's optimizers without what is round it for `torch.compile`.

    It loads the compiler, for a second or two at the beginning of every training; nothing is compiled here.
    """
    return getattr(method, "__wrapped__", method)


class Eager(torch.optim.Optimizer):
    """An optimizer that does not load `torch.compile`."""

    add_param_group = _eager(torch.optim.Optimizer.add_param_group)
    load_state_dict = _eager(torch.optim.Optimizer.load_state_dict)
    state_dict = _eager(torch.optim.Optimizer.state_dict)
    zero_grad = _eager(torch.optim.Optimizer.zero_grad)


class AdamW(Eager, torch.optim.AdamW):
    """PyTorch's AdamW."""

    step = torch.no_grad()(_eager(torch.optim.AdamW.step))


MOMENTUM = 0.95
"""Of Muon's gradients, with Nesterov's look ahead."""

NEWTON_SCHULZ = (3.4445, -4.775, 2.0315)
"""Coefficients of a step of Newton and Schulz's iteration, and N_STEPS of them (Jordan et al. 2024)."""

N_STEPS = 5

ADAMW_SIZE = 0.2
"""Root mean square of AdamW's steps, relative to its rate (Liu et al. 2025, section 2.2)."""


class MuonAndAdamW(Eager):
    """Muon for hidden matrices, AdamW for all other parameters, with one state and one learning rate.

    Muon (Jordan et al. 2024) updates a matrix by its orthogonalised momentum, so that it moves equally in
    every direction. Scaled as by Liu et al. (2025, arXiv:2502.16982), its steps have the size of AdamW's, so
    that one learning rate suits both. Matrices of one shape are computed together. Projections that are
    stacked in one matrix, those of queries, keys and values, are orthogonalised one by one.
    """

    def __init__(self, hidden: Mapping[nn.Parameter, int], adamw: AdamW, config: TrainingConfig) -> None:
        """`hidden` says of each hidden matrix how many are stacked in it."""
        group = {"params": list(hidden), "lr": config.learning_rate, "weight_decay": config.weight_decay}
        self.hidden, self.adamw = hidden, adamw
        super().__init__([group, *adamw.param_groups], {})
        adamw.state = self.state

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update all parameters that have a gradient; none if `found_inf`, as in PyTorch's AdamW, is 1."""
        assert closure is None
        found_inf = getattr(self, "found_inf", None)
        group = self.param_groups[0]
        by_shape: dict[tuple[int, int], list[nn.Parameter]] = defaultdict(list)
        for parameter, n_stacked in self.hidden.items():
            if parameter.grad is not None:
                rows, columns = parameter.shape
                by_shape[rows // n_stacked, columns].append(parameter)
        for shape, parameters in by_shape.items():
            self._move(parameters, shape, group["lr"], group["weight_decay"], found_inf)
        self.adamw.found_inf = found_inf  # type: ignore[attr-defined]  # by which AdamW is told, undeclared
        self.adamw.step()
        return None

    def _move(
        self,
        parameters: Sequence[nn.Parameter],
        shape: tuple[int, int],
        rate: float,
        decay: float,
        found_inf: Tensor | None,
    ) -> None:
        """Update the matrices of one shape that `parameters` consist of."""
        for each in parameters:
            if not self.state[each]:
                self.state[each]["momentum_buffer"] = torch.zeros_like(each)
        momenta = [self.state[each]["momentum_buffer"] for each in parameters]
        gradients = [each.grad for each in parameters if each.grad is not None]
        weight, momentum, gradient = (
            torch.cat([each.detach().view(-1, *shape) for each in tensors])
            for tensors in (parameters, momenta, gradients)
        )
        new_momentum = momentum.lerp(gradient, 1 - MOMENTUM)
        direction = orthogonalised(gradient.lerp(new_momentum, MOMENTUM))
        size = rate * ADAMW_SIZE * max(shape) ** 0.5
        new_weight = (weight * (1 - rate * decay)).sub_(direction, alpha=size)
        if found_inf is not None:
            new_momentum = torch.where(found_inf > 0, momentum, new_momentum)
            new_weight = torch.where(found_inf > 0, weight, new_weight)
        rows = [len(each) for each in parameters]
        for targets, values in ((momenta, new_momentum), (parameters, new_weight)):
            torch._foreach_copy_(list(targets), list(torch.split(values.view(-1, shape[1]), rows)))


def orthogonalised(matrices: Tensor) -> Tensor:
    """Return matrices (n, rows, columns) with singular values of about 1 (0.7 to 1.2) and the same vectors.

    Newton and Schulz's iteration in bf16, which suffices; in fp32 where the device computes bf16 slowly.
    """
    dtype = torch.bfloat16 if has_bf16(matrices.device) else torch.float32
    a, b, c = NEWTON_SCHULZ
    wide = matrices if matrices.shape[1] <= matrices.shape[2] else matrices.mT
    iterate = (wide / wide.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)).to(dtype)
    for _ in range(N_STEPS):
        gram = iterate @ iterate.mT
        iterate = torch.baddbmm(iterate, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), iterate, beta=a)
    return (iterate if wide is matrices else iterate.mT).to(matrices.dtype)


def make_optimizer(model: Transformer, config: TrainingConfig) -> torch.optim.Optimizer:
    """Create the optimizer of `config`. Only matrices decay: no biases, norms or embeddings.

    Learned positions count as embeddings; stored positions are not trained.
    """
    embeddings = {m.weight for m in model.modules() if isinstance(m, (nn.Embedding, nn.EmbeddingBag))}
    embeddings |= {m.positions for m in model.modules() if isinstance(m, Embedding)}
    hidden = hidden_matrices(model) if config.optimizer == "muon" else {}
    for_adamw = [p for p in trained(model) if p not in hidden]
    matrices = {p for p in for_adamw if p.dim() == 2 and p not in embeddings}
    groups = [
        {"params": [p for p in for_adamw if p in matrices], "weight_decay": config.weight_decay},
        {"params": [p for p in for_adamw if p not in matrices], "weight_decay": 0.0},
    ]
    adamw = AdamW(groups, lr=config.learning_rate, betas=config.betas, eps=config.eps, fused=True)
    return MuonAndAdamW(hidden, adamw, config) if config.optimizer == "muon" else adamw


def hidden_matrices(model: Transformer) -> dict[nn.Parameter, int]:
    """Return the matrices of the layers, hidden states to hidden states, and how many are stacked in each."""
    stacks = [stack for name, stack in model.named_children() if name in ("encoder", "decoder")]
    stacked = {m.in_proj.weight for m in model.modules() if isinstance(m, MultiHeadAttention)}
    return {p: 3 if p in stacked else 1 for stack in stacks for p in trained(stack) if p.dim() == 2}


def trained(module: nn.Module) -> list[nn.Parameter]:
    """Return the trainable weights."""
    return [parameter for parameter in module.parameters() if parameter.requires_grad]
