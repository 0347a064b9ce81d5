"""From the parts of another toolkit's Transformer to the parameters of ours: other names, other packing."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from pydantic import ValidationError
from torch import Tensor

from dragoman.config import ModelConfig, SearchConfig
from dragoman.errors import RunError
from dragoman.interop.torch_files import ForeignTensors
from dragoman.model.layers import sinusoids

Checked = TypeVar("Checked", ModelConfig, SearchConfig)

SINUSOIDS_AGREE = 1e-3
"""Position encodings that were computed in fp32 are off by as much at position 5000."""


class AttentionNames(NamedTuple):
    """What a format calls the four projections of an attention block."""

    query: str
    key: str
    value: str
    out: str

    def within(self, block: str) -> AttentionNames:
        """The same in a block of that name."""
        return AttentionNames(*(f"{block}.{name}" for name in self))


class LayerNames(NamedTuple):
    """What a format calls the parts of a layer."""

    attentions: tuple[AttentionNames, ...]
    """Self-attention, and in a decoder the attention to the source after it."""
    wide: str
    narrow: str
    """The feed-forward block: from d_model to d_ff, and back."""
    norms: tuple[str, ...]
    """Those of the sub-layers, in order."""


class Sizes(NamedTuple):
    """Widths of a model."""

    d_model: int
    d_ff: int


def take_layer(
    tensors: ForeignTensors, theirs: str, ours: str, names: LayerNames, sizes: Sizes
) -> dict[str, Tensor]:
    """The parameters of our layer `ours`, such as "encoder.0", from the tensors below `theirs`.

    Projections without a bias get one of zeros.
    """
    D, F = sizes
    taken: dict[str, Tensor] = {}
    for block, attention in zip(("self_attention", "cross_attention"), names.attentions, strict=False):
        parts = [take_linear(tensors, f"{theirs}.{name}", "", D, D) for name in attention[:3]]
        for kind in (".weight", ".bias"):
            taken[f"{ours}.{block}.in_proj{kind}"] = torch.cat([part[kind] for part in parts])
        taken |= take_linear(tensors, f"{theirs}.{attention.out}", f"{ours}.{block}.out_proj", D, D)
    taken |= take_linear(tensors, f"{theirs}.{names.wide}", f"{ours}.feed_forward.linear1", F, D)
    taken |= take_linear(tensors, f"{theirs}.{names.narrow}", f"{ours}.feed_forward.linear2", D, F)
    for i, norm in enumerate(names.norms):
        taken |= take_norm(tensors, f"{theirs}.{norm}", f"{ours}.residuals.{i}.norm", D)
    return taken


def take_linear(tensors: ForeignTensors, theirs: str, ours: str, n_out: int, n_in: int) -> dict[str, Tensor]:
    """Weight (out, in) and bias (out,) of a projection."""
    weight = tensors.take(f"{theirs}.weight", n_out, n_in)
    has_bias = f"{theirs}.bias" in tensors
    bias = tensors.take(f"{theirs}.bias", n_out) if has_bias else torch.zeros(n_out)
    return {f"{ours}.weight": weight, f"{ours}.bias": bias}


def take_norm(tensors: ForeignTensors, theirs: str, ours: str, d_model: int) -> dict[str, Tensor]:
    """Gain and shift (D,) of a layer norm."""
    return {f"{ours}.{kind}": tensors.take(f"{theirs}.{kind}", d_model) for kind in ("weight", "bias")}


class Embeddings(NamedTuple):
    """The matrices with a row for each token, (V, D)."""

    src: Tensor
    tgt: Tensor
    output: Tensor
    one_vocabulary: bool
    """Source and target have the same tokens in the same order."""

    @property
    def ties(self) -> Literal["all", "output", "none"]:
        """Which of them are one matrix: those that are equal, whatever the settings say."""
        if not torch.equal(self.tgt, self.output):
            return "none"
        return "all" if self.one_vocabulary and torch.equal(self.src, self.tgt) else "output"

    def parameters(self) -> dict[str, Tensor]:
        """They by our names, tied ones once."""
        taken = {"src_embedding.tokens.weight": self.src}
        if self.ties != "all":
            taken["tgt_embedding.tokens.weight"] = self.tgt
        if self.ties == "none":
            taken["output.weight"] = self.output
        return taken


class Positions(NamedTuple):
    """The position encodings of a model, and their tables where these belong to the weights."""

    kind: Literal["sinusoidal", "learned", "stored"]
    length: int
    parameters: dict[str, Tensor]


def positions(src: Tensor, tgt: Tensor, *, learned: bool) -> Positions:
    """What a model with these encodings (n, D) of source and target has, cut to the shorter of them.

    The paper's sinusoids in the paper's order are computed rather than kept.
    """
    length = min(len(src), len(tgt))
    src, tgt = src[:length].contiguous(), tgt[:length].contiguous()
    paper = sinusoids(length, src.shape[1])
    if not learned and all(torch.allclose(table, paper, atol=SINUSOIDS_AGREE) for table in (src, tgt)):
        return Positions("sinusoidal", length, {})
    tables = {"src_embedding.positions": src, "tgt_embedding.positions": tgt}
    return Positions("learned" if learned else "stored", length, tables)


def halved_sinusoids(first: int, length: int, d_model: int) -> Tensor:
    """(length, D): encodings of the positions from `first` on, all sines and then all cosines.

    As in tensor2tensor, fairseq and OpenNMT's "SinusoidalConcat", rates fall from 1 to 1/10000 itself: the
    exponent's steps are 1 / (D/2 - 1), where the paper has 1 / (D/2).
    """
    half = d_model // 2
    rate = torch.exp(torch.arange(half, dtype=torch.float64) * (-math.log(10000.0) / max(1, half - 1)))
    angle = torch.arange(first, first + length, dtype=torch.float64)[:, None] * rate
    return torch.cat([angle.sin(), angle.cos()], dim=1).float()


def model_config(settings: dict[str, Any], *, where: Path) -> ModelConfig:
    """The checked settings of a model. RunError: no Transformer of ours is so, and why."""
    return _checked(ModelConfig, settings, where)


def checked_search(settings: dict[str, Any], *, where: Path) -> SearchConfig:
    """The checked settings of its search. RunError: no search of ours is so, and why."""
    return _checked(SearchConfig, settings, where)


def _checked(section: type[Checked], settings: dict[str, Any], where: Path) -> Checked:
    try:
        return section.model_validate(settings)
    except ValidationError as error:
        said = "; ".join(
            f"{'.'.join(map(str, problem['loc']))} {problem['msg'].removeprefix('Value error, ')}".strip()
            for problem in error.errors()
        )
        raise RunError(f"{where}: {said}; the model cannot be imported") from None
