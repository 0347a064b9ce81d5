"""A step of a beam search in compiled code (native.c)."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import numpy as np
from torch import Tensor

from dragoman.decoding.hypotheses import COMPILED_AT_MOST, Floats, Ints, refuse_nan
from dragoman.native import Int, Pointer, native

MAX_WIDTH = COMPILED_AT_MOST - 1
"""Of a beam: one token more is looked for in each row."""


class _Beam(ctypes.Structure):
    _fields_ = (
        *((name, Int) for name in ("n_sentences", "n_slots", "width", "n_best")),
        *((name, Pointer) for name in (
            "limits", "limit_penalty", "penalty", "next_penalty", "rows", "log_prob", "finished", "n_tokens",
            "n_ended", "next_rows", "last", "parents", "ended", "next_log_prob", "ended_log_prob",
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


def beam_step(
    log_probs: Tensor,
    *,
    width: int,
    eos_id: int,
    limits: Ints,
    limit_penalty: Floats,
    penalty: Floats,
    next_penalty: Floats,
    rows: Ints,
    log_prob: Floats,
    finished: Floats,
    n_tokens: Ints,
    n_ended: Ints,
) -> BeamStep:
    """Choose among the continuations `log_probs` (N, V) of a beam of `width`, as `_Beam` of beam.py does.

    The arrays are those of `_Beam`, and `penalty` (A,) is the length penalty of a hypothesis that ends now,
    `next_penalty` (A,) that of one that ends in the next step.
    `finished`, `n_tokens` and `n_ended` are changed in place. RunError: a log-probability is NaN.
    """
    library, (A, L), (_, V), size = native().library, rows.shape, log_probs.shape, len(rows) * width
    assert library is not None
    read = (limits, limit_penalty, penalty, next_penalty, rows, log_prob, finished, n_tokens, n_ended)
    assert all(array.flags.c_contiguous for array in read)
    integers, numbers = np.empty((4, size), np.int64), np.empty((2, size), np.float64)
    made = [row.ctypes.data for block in (integers, numbers) for row in block]
    beam = _Beam(A, L, width, finished.shape[1], *(array.ctypes.data for array in read), *made)
    if not library.dragoman_beam(ctypes.byref(beam), log_probs.data_ptr(), log_probs.stride(0), V, eos_id):
        refuse_nan()
    next_rows, last, parents, ended = integers
    next_log_prob, ended_log_probs = numbers
    n, m = beam.n_next, beam.n_ending
    return BeamStep(
        next_rows.reshape(A, width), next_log_prob.reshape(A, width), last.reshape(A, width), parents[:n],
        ended[:m], ended_log_probs[:m],
    )  # fmt: skip
