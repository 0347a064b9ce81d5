"""Models in PyTorch: built, and filled with weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from dragoman.config import ClassificationConfig, TranslationConfig
from dragoman.data.document_batching import Ids, make_documents
from dragoman.hardware import choose_device, choose_dtype
from dragoman.model.classifier import TransformerClassifier
from dragoman.model.copies import for_inference
from dragoman.model.kernels import choose_kernels
from dragoman.model.transformer import Seq2SeqTransformer, Transformer
from dragoman.model.weights import Floats, Weights, check_numbers, compare_shapes
from dragoman.runs import Run
from dragoman.tensors import of_tensors, to_tensors
from dragoman.text.tokenizer import Tokenizer, TokenizerPair

Model = TypeVar("Model", bound=Transformer)


def build_model(
    config: TranslationConfig, tokenizers: TokenizerPair, *, device: torch.device, placed: bool = True
) -> Seq2SeqTransformer:
    """Return a model with fresh weights for these tokenizers, on `device`.

    Without `placed` its weights stay where they were made; only its kernels are those for `device`.
    """
    model = Seq2SeqTransformer(
        config.model,
        src_vocab_size=tokenizers.src.vocab_size,
        tgt_vocab_size=tokenizers.tgt.vocab_size,
        kernels=choose_kernels(config.training.kernels, device),
    )
    return model.to(device) if placed else model


def build_classifier(
    config: ClassificationConfig, tokenizer: Tokenizer, *, n_classes: int, device: torch.device
) -> TransformerClassifier:
    """Build a classifier with random weights and `n_classes` classes for this tokenizer, on `device`."""
    return TransformerClassifier(
        config.model,
        vocab_size=tokenizer.vocab_size,
        n_classes=n_classes,
        kernels=choose_kernels(config.training.kernels, device),
    ).to(device)


def load_network(
    run: Run, config: TranslationConfig, tokenizers: TokenizerPair, *, device: str, precision: str
) -> Seq2SeqTransformer:
    """Return the model of a run, ready for decoding. Errors: `Translator.load`."""
    place = choose_device(device)
    model = build_model(config, tokenizers, device=place)
    fill(model, run.load_weights(), where=str(run.weights_path))
    return for_inference(model, choose_dtype(precision, place))


class NetworkClassifier:
    """A classifier in PyTorch: the tokens of texts to their logits."""

    def __init__(self, model: TransformerClassifier, config: ClassificationConfig) -> None:
        """Take `model` as it is; `for_inference` makes one whose weights need no casting."""
        self.model, self._config = model.eval(), config

    @property
    def precision(self) -> str:
        """What its products are in, "float32"."""
        return str(self.model.dtype).removeprefix("torch.")

    @torch.inference_mode()
    def __call__(self, texts: Sequence[Ids]) -> Floats:
        """Return the logits (B, C) of texts of one token or more."""
        tokens, lengths = np.concatenate(texts), np.array([len(text) for text in texts], np.int64)
        documents = make_documents(tokens, lengths, self._config).to(self.model.device)
        logits: Floats = documents.logits(self.model).float().cpu().numpy()
        return logits


def load_classifier(
    weights: Weights, config: ClassificationConfig, tokenizer: Tokenizer, *, device: str, precision: str
) -> NetworkClassifier:
    """Return a classifier with the weights of a run, on `device`. Errors: `Classifier.load`."""
    place = choose_device(device)
    n_classes = len(weights["head.bias"])
    model = build_classifier(config, tokenizer, n_classes=n_classes, device=place)
    fill(model, to_tensors(weights), where="weights")
    return NetworkClassifier(for_inference(model, choose_dtype(precision, place)), config)


def fill(
    model: Transformer,
    weights: Mapping[str, Tensor],
    *,
    where: str,
    local: Callable[[Tensor], Tensor] = lambda tensor: tensor,
) -> None:
    """Put `weights` into `model`. `local` returns what this process has of one that may be spread.

    RunError: names or shapes are not its own, a number is not finite, or each matrix holds one number alone.
    """
    expected = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}  # tied once
    compare_shapes(expected, {name: tuple(tensor.shape) for name, tensor in weights.items()}, where=where)
    here = {name: local(tensor).cpu() for name, tensor in weights.items()}
    check_numbers(of_tensors(here), where=where)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])
