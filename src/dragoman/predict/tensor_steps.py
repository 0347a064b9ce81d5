"""Steps of a search by PyTorch: arrays go in, and log-probabilities stay on the device that computed them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from dragoman.decoding.log_probs import ArrayLogProbs, Floats, Floats32, Index, Ints, LogProbs, check_no_nan

SPARE = 8
"""Candidates beyond the k best, so that ties at the edge seldom need a second pass over the vocabulary."""


class TensorDecoder(Protocol):
    """Computes the next tokens, in tensors; a call is that of `NextToken`."""

    def __call__(self, last: Tensor, parents: Tensor) -> Tensor:
        """last (N,) tokens, parents (N,) rows of the previous call -> log-probabilities (N, C) in fp32."""


class AttendingTensorDecoder(TensorDecoder, Protocol):
    """One that keeps its attention to the source."""

    attention: Tensor
    """(N, S) of the last call."""


class TensorStep:
    """The next-token function of one decoder, or of several, whose probabilities it averages."""

    def __init__(self, decoders: Sequence[TensorDecoder]) -> None:
        self._decoders = decoders

    @torch.inference_mode()
    def __call__(self, last: Ints, parents: Ints) -> LogProbs:
        tokens, rows = torch.from_numpy(last), torch.from_numpy(parents)
        log_probs = [decoder(tokens, rows) for decoder in self._decoders]
        mean = log_probs[0]
        if len(log_probs) > 1:  # of probabilities: a single model cannot veto a token
            mean = torch.stack(log_probs).logsumexp(dim=0) - math.log(len(log_probs))
        return ArrayLogProbs(mean.numpy()) if mean.device.type == "cpu" else TensorLogProbs(mean)


class AttendingTensorStep(TensorStep):
    """The same with the attention to the source: the mean of the decoders'."""

    def __init__(self, decoders: Sequence[AttendingTensorDecoder]) -> None:
        super().__init__(decoders)
        self._attending = decoders

    @property
    def attention(self) -> Floats32:
        """(N, S) of the last call."""
        mean: Floats32 = torch.stack([each.attention for each in self._attending]).mean(dim=0).cpu().numpy()
        return mean


class TensorLogProbs:
    """Log-probabilities on a device, of which only what is asked for travels."""

    def __init__(self, values: Tensor) -> None:
        self.values = values

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape)

    @torch.inference_mode()
    def best(self, k: int) -> tuple[Floats, Ints]:
        x, k = self.values, min(k, self.values.shape[1])
        values, columns = (best.cpu() for best in x.topk(min(k + SPARE, x.shape[1])))
        check_no_nan(values[:, :1].numpy())  # topk counts NaN as the largest
        columns, by_id = columns.sort(dim=1)  # topk alone guarantees no order of equals
        values, by_value = values.gather(1, by_id).sort(dim=1, descending=True, stable=True)
        least = values[:, -1]
        values, columns = values[:, :k], columns.gather(1, by_value[:, :k])
        tied = (values[:, -1] == least) & least.isfinite()  # there may be more of them, of lower columns
        if k + SPARE < x.shape[1] and tied.any():
            rows = ArrayLogProbs(x[tied.to(x.device)].cpu().numpy())
            columns[tied] = torch.from_numpy(rows.best(k)[1])
        return values.double().numpy(), columns.numpy()

    def at(self, rows: Index, columns: Index) -> Floats:
        values: Floats = self.values[self._there(rows), self._there(columns)].cpu().double().numpy()
        return values

    @torch.inference_mode()
    def put(self, rows: Index, columns: Index, values: Floats | float) -> None:
        new = torch.as_tensor(values, dtype=self.values.dtype).to(self.values.device)
        self.values[self._there(rows), self._there(columns)] = new

    def all(self) -> Floats32:
        values: Floats32 = self.values.cpu().numpy()
        return values

    def _there(self, index: Index) -> Tensor | slice | int:
        return torch.from_numpy(index).to(self.values.device) if isinstance(index, np.ndarray) else index
