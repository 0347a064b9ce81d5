"""A step of a beam search in compiled code (native.c)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from torch import Tensor

from dragoman.decoding.hypotheses import COMPILED_AT_MOST, Floats, Ints, refuse_nan
from dragoman.native import Int, Pointer, native

MAX_WIDTH = COMPILED_AT_MOST - 1
"""Of a beam: one token more is looked for in each row."""

READ = (
    "limits", "limit_penalty", "penalty", "next_penalty", "rows", "log_prob", "finished", "n_tokens",
    "n_ended",
)  # fmt: skip
"""The arrays that a step reads: those of a beam, and length penalties."""


class _Beam(ctypes.Structure):
    _fields_ = (
        *((name, Int) for name in ("n_sentences", "n_slots", "width", "n_best")),
        *((name, Pointer) for name in READ),
        *((name, Pointer) for name in (
            "next_rows", "last", "parents", "ended", "next_log_prob", "ended_log_prob",
        )),
        *((name, Int) for name in ("n_next", "n_ending")),
    )  # fmt: skip


class BeamStep(NamedTuple):
    """What follows from a step."""

    rows: Ints
    """(A, width) rows of the live hypotheses in the next call, best first; 0 in an empty slot."""
    log_prob: Floats
    """(A, width) of these; -inf in an empty slot."""
    last: Ints
    """(A, width) their newest tokens."""
    parents: Ints
    """(N,) the rows of this call that they continue, sentence by sentence."""
    ended: Ints
    """(M,) the rows of this call that end with eos."""
    ended_log_probs: Floats
    """(M,) of the hypotheses that end."""


def beam_step(log_probs: Tensor, arrays: Mapping[str, Ints | Floats], *, width: int, eos_id: int) -> BeamStep:
    """Choose among the continuations `log_probs` (N, V) of a beam of `width`, as `_Beam` of beam.py does.

    `arrays` are those of `_Beam`, with `penalty` (A,), the length penalty of a hypothesis that ends now, and
    `next_penalty` (A,), that of one that ends in the next step. `finished`, `n_tokens` and `n_ended` are
    changed in place. RunError: a log-probability is NaN.
    """
    read = [arrays[name] for name in READ]
    assert all(array.flags.c_contiguous for array in read)
    library, (A, L), n_best = native().library, arrays["rows"].shape, arrays["finished"].shape[1]
    assert library is not None
    integers, numbers = np.empty((4, A * width), np.int64), np.empty((2, A * width), np.float64)
    made = [row.ctypes.data for block in (integers, numbers) for row in block]
    beam = _Beam(A, L, width, n_best, *(array.ctypes.data for array in read), *made)
    start, stride, V = log_probs.data_ptr(), log_probs.stride(0), log_probs.shape[1]
    if not library.dragoman_beam(ctypes.byref(beam), start, stride, V, eos_id):
        refuse_nan()
    next_rows, last, parents, ended = integers
    next_log_prob, ended_log_probs = numbers
    n, m = beam.n_next, beam.n_ending
    return BeamStep(
        next_rows.reshape(A, width), next_log_prob.reshape(A, width), last.reshape(A, width), parents[:n],
        ended[:m], ended_log_probs[:m],
    )  # fmt: skip
