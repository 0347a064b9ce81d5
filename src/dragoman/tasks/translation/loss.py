"""The training loss: cross-entropy with label smoothing (section 5.4)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dragoman.data.batching import TranslationBatch, source_mask
from dragoman.data.buckets import StaticBatch
from dragoman.model.kernels import IGNORED
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.text.vocabulary import PAD_ID, SPECIAL_TOKENS, UNK_ID


class BatchLoss(NamedTuple):
    """Sums over the real target tokens of a batch, in nats."""

    smoothed: Tensor
    """What is minimised: (1 - eps) times the log-loss plus eps times the mean over the vocabulary."""
    log_loss: Tensor
    """-log p(token): what perplexity is made of. Carries no gradient."""


def batch_loss(
    model: Seq2SeqTransformer,
    batch: TranslationBatch,
    *,
    smoothing: float,
    consistency: float = 0.0,
    cutoff: float = 0.0,
) -> BatchLoss:
    """Return the loss of the model's predictions for `batch`, without padding.

    With `consistency` (alpha), the batch is computed twice with different dropout, and a consistency loss
    between the two outputs is added (R-Drop, Wu et al. 2021). `cutoff` is the probability of hiding a token
    of either side the second time (SimCut, Gao et al. 2022).
    """
    n_passes = 2 if consistency else 1
    src, tgt_in = batch.src.repeat(n_passes, 1), batch.tgt_in.repeat(n_passes, 1)
    src_mask = source_mask(src, with_end=model.config.source_end)
    if cutoff:
        for ids in (src[len(batch.src) :], tgt_in[len(batch.src) :]):
            hide_tokens(ids, cutoff)
    hidden = model.decode(tgt_in, model.encode(src, src_mask), src_mask)  # (n_passes B, T, D)
    real = batch.tgt_out.repeat(n_passes, 1).flatten().ne(PAD_ID).nonzero().squeeze(1)
    rows = hidden.flatten(0, 1).index_select(0, real)  # (n_passes R, D)
    targets = batch.tgt_out[batch.tgt_out != PAD_ID]  # (R,)
    rows, weight = before_softmax(model, rows)
    return BatchLoss(*model.kernels.linear_cross_entropy(rows, weight, targets, smoothing, consistency))


def hide_tokens(ids: Tensor, share: float) -> None:
    """Replace tokens of `ids` by the unknown one, with this probability; special tokens stay."""
    chosen = torch.rand(ids.shape, device=ids.device) < share
    ids.masked_fill_(chosen & (ids >= len(SPECIAL_TOKENS)), UNK_ID)


def static_batch_loss(model: Seq2SeqTransformer, batch: StaticBatch, *, smoothing: float) -> BatchLoss:
    """Return the same loss for a batch of a fixed shape, with operations of fixed shapes."""
    src_mask = source_mask(batch.src, with_end=model.config.source_end)
    hidden = model.decode(batch.tgt_in, model.encode(batch.src, src_mask), src_mask)  # (B, T, D)
    targets = batch.tgt_out.masked_fill(batch.tgt_out == PAD_ID, IGNORED).flatten()  # (B T,)
    rows, weight = before_softmax(model, hidden.flatten(0, 1))
    return BatchLoss(*model.kernels.linear_cross_entropy(rows, weight, targets, smoothing))


def before_softmax(model: Seq2SeqTransformer, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows (R, D) and a weight (V, D) whose product is the logits; a bias is an additional column."""
    output = model.output
    if output.bias is None:
        return rows, output.weight
    return (
        torch.cat([rows, rows.new_ones(len(rows), 1)], dim=1),
        torch.cat([output.weight, output.bias[:, None]], dim=1),
    )
