"""Operations with a plain and a fast implementation: dropout, attention, and the loss.

`PLAIN` is PyTorch's own, operation for operation. `FAST` computes the same (dropout: the same
distribution) with fewer passes over memory on a CPU; docs/notebook.md says what each one brought.
A model and a training take one of the two whole, so that the choice is visible in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

IGNORED = -100
"""The target of rows that take no part in a loss, PyTorch's convention."""


DropoutFunction: TypeAlias = Callable[[Tensor, float], Tensor]
"""Of x and p: x with each element zeroed with probability p, the others divided by 1 - p."""


class Attention(Protocol):
    def __call__(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, dropout: float) -> Tensor:
        """softmax(q k^T / sqrt(d_head) + bias) v: equation 1, for q (B, H, T, d) and k, v (B, H, S, d).

        `bias` is added to the scores, broadcast to (B, H, T, S): 0 where a position may be attended
        to and -inf where not.
        """


class LossFunction(Protocol):
    def __call__(
        self, hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, alpha: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """Return summed smoothed cross-entropy and log-loss of softmax(hidden weight^T), in nats.

        hidden (R, D), weight (V, D), targets (R,), where a row of target IGNORED takes no part. Only the
        first result carries a gradient.

        hidden (2R, D) are two passes over the same R targets, the first pass, then the second. The loss is
        half of

            CE_1 + CE_2 + alpha/2 (KL(p_1 || p_2) + KL(p_2 || p_1)),

        and the log-loss the mean of both passes (R-Drop, Wu et al. 2021, equation 4).
        """


class Kernels(NamedTuple):
    """One choice for the whole model."""

    dropout: DropoutFunction
    attention: Attention
    linear_cross_entropy: LossFunction


def plain_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, dropout: float) -> Tensor:
    bias = None if bias is None else bias.to(q.dtype)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout)


def plain_linear_cross_entropy(
    hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, alpha: float = 0.0
) -> tuple[Tensor, Tensor]:
    logits = F.linear(hidden, weight.to(hidden.dtype)).float()  # (R, V), or (2R, V)
    n_passes = len(hidden) // len(targets)
    targets = targets.repeat(n_passes)
    loss = F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    with torch.no_grad():
        log_loss = F.cross_entropy(logits, targets, reduction="sum")
    if n_passes == 1:
        return loss, log_loss
    log_p, log_q = logits.log_softmax(-1).chunk(2)
    disagreement = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum()  # both divergences at once
    return (loss + alpha / 2 * disagreement) / 2, log_loss / 2


def byte_dropout(x: Tensor, p: float) -> Tensor:
    """Dropout decided by random bytes, so that `p` is rounded to a multiple of 1/256.

    One 64-bit draw decides eight elements: PyTorch's `bernoulli_` spends more time on a CPU than
    the matrix product before it.
    """
    threshold = round(p * 256)
    if threshold == 0:
        return x
    n = x.numel()
    draws = torch.empty((n + 7) // 8, dtype=torch.int64, device=x.device).random_(-(2**63), None)
    keep = torch.empty_like(x, requires_grad=False)
    torch.ge(draws.view(torch.uint8)[:n].view(x.shape), threshold, out=keep)
    return x * keep.mul_(256 / (256 - threshold))


def matmul_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, dropout: float) -> Tensor:
    """Attention as the paper writes it: for sentences of tens of tokens the fused CPU kernel is slower."""
    scores = torch.matmul(q * q.shape[-1] ** -0.5, k.transpose(-2, -1))  # (B, H, T, S)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if bias is not None:
        scores = scores + bias
    weights = scores.softmax(-1).to(v.dtype)
    if dropout:
        weights = byte_dropout(weights, dropout)
    return torch.matmul(weights, v)


def rows_in_cache(vocab_size: int, device: torch.device) -> int:
    """Rows of logits that take two mebibytes a thread in fp32, which a core keeps near. On a GPU, all."""
    return max(1, 2**19 * torch.get_num_threads() // vocab_size) if device.type == "cpu" else 2**31 - 1


def softmax_losses_(logits: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor, Tensor]:
    """Probabilities (n, V) in place of `logits`, log Z (n, 1), and the rows' losses and log-losses (n, 2)."""
    at_target, mean = logits.gather(1, targets[:, None]), logits.mean(1, keepdim=True)
    peak = logits.amax(1, keepdim=True)
    probs = logits.sub_(peak).exp_()
    total = probs.sum(1, keepdim=True)
    log_z = peak + total.log()
    losses = torch.cat([log_z - (1 - smoothing) * at_target - smoothing * mean, log_z - at_target], dim=1)
    return probs.mul_(total.reciprocal()), log_z, losses


def minus_target_(probs: Tensor, targets: Tensor, smoothing: float, weight: float = 1.0) -> Tensor:
    """`probs` (n, V) minus `weight` times the smoothed distribution of the targets: the loss's gradient."""
    at_target = probs.new_full((len(targets), 1), weight * (1 - smoothing))
    return probs.sub_(weight * smoothing / probs.shape[1]).scatter_add_(1, targets[:, None], -at_target)


def to_gradients_(passes: Sequence[Tensor], targets: Tensor, smoothing: float, alpha: float) -> Tensor:
    """Return losses and log-losses (n, 2) of some rows of one pass or two; logits become their gradients.

    `passes` holds the logits (n, V) of each. With d = log p - log q the divergences' gradient is
    p (d - KL(p || q)) + p - q by the logits of the first pass; that of the second follows by exchanging p
    and q.
    """
    exact = [to_exact(logits) for logits in passes]
    if len(exact) == 1:
        probs, _, losses = softmax_losses_(exact[0], targets, smoothing)
        passes[0].copy_(minus_target_(probs, targets, smoothing))
        return losses
    a, b = exact
    d = a - b
    p, log_z, losses = softmax_losses_(a, targets, smoothing)
    q, other_log_z, other_losses = softmax_losses_(b, targets, smoothing)
    d.sub_(log_z - other_log_z)
    pd, qd = torch.linalg.vecdot(p, d)[:, None], torch.linalg.vecdot(q, d)[:, None]
    losses = (losses + other_losses) / 2
    losses[:, :1] += alpha / 4 * (pd - qd)
    d.mul_(alpha / 4)
    grad = (d + (0.5 + alpha / 4 * (1 - pd))).mul_(p).sub_(q, alpha=alpha / 4)
    other_grad = d.neg_().add_(0.5 + alpha / 4 * (1 + qd)).mul_(q).sub_(p, alpha=alpha / 4)
    for logits, each in zip(passes, (grad, other_grad), strict=True):
        logits.copy_(minus_target_(each, targets, smoothing, 0.5))
    return losses


def to_exact(x: Tensor) -> Tensor:
    """`x` in fp32, or as it is where it is that or finer."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Softmax cross-entropy whose gradient is computed beside the loss, a few hundred rows at a time.

    The (R, V) logits never exist at once: a chunk's come from one product, become their gradient, and go
    into two more products. Between products, no more rows are taken at once than stay in a core's cache.
    """

    CHUNK = 512
    """Rows of hidden states, those of both passes counted."""
    CHUNK_ON_GPU = 8192

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        hidden: Tensor,
        weight: Tensor,
        targets: Tensor,
        smoothing: float,
        alpha: float,
    ) -> tuple[Tensor, Tensor]:
        w, grad_hidden = weight.detach().to(hidden.dtype), torch.empty_like(hidden)
        n_passes = len(hidden) // len(targets)
        passes, grads = (
            torch.unflatten(t, 0, (n_passes, -1)) for t in (hidden.detach(), grad_hidden)
        )  # (P, R, D)
        grad_weight = torch.zeros_like(to_exact(w))
        losses = grad_weight.new_empty(len(targets), 2)
        real, y = targets != IGNORED, targets.clamp(min=0)
        size = _ChunkedCrossEntropy.CHUNK if w.device.type == "cpu" else _ChunkedCrossEntropy.CHUNK_ON_GPU
        few = rows_in_cache(w.shape[0], w.device)
        for start in range(0, len(targets), size // n_passes):
            rows = slice(start, start + size // n_passes)
            h = (passes[:, rows] * real[rows, None]).flatten(0, 1)  # (chunk, D)
            logits = h @ w.t()  # (chunk, V)
            parts = (torch.split(x, few) for x in (*logits.chunk(n_passes), y[rows], losses[rows]))
            for *part, part_y, part_losses in zip(*parts, strict=True):
                part_losses.copy_(to_gradients_(part, part_y, smoothing, alpha))
            grads[:, rows] = torch.unflatten(logits @ w, 0, (n_passes, -1))
            grad_weight += logits.t() @ h
        loss, log_loss = (losses * real[:, None]).sum(0)
        grads.mul_(real[:, None])
        ctx.save_for_backward(grad_hidden, grad_weight.to(weight.dtype))
        ctx.mark_non_differentiable(log_loss)
        return loss, log_loss

    @staticmethod
    def backward(ctx: Any, grad_loss: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        grad_hidden, grad_weight = ctx.saved_tensors
        return grad_hidden * grad_loss.to(grad_hidden.dtype), grad_weight * grad_loss, None, None, None


def chunked_linear_cross_entropy(
    hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, alpha: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Return the summed loss, with the gradient of hidden and weight already computed when it returns."""
    # PyTorch declares no types for `apply`.
    return _ChunkedCrossEntropy.apply(hidden, weight, targets, smoothing, alpha)  # type: ignore[no-untyped-call]


PLAIN = Kernels(F.dropout, plain_attention, plain_linear_cross_entropy)
FAST = Kernels(byte_dropout, matmul_attention, chunked_linear_cross_entropy)
FAST_ON_GPU = Kernels(F.dropout, plain_attention, chunked_linear_cross_entropy)


def choose_kernels(name: str, device: torch.device) -> Kernels:
    """Return the kernels that `training.kernels` = "fast" or "plain" means on `device`."""
    if name == "plain":
        return PLAIN
    return FAST if device.type == "cpu" else FAST_ON_GPU
