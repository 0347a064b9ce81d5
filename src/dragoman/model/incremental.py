"""Next-token functions of a model: log-probabilities after each row's last token."""

from __future__ import annotations

import torch
from torch import Tensor

from dragoman.model.layers import DecoderLayer, MultiHeadAttention, attention_weights
from dragoman.model.transformer import Seq2SeqTransformer, attention_bias, decoder_layers


class WholeDecoder:
    """The next-token function by `Seq2SeqTransformer.decode` on all tokens so far.

    Slow, and right whatever its layers compute. `forbidden` ids get log-probability -inf.
    """

    def __init__(
        self, model: Seq2SeqTransformer, src: Tensor, src_mask: Tensor, *, forbidden: tuple[int, ...] = ()
    ) -> None:
        self.model, self.forbidden = model, list(forbidden)
        self.memory, self.src_mask = model.encode(src, src_mask), src_mask  # (N, S, D), (N, S)
        self.tokens = src.new_empty(len(src), 0)  # (N, T)

    @torch.inference_mode()
    def __call__(self, last: Tensor, parents: Tensor) -> Tensor:
        """last (N,) tokens, parents (N,) rows of the previous call -> log-probabilities (N, V) in fp32."""
        last, parents = last.to(self.tokens.device), parents.to(self.tokens.device)
        self.tokens = torch.cat([self.tokens[parents], last[:, None]], dim=1)
        logits = self.model.project(self.hidden(parents)).float()
        logits[:, self.forbidden] = -torch.inf
        return logits.log_softmax(-1)

    def hidden(self, parents: Tensor) -> Tensor:
        """Return the hidden states (N, D) behind the last of `tokens`."""
        self.memory, self.src_mask = self.memory[parents], self.src_mask[parents]
        return self.model.decode(self.tokens, self.memory, self.src_mask)[:, -1]


class IncrementalDecoder(WholeDecoder):
    """The same with a key-value cache: only the last token of each row goes through the layers.

    The rows of a sentence stand together. Keys and values of the encoder's output are projected once per
    sentence and not copied for the rows of a beam, which stand side by side in the query (unless sentences
    have unequally many rows). Keys and values of earlier target tokens follow their row by `parents`.

    With `keep_attention` the decoder keeps, of each call, how much each row attends to each source token:
    `attention` (N, S) in fp32, the mean over the heads of the last layer. Otherwise it is not computed.
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
        super().__init__(model, src, src_mask, forbidden=forbidden)
        self.keep_attention, self.attention = keep_attention, torch.empty(0, 0)
        self.src_bias = attention_bias(src_mask)
        self.sentences = torch.arange(len(src), device=src.device)  # (N,): which sentence a row translates
        self.equally_many = True
        self.cross: list[tuple[Tensor, Tensor]] = []  # per layer: K and V (B, H, S, d)
        for layer in decoder_layers(model):
            attention = layer.cross_attention
            keys, values = (attention.split_heads(t) for t in attention.project_memory(self.memory))
            self.cross.append((keys.contiguous(), values.contiguous()))
        self.past = [(k[:, :, :0], v[:, :, :0]) for k, v in self.cross]  # per layer: K and V (N, H, T, d)

    def hidden(self, parents: Tensor) -> Tensor:
        if not torch.equal(parents, torch.arange(len(self.sentences), device=parents.device)):
            self._follow(parents)
        start = self.tokens.shape[1] - 1
        x = self.model.tgt_embedding(self.tokens[:, -1:], dtype=self.model.dtype, start=start)  # (N, 1, D)
        for i, layer in enumerate(decoder_layers(self.model)):
            x = self._layer(i, layer, x)
        return self.model.decoder_norm(x[:, 0])

    def _layer(self, i: int, layer: DecoderLayer, x: Tensor) -> Tensor:
        x = layer.residuals[0](x, lambda y: self._attend_to_past(i, layer.self_attention, y))
        x = layer.residuals[1](x, lambda y: self._attend_to_source(i, layer.cross_attention, y))
        x = layer.residuals[2](x, layer.feed_forward)
        return x

    def _attend_to_past(self, i: int, attention: MultiHeadAttention, y: Tensor) -> Tensor:
        q, *new = (attention.split_heads(t) for t in attention.in_proj(y).chunk(3, dim=-1))  # (N, H, 1, d)
        keys, values = (torch.cat(both, dim=2) for both in zip(self.past[i], new, strict=True))
        self.past[i] = keys, values
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

    def _follow(self, parents: Tensor) -> None:
        """Let every cache follow the rows that go on, and forget sentences that are finished."""
        alive, self.sentences, counts = torch.unique_consecutive(
            self.sentences[parents], return_inverse=True, return_counts=True
        )
        self.equally_many = bool((counts == counts[0]).all())
        if len(alive) < len(self.cross[0][0]):
            self.cross = [(k[alive], v[alive]) for k, v in self.cross]
            self.src_bias = None if self.src_bias is None else self.src_bias[alive]
        self.past = [(k[parents], v[parents]) for k, v in self.past]
