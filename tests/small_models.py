"""Models of a few parameters, which have learnt nothing, and sources for them."""

from typing import Any, NamedTuple

import pytest
import torch

from dragoman.config import ModelConfig
from dragoman.model.compiled import CompiledModel, CompiledSteps, Kind, why_not_compiled
from dragoman.model.kernels import PLAIN, Kernels
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.tensors import of_tensors

V = 30
"""Entries of both vocabularies."""


def small_model(kernels: Kernels = PLAIN, **settings: object) -> Seq2SeqTransformer:
    torch.manual_seed(0)
    shape = {"d_model": 8, "n_heads": 2, "d_ff": 16, "n_encoder_layers": 2, "n_decoder_layers": 2}
    config = ModelConfig.model_validate({**shape, **settings})
    model = Seq2SeqTransformer(config, src_vocab_size=V, tgt_vocab_size=V, kernels=kernels)
    return model.eval().requires_grad_(False)


def random_ids(*shape: int) -> torch.Tensor:
    return torch.randint(4, V, shape, generator=torch.Generator().manual_seed(1))


class TensorSteps(NamedTuple):
    """The steps of compiled code, called with tensors."""

    steps: CompiledSteps

    def __call__(self, last: torch.Tensor, parents: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(self.steps(last.numpy(), parents.numpy()))


def compiled_steps(
    model: Seq2SeqTransformer,
    src: torch.Tensor,
    src_mask: torch.Tensor,
    *,
    kind: Kind | None = None,
    **options: Any,
) -> TensorSteps:
    """What `IncrementalDecoder` gives, by compiled code, in `kind` or the model's type."""
    kind = kind or ("bfloat16" if model.dtype == torch.bfloat16 else "float32")
    if reason := why_not_compiled(model.config, kind):
        pytest.skip(reason)
    made = CompiledModel(of_tensors(model.state_dict()), model.config, kind=kind)
    sources = [row[looks].tolist() for row, looks in zip(src, src_mask, strict=True)]
    return TensorSteps(CompiledSteps(made, sources, **options))
