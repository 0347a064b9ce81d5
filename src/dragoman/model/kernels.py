"""The operations that have a plain and a fast version: dropout, attention, and the loss.

`PLAIN` is PyTorch's own, operation for operation. `FAST` computes the same (dropout: the same
distribution) with fewer passes over memory on a CPU; docs/decisions.md says what each one brought.
A model and a training take one of the two whole, so that the choice is visible in one place.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

IGNORED = -100
"""The target of rows that take no part in a loss, PyTorch's convention."""


class Dropout(Protocol):
    def __call__(self, x: Tensor, p: float) -> Tensor:
        """`x` with each element zeroed with probability `p`, the others divided by 1 - p."""


class Attention(Protocol):
    def __call__(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, dropout: float) -> Tensor:
        """softmax(q k^T / sqrt(d_head) + bias) v: equation 1, for q (B, H, T, d) and k, v (B, H, S, d).

        `bias` is added to the scores, broadcast to (B, H, T, S): 0 where a position may be attended
        to and -inf where not.
        """


class Loss(Protocol):
    def __call__(
        self, hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        """Summed smoothed cross-entropy of softmax(hidden weight^T), and summed log-loss, in nats.

        hidden (R, D), weight (V, D), targets (R,), where a row of target IGNORED takes no part. Only the
        first result carries a gradient.
        """


class ConsistencyLoss(Protocol):
    def __call__(
        self, hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, alpha: float
    ) -> tuple[Tensor, Tensor]:
        """The loss of two passes over the same R targets, and what they disagree: half of

            CE_1 + CE_2 + alpha/2 (KL(p_1 || p_2) + KL(p_2 || p_1)),

        summed, in nats, and the summed log-loss, the mean of both passes (R-Drop, Wu et al. 2021,
        equation 4). hidden (2R, D): the first pass, then the second; weight (V, D), targets (R,).
        Only the first result carries a gradient.
        """


class Kernels(NamedTuple):
    """One choice for the whole model."""

    dropout: Dropout
    attention: Attention
    linear_cross_entropy: Loss
    consistent_cross_entropy: ConsistencyLoss


def plain_dropout(x: Tensor, p: float) -> Tensor:
    return F.dropout(x, p)


def plain_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, dropout: float) -> Tensor:
    bias = None if bias is None else bias.to(q.dtype)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout)


def plain_linear_cross_entropy(
    hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    logits = F.linear(hidden, weight.to(hidden.dtype)).float()  # (R, V)
    loss = F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    with torch.no_grad():
        log_loss = F.cross_entropy(logits, targets, reduction="sum")
    return loss, log_loss


def plain_consistent_cross_entropy(
    hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, alpha: float
) -> tuple[Tensor, Tensor]:
    loss, log_loss = plain_linear_cross_entropy(hidden, weight, targets.repeat(2), smoothing)
    log_p, log_q = F.linear(hidden, weight.to(hidden.dtype)).float().log_softmax(-1).chunk(2)
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


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Softmax cross-entropy whose gradient is computed beside the loss, a few hundred rows at a time.

    The (R, V) logits never exist at once: a chunk stays in cache from product to gradient.
    """

    CHUNK = 512
    CHUNK_ON_GPU = 8192

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        hidden: Tensor,
        weight: Tensor,
        targets: Tensor,
        smoothing: float,
    ) -> tuple[Tensor, Tensor]:
        exact = torch.promote_types(hidden.dtype, torch.float32)
        w = weight.detach().to(hidden.dtype)
        grad_hidden = torch.empty_like(hidden)
        grad_weight = torch.zeros(w.shape, dtype=exact, device=w.device)
        loss = torch.zeros((), dtype=exact, device=w.device)
        log_loss = torch.zeros((), dtype=exact, device=w.device)
        size = _ChunkedCrossEntropy.CHUNK if w.device.type == "cpu" else _ChunkedCrossEntropy.CHUNK_ON_GPU
        for start in range(0, len(hidden), size):
            rows = slice(start, start + size)
            h, real = hidden[rows], (targets[rows] != IGNORED)[:, None]  # (chunk, D), (chunk, 1)
            y = targets[rows, None].clamp(min=0)  # (chunk, 1)
            logits = (h @ w.t()).to(exact)  # (chunk, V)
            at_target = logits.gather(1, y)
            peak = logits.amax(1, keepdim=True)
            mean = logits.mean(1, keepdim=True)
            probs = logits.sub_(peak).exp_()
            total = probs.sum(1, keepdim=True)
            log_z = peak + total.log()
            log_loss += ((log_z - at_target) * real).sum()
            loss += ((log_z - (1 - smoothing) * at_target - smoothing * mean) * real).sum()
            grad = probs.div_(total).sub_(smoothing / w.shape[0])
            grad.scatter_add_(1, y, torch.full_like(at_target, smoothing - 1))
            grad = grad.to(h.dtype)
            torch.mm(grad, w, out=grad_hidden[rows]).mul_(real)
            grad_weight += grad.t() @ (h * real)
        ctx.save_for_backward(grad_hidden, grad_weight.to(weight.dtype))
        ctx.mark_non_differentiable(log_loss)
        return loss, log_loss

    @staticmethod
    def backward(
        ctx: torch.autograd.function.FunctionCtx, grad_loss: Tensor, _: Tensor
    ) -> tuple[Tensor, Tensor, None, None]:
        grad_hidden, grad_weight = ctx.saved_tensors  # type: ignore[attr-defined]
        return grad_hidden * grad_loss.to(grad_hidden.dtype), grad_weight * grad_loss, None, None


def chunked_linear_cross_entropy(
    hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """The summed loss, with the gradient of hidden and weight already computed when it returns."""
    loss, log_loss = _ChunkedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        hidden, weight, targets, smoothing
    )
    return loss, log_loss


class _ChunkedConsistency(torch.autograd.Function):
    """`plain_consistent_cross_entropy` with its gradient, a few hundred rows of both passes at a time.

    With d = log p - log q, and z the logits of the first pass, the divergences' gradient is
    p (d - KL(p || q)) + p - q; that of the second pass follows by exchanging p and q.
    """

    CHUNK = 256

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        hidden: Tensor,
        weight: Tensor,
        targets: Tensor,
        smoothing: float,
        alpha: float,
    ) -> tuple[Tensor, Tensor]:
        exact = torch.promote_types(hidden.dtype, torch.float32)
        w = weight.detach().to(hidden.dtype)
        grad_hidden = torch.empty_like(hidden)
        both, grad_both = (t.view(2, -1, t.shape[1]) for t in (hidden.detach(), grad_hidden))
        grad_weight = torch.zeros(w.shape, dtype=exact, device=w.device)
        loss = torch.zeros((), dtype=exact, device=w.device)
        log_loss = torch.zeros((), dtype=exact, device=w.device)
        for start in range(0, len(targets), _ChunkedConsistency.CHUNK):
            rows = slice(start, start + _ChunkedConsistency.CHUNK)
            h, y = both[:, rows].flatten(0, 1), targets[rows].repeat(2)[:, None]
            log_probs = (h @ w.t()).to(exact).log_softmax(1)  # (2 chunk, V)
            at_target = log_probs.gather(1, y).sum()
            log_loss -= at_target / 2
            loss -= ((1 - smoothing) * at_target + smoothing * log_probs.mean(1).sum()) / 2
            probs = log_probs.exp()
            (p, q), (log_p, log_q) = probs.chunk(2), log_probs.chunk(2)
            d, difference = log_p.sub_(log_q), p - q
            loss += alpha / 4 * torch.vdot(difference.flatten(), d.flatten())
            grad = probs - smoothing / w.shape[0]
            grad.scatter_add_(1, y, torch.full_like(y, smoothing - 1, dtype=exact))
            grad_p, grad_q = grad.chunk(2)
            pd, qd = p * d, q * d
            grad_p.add_(pd.addcmul_(p, pd.sum(1, keepdim=True), value=-1).add_(difference), alpha=alpha / 2)
            grad_q.sub_(qd.addcmul_(q, qd.sum(1, keepdim=True), value=-1).add_(difference), alpha=alpha / 2)
            grad = grad.mul_(0.5).to(h.dtype)
            grad_both[:, rows] = (grad @ w).view(2, -1, w.shape[1])
            grad_weight += grad.t() @ h
        ctx.save_for_backward(grad_hidden, grad_weight.to(weight.dtype))
        ctx.mark_non_differentiable(log_loss)
        return loss, log_loss

    @staticmethod
    def backward(
        ctx: torch.autograd.function.FunctionCtx, grad_loss: Tensor, _: Tensor
    ) -> tuple[Tensor, Tensor, None, None, None]:
        grad_hidden, grad_weight = ctx.saved_tensors  # type: ignore[attr-defined]
        return grad_hidden * grad_loss.to(grad_hidden.dtype), grad_weight * grad_loss, None, None, None


def chunked_consistent_cross_entropy(
    hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, alpha: float
) -> tuple[Tensor, Tensor]:
    """The summed loss, with the gradient of hidden and weight already computed when it returns."""
    loss, log_loss = _ChunkedConsistency.apply(  # type: ignore[no-untyped-call]
        hidden, weight, targets, smoothing, alpha
    )
    return loss, log_loss


PLAIN = Kernels(plain_dropout, plain_attention, plain_linear_cross_entropy, plain_consistent_cross_entropy)
FAST = Kernels(byte_dropout, matmul_attention, chunked_linear_cross_entropy, chunked_consistent_cross_entropy)
FAST_ON_GPU = Kernels(
    plain_dropout, plain_attention, chunked_linear_cross_entropy, chunked_consistent_cross_entropy
)


def choose_kernels(name: str, device: torch.device) -> Kernels:
    """The kernels that `training.kernels` = "fast" or "plain" means on `device`."""
    if name == "plain":
        return PLAIN
    return FAST if device.type == "cpu" else FAST_ON_GPU
