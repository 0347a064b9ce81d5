"""How a classifier reads long texts: in the fewest adjacent windows, all of about the same length."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]


def windows_needed(lengths: Ids, *, max_length: int) -> Ids:
    """Return the fewest windows of `max_length` tokens that hold texts of these lengths, one at least."""
    return np.maximum(1, -(-lengths // max_length))


def window_widths(lengths: Ids, *, max_length: int) -> tuple[Ids, Ids]:
    """Return the text (W,) of each window, and how many of its tokens it holds (W,).

    The windows of a text tile it in order.
    """
    n_windows = windows_needed(lengths, max_length=max_length)
    document = np.repeat(np.arange(len(lengths)), n_windows)
    first = np.repeat(np.cumsum(n_windows) - n_windows, n_windows)
    nth = np.arange(len(document)) - first  # (W,): which of its text's windows
    n, of = lengths[document], n_windows[document]
    return document, (nth + 1) * n // of - nth * n // of
