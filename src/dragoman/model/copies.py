"""Models made ready for decoding, and a look at their attention."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import get_ident
from typing import TypeVar

import torch
from torch import Tensor

from dragoman.model.layers import MultiHeadAttention, attention_weights
from dragoman.model.transformer import Transformer

Model = TypeVar("Model", bound=Transformer)


def inference_copy(
    model: Model,
    dtype: torch.dtype,
    *,
    weights: Mapping[str, Tensor] | None = None,
    device: torch.device | None = None,
) -> Model:
    """Return a copy of `model` for decoding, with `weights` in place of its own if given, all in `dtype`."""
    frozen = for_inference(copy.deepcopy(model), dtype).to(device)
    if weights is not None:
        with torch.no_grad():
            for name, parameter in frozen.named_parameters():
                parameter.copy_(weights[name])
    return frozen


def for_inference(model: Model, dtype: torch.dtype) -> Model:
    """Return `model` itself, made ready for decoding in `dtype`."""
    model.requires_grad_(False).eval().to(dtype)
    model.dtype = dtype
    return model


@contextmanager
def watched(
    blocks: Iterable[MultiHeadAttention], keep: Callable[[Tensor], Tensor] = lambda weights: weights
) -> Iterator[list[Tensor]]:
    """Lend a list to which each block, called in this thread, adds `keep` of its weights (B, H, T, S)."""
    kept: list[Tensor] = []
    thread = get_ident()  # others call the same blocks

    def look(block: torch.nn.Module, inputs: tuple[Tensor, Tensor | None, Tensor | None]) -> None:
        if get_ident() != thread:
            return
        assert isinstance(block, MultiHeadAttention)
        x, memory, bias = inputs
        q, (k, _) = block.project_query(x), block.project_memory(x if memory is None else memory)
        kept.append(keep(attention_weights(block.split_heads(q), block.split_heads(k), bias)))

    hooks = [block.register_forward_pre_hook(look) for block in blocks]
    try:
        yield kept
    finally:
        for hook in hooks:
            hook.remove()
