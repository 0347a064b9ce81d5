"""benchmarks/beam_end.py searches under either rule."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from beam_end import RULES, rule
from dragoman.decoding import beam_search

BOS, EOS, A, B = range(4)


@pytest.mark.parametrize(("name", "found"), [(RULES[0], (A,)), (RULES[1], (A, B))])
def test_only_one_rule_waits_for_what_is_better(name: str, found: tuple[int, ...]) -> None:
    table = torch.tensor([[0, 0.15, 0.85, 0], [0, 0, 0, 0], [0, 0.2, 0, 0.8], [0, 0.9, 0.1, 0]]).log()

    def step(last: Tensor, _: Tensor) -> Tensor:
        return table[last]

    with rule(name):
        ((best,),) = beam_search(
            step, max_lengths=[5], bos_id=BOS, eos_id=EOS, beam_size=2, length_penalty=0.0
        )
    assert best.ids == found
