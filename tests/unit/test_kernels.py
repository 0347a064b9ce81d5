"""The fast kernels compute what the plain ones do."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dragoman.model.kernels import (
    FAST,
    PLAIN,
    byte_dropout,
    choose_kernels,
    chunked_consistent_cross_entropy,
    chunked_linear_cross_entropy,
    matmul_attention,
    plain_attention,
    plain_consistent_cross_entropy,
    plain_linear_cross_entropy,
)


def double(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator, requires_grad=True)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("n_rows", [1, 7, 600])  # one chunk, and a second that is not full
def test_chunked_cross_entropy_equals_the_plain_one(n_rows: int, smoothing: float) -> None:
    targets = torch.randint(0, 11, (n_rows,), generator=torch.Generator().manual_seed(3))
    results = []
    for loss in (plain_linear_cross_entropy, chunked_linear_cross_entropy):
        hidden, weight = double(n_rows, 6, seed=1).float().detach(), double(11, 6, seed=2).float().detach()
        hidden.requires_grad_()
        weight.requires_grad_()
        smoothed, log_loss = loss(hidden, weight, targets, smoothing)
        (smoothed / 7).backward()
        results.append((smoothed, log_loss, hidden.grad, weight.grad))
    for plain, fast in zip(*results, strict=True):
        torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-5)


def test_chunked_cross_entropy_has_the_gradient_of_its_value() -> None:
    targets = torch.tensor([3, 0, 4, 4])
    hidden, weight = double(4, 3, seed=1), double(5, 3, seed=2)
    assert torch.autograd.gradcheck(
        lambda h, w: chunked_linear_cross_entropy(h, w, targets, 0.1)[0], (hidden, weight)
    )


@pytest.mark.parametrize("n_rows", [1, 7, 300])  # one chunk, and a second that is not full
def test_chunked_consistency_equals_the_plain_one(n_rows: int) -> None:
    targets = torch.randint(0, 11, (n_rows,), generator=torch.Generator().manual_seed(3))
    results = []
    for loss in (plain_consistent_cross_entropy, chunked_consistent_cross_entropy):
        hidden, weight = (
            double(2 * n_rows, 6, seed=1).float().detach(),
            double(11, 6, seed=2).float().detach(),
        )
        hidden.requires_grad_()
        weight.requires_grad_()
        smoothed, log_loss = loss(hidden, weight, targets, 0.1, 3.0)
        (smoothed / 7).backward()
        results.append((smoothed, log_loss, hidden.grad, weight.grad))
    for plain, fast in zip(*results, strict=True):
        torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-5)


def test_chunked_consistency_has_the_gradient_of_its_value() -> None:
    targets = torch.tensor([3, 0, 4])
    hidden, weight = double(6, 3, seed=1), double(5, 3, seed=2)
    assert torch.autograd.gradcheck(
        lambda h, w: chunked_consistent_cross_entropy(h, w, targets, 0.1, 2.5)[0], (hidden, weight)
    )


def test_two_passes_that_agree_have_the_loss_of_one() -> None:
    targets = torch.tensor([1, 0])
    hidden, weight = double(2, 3, seed=1), double(4, 3, seed=2)
    once = plain_linear_cross_entropy(hidden, weight, targets, 0.1)
    twice = chunked_consistent_cross_entropy(hidden.repeat(2, 1), weight, targets, 0.1, 5.0)
    torch.testing.assert_close(twice, once, check_dtype=False)


def test_the_disagreement_is_both_divergences() -> None:
    hidden, weight = double(2, 3, seed=1), double(4, 3, seed=2)
    p, q = (hidden @ weight.t()).softmax(-1)
    divergences = (p * (p / q).log()).sum() + (q * (q / p).log()).sum()
    with_it, without = (
        chunked_consistent_cross_entropy(hidden, weight, torch.tensor([1]), 0.0, alpha)[0]
        for alpha in (4.0, 0.0)
    )
    torch.testing.assert_close(with_it - without, divergences)


def test_chunked_cross_entropy_survives_huge_logits() -> None:
    hidden, weight = torch.full((2, 1), 1e4), torch.tensor([[1.0], [-1.0]])
    smoothed, log_loss = chunked_linear_cross_entropy(hidden, weight, torch.tensor([0, 1]), 0.0)
    assert log_loss.item() == pytest.approx(2e4)
    assert smoothed.item() == pytest.approx(2e4)


def test_matmul_attention_equals_the_fused_one_and_has_its_gradient() -> None:
    q, k, v = double(2, 2, 3, 4, seed=1), double(2, 2, 5, 4, seed=2), double(2, 2, 5, 4, seed=3)
    bias = torch.zeros(2, 1, 1, 5, dtype=torch.float64)
    bias[1, ..., 3:] = -torch.inf
    grads = []
    for attention in (plain_attention, matmul_attention):
        out = attention(q, k, v, bias, 0.0)
        grads.append((out, *torch.autograd.grad(out.square().sum(), (q, k, v))))
    for plain, fast in zip(*grads, strict=True):
        torch.testing.assert_close(fast, plain, rtol=1e-5, atol=1e-6)  # scores are taken to fp32


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
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


def test_byte_dropout_passes_the_gradient_of_what_it_keeps() -> None:
    torch.manual_seed(5)
    x = torch.full((1000,), 2.0, requires_grad=True)
    dropped = byte_dropout(x, 0.25)
    dropped.sum().backward()
    torch.testing.assert_close(x.grad * 2.0, dropped.detach())


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
