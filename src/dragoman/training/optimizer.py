"""AdamW with the groups that weight decay needs."""

from __future__ import annotations

import torch
from torch import nn

from dragoman.config import TrainingConfig
from dragoman.model.layers import Embedding
from dragoman.model.transformer import Transformer


def make_optimizer(model: Transformer, config: TrainingConfig) -> torch.optim.AdamW:
    """AdamW (Loshchilov and Hutter 2019) that decays matrices only: no biases, norms or embeddings.

    Positions are embeddings too; where they are stored, they are no weights to be trained.
    """
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, (nn.Embedding, nn.EmbeddingBag))}
    embeddings |= {id(m.positions) for m in model.modules() if isinstance(m, Embedding)}
    decayed: list[torch.nn.Parameter] = []
    others: list[torch.nn.Parameter] = []
    for parameter in trained(model):
        matrix = parameter.dim() == 2 and id(parameter) not in embeddings
        (decayed if matrix else others).append(parameter)
    groups = [
        {"params": decayed, "weight_decay": config.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=config.betas, eps=config.eps, fused=True)


def trained(module: nn.Module) -> list[nn.Parameter]:
    """The weights that change in training."""
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate
