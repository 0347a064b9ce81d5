"""Incremental decoding with a key-value cache: the next-token function of a model."""

from __future__ import annotations

import torch
from torch import Tensor

from dragoman.model.layers import DecoderLayer, MultiHeadAttention, attention_weights
from dragoman.model.transformer import Seq2SeqTransformer, attention_bias, decoder_layers


class IncrementalDecoder:
    """The next-token function of a model for given sources: log-probabilities after each row's last token.

    The rows of a sentence stand together. Keys and values of the encoder's output are projected once per
    sentence and not copied for the rows of a beam, which stand side by side in the query (unless sentences
    have unequally many rows). Keys and values of earlier target tokens follow their row by `parents`.

    `forbidden` ids get log-probability -inf. With `keep_attention` the decoder keeps, of each call, how much
    each row attends to each source token: `attention` (N, S) in fp32, the mean over the heads of the last
    layer. Otherwise it is not computed.
    """

    def __init__(
        self,
        model: Seq2SeqTransformer,
        src: Tensor,
        src_mask: Tensor,
        *,
        forbidden: tuple[int, ...] = (),
        keep_attention: bool = False,
    ) -> None:
        self.model = model
        self.forbidden = list(forbidden)
        self.keep_attention = keep_attention
        self.attention = torch.empty(0, 0)
        memory = model.encode(src, src_mask)
        self.src_bias = attention_bias(src_mask)
        self.sentences = torch.arange(len(src), device=src.device)  # (N,): which sentence a row translates
        self.equally_many = True
        self.position = 0
        self.cross: list[tuple[Tensor, Tensor]] = []  # per layer: K and V (B, H, S, d)
        for layer in decoder_layers(model):
            attention = layer.cross_attention
            keys, values = (attention.split_heads(t) for t in attention.project_memory(memory))
            self.cross.append((keys.contiguous(), values.contiguous()))
        self.past: list[tuple[Tensor, Tensor] | None] = [None] * len(self.cross)  # per layer: (N, H, room, d)

    @torch.inference_mode()
    def __call__(self, last: Tensor, parents: Tensor) -> Tensor:
        """last (N,) tokens, parents (N,) rows of the previous call -> log-probabilities (N, V) in fp32."""
        last, parents = last.to(self.sentences.device), parents.to(self.sentences.device)
        self._follow(parents)
        x = self.model.tgt_embedding(last[:, None], dtype=self.model.dtype, start=self.position)  # (N, 1, D)
        for i, layer in enumerate(decoder_layers(self.model)):
            x = self._layer(i, layer, x)
        self.position += 1
        logits = self.model.project(self.model.decoder_norm(x[:, 0])).float()
        if self.forbidden:
            logits[:, self.forbidden] = float("-inf")
        return logits.log_softmax(-1)

    def _layer(self, i: int, layer: DecoderLayer, x: Tensor) -> Tensor:
        x = layer.residuals[0](x, lambda y: self._attend_to_past(i, layer.self_attention, y))
        x = layer.residuals[1](x, lambda y: self._attend_to_source(i, layer.cross_attention, y))
        x = layer.residuals[2](x, layer.feed_forward)
        return x

    def _attend_to_past(self, i: int, attention: MultiHeadAttention, y: Tensor) -> Tensor:
        q, k, v = (attention.split_heads(t) for t in attention.in_proj(y).chunk(3, dim=-1))  # (N, H, 1, d)
        keys, values = self._remember(i, k, v)
        return attention.merge_heads(attention.kernels.attention(q, keys, values, None, 0.0))

    def _attend_to_source(self, i: int, attention: MultiHeadAttention, y: Tensor) -> Tensor:
        keys, values = self.cross[i]
        bias = self.src_bias
        if not self.equally_many:
            keys, values = keys[self.sentences], values[self.sentences]
            bias = None if bias is None else bias[self.sentences]
        q = attention.project_query(y).view(len(keys), -1, y.shape[-1])  # (B, N/B, D): beams side by side
        if self.keep_attention and i == len(self.cross) - 1:
            weights = attention_weights(attention.split_heads(q), keys, bias)  # (B, H, N/B, S)
            self.attention = weights.mean(dim=1).flatten(0, 1)
        context = attention.kernels.attention(attention.split_heads(q), keys, values, bias, 0.0)
        return attention.merge_heads(context).view(y.shape)

    def _remember(self, i: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append this step's k and v (N, H, 1, d) and return all so far, (N, H, position + 1, d)."""
        past, t = self.past[i], self.position
        if past is None or t >= past[0].shape[2]:
            room = max(16, 2 * t)
            grown = tuple(x.new_empty(x.shape[0], x.shape[1], room, x.shape[3]) for x in (k, v))
            if past is not None:
                for new, old in zip(grown, past, strict=True):
                    new[:, :, :t] = old
            past = self.past[i] = (grown[0], grown[1])
        past[0][:, :, t : t + 1] = k
        past[1][:, :, t : t + 1] = v
        return past[0][:, :, : t + 1], past[1][:, :, : t + 1]

    def _follow(self, parents: Tensor) -> None:
        """Let every cache follow the rows that go on, and forget sentences that are finished."""
        n_before = len(self.sentences)
        if len(parents) == n_before and torch.equal(parents, torch.arange(n_before, device=parents.device)):
            return
        alive, self.sentences, counts = torch.unique_consecutive(
            self.sentences[parents], return_inverse=True, return_counts=True
        )
        self.equally_many = bool((counts == counts[0]).all())
        if len(alive) < len(self.cross[0][0]):
            self.cross = [(k[alive], v[alive]) for k, v in self.cross]
            self.src_bias = None if self.src_bias is None else self.src_bias[alive]
        for i, past in enumerate(self.past):
            if past is not None:
                self.past[i] = (
                    _take(past[0], parents, self.position),
                    _take(past[1], parents, self.position),
                )


class WholeDecoder:
    """The same next-token function by `Seq2SeqTransformer.decode` on all tokens so far.

    Slow, and right whatever its layers compute.
    """

    def __init__(
        self, model: Seq2SeqTransformer, src: Tensor, src_mask: Tensor, *, forbidden: tuple[int, ...] = ()
    ) -> None:
        self.model = model
        self.forbidden = list(forbidden)
        self.memory, self.src_mask = model.encode(src, src_mask), src_mask  # (N, S, D), (N, S)
        self.tokens = src.new_empty(len(src), 0)  # (N, T)

    @torch.inference_mode()
    def __call__(self, last: Tensor, parents: Tensor) -> Tensor:
        """last (N,) tokens, parents (N,) rows of the previous call -> log-probabilities (N, V) in fp32."""
        last, parents = last.to(self.tokens.device), parents.to(self.tokens.device)
        self.memory, self.src_mask = self.memory[parents], self.src_mask[parents]
        self.tokens = torch.cat([self.tokens[parents], last[:, None]], dim=1)
        hidden = self.model.decode(self.tokens, self.memory, self.src_mask)
        logits = self.model.project(hidden[:, -1]).float()
        logits[:, self.forbidden] = float("-inf")
        return logits.log_softmax(-1)


def _take(cache: Tensor, parents: Tensor, length: int) -> Tensor:
    """Return the rows `parents` of a cache (N, H, room, d).

    Only the first `length` positions hold anything.
    """
    taken = cache.new_empty(len(parents), *cache.shape[1:])
    taken[:, :, :length] = cache[:, :, :length].index_select(0, parents)
    return taken
