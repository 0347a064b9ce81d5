"""From the tensors of another toolkit to the parameters of ours, and back, by a table of names.

What the parameters are and how large says `dragoman.model.architecture`; a format says what it calls them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor

from dragoman.config import ModelConfig, SearchConfig, TranslationConfig, parse_section
from dragoman.errors import ConfigError, RunError
from dragoman.interop.foreign import ForeignVocabulary
from dragoman.interop.torch_files import ForeignTensors
from dragoman.model.architecture import SIDES, Parameter, embedding_names, parameters
from dragoman.model.layers import sinusoids

Checked = TypeVar("Checked", ModelConfig, SearchConfig, TranslationConfig)

Names: TypeAlias = Mapping[str, str]
"""What a format calls each part of the model (`Parameter.part`), without ".weight" and ".bias".

"layer" is where a layer is: "*" stands for "encoder" or "decoder", "#" for the layer's number. Parts of a
layer are named within it. Braces hold the names of matrices that are one parameter here, as in
"self_attn.{q,k,v}_proj"; a "?" behind a name says that the part may have no bias. "encoder." or "decoder."
before a part: the name on that side alone.
"""

FAIRSEQ_LAYER: Names = {
    "self_attention.in_proj": "self_attn.{q,k,v}_proj",
    "self_attention.out_proj": "self_attn.out_proj",
    "self_attention.norm": "self_attn_layer_norm",
    "cross_attention.in_proj": "encoder_attn.{q,k,v}_proj",
    "cross_attention.out_proj": "encoder_attn.out_proj",
    "cross_attention.norm": "encoder_attn_layer_norm",
    "feed_forward.linear1": "fc1",
    "feed_forward.linear2": "fc2",
    "feed_forward.norm": "final_layer_norm",
}
"""The parts of a layer in fairseq, whose names Marian and Pegasus have in transformers."""

SINUSOIDS_AGREE = 1e-3
"""Position encodings that were computed in fp32 are off by as much at position 5000."""
MAX_TABLE = 2**28
"""Numbers in a table of positions, 1 GB; a model that asks for more wants this machine's memory."""


def _named(names: Names, side: str, part: str) -> str:
    return names.get(f"{side}.{part}", names.get(part, "")).replace("*", side)


def their_names(names: Names, parameter: Parameter) -> list[str]:
    """Return the tensors that hold a parameter in a format: several are its rows, one after another."""
    name = _named(names, parameter.side, parameter.part).rstrip("?")
    if parameter.layer is not None:
        layer = _named(names, parameter.side, "layer").replace("#", str(parameter.layer))
        name = f"{layer}.{name}"
    head, _, rest = name.partition("{")
    stacked, _, tail = rest.partition("}")
    return [f"{head}{one}{tail}.{parameter.kind}" for one in stacked.split(",")]


def in_order(tensor: Tensor, axes: tuple[str, ...], order: Tensor | None) -> Tensor:
    """`tensor` with the dimensions of the residual stream in another `order` (D,); None: as they are."""
    if order is not None:
        for i, axis in enumerate(axes):
            tensor = tensor.index_select(i, order) if axis == "D" else tensor
    return tensor


def take_parameters(
    tensors: ForeignTensors, names: Names, expected: Iterable[Parameter], *, order: Tensor | None = None
) -> dict[str, Tensor]:
    """Parameters by our names. RunError: one is missing, of another shape, or not finite.

    `order` (D,) says which of their dimensions of the residual stream is each of ours.
    """
    taken = {}
    for parameter in expected:
        theirs = their_names(names, parameter)
        may_lack = parameter.kind == "bias" and _named(names, parameter.side, parameter.part).endswith("?")
        n_rows, *columns = parameter.shape
        shape = n_rows // len(theirs), *columns
        parts = [
            torch.zeros(shape) if may_lack and name not in tensors else tensors.take(name, *shape)
            for name in theirs
        ]
        whole = parts[0] if len(parts) == 1 else torch.cat(parts)
        taken[parameter.name] = in_order(whole, parameter.axes, order)
    return taken


def count_layers(tensors: ForeignTensors, names: Names) -> dict[str, int]:
    """How many layers each side has weights for, which may be fewer than settings say (pruned models).

    RunError: none, or some are missing between others.
    """
    counts = {}
    for side in SIDES:
        prefix = _named(names, side, "layer").partition("#")[0]
        numbers = {name.removeprefix(prefix).split(".")[0] for name in tensors if name.startswith(prefix)}
        if not numbers or numbers != set(map(str, range(len(numbers)))):
            raise RunError(f"{tensors.where}: layers of its {side} are missing; copy the file again")
        counts[f"n_{side}_layers"] = len(numbers)
    return counts


def assemble(
    tensors: ForeignTensors,
    names: Names,
    model: ModelConfig,
    vocabularies: tuple[ForeignVocabulary, ForeignVocabulary],
    tables: Callable[[], Iterable[Tensor]],
    *,
    learned: bool = False,
    order: Tensor | None = None,
) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Return the parameters of a model by our names, and its settings with what only its weights say.

    That is which embeddings are one matrix: those that are equal, whatever the settings say; and what kind
    of positions it has. `tables` gives the position encodings (P, D) of source and target, of which the
    shorter decides. The paper's sinusoids in the paper's order are computed rather than kept.
    RunError: a weight is missing, is left over, or is not as `model` says.
    """
    src, tgt = vocabularies
    untied = model.model_copy(update={"tie_embeddings": "none", "positions": "sinusoidal"})
    expected = parameters(untied, len(src.pieces), len(tgt.pieces))
    weights = take_parameters(tensors, names, expected, order=order)
    positions = [in_order(table, ("P", "D"), order) for table in tables()]
    tensors.check_all_taken()

    src_matrix, tgt_matrix, output = (weights[name] for name in embedding_names(untied))
    ties = "none"
    if torch.equal(tgt_matrix, output):
        ties = "all" if src == tgt and torch.equal(src_matrix, tgt_matrix) else "output"
    length = min(map(len, positions))
    positions = [table[:length].contiguous() for table in positions]
    paper = sinusoids(length, model.d_model)
    is_paper = not learned and all(torch.allclose(table, paper, atol=SINUSOIDS_AGREE) for table in positions)
    kind = "sinusoidal" if is_paper else "learned" if learned else "stored"
    inferred = {"tie_embeddings": ties, "positions": kind, "max_positions": length}
    model = model_config(model.model_dump() | inferred, where=tensors.where)
    weights |= {
        f"{side}_embedding.positions": table for side, table in zip(SIDES.values(), positions, strict=True)
    }
    kept = {parameter.name for parameter in parameters(model, len(src.pieces), len(tgt.pieces))}
    return model, {name: tensor for name, tensor in weights.items() if name in kept}


def halved_sinusoids(first: int, length: int, d_model: int) -> Tensor:
    """(length, D): encodings of the positions from `first` on, all sines and then all cosines.

    As in tensor2tensor, fairseq and OpenNMT's "SinusoidalConcat", rates fall from 1 to 1/10000 itself: the
    exponent's steps are 1 / (D/2 - 1), where the paper has 1 / (D/2).
    """
    half = d_model // 2
    rate = torch.exp(torch.arange(half, dtype=torch.float64) * (-math.log(10000.0) / max(1, half - 1)))
    angle = torch.arange(first, first + length, dtype=torch.float64)[:, None] * rate
    return torch.cat([angle.sin(), angle.cos()], dim=1).float()


def model_config(settings: Mapping[str, Any], *, where: Path) -> ModelConfig:
    """Return the checked settings of a model. RunError: no Transformer of ours is so, and why."""
    model = checked(ModelConfig, settings, where=where)
    if model.max_positions * model.d_model > MAX_TABLE:
        raise RunError(
            f"{where}: {model.max_positions:,} positions of {model.d_model:,} are too many to be read; "
            "its settings are damaged, or of another model"
        )
    return model


def checked(section: type[Checked], settings: Mapping[str, Any], *, where: Path) -> Checked:
    """Return the checked settings of a section. RunError: no model or search of ours is so, and why."""
    try:
        return parse_section(section, settings, where=str(where))
    except ConfigError as error:
        raise RunError(f"{error}; the model cannot be imported") from error
