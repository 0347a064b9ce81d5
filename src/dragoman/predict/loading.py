"""From a run's files to a model that is ready to use."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from dragoman.config import ClassificationConfig, TranslationConfig
from dragoman.errors import RunError
from dragoman.model.classifier import TransformerClassifier
from dragoman.model.kernels import choose_kernels
from dragoman.model.transformer import Seq2SeqTransformer, Transformer
from dragoman.text.tokenizer import Tokenizer, TokenizerPair

Model = TypeVar("Model", bound=Transformer)


def build_model(
    config: TranslationConfig, tokenizers: TokenizerPair, *, device: torch.device
) -> Seq2SeqTransformer:
    """A model with fresh weights for these tokenizers, on `device`."""
    return Seq2SeqTransformer(
        config.model,
        src_vocab_size=tokenizers.src.vocab_size,
        tgt_vocab_size=tokenizers.tgt.vocab_size,
        kernels=choose_kernels(config.training.kernels, device),
    ).to(device)


def build_classifier(
    config: ClassificationConfig, tokenizer: Tokenizer, *, n_classes: int, device: torch.device
) -> TransformerClassifier:
    """A classifier with fresh weights for this tokenizer and so many classes, on `device`."""
    return TransformerClassifier(
        config.model,
        vocab_size=tokenizer.vocab_size,
        n_classes=n_classes,
        kernels=choose_kernels(config.training.kernels, device),
    ).to(device)


def load_weights(
    model: Transformer,
    weights: dict[str, Tensor],
    *,
    where: str,
    placed: Callable[[Tensor, Tensor], Tensor] = lambda tensor, like: tensor,
) -> None:
    """Puts `weights` into `model`, each as `placed` makes it like the model's own.

    RunError: names or shapes are not its own, or a number is not finite.
    """
    own = dict(model.named_parameters())  # tied weights once
    missing, unknown = sorted(own.keys() - weights.keys()), sorted(weights.keys() - own.keys())
    if missing or unknown:
        raise RunError(
            f"{where}: is not for this configuration; missing {missing[:3]}, unknown {unknown[:3]}; "
            "config.toml and weights must come from the same run"
        )
    for name, tensor in weights.items():
        if tensor.shape != own[name].shape:
            raise RunError(
                f"{where}: {name} has shape {tuple(tensor.shape)}, the configuration says "
                f"{tuple(own[name].shape)}; config.toml and weights must come from the same run"
            )
        if not torch.isfinite(tensor).all():
            raise RunError(f"{where}: {name} holds numbers that are not finite; the file is damaged")
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(placed(weights[name], parameter))


def inference_copy(
    model: Model,
    dtype: torch.dtype,
    *,
    weights: dict[str, Tensor] | None = None,
    device: torch.device | None = None,
) -> Model:
    """A copy of `model` for decoding, with `weights` in place of its own if given, all in `dtype`."""
    frozen = copy.deepcopy(model).requires_grad_(False).eval().to(device)
    if weights is not None:
        load_weights(frozen, weights, where="weights")
    frozen.dtype = dtype
    return frozen.to(dtype)
