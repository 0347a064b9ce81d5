"""Sentences that join a running search are found what they would be found alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.decoding import Hypothesis, WatchedSearch, beam_search, greedy_search, sample
from dragoman.decoding.beam import BeamSearch
from dragoman.decoding.greedy import GreedySearch
from dragoman.decoding.hypotheses import NextToken
from dragoman.decoding.sampling import SamplingSearch
from dragoman.decoding.search import Search
from dragoman.decoding.wrappers import NoRepeatedNgrams, NotEmpty
from tables import BOS, EOS, Stepper, Table

IDS = {"bos_id": BOS, "eos_id": EOS}
DRAWN = {"seed": 3, "temperature": 1.3}
Alone = Callable[..., list[list[Hypothesis]]]
KINDS: dict[str, tuple[Callable[..., Search], Alone, dict[str, Any]]] = {
    "greedy": (GreedySearch, greedy_search, {}),
    "beam": (BeamSearch, beam_search, {"beam_size": 3, "n_best": 2}),
    "diverse": (
        BeamSearch,
        beam_search,
        {"beam_size": 4, "n_best": 3, "n_groups": 2, "diversity_penalty": 0.5},
    ),
    "sampling": (SamplingSearch, sample, DRAWN),
}


def watched(step: NextToken, n_watched: int, *, wrapped: bool) -> WatchedSearch:
    """Return `step` as the service has it: watched, perhaps within wrappers that know each row's tokens."""
    inner = NoRepeatedNgrams(NotEmpty(step, eos_id=EOS), 2) if wrapped else step
    return WatchedSearch(inner, [None] * n_watched, eos_id=EOS)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(
    seed=st.integers(0, 999),
    joining=st.lists(
        st.tuples(st.integers(0, 4), st.lists(st.integers(0, 6), max_size=3)), min_size=1, max_size=5
    ),
    wrapped=st.booleans(),
)
def test_who_joins_a_search_is_found_what_is_found_alone(
    kind: str, seed: int, joining: list[tuple[int, list[int]]], wrapped: bool
) -> None:
    """`joining`: after how many more steps the next sentences join, and their longest lengths."""
    search_of, alone, options = KINDS[kind]
    table = Table(seed, n_tokens=4, forbidden=0.1)
    limits = [limit for _, lengths in joining for limit in lengths]
    step = watched(Stepper(table, range(len(limits))), 0, wrapped=wrapped)
    n_best = {"n_best": 2} if kind == "sampling" else {}
    search = search_of(step, **options, **n_best, **IDS)
    found: dict[int, list[Hypothesis]] = {}
    n_joined = 0
    for n_steps, lengths in [*joining, (99, [])]:
        for _ in range(n_steps):
            if search.n_rows:
                found |= search.advance()
        numbers = range(n_joined, n_joined + len(lengths))
        step.join([None] * len(lengths))
        search.join(lengths, *([numbers] if kind == "sampling" else []))
        n_joined += len(lengths)
    assert sorted(found) == [*range(len(limits))]
    for number, limit in enumerate(limits):
        lone = watched(Stepper(table, [number]), 1, wrapped=wrapped)
        own = {"numbers": [number], "n_samples": 2} if kind == "sampling" else {}
        assert [found[number]] == alone(lone, max_lengths=[limit], **options, **own, **IDS)
