"""Log-probabilities of the next token of several rows, wherever they are, and the best of each row."""

from __future__ import annotations

from typing import Any, NoReturn, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from dragoman.errors import RunError
from dragoman.native import native

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Floats32: TypeAlias = npt.NDArray[np.float32]
Bools: TypeAlias = npt.NDArray[np.bool_]
Index: TypeAlias = Ints | slice | int

ALL = slice(None)
"""Every row, or every column."""
COMPILED_AT_MOST = 64
"""Best tokens that compiled code looks for: it inserts them one by one."""


class LogProbs(Protocol):
    """Log-probabilities (N, C), fp32: a row for each hypothesis, a column for each token that may follow.

    They may be changed, and are good until the next call of the function that returned them. Rows and columns
    are indices of NumPy: numbers, arrays that are broadcast together, or `ALL`.
    """

    def best(self, k: int) -> tuple[Floats, Ints]:
        """Return the `k` best of each row, or all C: values and columns, (N, k). Ties go to the lower column.

        RunError: a log-probability is NaN.
        """

    def at(self, rows: Index, columns: Index) -> Floats:
        """Return those of some rows and columns."""

    def put(self, rows: Index, columns: Index, values: Floats | float) -> None:
        """Replace those of some rows and columns."""

    def all(self) -> Floats32:
        """Return all of them, (N, C)."""


class ArrayLogProbs:
    """Log-probabilities that lie in memory."""

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self.values: Floats32 = np.ascontiguousarray(values, np.float32)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    def best(self, k: int) -> tuple[Floats, Ints]:
        (N, C), k = self.shape, min(k, self.shape[1])
        library = native().library
        if library is not None and k <= COMPILED_AT_MOST and is_compiled(self):
            values, columns = np.empty((N, k), np.float32), np.empty((N, k), np.int64)
            start, made = self.values.ctypes.data, (values.ctypes.data, columns.ctypes.data)
            if library.dragoman_top(start, N, C, C, k, *made):
                refuse_nan()
            return values.astype(np.float64), columns
        check_no_nan(self.values.max(axis=1, initial=-np.inf))
        ranks = np.partition(self.values, C - k, axis=1)[:, C - k] if k else np.zeros(N, np.float32)
        chosen = are_best(self.values, ranks, np.full(N, k)).nonzero()[1].reshape(N, k)
        values = columns_of(self.values, chosen)
        order = ranked(values)
        return columns_of(values, order).astype(np.float64), columns_of(chosen, order)

    def at(self, rows: Index, columns: Index) -> Floats:
        values: Floats = self.values[rows, columns].astype(np.float64)
        return values

    def put(self, rows: Index, columns: Index, values: Floats | float) -> None:
        self.values[rows, columns] = values

    def all(self) -> Floats32:
        return self.values


def is_compiled(log_probs: LogProbs) -> bool:
    """Whether compiled code reads these log-probabilities."""
    return isinstance(log_probs, ArrayLogProbs) and native().library is not None


def are_best(values: Floats32, least: Floats32, k: Ints) -> Bools:
    """Return which of each row of `values` (N, C) are its best `k` (N,), the last of which is `least` (N,).

    Ties go to the lower column.
    """
    above, equal = values > least[:, None], values == least[:, None]
    room = k - above.sum(axis=1)
    best: Bools = above | (equal & (equal.cumsum(axis=1) <= room[:, None]))
    return best


def columns_of(x: npt.NDArray[Any], columns: Ints) -> npt.NDArray[Any]:
    """Return the `columns` (N, K) of each row of x (N, C)."""
    return x[np.arange(len(x))[:, None], columns]


def ranked(scores: npt.NDArray[Any]) -> Ints:
    """Return the columns of each row of scores (N, C), the largest first; of equals the first."""
    return np.argsort(-scores, axis=1, kind="stable")


def check_no_nan(log_probs: npt.NDArray[Any]) -> None:
    """RunError: one of `log_probs` is NaN."""
    if np.isnan(log_probs).any():
        refuse_nan()


def refuse_nan() -> NoReturn:
    """RunError: log-probabilities are NaN."""
    raise RunError(
        "the model's probabilities are not numbers (NaN): its weights are damaged or its training "
        "diverged; use an earlier checkpoint, or train again with a lower learning rate"
    )
