"""Types shared by all searches: next-token function and hypothesis; and the best tokens of a row."""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dragoman.errors import RunError
from dragoman.native import native

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]

COMPILED_AT_MOST = 64
"""Best tokens that compiled code looks for: it inserts them one by one."""
SPARE = 8
"""Candidates beyond the k best, so that ties at the edge seldom need a second pass over the vocabulary."""
GROUP = 64
"""Columns whose largest is found first, in the search for the best tokens of a row."""


class NextToken(Protocol):
    """The interface of a model for search."""

    def __call__(self, last: Tensor, parents: Tensor) -> Tensor:
        """Log-probabilities (N, V), fp32, of the token after `last` (N,), on the model's device.

        `last` and `parents` are on the CPU, where searches choose. Row i continues row `parents[i]` of the
        previous call. In the first call N is the number of sentences, `last` is bos and `parents` is
        arange(N). N changes from call to call: a sentence grows into the rows of its beam, and its rows go
        when it is done. A forbidden token has log-probability -inf.
        """


class ScoreTerm(Protocol):
    """A term added to the scores of finished hypotheses, such as a coverage penalty."""

    def __call__(self, rows: Tensor) -> Tensor:
        """Return the terms (M,) <= 0 of `rows` (M,) of the last call if they end now, in fp64 on the CPU.

        Because terms are at most 0, a search can stop early without losing the best hypothesis.
        """


class Hypothesis(NamedTuple):
    """A finished sequence."""

    ids: tuple[int, ...]
    """The tokens, without bos and eos."""
    log_prob: float
    """Sum of the tokens' log-probabilities in nats, eos included."""
    score: float
    """log_prob divided by the length penalty, plus the score term of the search; ranks hypotheses."""


def length_penalty(length: int, alpha: float) -> float:
    """Return ((5 + length) / 6) ** alpha; `length` includes eos. Wu et al. 2016, equation 14.

    Does not decrease with `length`, for alpha >= 0.
    """
    return ((5 + length) / 6) ** alpha


def best_tokens(log_probs: Tensor, k: int) -> tuple[Floats, Ints]:
    """Return the `k` best of each row of `log_probs` (N, V): values and tokens, (N, k).

    Ties go to the lower id, as in `argmax`; `topk` alone guarantees no order, and half-precision models have
    many ties. RunError: a log-probability is NaN.
    """
    k = min(k, log_probs.size(1))
    if k <= COMPILED_AT_MOST and is_compiled(log_probs):
        library, (N, V) = native().library, log_probs.shape
        assert library is not None
        best_values, best_ids = np.empty((N, k), np.float32), np.empty((N, k), np.int64)
        outputs, stride = (best_values.ctypes.data, best_ids.ctypes.data), log_probs.stride(0)
        if library.dragoman_top(log_probs.data_ptr(), N, stride, V, k, *outputs):
            refuse_nan()
        return best_values.astype(np.float64), best_ids
    values, tokens = (best.cpu() for best in _top(log_probs, min(k + SPARE, log_probs.size(1))))
    check_no_nan(values[:, :1])  # topk counts NaN as the largest
    tokens, by_id = tokens.sort(dim=1)
    values, by_value = values.gather(1, by_id).sort(dim=1, descending=True, stable=True)
    values, tokens, least = values[:, :k], tokens.gather(1, by_value[:, :k]), values[:, -1]
    if k + SPARE < log_probs.size(1):
        tied = (values[:, -1] == least) & least.isfinite()  # there may be more of them, of lower ids
        if tied.any():
            rows = log_probs[tied.to(log_probs.device)]
            edge = rows.topk(k).values[:, -1:]
            above, equal = rows > edge, rows == edge
            room = k - above.sum(dim=1, keepdim=True)
            chosen = above | (equal & (equal.cumsum(dim=1) <= room))
            lowest = chosen.nonzero()[:, 1].view(-1, k)  # in order of id
            order = rows.gather(1, lowest).sort(dim=1, descending=True, stable=True).indices
            tokens[tied] = lowest.gather(1, order).cpu()
    return in_fp64(values), tokens.numpy()


def in_fp64(x: Tensor) -> Floats:
    """Return a tensor of any device and type as an array."""
    return x.cpu().double().numpy()


def columns_of(x: npt.NDArray[Any], columns: Ints) -> npt.NDArray[Any]:
    """Return the `columns` (N, K) of each row of x (N, C)."""
    return x[np.arange(len(x))[:, None], columns]


def ranked(scores: Floats) -> Ints:
    """Return the columns of each row of scores (N, C), the largest first; of equals the first."""
    return np.argsort(-scores, axis=1, kind="stable")


def is_compiled(x: Tensor) -> bool:
    """Whether compiled code reads `x` (N, V): rows in fp32 on the CPU."""
    return (
        x.dtype == torch.float32
        and x.device.type == "cpu"
        and x.stride(1) == 1
        and native().library is not None
    )


def _top(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return `x.topk(k)`; a third of its time for rows of thousands on a CPU.

    The k largest values are in the k groups of columns with the largest maxima, or in the remaining columns.
    """
    n_rows, n_columns = x.shape
    n_groups = n_columns // GROUP
    if x.device.type != "cpu" or n_groups <= 2 * k:
        values, columns = x.topk(k)
        return values, columns
    grouped = x[:, : n_groups * GROUP].view(n_rows, n_groups, GROUP)
    groups = grouped.amax(2).topk(k).indices[:, :, None]  # (N, k, 1)
    candidates = grouped.gather(1, groups.expand(n_rows, k, GROUP)).flatten(1)
    columns = (groups * GROUP + torch.arange(GROUP)).flatten(1)
    if n_groups * GROUP < n_columns:
        rest = torch.arange(n_groups * GROUP, n_columns).expand(n_rows, -1)
        candidates, columns = (
            torch.cat([candidates, x[:, n_groups * GROUP :]], 1),
            torch.cat([columns, rest], 1),
        )
    values, best = candidates.topk(k)
    return values, columns.gather(1, best)


def check_no_nan(log_probs: Tensor) -> None:
    """RunError: one of `log_probs` is NaN."""
    if log_probs.isnan().any():
        refuse_nan()


def refuse_nan() -> NoReturn:
    """RunError: log-probabilities are NaN."""
    raise RunError(
        "the model's probabilities are not numbers (NaN): its weights are damaged or its training "
        "diverged; use an earlier checkpoint, or train again with a lower learning rate"
    )
