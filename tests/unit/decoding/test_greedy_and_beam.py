"""Greedy and beam search on small tables whose answers can be read off."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from dragoman.decoding.beam import beam_search
from dragoman.decoding.hypotheses import Hypothesis, NextToken, length_penalty
from dragoman.decoding.log_probs import ArrayLogProbs, Ints, LogProbs
from dragoman.decoding.search import greedy_search
from dragoman.errors import RunError

BOS, EOS, A, B = range(4)


def markov(rows: dict[int, list[float]]) -> NextToken:
    """A next-token function with probabilities that depend on the last token alone."""
    table = np.zeros((4, 4))
    for token, probabilities in rows.items():
        table[token] = probabilities
    with np.errstate(divide="ignore"):
        log_probs = np.log(table)
    return lambda last, parents: ArrayLogProbs(log_probs[last])


# Greedy takes A, 0.6 · 0.4 = 0.24; the best sequence is B, 0.4 · 0.9 = 0.36.
GARDEN_PATH = {BOS: [0, 0, 0.6, 0.4], A: [0, 0.4, 0.3, 0.3], B: [0, 0.9, 0.05, 0.05]}


def beam(step: NextToken, **options: object) -> list[list[Hypothesis]]:
    return beam_search(step, **{"max_lengths": [5], "bos_id": BOS, "eos_id": EOS, "beam_size": 2, **options})


def greedy(step: NextToken, **options: object) -> list[list[Hypothesis]]:
    return greedy_search(step, **{"max_lengths": [5], "bos_id": BOS, "eos_id": EOS, **options})


def test_length_penalty_is_equation_14() -> None:
    assert length_penalty(1, 0.7) == 1.0
    assert length_penalty(7, 1.0) == 2.0
    assert length_penalty(19, 0.5) == 2.0
    assert length_penalty(100, 0.0) == 1.0


def test_greedy_follows_the_garden_path() -> None:
    ((hypothesis,),) = greedy(markov(GARDEN_PATH), length_penalty=1.0)
    assert hypothesis.ids == (A,)
    assert math.exp(hypothesis.log_prob) == pytest.approx(0.6 * 0.4)
    assert hypothesis.score == pytest.approx(math.log(0.24) / (7 / 6))


@pytest.mark.usefixtures("both_steps")
def test_a_beam_of_two_finds_the_better_sequence_and_ranks_both() -> None:
    ((first, second),) = beam(markov(GARDEN_PATH), length_penalty=0.0, n_best=2)
    assert (first.ids, second.ids) == ((B,), (A,))
    assert first.score == first.log_prob
    assert math.exp(first.log_prob) == pytest.approx(0.4 * 0.9)
    assert math.exp(second.log_prob) == pytest.approx(0.6 * 0.4)


def test_a_larger_alpha_favours_the_longer_hypothesis() -> None:
    step = markov({BOS: [0, 0.5, 0.5, 0], A: [0, 0.2, 0, 0.8], B: [0, 0.9, 0.1, 0]})
    ((short,),) = beam(step, beam_size=3, length_penalty=0.0)
    ((long,),) = beam(step, beam_size=3, length_penalty=3.0)
    assert (short.ids, long.ids) == ((), (A, B))


@pytest.mark.parametrize("max_length", [0, 1, 4])
def test_eos_is_forced_at_the_longest_length_and_its_log_probability_counts(max_length: int) -> None:
    step = markov({BOS: [0, 0.1, 0.9, 0], A: [0, 0.1, 0.9, 0]})
    expected = 0.9**max_length * 0.1
    for search in (greedy, lambda step, **options: beam(step, beam_size=1, **options)):
        ((hypothesis,),) = search(step, max_lengths=[max_length])
        assert hypothesis.ids == (A,) * max_length
        assert math.exp(hypothesis.log_prob) == pytest.approx(expected)


def test_each_sentence_has_its_own_longest_length() -> None:
    step = markov({BOS: [0, 0, 0.9, 0.1], A: [0, 0.01, 0.9, 0.09], B: [0, 0.01, 0.9, 0.09]})
    found = beam(step, max_lengths=[3, 0, 6], beam_size=2, length_penalty=5.0)
    assert [len(hypotheses[0].ids) for hypotheses in found] == [3, 0, 6]


def test_finished_sentences_leave_the_batch() -> None:
    n_rows = []

    def step(last: Ints, parents: Ints) -> ArrayLogProbs:
        n_rows.append(len(last))
        log_probs = np.full((len(last), 4), -np.inf)
        log_probs[:, A] = -0.1
        log_probs[0, EOS] = -0.01 if len(n_rows) == 1 else -9.0
        return ArrayLogProbs(log_probs)

    greedy(step, max_lengths=[5, 0, 5])
    assert n_rows == [3, 1, 1, 1, 1, 1]


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_unlikely_ends_do_not_end_a_search_that_knows_better(alpha: float) -> None:
    # two end, with 0.1 and 0.9 · 0.1, while A B is alive with 0.9 · 0.8 and ends with 0.9 of that
    step = markov({BOS: [0, 0.1, 0.9, 0], A: [0, 0.1, 0.1, 0.8], B: [0, 0.9, 0.1, 0]})
    ((best,),) = beam(step, beam_size=2, length_penalty=alpha)
    assert best.ids == (A, B)
    assert math.exp(best.log_prob) == pytest.approx(0.9 * 0.8 * 0.9)


def test_search_stops_when_no_live_hypothesis_can_win() -> None:
    calls = []
    certain = markov({BOS: [0, 0.98, 0.02, 0], A: [0, 0.5, 0.5, 0]})

    def step(last: Ints, parents: Ints) -> LogProbs:
        calls.append(len(last))
        return certain(last, parents)

    ((hypothesis,),) = beam(step, max_lengths=[50], beam_size=4)
    assert hypothesis.ids == ()
    assert calls == [1]
    beam(step, max_lengths=[50], beam_size=4, n_best=2)
    assert len(calls) > 2


def test_search_goes_on_while_the_longest_possible_hypothesis_could_win() -> None:
    # ln 0.51 / 1 is less than ln 0.49 / (7/6), which only the length with eos shows.
    step = markov({BOS: [0, 0.51, 0.49, 0], A: [0, 1, 0, 0]})
    ((hypothesis,),) = beam(step, max_lengths=[1], beam_size=4, length_penalty=1.0)
    assert hypothesis.ids == (A,)


def test_n_best_is_shorter_where_fewer_sequences_are_possible() -> None:
    step = markov({BOS: [0, 0.5, 0.5, 0], A: [0, 1, 0, 0]})
    ((first, second),) = beam(step, beam_size=4, n_best=4, length_penalty=0.0)
    assert {first.ids, second.ids} == {(), (A,)}


def test_a_sentence_without_a_possible_token_ends_where_it_stands() -> None:
    step = markov({BOS: [0, 0, 1, 0], A: [0, 0, 0, 0]})
    expected = [[Hypothesis((A,), -math.inf, -math.inf)]]
    assert greedy(step) == expected
    assert beam(step, n_best=2) == expected


@pytest.mark.parametrize("search", [greedy, beam])
def test_nan_is_an_error_that_says_what_to_do_and_no_sentence_is_none(search: Callable[..., object]) -> None:
    assert search(markov({}), max_lengths=[]) == []

    def step(last: Ints, parents: Ints) -> ArrayLogProbs:
        return ArrayLogProbs(np.array([[0.0, -1.0, math.nan, -2.0]]))

    with pytest.raises(RunError, match=r"not numbers \(NaN\).*use an earlier checkpoint"):
        search(step)


@pytest.mark.usefixtures("both_steps")
@pytest.mark.parametrize(("n_columns", "k"), [(1, 1), (100, 5), (640, 3), (641, 4), (8000, 5), (8017, 6)])
def test_the_best_tokens_are_those_of_a_stable_sort(n_columns: int, k: int) -> None:
    """Values of few kinds, so that ties are everywhere: among groups, inside one, and at the edge."""
    drawn = np.random.default_rng(n_columns)
    for n_kinds in (3, 50, 10**6):
        log_probs = -drawn.integers(1, n_kinds, (20, n_columns)).astype(np.float32)
        values, tokens = ArrayLogProbs(log_probs).best(k)
        expected = np.argsort(-log_probs, axis=1, kind="stable")[:, :k]
        assert np.array_equal(tokens, expected)
        assert np.array_equal(values, np.take_along_axis(log_probs, expected, axis=1))
