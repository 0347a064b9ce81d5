"""The Transformer classifier: an encoder, pooling over all tokens of a text, and a linear head.

And beside it, where it is asked for, votes of n-grams (model/ngrams.py): wide and deep."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.config import ClassifierConfig
from dragoman.model.kernels import PLAIN, Kernels
from dragoman.model.layers import Dropout, Embedding, Linear
from dragoman.model.ngrams import NgramBags
from dragoman.model.transformer import Transformer


class TransformerClassifier(Transformer):
    """The tokens of texts, in windows, to one vector of logits a text.

    Attention reaches as far as a window; the pooling takes in every token of every window.
    """

    def __init__(
        self,
        config: ClassifierConfig,
        *,
        vocab_size: int,
        n_classes: int,
        kernels: Kernels = PLAIN,
    ) -> None:
        super().__init__(config, kernels=kernels)
        self.config = config
        self.n_classes = n_classes
        self.embedding = Embedding(vocab_size, config, kernels)
        self.dropout = Dropout(config.dropout, kernels)
        self.poolings = config.pooling.split("+")
        self.head = Linear(len(self.poolings) * config.d_model, n_classes)
        self.votes: NgramVotes | None = None
        self.initialise()
        nn.init.zeros_(self.head.weight)  # at first all classes are equally likely
        if config.ngrams:
            self.votes = NgramVotes(config, n_classes=n_classes)
            self.mixture = nn.Parameter(torch.ones(2), requires_grad=False)
            """Factors of votes and encoder; an encoder whose factor is 0 is not computed."""

    def forward(
        self,
        ids: Tensor,
        real: Tensor,
        document: Tensor,
        n_documents: int,
        ngrams: NgramBags | None = None,
    ) -> Tensor:
        """ids (W, L), real (W, L) True at tokens, document (W,) the text of each window -> logits (B, C).

        Texts are counted from 0 to n_documents - 1, each has a window at least, and each window a token.
        `ngrams` are those of the texts, for a model that reads them.
        """
        if self.votes is None:
            return self.read(ids, real, document, n_documents)
        assert ngrams is not None, "a model with votes is given n-grams"
        logits = self.mixture[0] * self.votes(ngrams)
        if self.mixture[1]:
            logits = logits + self.mixture[1] * self.read(ids, real, document, n_documents)
        return logits

    def read(self, ids: Tensor, real: Tensor, document: Tensor, n_documents: int) -> Tensor:
        """Return the logits (B, C) of the encoder alone, of the same texts."""
        encoded = self.encode_embedded(self.embedding(ids, dtype=self.dtype), real)  # (W, L, D)
        pooled = [pool(name, encoded, real, document, n_documents) for name in self.poolings]
        return self.head(self.dropout(torch.cat(pooled, dim=-1))).float()


class NgramVotes(nn.Module):
    """The votes of the n-grams of a text for each class: their sum over the square root of their number.

    Solved for, not learnt step by step; parameters, so that they are saved and loaded with the others.
    """

    def __init__(self, config: ClassifierConfig, *, n_classes: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(2**config.ngram_bits, n_classes), requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(n_classes), requires_grad=False)
        """(C,): the logits of a text whose n-grams say nothing."""

    def forward(self, bags: NgramBags) -> Tensor:
        """-> (B, C), in fp32."""
        buckets, counts = (torch.from_numpy(array).to(self.table.device) for array in bags)
        votes = F.embedding(buckets, self.table).float()  # (G, C)
        sums = torch.segment_reduce(votes, "sum", lengths=counts, axis=0)  # (B, C)
        return sums / counts.clamp(min=1).sqrt()[:, None] + self.bias.float()


def pool(name: str, encoded: Tensor, real: Tensor, document: Tensor, n_documents: int) -> Tensor:
    """Pool encoded (W, L, D) to (B, D): the "mean" or "max" of the vectors of all tokens of each text.

    Sums run first over a window and then over the windows of a text, as a matrix product: on a GPU too,
    the same input gives the same bits.
    """
    padding = ~real[:, :, None]
    if name == "max":
        highest = encoded.masked_fill(padding, float("-inf")).amax(1)  # (W, D)
        index = document[:, None].expand_as(highest)
        room = highest.new_full((n_documents, highest.shape[1]), float("-inf"))
        return room.scatter_reduce(0, index, highest, "amax")
    belongs = document[None, :] == torch.arange(n_documents, device=document.device)[:, None]  # (B, W)
    sums = belongs.float() @ encoded.float().masked_fill(padding, 0.0).sum(1)  # (B, D)
    n_tokens = belongs.float() @ real.sum(1).float()  # (B,)
    return (sums / n_tokens[:, None]).to(encoded.dtype)
