"""Beam search in compiled code beside the same with NumPy."""

import random

import numpy as np
import pytest

from dragoman.decoding.beam import MAX_WIDTH, beam_search
from dragoman.decoding.hypotheses import Hypothesis
from dragoman.decoding.log_probs import ArrayLogProbs, Ints
from dragoman.native import native

BOS, EOS = 0, 1

# both ways are compared: where nothing can be compiled there is only one
pytestmark = pytest.mark.skipif(bool(native().reason), reason=native().reason)


def found(seed: int) -> list[list[Hypothesis]]:
    """The hypotheses of a random search; many values are equal."""
    rng = random.Random(seed)
    n_tokens = rng.choice([3, 4, 9, 70, 200])
    drawn = np.random.default_rng(seed)
    table = -0.25 * drawn.integers(1, 12, (n_tokens, n_tokens)).astype(np.float32)
    table[drawn.random((n_tokens, n_tokens)) < rng.choice([0, 0.3, 0.9])] = -np.inf

    def step(last: Ints, _: Ints) -> ArrayLogProbs:
        return ArrayLogProbs(table[last])

    width = rng.choice([1, 2, 3, 5, 12, MAX_WIDTH])
    options = {"n_best": rng.randint(1, width), "length_penalty": rng.choice([0.0, 0.6, 1.0, 2.2])}
    max_lengths = [rng.randint(0, 12) for _ in range(rng.randint(1, 9))]
    return beam_search(step, max_lengths=max_lengths, bos_id=BOS, eos_id=EOS, beam_size=width, **options)


@pytest.mark.parametrize("seed", range(60))
def test_compiled_code_finds_what_numpy_finds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = found(seed)
    monkeypatch.setattr("dragoman.decoding.log_probs.is_compiled", lambda _: False)
    assert compiled == found(seed)
