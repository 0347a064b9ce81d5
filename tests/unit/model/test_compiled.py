"""Compiled steps: in int8 near fp32 for every architecture, rows independent, equal on all processors."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from dragoman import native as module
from dragoman.model.compiled import CompiledDecoder, can_compile
from dragoman.model.kernels import FAST, PLAIN, Kernels
from dragoman.model.layers import LayerNorm
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.native import native
from small_models import random_ids, small_model

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


def steps_of(model: Seq2SeqTransformer, src: Tensor, tgt: Tensor, *, int8: bool) -> Tensor:
    """Log-probabilities (N, T, V) of the next tokens after those of tgt (N, T)."""
    if not can_compile(model, int8=int8):
        pytest.skip(native().reason)
    step = CompiledDecoder(model, int8=int8).start(src, src != PAD)
    rows = torch.arange(len(src))
    return torch.stack([step(tgt[:, t], rows).clone() for t in range(tgt.shape[1])], dim=1)


@pytest.fixture
def texts() -> tuple[Tensor, Tensor]:
    src, tgt = random_ids(9, 5), random_ids(9, 20)
    src[1, 3:] = PAD
    return src, tgt


@on_all_architectures
def test_int8_is_near_fp32(settings: dict[str, str], texts: tuple[Tensor, Tensor]) -> None:
    model, (src, tgt) = model_of(**settings), texts
    full = model(src, src != PAD, tgt).log_softmax(-1)
    difference = (steps_of(model, src, tgt, int8=True) - full).abs()
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
        differences.append(((steps_of(model, src, tgt, int8=True) - full).abs().mean() / full.std()).item())
    assert differences[0] < 0.05 < differences[1]


@pytest.mark.parametrize("int8", [False, True], ids=["fp32", "int8"])
@on_all_architectures
def test_other_sentences_in_the_batch_change_nothing(settings: dict[str, str], int8: bool) -> None:
    """No scale follows from the rows at hand."""
    model, src, tgt = model_of(**settings), random_ids(70, 6), random_ids(70, 3)
    together = steps_of(model, src, tgt, int8=int8)
    alone = steps_of(model, src[:1], tgt[:1], int8=int8)
    torch.testing.assert_close(together[:1], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("int8", [False, True], ids=["fp32", "int8"])
@pytest.mark.parametrize("place", ["src_embedding", "tgt_embedding", "encoder", "decoder"])
@pytest.mark.parametrize("settings", [ARCHITECTURES[0], ARCHITECTURES[4], ARCHITECTURES[5]], ids=str)
def test_nan_in_activations_is_nan_in_the_probabilities_of_their_sentence(
    settings: dict[str, str], place: str, int8: bool
) -> None:
    model, src = model_of(**settings, tie_embeddings="none"), random_ids(3, 5)
    src[src == 7], src[2, 2], last = 8, 7, torch.tensor([[4], [5], [7]])
    if place.endswith("embedding"):
        model.get_submodule(place).tokens.weight.data[7] = torch.nan
    else:  # what attention makes of finite activations
        model.get_submodule(place)[0].self_attention.in_proj.bias.data[:] = torch.inf
    log_probs = steps_of(model, src, last, int8=int8)[:, 0]
    every = not place.endswith("embedding") or (int8 and settings["norm"] == "post")  # whose scale it changes
    assert log_probs.isnan().any(1).tolist() == [every, every, True]


@pytest.fixture
def switched(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """What chooses the variant of compiled code; the next test gets what it would without this one."""
    native.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    native.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("int8", [False, True], ids=["fp32", "int8"])
@on_all_architectures
def test_all_processors_compute_the_same(
    settings: dict[str, str], int8: bool, texts: tuple[Tensor, Tensor], switched: pytest.MonkeyPatch
) -> None:
    """Sums of levels are equal to the bit; what is in fp32 is added in another order."""
    model, found = model_of(**settings), []
    for variant in native().variants:
        switched.setenv(module.SWITCH, variant)
        native.cache_clear()
        found.append(steps_of(model, *texts, int8=int8))
    for log_probs in found[:-1]:
        difference = (log_probs - found[-1]).abs()
        # A sum between two levels may be rounded to either of them, if seldom.
        assert difference.median() < 1e-5
        assert difference.max() < (0.3 if int8 else 1e-4)


@pytest.mark.parametrize(
    ("kernels", "settings"), [(PLAIN, {}), (FAST, {"d_model": 6, "n_heads": 1}), (FAST, {"d_ff": 18})]
)
def test_what_compiled_code_does_not_compute(kernels: Kernels, settings: dict[str, int]) -> None:
    model = small_model(kernels, **settings)
    assert not can_compile(model)
    assert not can_compile(model, int8=True)
    model = small_model(FAST)
    assert can_compile(model) == (not native().reason)
    model.dtype = torch.float16
    assert not can_compile(model)
