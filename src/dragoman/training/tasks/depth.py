"""The weights of a translator as those of one with more or fewer layers.

New layers begin as the identity, so that a deeper stack says exactly what the one it came from said
(Net2Net, Chen et al. 2016). Where there are fewer, layers that stood far apart stay ("shrink and
fine-tune", Shleifer & Rush 2020).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from dragoman.config import ModelConfig

SAID_LAST = ("out_proj", "linear2")
"""What attention and feed-forward end with. Where it is zero, they add nothing to what passes a layer."""


def taken_layers(n_there: int, n_here: int) -> list[int | None]:
    """For each of `n_here` layers which of `n_there` it is; None: it is new.

    More layers: new ones stand behind old ones, spread evenly. Fewer: the first and the last stay, and those
    between them that are furthest apart; of one, the first.
    """
    if n_here >= n_there:
        places = [i * n_there // n_here for i in range(n_here)]
        return [place if place not in places[:i] else None for i, place in enumerate(places)]
    return [round(i * (n_there - 1) / max(1, n_here - 1)) for i in range(n_here)]


def of_other_depth(
    weights: Mapping[str, Tensor], fresh: Mapping[str, Tensor], there: ModelConfig, here: ModelConfig
) -> dict[str, Tensor]:
    """`weights` of a model `there` as those of a model `here`, which differ in depth alone.

    `fresh` are the weights of a new model `here`, from which new layers have what they don't say.
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
    """The weights of one layer, by their names within it."""
    prefix = f"{stack}.{i}."
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


def silent(layer: Mapping[str, Tensor], *, prefix: str) -> dict[str, Tensor]:
    """The weights of a pre-norm layer that adds nothing; `prefix` goes before their names."""
    return {
        prefix + name: torch.zeros_like(value)
        if any(part in SAID_LAST for part in name.split("."))
        else value.detach().clone()
        for name, value in layer.items()
    }
