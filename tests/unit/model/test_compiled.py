"""Compiled steps: in int8 near fp32 for every architecture, rows independent, equal on all processors."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from dragoman import native as module
from dragoman.model.compiled import KINDS, CompiledModel, CompiledSteps, Kind, why_not_compiled
from dragoman.model.copies import watched
from dragoman.model.kernels import FAST
from dragoman.model.layers import LayerNorm
from dragoman.model.transformer import Seq2SeqTransformer, decoder_layers, encoder_layers
from dragoman.native import native
from dragoman.tensors import of_tensors
from small_models import compiled_steps, random_ids, small_model

PAD = 0
ARCHITECTURES = [
    {"norm": norm, "activation": activation}
    for norm in ("pre", "post")
    for activation in ("relu", "gelu", "swish")
]
on_all_architectures = pytest.mark.parametrize(
    "settings", ARCHITECTURES, ids=lambda each: "-".join(each.values())
)


def model_of(**settings: object) -> Seq2SeqTransformer:
    """A model whose norms, biases and embeddings are as far from 0 and 1 as those of trained ones."""
    sizes = {"d_model": 36, "n_heads": 3, "d_ff": 52, "output_bias": True}
    model = small_model(FAST, **{**sizes, **settings})
    generator = torch.Generator().manual_seed(3)
    for name, parameter in model.named_parameters():
        if name.endswith("bias") or "norm" in name:
            parameter.data += 0.2 * torch.randn(parameter.shape, generator=generator)
    return model


def steps_of(model: Seq2SeqTransformer, src: Tensor, tgt: Tensor, *, kind: Kind) -> Tensor:
    """Log-probabilities (N, T, V) of the next tokens after those of tgt (N, T)."""
    step = compiled_steps(model, src, src != PAD, kind=kind)
    rows = torch.arange(len(src))
    return torch.stack([step(tgt[:, t], rows).clone() for t in range(tgt.shape[1])], dim=1)


@pytest.fixture
def texts() -> tuple[Tensor, Tensor]:
    src, tgt = random_ids(9, 5), random_ids(9, 20)
    src[1, 3:] = PAD
    return src, tgt


WIDTHS = [{"d_model": 6, "n_heads": 2, "d_ff": 7}, {"d_model": 38, "n_heads": 2, "d_ff": 1}]
"""Not even multiples of what lies side by side in packed weights, and heads of odd widths."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("widths", WIDTHS, ids=str)
@pytest.mark.parametrize("settings", [ARCHITECTURES[0], ARCHITECTURES[1], ARCHITECTURES[5]], ids=str)
def test_any_width_is_computed(
    settings: dict[str, str], widths: dict[str, int], kind: Kind, texts: tuple[Tensor, Tensor]
) -> None:
    model, (src, tgt) = model_of(**settings, **widths), texts
    full = model(src, src != PAD, tgt).log_softmax(-1)
    difference = (steps_of(model, src, tgt, kind=kind) - full).abs()
    assert difference.mean() < {"int8": 0.05, "bfloat16": 0.02, "float32": 1e-5}[kind] * full.std()


@pytest.mark.parametrize("kind", KINDS)
@on_all_architectures
def test_the_encoder_gives_what_that_of_pytorch_gives(settings: dict[str, str], kind: Kind) -> None:
    """Of more tokens than are encoded together, too."""
    model, src = model_of(**settings), random_ids(60, 17)
    if reason := why_not_compiled(model.config, kind):
        pytest.skip(reason)
    lengths = torch.tensor([17 - i % 5 for i in range(60)])
    mask = torch.arange(17) < lengths[:, None]
    expected = model.encode(src, mask)
    compiled = CompiledModel(of_tensors(model.state_dict()), model.config, kind=kind)
    encoded = compiled.encode(src[mask].numpy(), lengths.numpy())
    difference = np.abs(encoded - expected[mask].numpy())
    assert difference.mean() < {"int8": 0.05, "bfloat16": 0.02, "float32": 1e-5}[kind]


@on_all_architectures
def test_int8_is_near_fp32(settings: dict[str, str], texts: tuple[Tensor, Tensor]) -> None:
    model, (src, tgt) = model_of(**settings), texts
    full = model(src, src != PAD, tgt).log_softmax(-1)
    difference = (steps_of(model, src, tgt, kind="int8") - full).abs()
    assert 1e-4 < difference.mean() < full.std() / 20


def test_what_a_norm_gives_may_be_six_standard_deviations_from_0(texts: tuple[Tensor, Tensor]) -> None:
    """Beyond it int8 is cut off: one large entry of 100 is some ten deviations from the others' mean."""
    src, tgt = texts
    differences = []
    for large in (0.0, 1000.0):
        model = small_model(FAST, d_model=100, n_heads=2, d_ff=52)
        assert isinstance(model.decoder_norm, LayerNorm)
        for embedding in (model.src_embedding, model.tgt_embedding):
            embedding.tokens.weight.data[:, 7] += large
        full = model(src, src != PAD, tgt).log_softmax(-1)
        differences.append(((steps_of(model, src, tgt, kind="int8") - full).abs().mean() / full.std()).item())
    assert differences[0] < 0.05 < differences[1]


@pytest.mark.parametrize("kind", ["float32", "int8"])
@on_all_architectures
def test_other_sentences_in_the_batch_change_nothing(settings: dict[str, str], kind: Kind) -> None:
    """No scale follows from the rows at hand."""
    model, src, tgt = model_of(**settings), random_ids(70, 6), random_ids(70, 3)
    together = steps_of(model, src, tgt, kind=kind)
    alone = steps_of(model, src[:1], tgt[:1], kind=kind)
    torch.testing.assert_close(together[:1], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["float32", "int8"])
@pytest.mark.parametrize("place", ["src_embedding", "tgt_embedding", "encoder", "decoder"])
@pytest.mark.parametrize("settings", [ARCHITECTURES[0], ARCHITECTURES[4], ARCHITECTURES[5]], ids=str)
def test_nan_in_activations_is_nan_in_the_probabilities_of_their_sentence(
    settings: dict[str, str], place: str, kind: Kind
) -> None:
    model, src = model_of(**settings, tie_embeddings="none"), random_ids(3, 5)
    src[src == 7], src[2, 2], last = 8, 7, torch.tensor([[4], [5], [7]])
    if place.endswith("embedding"):
        model.get_submodule(place).tokens.weight.data[7] = torch.nan
    else:  # what attention makes of finite activations
        model.get_submodule(place)[0].self_attention.in_proj.bias.data[:] = torch.inf
    log_probs = steps_of(model, src, last, kind=kind)[:, 0]
    changes_scale = kind == "int8" and settings["norm"] == "post"
    every = not place.endswith("embedding") or changes_scale
    assert log_probs.isnan().any(1).tolist() == [every, every, True]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", [ARCHITECTURES[0], ARCHITECTURES[5]], ids=str)
def test_nan_in_a_weight_is_nan_in_every_sentence(settings: dict[str, str], kind: Kind) -> None:
    """None is lost in a ReLU, nor where 8 bits know no such number."""
    src, last = torch.tensor([[4, 5, 6], [6, 4, 5]]), torch.tensor([[4], [4]])
    model = model_of(**settings, tie_embeddings="none")
    for name, weight in model.named_parameters():
        before = weight.data.clone()
        weight.data.view(-1)[4 * model.d_model if "tokens" in name else len(weight) // 2] = torch.nan
        log_probs = steps_of(model, src, last, kind=kind)[:, 0]
        assert log_probs.isnan().any(1).all(), name
        weight.data = before


def test_tied_matrices_are_found_by_the_name_that_a_file_has(texts: tuple[Tensor, Tensor]) -> None:
    if reason := native().reason:
        pytest.skip(reason)
    model, (src, tgt) = model_of(tie_embeddings="all"), texts
    rows, first = np.arange(len(src)), tgt[:, 0].numpy()
    found = []
    for tensors in (model.state_dict(), dict(model.named_parameters())):  # the second names each once
        compiled = CompiledModel(of_tensors(tensors), model.config, kind="float32")
        found.append(CompiledSteps(compiled, src.tolist())(first, rows).copy())
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", [ARCHITECTURES[0], ARCHITECTURES[5]], ids=str)
def test_kept_attention_is_that_of_the_layers(
    settings: dict[str, str], kind: Kind, texts: tuple[Tensor, Tensor]
) -> None:
    """All of it, while rows move; behind a source it is 0."""
    model, (src, tgt) = model_of(**settings), texts
    if reason := why_not_compiled(model.config, kind):
        pytest.skip(reason)
    mask = src != PAD
    with (
        torch.inference_mode(),
        watched(layer.self_attention for layer in encoder_layers(model)) as encoder,
        watched(layer.self_attention for layer in decoder_layers(model)) as decoder,
        watched(layer.cross_attention for layer in decoder_layers(model)) as cross,
    ):
        model(src, mask, tgt)
    compiled = CompiledModel(of_tensors(model.state_dict()), model.config, kind=kind)
    sources = [row[looks].tolist() for row, looks in zip(src, mask, strict=True)]
    steps = CompiledSteps(compiled, sources, keep_attention=True, keep_self_attention=True)
    atol = {"int8": 0.1, "bfloat16": 0.02, "float32": 1e-5}[kind]
    expected = torch.stack(encoder, dim=1).movedim(3, 1)[mask]  # of (B, layers, H, S, S)
    np.testing.assert_allclose(steps.encoder, expected.numpy(), atol=atol)
    sentences = parents = np.arange(len(src))
    for t in range(5):
        steps(tgt.numpy()[sentences, t], parents)
        of_cross, of_decoder = (
            torch.stack(each, dim=1)[sentences, :, :, t].numpy() for each in (cross, decoder)
        )
        np.testing.assert_allclose(steps.cross, of_cross, atol=atol)
        np.testing.assert_allclose(steps.decoder, of_decoder[..., : t + 1], atol=atol)
        parents = np.delete(np.arange(len(sentences))[::-1], t)
        sentences = sentences[parents]


@pytest.fixture
def switched(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """What chooses the variant of compiled code; the next test gets what it would without this one."""
    native.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    native.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["float32", "int8"])
@on_all_architectures
def test_all_processors_compute_the_same(
    settings: dict[str, str], kind: Kind, texts: tuple[Tensor, Tensor], switched: pytest.MonkeyPatch
) -> None:
    """Sums of levels are equal to the bit; what is in fp32 is added in another order."""
    model, found = model_of(**settings), []
    for variant in native().variants:
        switched.setenv(module.SWITCH, variant)
        native.cache_clear()
        found.append(steps_of(model, *texts, kind=kind))
    for log_probs in found[:-1]:
        difference = (log_probs - found[-1]).abs()
        # A sum between two levels may be rounded to either of them, if seldom.
        assert difference.median() < 1e-5
        assert difference.max() < (0.3 if kind == "int8" else 1e-4)
