"""Greedy and beam search against brute force and against themselves, on random tables."""

import itertools
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.decoding.hypotheses import Hypothesis, length_penalty
from tables import EOS, Table, all_hypotheses, beam, greedy, max_lengths, seeds, tables


def beam_in_plain_loops(
    table: Table, sentence: int, *, max_length: int, beam_size: int, alpha: float, n_best: int
) -> list[Hypothesis]:
    """The definition of beam_search for one sentence, without a tensor."""
    live: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    finished: list[Hypothesis] = []
    for n_tokens in itertools.count():
        candidates = []
        for prefix, log_prob in live:
            log_probs = table(sentence, prefix).tolist()
            tokens = [EOS] if n_tokens == max_length else range(table.vocab_size)
            candidates += [(prefix, token, log_prob + log_probs[token]) for token in tokens]
        ranked = sorted(candidates, key=lambda candidate: -candidate[2])
        if ranked[0][2] == -math.inf:
            finished.append(Hypothesis(live[0][0], -math.inf, -math.inf))
        possible = [candidate for candidate in ranked if candidate[2] > -math.inf]
        for prefix, token, log_prob in possible[:beam_size]:
            if token == EOS:
                penalty = length_penalty(n_tokens + 1, alpha)
                finished.append(Hypothesis(prefix, log_prob, log_prob / penalty))
        finished.sort(key=lambda hypothesis: -hypothesis.score)
        living = [((*prefix, token), total) for prefix, token, total in possible if token != EOS]
        live = living[:beam_size]
        if not live or len(finished) >= beam_size == 1:
            break
        # n_tokens + 1 tokens are alive; the soonest end comes with one more
        longest = n_tokens + 2 if len(finished) >= beam_size else max_length + 1
        reachable = live[0][1] / length_penalty(longest, alpha)
        if len(finished) >= n_best and reachable <= finished[n_best - 1].score:
            break
    possible_ones = [hypothesis for hypothesis in finished if hypothesis.log_prob > -math.inf]
    return (possible_ones or finished[:1])[:n_best]


alphas = st.sampled_from([0.0, 0.6, 1.0, 2.0])
laws = settings(max_examples=60)


@laws
@given(seeds, st.integers(1, 3), st.integers(0, 3), alphas, st.integers(1, 6), st.sampled_from([0.0, 0.3]))
def test_a_beam_as_wide_as_there_are_sequences_finds_the_best_of_all(
    seed: int, n_tokens: int, max_length: int, alpha: float, n_best: int, forbidden: float
) -> None:
    table = Table(seed, n_tokens, forbidden=forbidden)
    n_sequences = sum(n_tokens**length for length in range(max_length + 1))
    options = {"max_lengths": [max_length], "beam_size": max(n_sequences, n_best), "n_best": n_best}
    (found,) = beam(table, [0], length_penalty=alpha, **options)
    expected = all_hypotheses(table, 0, max_length, alpha)[:n_best]
    if expected:
        assert found == expected
    else:
        assert [hypothesis.log_prob for hypothesis in found] == [-math.inf]


@laws
@given(tables, max_lengths, st.integers(1, 5), alphas, st.data())
def test_beam_search_is_its_definition_in_plain_loops(
    table: Table, limits: list[int], beam_size: int, alpha: float, data: st.DataObject
) -> None:
    options = {"beam_size": beam_size, "n_best": data.draw(st.integers(1, beam_size))}
    found = beam(table, list(range(len(limits))), max_lengths=limits, length_penalty=alpha, **options)
    assert found == [
        beam_in_plain_loops(table, i, max_length=limit, alpha=alpha, **options)
        for i, limit in enumerate(limits)
    ]


@laws
@given(tables, max_lengths, alphas)
def test_a_beam_of_one_is_greedy(table: Table, limits: list[int], alpha: float) -> None:
    sentences = list(range(len(limits)))
    options = {"max_lengths": limits, "length_penalty": alpha}
    assert beam(table, sentences, beam_size=1, **options) == greedy(table, sentences, **options)


@laws
@given(tables, max_lengths)
def test_greedy_takes_the_most_probable_token_each_time(table: Table, limits: list[int]) -> None:
    found = greedy(table, list(range(len(limits))), max_lengths=limits)
    for i, ((ids, log_prob, _),) in enumerate(found):
        total = 0.0
        for t, token in enumerate((*ids, EOS)):
            log_probs = table(i, ids[:t])
            if t < limits[i] and log_prob > -math.inf:
                assert token == log_probs.argmax()
            total += float(log_probs[token])
        assert total == log_prob


@laws
@given(tables, max_lengths, st.integers(1, 5), alphas)
def test_a_batch_is_searched_like_its_sentences_one_by_one(
    table: Table, limits: list[int], beam_size: int, alpha: float
) -> None:
    options = {"beam_size": beam_size, "n_best": beam_size, "length_penalty": alpha}
    together = beam(table, list(range(len(limits))), max_lengths=limits, **options)
    alone = [beam(table, [i], max_lengths=[limit], **options)[0] for i, limit in enumerate(limits)]
    assert together == alone

    together = greedy(table, list(range(len(limits))), max_lengths=limits)
    assert together == [greedy(table, [i], max_lengths=[limit])[0] for i, limit in enumerate(limits)]


@laws
@given(tables, max_lengths, st.integers(1, 5), alphas)
def test_log_prob_and_score_are_those_of_the_ids_and_no_forbidden_token_is_among_them(
    table: Table, limits: list[int], beam_size: int, alpha: float
) -> None:
    options = {"beam_size": beam_size, "n_best": beam_size, "length_penalty": alpha}
    found = beam(table, list(range(len(limits))), max_lengths=limits, **options)
    for i, hypotheses in enumerate(found):
        assert len(hypotheses) == 1 or all(hypothesis.log_prob > -math.inf for hypothesis in hypotheses)
        assert 1 <= len(hypotheses) <= beam_size
        assert len({hypothesis.ids for hypothesis in hypotheses}) == len(hypotheses)
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert scores == sorted(scores, reverse=True)
        for ids, log_prob, score in hypotheses:
            assert len(ids) <= limits[i]
            assert EOS not in ids
            assert all(table(i, ids[:t])[token] > -math.inf for t, token in enumerate(ids))
            assert log_prob in (table.log_prob(i, ids), -math.inf)
            assert score == log_prob / length_penalty(len(ids) + 1, alpha)
