"""The fast kernels compute what the plain ones do."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from dragoman.model.kernels import (
    FAST,
    PLAIN,
    _ChunkedCrossEntropy,
    byte_dropout,
    choose_kernels,
    chunked_linear_cross_entropy,
    matmul_attention,
    plain_linear_cross_entropy,
)


def double(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator, requires_grad=True)


def random_targets(n_rows: int, vocab_size: int, seed: int) -> Tensor:
    return torch.randint(0, vocab_size, (n_rows,), generator=torch.Generator().manual_seed(seed))


N_ROWS = st.sampled_from([1, 3, 4, 5, 8, 9])
"""Rows where a chunk has 4: less than one, whole ones, and one more."""
SEED = st.integers(0, 1000)


LOSSES = {
    "cross entropy": (plain_linear_cross_entropy, chunked_linear_cross_entropy, 1, (0.1,)),
    "without smoothing": (plain_linear_cross_entropy, chunked_linear_cross_entropy, 1, (0.0,)),
    "consistency": (plain_linear_cross_entropy, chunked_linear_cross_entropy, 2, (0.1, 3.0)),
}
"""The plain loss, the chunked one, passes over a batch, and what else both take."""


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("n_rows", [1, 7, 600])  # one chunk, and a second that is not full
def test_chunked_losses_equal_the_plain_ones(n_rows: int, name: str) -> None:
    plain, chunked, n_passes, settings = LOSSES[name]
    targets = random_targets(n_rows, 11, seed=3)
    results = []
    for loss in (plain, chunked):
        hidden, weight = (
            double(*shape, seed=i).float().detach().requires_grad_()
            for i, shape in enumerate(((n_passes * n_rows, 6), (11, 6)))
        )
        smoothed, log_loss = loss(hidden, weight, targets, *settings)
        (smoothed / 7).backward()
        results.append((smoothed, log_loss, hidden.grad, weight.grad))
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@given(N_ROWS, st.integers(2, 6), st.integers(1, 3), st.sampled_from([0.0, 0.1, 0.9]), st.floats(0, 5), SEED)
@settings(max_examples=15)
def test_chunked_losses_have_the_gradients_of_their_values(
    n_rows: int, vocab_size: int, d: int, smoothing: float, alpha: float, seed: int
) -> None:
    hidden, weight = double(2 * n_rows, d, seed=seed), double(vocab_size, d, seed=seed + 1)
    once = hidden[:n_rows].detach().requires_grad_()
    targets = random_targets(n_rows, vocab_size, seed)

    def entropy(h: Tensor, w: Tensor) -> Tensor:
        return chunked_linear_cross_entropy(h, w, targets, smoothing)[0]

    def consistency(h: Tensor, w: Tensor) -> Tensor:
        return chunked_linear_cross_entropy(h, w, targets, smoothing, alpha)[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_ChunkedCrossEntropy, "CHUNK", 4)
        assert torch.autograd.gradcheck(entropy, (once, weight))
        assert torch.autograd.gradcheck(consistency, (hidden, weight))


def test_two_passes_that_agree_have_the_loss_of_one() -> None:
    targets = torch.tensor([1, 0])
    hidden, weight = double(2, 3, seed=1), double(4, 3, seed=2)
    once = plain_linear_cross_entropy(hidden, weight, targets, 0.1)
    twice = chunked_linear_cross_entropy(hidden.repeat(2, 1), weight, targets, 0.1, 5.0)
    torch.testing.assert_close(twice, once, check_dtype=False)


def test_the_disagreement_is_both_divergences() -> None:
    hidden, weight = double(2, 3, seed=1), double(4, 3, seed=2)
    p, q = (hidden @ weight.t()).softmax(-1)
    divergences = (p * (p / q).log()).sum() + (q * (q / p).log()).sum()
    with_it, without = (
        chunked_linear_cross_entropy(hidden, weight, torch.tensor([1]), 0.0, alpha)[0] for alpha in (4.0, 0.0)
    )
    torch.testing.assert_close(with_it - without, divergences)


def test_chunked_cross_entropy_survives_huge_logits() -> None:
    hidden, weight = torch.full((2, 1), 1e4), torch.tensor([[1.0], [-1.0]])
    smoothed, log_loss = chunked_linear_cross_entropy(hidden, weight, torch.tensor([0, 1]), 0.0)
    assert log_loss.item() == pytest.approx(2e4)
    assert smoothed.item() == pytest.approx(2e4)


def random_bias(n_batch: int, n_src: int, seed: int) -> Tensor:
    """Any positions but the first may be out of sight."""
    hidden = torch.rand(n_batch, 1, 1, n_src, generator=torch.Generator().manual_seed(seed)) < 0.4
    hidden[..., 0] = False
    return torch.zeros(hidden.shape).masked_fill(hidden, -torch.inf)


@pytest.mark.slow
@given(
    shape=st.tuples(st.integers(1, 2), st.integers(1, 2), st.integers(1, 3), st.integers(1, 3)),
    n_src=st.integers(1, 4),
    dropout=st.sampled_from([0.0, 0.3]),
    seed=SEED,
)
@settings(max_examples=15)
def test_matmul_attention_has_the_gradient_of_its_value(
    shape: tuple[int, int, int, int], n_src: int, dropout: float, seed: int
) -> None:
    B, H, _, d = shape
    q = double(*shape, seed=seed)
    k, v = (double(B, H, n_src, d, seed=seed + i) for i in (1, 2))
    bias = random_bias(B, n_src, seed)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        torch.manual_seed(seed)  # the same weights are dropped at every call
        return matmul_attention(q, k, v, bias, dropout)

    assert torch.autograd.gradcheck(attend, (q, k, v))


@pytest.mark.slow
@given(shape=st.lists(st.integers(1, 5), min_size=1, max_size=3), p=st.floats(0, 0.9), seed=SEED)
@settings(max_examples=15)
def test_byte_dropout_has_the_gradient_of_its_value(shape: list[int], p: float, seed: int) -> None:
    def drop(x: Tensor) -> Tensor:
        torch.manual_seed(seed)
        return byte_dropout(x, p)

    assert torch.autograd.gradcheck(drop, double(*shape, seed=seed))


ROUNDING = {torch.float32: 2**-24, torch.bfloat16: 2**-8}
"""How far a number is from the nearest one of a type, at most, as a part of itself."""
N_ROUNDINGS = {torch.float32: 16, torch.bfloat16: 4}
"""How many of them a result may be off, as a part of its norm. Sums are in fp32: they add up there."""


def norm_error(found: Tensor, exact: Tensor) -> float:
    """The norm of what is between both, as a part of the exact one's."""
    return ((found.double() - exact).norm() / exact.norm()).item()


def results(function: Callable[..., Tensor], inputs: tuple[Tensor, ...], *rest: Any) -> tuple[Tensor, ...]:
    """The value, and the gradients of all inputs under a fixed one of the value."""
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    out = function(*leaves, *rest)
    towards = torch.linspace(0.5, 1.5, out.numel(), dtype=torch.float64).view(out.shape).to(out.dtype)
    return out, *torch.autograd.grad(out, leaves, towards)


def exact_cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    return F.cross_entropy(hidden @ weight.t(), targets, label_smoothing=smoothing, reduction="sum")


def exact_consistency(
    hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, alpha: float
) -> Tensor:
    """The formula of `LossFunction` for two passes, term by term."""
    once, again = (exact_cross_entropy(h, weight, targets, smoothing) for h in hidden.chunk(2))
    log_p, log_q = (hidden @ weight.t()).log_softmax(-1).chunk(2)
    divergences = [
        F.kl_div(b, a, log_target=True, reduction="sum") for a, b in ((log_p, log_q), (log_q, log_p))
    ]
    return (once + again + alpha / 2 * sum(divergences)) / 2


def exact_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    return (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5 + bias).softmax(-1) @ v


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize("chunk", [2, 512])  # however many gradients are added
@pytest.mark.parametrize(("n_rows", "vocab_size", "d"), [(3, 20, 8), (513, 37, 16), (1030, 300, 64)])
def test_chunked_losses_are_near_the_exact_ones(
    n_rows: int, vocab_size: int, d: int, chunk: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_ChunkedCrossEntropy, "CHUNK", chunk)
    first, other = double(n_rows, d, seed=d), double(n_rows, d, seed=d + 1)
    hidden = torch.cat([first, first + other / 2]).to(dtype)  # two passes with other dropout
    weight = (double(vocab_size, d, seed=d + 2) / d**0.5).to(dtype).float()  # fp32, as in a model
    targets = random_targets(n_rows, vocab_size, seed=d)
    for fast, exact, inputs, rest in (
        (chunked_linear_cross_entropy, exact_cross_entropy, (hidden[:n_rows], weight), (0.1,)),
        (chunked_linear_cross_entropy, exact_consistency, (hidden, weight), (0.1, 4.0)),
    ):
        found = results(lambda *x, fast=fast: fast(*x)[0], inputs, targets, *rest)
        wanted = results(exact, tuple(x.double() for x in inputs), targets, *rest)
        assert [x.dtype for x in found] == [torch.float32, dtype, torch.float32]
        for each, right in zip(found, wanted, strict=True):
            assert norm_error(each, right) <= N_ROUNDINGS[dtype] * ROUNDING[dtype]


@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize("scale", [1.0, 10.0])
def test_the_log_loss_is_off_by_two_roundings_of_the_logits(scale: float, dtype: torch.dtype) -> None:
    n_rows, vocab_size, d = 700, 50, 4
    hidden = (scale * double(n_rows, d, seed=1)).to(dtype)
    weight, targets = double(vocab_size, d, seed=2).to(dtype), random_targets(n_rows, vocab_size, seed=3)
    _, log_loss = chunked_linear_cross_entropy(hidden, weight, targets, 0.1)
    exact = exact_cross_entropy(hidden.double(), weight.double(), targets, 0.0)
    # The largest term of a row's logits bounds both the target's error and that of log Z; fp32 adds d times.
    largest = (hidden.double().abs() @ weight.double().abs().t()).amax(1).sum()
    per_logit = ROUNDING[dtype] + (d + 8) * ROUNDING[torch.float32]
    assert abs(log_loss.double() - exact) <= 2 * per_logit * largest


@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize("shape", [(1, 1, 1, 2), (3, 2, 7, 8), (4, 4, 40, 64)])
def test_matmul_attention_is_near_the_exact_one(shape: tuple[int, int, int, int], dtype: torch.dtype) -> None:
    n_src = shape[2] + 3
    q = double(*shape, seed=1).to(dtype)
    k, v = (double(*shape[:2], n_src, shape[3], seed=seed).to(dtype) for seed in (2, 3))
    bias = random_bias(shape[0], n_src, seed=4)
    found = results(lambda *x: matmul_attention(*x, 0.0), (q, k, v), bias)
    wanted = results(exact_attention, (q.double(), k.double(), v.double()), bias)
    for each, right in zip(found, wanted, strict=True):
        assert each.dtype == dtype
        assert norm_error(each, right) <= N_ROUNDINGS[dtype] * ROUNDING[dtype]


@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize("shape", [(1,), (3, 5), (7, 11, 13)])
def test_the_same_draws_drop_the_same_elements_in_every_type(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    x, dropped = double(*shape, seed=1).detach().to(dtype), []
    for each in (x, x.double()):
        torch.manual_seed(7)
        dropped.append(byte_dropout(each, 0.3).double())
    found, exact = dropped
    assert (found == 0).equal(exact == 0)
    # Two roundings: of the factor, and of the product.
    assert ((found - exact).abs() <= 2.01 * ROUNDING[dtype] * exact.abs()).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.99])
def test_byte_dropout_drops_and_scales_like_dropout(p: float, dtype: torch.dtype) -> None:
    torch.manual_seed(5)
    n = 200_003  # not a multiple of eight
    x = torch.ones(n, dtype=dtype)
    dropped = byte_dropout(x, p)
    quantised = round(p * 256) / 256
    assert abs(quantised - p) <= 1 / 512
    share = (dropped == 0).double().mean().item()
    assert abs(share - quantised) < 5 * (p * (1 - p) / n) ** 0.5  # five standard deviations
    kept = dropped[dropped != 0].double()
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / (1 - quantised)), rtol=4e-3, atol=0)


def test_dropout_of_zero_is_the_identity() -> None:
    x = torch.randn(10)
    assert byte_dropout(x, 0.0) is x


def test_neighbours_are_dropped_independently() -> None:
    torch.manual_seed(6)
    kept = (byte_dropout(torch.ones(400_000), 0.5) != 0).double()
    for distance in (1, 2, 8, 64):
        correlation = torch.corrcoef(torch.stack([kept[:-distance], kept[distance:]]))[0, 1].item()
        assert abs(correlation) < 5 / len(kept) ** 0.5


def test_the_switch_chooses_whole_sets() -> None:
    cpu = torch.device("cpu")
    assert choose_kernels("plain", cpu) is PLAIN
    assert choose_kernels("fast", cpu) is FAST
    assert choose_kernels("fast", torch.device("cuda")).linear_cross_entropy is chunked_linear_cross_entropy
