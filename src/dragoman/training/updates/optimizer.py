"""Optimizers: AdamW with parameter groups for weight decay, alone or beside Muon."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import torch
from torch import nn

from dragoman.config import TrainingConfig
from dragoman.errors import ConfigError
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


class MuonAndAdamW(Eager):
    """Muon for hidden matrices, AdamW for all other parameters, with one state and one learning rate.

    Muon (Jordan et al. 2024) updates a matrix by its orthogonalised momentum, so that it moves equally in
    every direction. Scaled as by Liu et al. (2025, arXiv:2502.16982), its steps have the size of AdamW's, so
    that one learning rate suits both. Projections that are stacked in one matrix, those of queries, keys and
    values, are orthogonalised one by one.
    """

    def __init__(self, hidden: Mapping[nn.Parameter, int], others: AdamW, config: TrainingConfig) -> None:
        """`hidden` says of each hidden matrix how many are stacked in it.

        ConfigError: this PyTorch has no Muon.
        """
        if not hasattr(torch.optim, "Muon"):
            raise ConfigError(
                f'training.optimizer = "muon" wants PyTorch 2.9 or newer, and this is {torch.__version__}; '
                'set optimizer = "adamw"'
            )
        self.hidden, self.others = hidden, others
        self.muon = _muon(hidden, config)
        super().__init__([*self.muon.param_groups, *others.param_groups], {})
        others.state = self.state

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        assert closure is None
        (group,) = self.muon.param_groups
        whole, group["params"] = group["params"], self._single_matrices()
        self.muon.step()
        group["params"] = whole
        self.others.step()
        return None

    def _single_matrices(self) -> list[nn.Parameter]:
        """Return every single matrix with its gradient and momentum: views of what is stacked."""
        self.muon.state.clear()
        matrices = []
        for stacked, n in self.hidden.items():
            if stacked.grad is None:
                continue
            state = self.state[stacked]
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = torch.zeros_like(stacked)
            momentum = state["momentum_buffer"]
            for weight, gradient, part in zip(
                *(t.detach().chunk(n) for t in (stacked, stacked.grad, momentum)), strict=True
            ):
                matrix = nn.Parameter(weight)
                matrix.grad = gradient
                self.muon.state[matrix] = {"momentum_buffer": part}
                matrices.append(matrix)
        return matrices


def _muon(hidden: Iterable[nn.Parameter], config: TrainingConfig) -> torch.optim.Optimizer:
    """Return PyTorch's Muon, which older ones have not, of `hidden` matrices."""

    class Muon(Eager, torch.optim.Muon):
        step = torch.no_grad()(_eager(torch.optim.Muon.step))

    return Muon(
        hidden, lr=config.learning_rate, weight_decay=config.weight_decay, adjust_lr_fn="match_rms_adamw"
    )


def make_optimizer(model: Transformer, config: TrainingConfig) -> torch.optim.Optimizer:
    """Create the optimizer of `config`. Only matrices decay: no biases, norms or embeddings.

    Learned positions count as embeddings; stored positions are not trained. ConfigError: no Muon in this
    PyTorch.
    """
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, (nn.Embedding, nn.EmbeddingBag))}
    embeddings |= {id(m.positions) for m in model.modules() if isinstance(m, Embedding)}
    parameters = trained(model)
    matrices = [p for p in parameters if p.dim() == 2 and id(p) not in embeddings]
    hidden = hidden_matrices(model) if config.optimizer == "muon" else {}
    taken = {id(p) for p in hidden}
    decayed = [p for p in matrices if id(p) not in taken]
    taken |= {id(p) for p in decayed}
    groups = [
        {"params": decayed, "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if id(p) not in taken], "weight_decay": 0.0},
    ]
    adamw = AdamW(groups, lr=config.learning_rate, betas=config.betas, eps=config.eps, fused=True)
    return MuonAndAdamW(hidden, adamw, config) if config.optimizer == "muon" else adamw


def hidden_matrices(model: Transformer) -> dict[nn.Parameter, int]:
    """Return the matrices of the layers, hidden states to hidden states, and how many are stacked in each."""
    stacks = [stack for name, stack in model.named_children() if name in ("encoder", "decoder")]
    stacked = {id(m.in_proj.weight) for m in model.modules() if isinstance(m, MultiHeadAttention)}
    return {p: 3 if id(p) in stacked else 1 for stack in stacks for p in trained(stack) if p.dim() == 2}


def trained(module: nn.Module) -> list[nn.Parameter]:
    """Return the trainable weights."""
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate
