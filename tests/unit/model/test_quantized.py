"""Products in int8: what they compute, how far they are from fp32, and that rows stay independent."""

import pytest
import torch
from torch import Tensor

from dragoman.config import ModelConfig
from dragoman.hardware import has_int8
from dragoman.model.compiled import CompiledSteps, can_compile
from dragoman.model.kernels import FAST, PLAIN
from dragoman.model.layers import LayerNorm
from dragoman.model.packed import PackedDecoder, PackedSteps, can_quantize
from dragoman.model.quantized import LEVELS, REACH, QuantizedLinear, QuantizedNorm, folded, levels
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.native import native

V, PAD = 30, 0

needs_vnni = pytest.mark.skipif(
    not has_int8(), reason="without VNNI, oneDNN's sums of int8 products saturate"
)


@pytest.fixture
def int8_steps(both_steps: None, request: pytest.FixtureRequest) -> None:
    """As `both_steps`, where the processor has these for int8."""
    by_operators = request.node.callspec.params["both_steps"] == "operators"
    if not (has_int8() if by_operators else can_compile(torch.int8, (4,))):
        pytest.skip("the processor has no instructions for int8")


def model_of(kernels: object = FAST, **settings: object) -> Seq2SeqTransformer:
    torch.manual_seed(0)
    sizes = {"d_model": 32, "n_heads": 2, "d_ff": 64, "n_encoder_layers": 2, "n_decoder_layers": 2}
    config = ModelConfig.model_validate({**sizes, **settings})
    return Seq2SeqTransformer(config, src_vocab_size=V, tgt_vocab_size=V, kernels=kernels).eval()  # type: ignore[arg-type]


def random_ids(*shape: int) -> Tensor:
    return torch.randint(4, V, shape, generator=torch.Generator().manual_seed(1))


def integers(low: int, high: int, *shape: int) -> Tensor:
    return torch.randint(low, high + 1, shape, generator=torch.Generator().manual_seed(2)).float()


def test_a_level_is_the_nearest_integer_with_128_for_0() -> None:
    x = torch.tensor([-500.0, -127.4, -1.6, -0.4, 0.0, 0.6, 126.7, 500.0, torch.nan] * 5)
    assert levels(x.clone()).tolist() == [1, 1, 126, 128, 128, 129, 255, 255, 0] * 5


@needs_vnni
@pytest.mark.parametrize("n_rows", [1, 5, 64])
def test_products_of_integers_are_exact(n_rows: int) -> None:
    weight, bias = integers(-126, 126, 24, 16), integers(-50, 50, 24)
    weight[:, 0] = LEVELS  # so that one level of each row of W is 1
    x, residual = integers(-127, 127, n_rows, 16), integers(-9, 9, n_rows, 24)
    expected = x @ weight.t() + bias
    linear, read = QuantizedLinear(weight, bias), levels(x.clone())
    assert torch.equal(linear(read), expected)
    assert torch.equal(linear(read, activation="relu"), expected.clamp(0, 255).to(torch.uint8))
    assert torch.equal(linear.added_to(residual.clone(), x.clone()), residual + expected)
    unsigned = integers(0, 255, n_rows, 16)
    from_relu = QuantizedLinear(weight, bias, zero=0)
    assert torch.equal(from_relu(unsigned.to(torch.uint8)), unsigned @ weight.t() + bias)


@needs_vnni
def test_a_folded_norm_differs_by_rounding_alone() -> None:
    """Half a level of each input and of each weight, summed up, is the most that a product may differ by."""
    generator = torch.Generator().manual_seed(3)
    norm, x = LayerNorm(32), torch.randn(50, 32, generator=generator)
    norm.requires_grad_(False)
    norm.weight.uniform_(0.2, 2.0, generator=generator)
    norm.bias.uniform_(-1.0, 1.0, generator=generator)
    weight, bias = torch.randn(40, 32, generator=generator), torch.randn(40, generator=generator)
    scaled, shift = folded(weight, bias, norm)
    linear, read = QuantizedLinear(scaled, shift), QuantizedNorm(norm)(x)
    assert read.min() > 1  # nothing is cut off: the bound below speaks of rounding
    assert read.max() < 255
    inputs = 0.5 * scaled.abs().sum(dim=1)
    weights = 0.5 * linear.scales * (read.float() - 128).abs().sum(dim=1, keepdim=True)
    difference = linear(read) - (norm(x) @ weight.t() + bias)
    assert (difference.abs() <= inputs + weights + 1e-3).all()
    assert difference.abs().max() > 1e-3  # it is not computed in fp32


def test_eight_bits_hold_what_they_say() -> None:
    x = torch.zeros(1, 100)
    x[0, 0] = 1.0  # normalised: sqrt(99), nearly ten standard deviations
    read = QuantizedNorm(LayerNorm(100))(x)
    assert read[0, 0] == 255
    other = -1 / 99**0.5 * LEVELS / REACH
    assert read[0, 1] == round(other) + 128


@pytest.mark.usefixtures("int8_steps")
def test_decoding_in_int8_is_near_decoding_in_fp32() -> None:
    model = model_of()
    src, tgt = random_ids(3, 5), random_ids(3, 20)
    src[1, 3:] = PAD
    full = model(src, src != PAD, tgt).log_softmax(-1)
    step = PackedDecoder(model, int8=True).start(src, src != PAD)
    found = torch.stack([step(tgt[:, t], torch.arange(3)).clone() for t in range(20)], dim=1)
    difference = (found - full).abs()
    assert 1e-4 < difference.mean() < full.std() / 20


@pytest.mark.usefixtures("int8_steps")
def test_other_sentences_in_the_batch_change_nothing_in_int8() -> None:
    """No scale follows from the rows at hand."""
    decoder, src = PackedDecoder(model_of(), int8=True), random_ids(70, 6)
    tokens, rows = random_ids(70, 3), torch.arange(70)
    together = decoder.start(src, src != PAD)
    alone = decoder.start(src[:1], src[:1] != PAD)
    for t in range(3):
        expected = alone(tokens[:1, t], rows[:1])
        torch.testing.assert_close(together(tokens[:, t], rows)[:1], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("int8_steps")
@pytest.mark.parametrize("place", ["src_embedding", "tgt_embedding", "encoder", "decoder"])
def test_nan_in_activations_is_nan_in_the_probabilities_of_their_sentence(place: str) -> None:
    model, src, last = model_of(tie_embeddings="none"), random_ids(3, 5), torch.tensor([4, 5, 7])
    src[src == 7], src[2, 2] = 8, 7
    if place.endswith("embedding"):
        model.get_submodule(place).tokens.weight.data[7] = torch.nan
    else:  # what attention makes of finite activations
        model.get_submodule(place)[0].self_attention.in_proj.bias.data[:] = torch.inf
    log_probs = PackedDecoder(model, int8=True).start(src, src != PAD)(last, torch.arange(3))
    assert log_probs.isnan().any(1).tolist() == [not place.endswith("embedding")] * 2 + [True]


def exactly(linear: QuantizedLinear, x: Tensor, *, activation: str = "none") -> Tensor:
    """What oneDNN computes, in whole numbers on every processor."""
    sums = (x.to(torch.int64) - linear.zero) @ linear.rows.to(torch.int64).t()
    found = sums.float() * linear.scales + linear.bias
    return found.round().clamp(0, 255).to(torch.uint8) if activation == "relu" else found


def test_compiled_steps_in_int8_are_those_of_whole_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same levels, and the same sums: only what is in fp32 is added in another order."""
    monkeypatch.setattr(QuantizedLinear, "__call__", exactly)
    monkeypatch.setattr(
        QuantizedLinear,
        "added_to",
        lambda self, residual, x: residual.add_(self(levels(x) if x.is_floating_point() else x)),
    )
    decoder, src = PackedDecoder(model_of(), int8=True), random_ids(9, 6)
    if decoder.compiled is None:
        pytest.skip(native().reason or "the processor has no instructions for int8")
    src[2, 3:] = PAD
    compiled = CompiledSteps(decoder.compiled, src, src != PAD, forbidden=(PAD,))
    packed = PackedSteps(decoder, src, src != PAD, forbidden=(PAD,))
    parents = torch.arange(9)
    for t in range(6):
        tokens = random_ids(len(parents), 1)[:, 0]
        difference = compiled(tokens, parents) - packed(tokens, parents)
        # A sum between two levels may be rounded to either of them, if seldom.
        assert difference[:, 1:].abs().median() < 1e-5
        assert difference[:, 1:].abs().max() < 0.3
        parents = torch.arange(len(parents)).repeat_interleave(1 + t % 2)[: 9 + t]


@pytest.mark.parametrize("settings", [{"norm": "post"}, {"activation": "gelu"}, {"kernels": PLAIN}])
def test_what_has_no_scale_from_its_weights_is_not_quantized(settings: dict[str, object]) -> None:
    assert not can_quantize(model_of(**settings))
