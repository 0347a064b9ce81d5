"""Initialise a translator from the weights of one with fewer or more layers.

New layers start as the identity, so that a deeper model computes exactly the same function (Net2Net, Chen et
al. 2016). A shallower model keeps layers that are far apart ("shrink and fine-tune", Shleifer & Rush 2020).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from dragoman.config import ModelConfig

SAID_LAST = ("out_proj", "linear2")
"""What attention and feed-forward end with. Where it is zero, they add nothing to what passes a layer."""


def taken_layers(n_there: int, n_here: int) -> list[int | None]:
    """Return, for each of `n_here` layers, the index of its source among `n_there`; None = new layer.

    With more layers, new ones follow old ones, spread evenly. With fewer, the first and the last are kept,
    and evenly spaced ones between them; a single layer is the first.
    """
    if n_here >= n_there:
        places = [i * n_there // n_here for i in range(n_here)]
        return [place if place not in places[:i] else None for i, place in enumerate(places)]
    return [round(i * (n_there - 1) / max(1, n_here - 1)) for i in range(n_here)]


def of_other_depth(
    weights: Mapping[str, Tensor], fresh: Mapping[str, Tensor], there: ModelConfig, here: ModelConfig
) -> dict[str, Tensor]:
    """Convert `weights` of a model `there` to a model `here` that differs only in depth.

    `fresh` are the weights of a new model `here`, which initialise the new layers.
    """
    depths = {
        "encoder": (there.n_encoder_layers, here.n_encoder_layers),
        "decoder": (there.n_decoder_layers, here.n_decoder_layers),
    }
    taken = {name: value for name, value in weights.items() if name.split(".")[0] not in depths}
    for stack, (n_there, n_here) in depths.items():
        for i, place in enumerate(taken_layers(n_there, n_here)):
            if place is None:
                taken |= silent(layer_of(fresh, stack, i), prefix=f"{stack}.{i}.")
            else:
                layer = layer_of(weights, stack, place)
                taken |= {f"{stack}.{i}.{name}": value for name, value in layer.items()}
    return taken


def layer_of(weights: Mapping[str, Tensor], stack: str, i: int) -> dict[str, Tensor]:
    """Return the weights of one layer, by their names within it."""
    prefix = f"{stack}.{i}."
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


def silent(layer: Mapping[str, Tensor], *, prefix: str) -> dict[str, Tensor]:
    """Return the weights of a pre-norm layer that is the identity; `prefix` goes before their names."""
    return {
        prefix + name: torch.zeros_like(value)
        if any(part in SAID_LAST for part in name.split("."))
        else value.detach().clone()
        for name, value in layer.items()
    }
