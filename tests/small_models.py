"""Models of a few parameters, which have learnt nothing, and sources for them."""

import torch

from dragoman.config import ModelConfig
from dragoman.model.kernels import PLAIN, Kernels
from dragoman.model.transformer import Seq2SeqTransformer

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
