"""Sampling, diverse and constrained search, and wrapped steps, against enumeration on random tables."""

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dragoman.decoding.hypotheses import Hypothesis, NextToken, length_penalty
from dragoman.decoding.log_probs import ArrayLogProbs, Ints
from dragoman.decoding.phrases import ExactPhrase, Phrases
from dragoman.decoding.sampling import sample, truncated
from dragoman.decoding.wrappers import Coverage, Ensemble, ForcedPrefix, NoRepeatedNgrams
from tables import BOS, EOS, Stepper, Table, all_hypotheses, beam, greedy, max_lengths, seeds, tables

N_SOURCE = 3
"""Source tokens of a table that attends."""

alphas = st.sampled_from([0.0, 1.0, 2.0])
laws = settings(max_examples=25)


def search_all(step: NextToken, table: Table, *, max_length: int, alpha: float) -> list[Hypothesis]:
    """What a beam as wide as there are sequences finds for sentence 0, all of it."""
    n_sequences = sum((table.vocab_size - 2) ** length for length in range(max_length + 1))
    options = {"beam_size": n_sequences, "n_best": n_sequences, "length_penalty": alpha}
    return beam(step, max_lengths=[max_length], **options)[0]


def assert_same(found: Sequence[Hypothesis], expected: Sequence[Hypothesis]) -> None:
    """Both hold the same hypotheses; of none that is possible, one of log-probability -inf is found."""
    if not expected:
        assert [hypothesis.log_prob for hypothesis in found] == [-math.inf]
        return
    assert {h.ids for h in found} == {h.ids for h in expected}
    by_ids = {h.ids: h for h in expected}
    for hypothesis in found:
        assert hypothesis.log_prob == pytest.approx(by_ids[hypothesis.ids].log_prob, rel=1e-5)
        assert hypothesis.score == pytest.approx(by_ids[hypothesis.ids].score, rel=1e-5)


# What a step is wrapped in


@laws
@given(seeds, st.integers(1, 3), st.lists(st.integers(2, 4), max_size=4), alphas)
def test_a_forced_prefix_leaves_exactly_the_sequences_that_begin_with_it(
    seed: int, n_tokens: int, prefix: list[int], alpha: float
) -> None:
    prefix = [min(token, n_tokens + 1) for token in prefix]
    table = Table(seed, n_tokens)
    step = ForcedPrefix(Stepper(table, [0]), [prefix])
    expected = [h for h in all_hypotheses(table, 0, 4, alpha) if list(h.ids[: len(prefix)]) == prefix]
    assert_same(search_all(step, table, max_length=4, alpha=alpha), expected)


def repeats(ids: Sequence[int], n: int, exempt: Sequence[int]) -> bool:
    """An n-gram stands in `ids` twice, the later one with an end that may not be repeated."""
    ngrams = [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]
    return any(ngram in ngrams[:i] and ngram[-1] not in exempt for i, ngram in enumerate(ngrams))


@laws
@given(seeds, st.integers(1, 3), st.integers(1, 3), st.sets(st.integers(2, 4), max_size=1), alphas)
def test_blocking_leaves_exactly_the_sequences_without_a_repeated_ngram(
    seed: int, n_tokens: int, n: int, exempt: set[int], alpha: float
) -> None:
    table, exempt = Table(seed, n_tokens), {min(token, n_tokens + 1) for token in exempt}
    step = NoRepeatedNgrams(Stepper(table, [0]), n, exempt=[exempt])
    expected = [h for h in all_hypotheses(table, 0, 4, alpha) if not repeats(h.ids, n, list(exempt))]
    assert_same(search_all(step, table, max_length=4, alpha=alpha), expected)


def test_a_prefix_that_repeats_itself_goes_before_blocking() -> None:
    table = Table(1, 3)
    step = NoRepeatedNgrams(ForcedPrefix(Stepper(table, [0]), [[2, 2, 2]]), 1, exempt=[()])
    found = search_all(step, table, max_length=5, alpha=1.0)
    assert found
    assert all(h.ids[:3] == (2, 2, 2) for h in found)
    assert all(not repeats(h.ids[2:], 1, ()) for h in found)


@laws
@given(seeds, st.integers(1, 4), st.integers(0, 3), alphas, st.sampled_from([0.0, 0.5]))
def test_an_ensemble_searches_the_mean_of_the_probabilities(
    seed: int, n_models: int, max_length: int, alpha: float, forbidden: float
) -> None:
    members = [Table(seed + i, 2, forbidden=forbidden) for i in range(n_models)]

    class Mean(Table):
        def __call__(self, sentence: int, prefix: tuple[int, ...]) -> np.ndarray:
            mean = np.mean([np.exp(member(sentence, prefix).astype(float)) for member in members], axis=0)
            with np.errstate(divide="ignore"):
                return np.log(mean).astype(np.float32)

    table = Mean(seed, 2)
    step = Ensemble([Stepper(member, [0]) for member in members])
    expected = all_hypotheses(table, 0, max_length, alpha)
    assert_same(search_all(step, table, max_length=max_length, alpha=alpha), expected)


class AttendingStepper(Stepper):
    """A stepper with random attention for each sentence and prefix."""

    @property
    def attention(self) -> np.ndarray:
        return np.stack([self.look(*row) for row in self.rows]).astype(np.float32)

    def look(self, sentence: int, prefix: tuple[int, ...]) -> np.ndarray:
        random = np.random.default_rng([self.table.seed, 99, sentence, *prefix])
        return random.dirichlet([0.3] * N_SOURCE)


def coverage_term(
    steppers: Sequence[AttendingStepper], ids: tuple[int, ...], counted: int, beta: float, sentence: int = 0
) -> float:
    """Equation 14 for a sequence, from its definition; an attention of 0 is fp32's smallest number."""
    sums = sum(
        np.mean([stepper.look(sentence, ids[:t]) for stepper in steppers], axis=0)
        for t in range(len(ids) + 1)
    )
    return beta * sum(math.log(min(max(a, 2.0**-126), 1.0)) for a in sums[:counted])


@laws
@given(
    seeds, st.integers(1, 3), st.integers(0, 3), alphas, st.sampled_from([0.2, 3.0]),
    st.integers(1, N_SOURCE), st.integers(1, 2), st.integers(1, 3),
)  # fmt: skip
def test_a_wide_beam_with_a_coverage_penalty_finds_the_best_by_equation_14(
    seed: int, n_tokens: int, max_length: int, alpha: float, beta: float, counted: int, n_models: int,
    n_best: int,
) -> None:  # fmt: skip
    table = Table(seed, n_tokens)
    steppers = [AttendingStepper(table, [0]) for _ in range(n_models)]
    mask = np.arange(N_SOURCE)[None] < counted
    coverage = Coverage(Ensemble(steppers), beta=beta, counted=mask)
    n_sequences = sum(n_tokens**length for length in range(max_length + 1))
    (found,) = beam(
        coverage, max_lengths=[max_length], beam_size=max(n_best, n_sequences), n_best=n_best,
        length_penalty=alpha, score_term=coverage.penalty,
    )  # fmt: skip
    every = [
        h._replace(score=h.score + coverage_term(steppers, h.ids, counted, beta))
        for h in all_hypotheses(table, 0, max_length, alpha)
    ]
    expected = sorted(every, key=lambda h: -h.score)[:n_best]
    assert [h.ids for h in found] == [h.ids for h in expected]
    assert [h.score for h in found] == pytest.approx([h.score for h in expected], rel=1e-4)
    assert [h.log_prob for h in found] == pytest.approx([h.log_prob for h in expected], rel=1e-4)


@laws
@given(seeds, max_lengths, st.integers(1, 4), alphas, st.sampled_from(["beam", "diverse", "constrained"]))
def test_scores_of_every_beam_hold_the_coverage_of_their_own_sequence(
    seed: int, limits: list[int], beam_size: int, alpha: float, method: str
) -> None:
    table, beta = Table(seed, 4), 0.5
    stepper = AttendingStepper(table, list(range(len(limits))))
    counted = np.ones((len(limits), N_SOURCE), np.bool_)
    step = Coverage(stepper, beta=beta, counted=counted)
    options = {
        "beam": {"beam_size": beam_size},
        "diverse": {"beam_size": 2 * beam_size, "n_groups": 2, "diversity_penalty": 1.0},
        "constrained": {
            "beam_size": beam_size, "phrases": [required([[3]] if limit else []) for limit in limits],
        },
    }[method]  # fmt: skip
    found = beam(
        step, max_lengths=limits, n_best=beam_size, length_penalty=alpha, score_term=step.penalty, **options
    )
    for i, hypotheses in enumerate(found):
        for ids, log_prob, score in hypotheses:
            term = coverage_term([stepper], ids, N_SOURCE, beta, i)
            expected = log_prob / length_penalty(len(ids) + 1, alpha) + term
            assert score == pytest.approx(expected, rel=1e-4)


# Diverse beam search


def diverse_in_plain_loops(
    table: Table, *, max_length: int, width: int, n_groups: int, penalty: float, alpha: float, n_best: int
) -> dict[tuple[int, ...], float]:
    """The definition of beam_search for sentence 0, in plain loops: all that its groups finish."""
    live = {g: [((), 0.0)] for g in range(n_groups)}
    finished: dict[int, list[Hypothesis]] = {g: [] for g in range(n_groups)}
    for t in itertools.count():
        taken: list[int] = []
        for g in [g for g in range(n_groups) if live[g]]:
            candidates = []
            for prefix, total in live[g]:
                log_probs = table(0, prefix).tolist()
                for token in [EOS] if t == max_length else range(table.vocab_size):
                    rank = total + log_probs[token] - penalty * taken.count(token)
                    candidates.append((rank, prefix, token, total + log_probs[token]))
            ranked = sorted((c for c in candidates if c[0] > -math.inf), key=lambda c: -c[0])
            for _, prefix, token, total in ranked[:width]:
                if token == EOS:
                    score = total / length_penalty(t + 1, alpha)
                    finished[g].append(Hypothesis(prefix, total, score))
            live[g] = [((*p, token), total) for _, p, token, total in ranked if token != EOS][:width]
            best = sorted((h.score for h in finished[g]), reverse=True)
            wanted = min(n_best, width)
            reachable = max((total for _, total in live[g]), default=-math.inf)
            least = best[wanted - 1] if len(best) >= wanted else -math.inf
            enough = len(best) >= width
            enough &= width == 1 or reachable / length_penalty(t + 2, alpha) <= least
            if enough or reachable / length_penalty(max_length + 1, alpha) <= least:
                live[g] = []
            taken += [prefix[-1] for prefix, _ in live[g]]
        if not any(live.values()):
            return {h.ids: h.log_prob for group in finished.values() for h in group}
    raise AssertionError


@laws
@given(seeds, st.integers(2, 4), st.integers(0, 4), st.integers(1, 3), st.integers(1, 3), alphas, st.data())
def test_diverse_search_is_its_definition_in_plain_loops(
    seed: int, n_tokens: int, max_length: int, width: int, n_groups: int, alpha: float, data: st.DataObject
) -> None:
    table = Table(seed, n_tokens)
    n_best = data.draw(st.integers(1, width * n_groups))
    penalty = data.draw(st.sampled_from([0.0, 0.5, 2.0, 100.0]))
    options = {"max_length": max_length, "width": width, "n_groups": n_groups, "penalty": penalty}
    every = diverse_in_plain_loops(table, alpha=alpha, n_best=n_best, **options)
    expected = sorted(
        (Hypothesis(ids, total, total / length_penalty(len(ids) + 1, alpha)) for ids, total in every.items()),
        key=lambda h: -h.score,
    )
    (found,) = beam(
        table, [0], max_lengths=[max_length], beam_size=width * n_groups, n_groups=n_groups,
        diversity_penalty=penalty, length_penalty=alpha, n_best=n_best,
    )  # fmt: skip
    assert [h.ids for h in found] == [h.ids for h in expected[:n_best]]
    assert [h.log_prob for h in found] == pytest.approx([h.log_prob for h in expected[:n_best]])


@laws
@given(tables, max_lengths, alphas, st.sampled_from([0.0, 0.7]))
def test_diverse_search_of_a_batch_is_that_of_its_sentences(
    table: Table, limits: list[int], alpha: float, penalty: float
) -> None:
    options = {"beam_size": 4, "n_groups": 2, "n_best": 3, "diversity_penalty": penalty}
    options["length_penalty"] = alpha
    together = beam(table, list(range(len(limits))), max_lengths=limits, **options)
    assert together == [beam(table, [i], max_lengths=[n], **options)[0] for i, n in enumerate(limits)]
    for hypotheses in together:
        assert len({h.ids for h in hypotheses}) == len(hypotheses)


@laws
@given(seeds, st.integers(1, 4))
def test_a_large_penalty_makes_groups_begin_with_different_tokens(seed: int, n_groups: int) -> None:
    table = Table(seed, 5)
    options = {"max_lengths": [3], "beam_size": n_groups, "n_groups": n_groups, "diversity_penalty": 1e6}
    (found,) = beam(table, [0], n_best=n_groups, **options)
    begun = [h.ids[0] for h in found if h.ids]
    assert len(set(begun)) == len(begun)


# Phrases, and searches that must write them


phrase_lists = st.lists(st.lists(st.integers(2, 4), min_size=1, max_size=3), min_size=0, max_size=3)
continuing_sets = st.sets(st.integers(2, 4), max_size=2)


def required(phrases: Sequence[Sequence[int]], continuing: Collection[int] = ()) -> Phrases:
    return Phrases([ExactPhrase(tuple(phrase)) for phrase in phrases], continuing=continuing)


def holds(ids: Sequence[int], phrase: Sequence[int], continuing: set[int]) -> bool:
    """The phrase stands in `ids`, and no token that continues a word stands behind it."""
    n = len(phrase)
    return any(
        list(ids[i : i + n]) == list(phrase) and (i + n == len(ids) or ids[i + n] not in continuing)
        for i in range(len(ids) - n + 1)
    )


def holds_all(ids: Sequence[int], phrases: list[list[int]], continuing: set[int]) -> bool:
    if any(phrase[0] in continuing for phrase in phrases):
        continuing = set()
    return all(holds(ids, phrase, continuing) for phrase in phrases)


@settings(max_examples=300)
@given(phrase_lists, continuing_sets, st.lists(st.integers(2, 5), max_size=8))
def test_the_automaton_is_satisfied_where_every_phrase_occurs(
    phrases: list[list[int]], continuing: set[int], ids: list[int]
) -> None:
    automaton = required(phrases, continuing)
    state = Phrases.start
    for token in ids:
        state = automaton.follow(state, token)
    assert automaton.satisfied(state) == holds_all(ids, phrases, continuing)
    assert (automaton.need(state) == 0) == automaton.satisfied(state)
    n_steps = 0
    while not automaton.satisfied(state):
        before = automaton.need(state)
        state = automaton.follow(state, automaton.advancing(state)[0])
        assert automaton.need(state) < before, "every advancing token is a step ahead"
        n_steps += 1
    assert n_steps <= sum(map(len, phrases))


@laws
@given(tables, max_lengths, st.integers(1, 5), alphas, st.data())
def test_a_search_in_one_group_and_one_for_no_phrases_are_beam_search(
    table: Table, limits: list[int], beam_size: int, alpha: float, data: st.DataObject
) -> None:
    sentences = list(range(len(limits)))
    options = {"max_lengths": limits, "beam_size": beam_size, "length_penalty": alpha,
               "n_best": data.draw(st.integers(1, beam_size))}  # fmt: skip
    found = beam(table, sentences, **options)
    assert beam(table, sentences, n_groups=1, diversity_penalty=0.5, **options) == found
    assert beam(table, sentences, phrases=[required([])] * len(limits), **options) == found


@laws
@given(seeds, st.integers(1, 3), phrase_lists, continuing_sets, alphas, st.integers(1, 4), st.integers(0, 2))
def test_a_wide_beam_finds_the_best_sequences_that_satisfy(
    seed: int, n_tokens: int, phrases: list[list[int]], continuing: set[int], alpha: float, n_best: int,
    room: int,
) -> None:  # fmt: skip
    phrases = [[min(token, n_tokens + 1) for token in phrase] for phrase in phrases]
    table = Table(seed, n_tokens)
    automaton = required(phrases, continuing)
    max_length = automaton.need(Phrases.start) + room
    assume(max_length <= 5)
    n_sequences = sum(n_tokens**length for length in range(max_length + 1))
    (found,) = beam(
        table, [0], phrases=[automaton], max_lengths=[max_length], beam_size=max(n_sequences, n_best),
        length_penalty=alpha, n_best=n_best,
    )  # fmt: skip
    every = all_hypotheses(table, 0, max_length, alpha)
    satisfying = [h for h in every if holds_all(h.ids, phrases, continuing)]
    fitting = [h for h in satisfying if leaves_room(automaton, h.ids, max_length)]
    assert found == fitting[:n_best]
    tokens = [token for phrase in phrases for token in phrase]
    if len(set(tokens)) == len(tokens):  # no phrase can share a token with another
        assert fitting == satisfying


def leaves_room(automaton: Phrases, ids: Sequence[int], max_length: int) -> bool:
    """Wherever `ids` is broken off, the phrases that are missing still fit, one after the other."""
    state = Phrases.start
    for t, token in enumerate(ids, start=1):
        state = automaton.follow(state, token)
        if t + automaton.need(state) > max_length:
            return False
    return True


batches = st.lists(st.tuples(phrase_lists, st.integers(0, 3)), min_size=1, max_size=4)


@laws
@given(seeds, batches, continuing_sets, st.integers(1, 6), alphas)
def test_every_hypothesis_satisfies_its_phrases_and_a_batch_is_searched_like_its_sentences(
    seed: int, batch: list[tuple[list[list[int]], int]], continuing: set[int], beam_size: int, alpha: float
) -> None:
    table = Table(seed, 6)
    automata = [required(phrases, continuing) for phrases, _ in batch]
    limits = [a.need(Phrases.start) + room for a, (_, room) in zip(automata, batch, strict=True)]
    options = {"beam_size": beam_size, "n_best": beam_size, "length_penalty": alpha}
    together = beam(table, list(range(len(batch))), phrases=automata, max_lengths=limits, **options)
    for i, hypotheses in enumerate(together):
        assert all(h.log_prob > -math.inf for h in hypotheses)
        for ids, log_prob, score in hypotheses:
            assert holds_all(ids, batch[i][0], continuing)
            assert len(ids) <= limits[i]
            assert log_prob == table.log_prob(i, ids)
            assert score == log_prob / length_penalty(len(ids) + 1, alpha)
        alone = beam(table, [i], phrases=[automata[i]], max_lengths=[limits[i]], **options)
        assert hypotheses == alone[0]


@laws
@given(seeds, phrase_lists, st.integers(1, 3), st.integers(1, 3))
def test_phrases_are_written_behind_a_prefix_and_with_blocked_ngrams(
    seed: int, phrases: list[list[int]], n: int, beam_size: int
) -> None:
    table, prefix = Table(seed, 5), [2, 5, 2]
    automaton = required(phrases)
    step: NextToken = ForcedPrefix(Stepper(table, [0]), [prefix])
    step = NoRepeatedNgrams(step, n, exempt=[{token for phrase in phrases for token in phrase}])
    limit = len(prefix) + automaton.need(Phrases.start)
    (found,) = beam(step, phrases=[automaton], max_lengths=[limit], beam_size=beam_size)
    for hypothesis in found:
        assert hypothesis.log_prob > -math.inf
        assert list(hypothesis.ids[:3]) == prefix
        assert holds_all(hypothesis.ids, phrases, set())


def test_phrases_that_are_impossible_end_with_a_log_probability_of_minus_infinity() -> None:
    def step(last: Ints, parents: Ints) -> ArrayLogProbs:
        return ArrayLogProbs(np.array([[-math.inf, -0.7, -0.7, -math.inf]] * len(last)))

    ((found,),) = beam(step, phrases=[required([[3]])], max_lengths=[3], beam_size=2)
    assert found.log_prob == -math.inf


# Sampling


def draw(table: Table, sentences: list[int], **options: object) -> list[list[Hypothesis]]:
    options = {"numbers": sentences, "seed": 1, **options}
    return sample(Stepper(table, sentences), bos_id=BOS, eos_id=EOS, **options)


def shaped(log_probs: np.ndarray, temperature: float, top_k: int, top_p: float) -> dict[int, float]:
    """The distribution that tokens are drawn from, by the definitions of its parts."""
    weights = {i: math.exp(x / temperature) for i, x in enumerate(log_probs.tolist()) if x > -math.inf}
    ranked = sorted(weights, key=lambda i: -weights[i])[: top_k or None]
    total = sum(weights[i] for i in ranked)
    nucleus: dict[int, float] = {}
    held = 0.0
    for i in ranked:
        if held < top_p * total or top_p == 1:
            nucleus[i] = weights[i]
            held += weights[i]
    return {i: weight / held for i, weight in nucleus.items()}


def probabilities(table: Table, max_length: int, shape: Callable[[np.ndarray], dict[int, float]]) -> Iterator:
    """Every sequence of sentence 0, and the probability of drawing it."""

    def walk(prefix: tuple[int, ...], p: float) -> Iterator[tuple[tuple[int, ...], float]]:
        if len(prefix) == max_length:
            yield prefix, p
            return
        for token, share in shape(table(0, prefix)).items():
            if token == EOS:
                yield prefix, p * share
            else:
                yield from walk((*prefix, token), p * share)

    return walk((), 1.0)


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1.0, 0, 1.0), (0.5, 0, 1.0), (2.0, 0, 1.0), (1.0, 2, 1.0), (1.0, 0, 0.6), (1.5, 3, 0.8)],
)
def test_samples_are_as_frequent_as_the_distribution_says(
    temperature: float, top_k: int, top_p: float
) -> None:
    """Hoeffding: a frequency is off by more than d with probability 2 exp(-2 n d²) at most, here 1e-9."""
    n = 10_000
    table = Table(3, 3)
    (found,) = draw(
        table, [0], max_lengths=[2], n_samples=n, temperature=temperature, top_k=top_k, top_p=top_p
    )
    expected = dict(probabilities(table, 2, lambda x: shaped(x, temperature, top_k, top_p)))
    assert sum(expected.values()) == pytest.approx(1)
    assert {h.ids for h in found} <= expected.keys()
    bound = math.sqrt(math.log(2 / 1e-9) / (2 * n))
    for ids, p in expected.items():
        assert abs(sum(h.ids == ids for h in found) / n - p) <= bound


@laws
@given(tables, max_lengths, alphas)
def test_drawing_from_the_best_token_alone_is_greedy(table: Table, limits: list[int], alpha: float) -> None:
    sentences = list(range(len(limits)))
    options = {"max_lengths": limits, "length_penalty": alpha}
    best = greedy(table, sentences, **options)
    assert draw(table, sentences, top_k=1, seed=table.seed, **options) == best
    assert draw(table, sentences, top_p=1e-9, seed=table.seed, **options) == best


@laws
@given(tables, max_lengths, st.integers(1, 3), seeds)
def test_what_is_drawn_depends_on_seed_and_number_and_not_on_the_batch(
    table: Table, limits: list[int], n_samples: int, seed: int
) -> None:
    options = {"seed": seed, "top_p": 0.9}
    together = draw(table, list(range(len(limits))), max_lengths=limits, n_samples=n_samples, **options)
    for i, limit in enumerate(limits):
        (alone,) = draw(table, [i], max_lengths=[limit], n_samples=n_samples, **options)
        assert together[i] == alone
        (more,) = draw(table, [i], max_lengths=[limit], n_samples=n_samples + 2, **options)
        for hypothesis in (h for h in alone if h.log_prob > -math.inf):
            assert more.count(hypothesis) >= alone.count(hypothesis)


def test_another_seed_or_number_draws_other_samples() -> None:
    table = Table(5, 6)
    drawn = {
        tuple(draw(table, [0], numbers=[number], seed=seed, max_lengths=[8])[0])
        for number in range(3)
        for seed in range(3)
    }
    assert len(drawn) > 1


@laws
@given(tables, max_lengths, alphas, st.sampled_from([0.5, 1.0, 3.0]), st.integers(0, 2))
def test_the_log_probability_of_a_sample_is_the_models_own(
    table: Table, limits: list[int], alpha: float, temperature: float, top_k: int
) -> None:
    options = {"temperature": temperature, "top_k": top_k, "length_penalty": alpha, "n_samples": 3}
    found = draw(table, list(range(len(limits))), max_lengths=limits, **options)
    for i, hypotheses in enumerate(found):
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
        for ids, log_prob, score in hypotheses:
            assert len(ids) <= limits[i]
            assert log_prob in (table.log_prob(i, ids), -math.inf)
            assert score == log_prob / length_penalty(len(ids) + 1, alpha)


@laws
@given(
    seeds,
    st.sampled_from([0.3, 0.9, 0.99, 1.0]),
    st.sampled_from([0, 5, 400]),
    st.sampled_from([0.5, 1.0, 9.0]),
)
def test_weights_are_those_of_the_definitions_for_narrow_and_wide_nuclei(
    seed: int, top_p: float, top_k: int, temperature: float
) -> None:
    """In rows whose distributions are peaked and flat."""
    logits = np.random.default_rng(seed).normal(size=(4, 512)) * [[0.1], [1.0], [5.0], [0.0]]
    log_probs = (logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))).astype(np.float32)
    weights = truncated(log_probs, temperature=temperature, top_k=top_k, top_p=top_p)
    shares = weights / weights.sum(axis=1, keepdims=True)
    for row, found in zip(log_probs, shares.tolist(), strict=True):
        expected = shaped(row, temperature, top_k, top_p)
        n_different = len({i for i, p in enumerate(found) if p} ^ expected.keys())
        assert n_different <= 1, "one at the edge may fall to either side by rounding"
        if not n_different:
            assert [found[i] for i in expected] == pytest.approx(list(expected.values()), rel=1e-4)
