"""The classifier by compiled code and NumPy computes what that of PyTorch does."""

from typing import Any

import numpy as np
import pytest
import torch

from dragoman.config import ClassifierConfig
from dragoman.data.document_batching import lay_out
from dragoman.model.classifier import TransformerClassifier
from dragoman.model.compiled import KINDS, Kind, why_not_compiled
from dragoman.model.compiled_classifier import CompiledClassifier
from dragoman.model.ngrams import bags_of_ngrams
from dragoman.tensors import of_tensors

MAX_LENGTH = 16
VOCAB = 50
BOUNDS = {"int8": 0.05, "bfloat16": 0.02, "float32": 1e-5}
"""Of the mean difference, in standard deviations of logits."""


def classifier(**settings: Any) -> TransformerClassifier:
    """A model whose weights are as far from 0 and 1 as those of trained ones."""
    sizes = {"d_model": 36, "n_heads": 2, "d_ff": 52, "n_encoder_layers": 2, "max_positions": MAX_LENGTH}
    config = ClassifierConfig.model_validate(sizes | settings)
    torch.manual_seed(0)
    model = TransformerClassifier(config, vocab_size=VOCAB, n_classes=5).eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if name.endswith("bias") or "norm" in name:
            parameter.add_(0.2 * torch.randn(parameter.shape))
        elif name.startswith(("head", "votes")):
            torch.nn.init.normal_(parameter)
    return model


def texts() -> list[np.ndarray[Any, np.dtype[np.int64]]]:
    """Of one token, of one window and of several."""
    generator = np.random.default_rng(1)
    return [generator.integers(4, VOCAB, n) for n in (1, 5, 16, 17, 100, 3, 33)]


def check(model: TransformerClassifier, kind: Kind) -> None:
    """Compare the logits of both."""
    if reason := why_not_compiled(model.config, kind):
        pytest.skip(reason)
    tokens, lengths = np.concatenate(texts()), np.array([len(text) for text in texts()])
    documents = lay_out(tokens, lengths, max_length=MAX_LENGTH)
    if model.config.ngrams:
        documents = documents._replace(ngrams=bags_of_ngrams(tokens, lengths, model.config))
    expected = documents.logits(model).numpy()
    compiled = CompiledClassifier(of_tensors(model.state_dict()), model.config, kind=kind)
    logits = compiled(texts(), max_length=MAX_LENGTH)
    assert (logits.dtype, logits.shape) == (np.float32, (len(lengths), compiled.n_classes))
    assert np.abs(logits - expected).mean() < BOUNDS[kind] * expected.std()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("activation", ["relu", "gelu", "swish"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_every_encoder_is_computed(norm: str, activation: str, kind: Kind) -> None:
    check(classifier(norm=norm, activation=activation), kind)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "stored"])
@pytest.mark.parametrize("pooling", ["mean", "max", "mean+max"])
def test_every_pooling_is_computed(pooling: str, positions: str) -> None:
    check(classifier(pooling=pooling, positions=positions, scale_embeddings=False), "float32")


@pytest.mark.parametrize("shares", [(1.0, 1.0), (2.0, 0.5), (1.0, 0.0), (0.0, 1.0)], ids=str)
def test_votes_and_encoder_are_mixed(shares: tuple[float, float]) -> None:
    model = classifier(ngrams=3, ngram_bits=8)
    model.mixture.copy_(torch.tensor(shares))
    check(model, "float32")
