"""Searches that somebody looks on at: nothing changes but what is given up."""

from collections.abc import Callable
from functools import partial

import pytest

from dragoman.decoding.beam import beam_search
from dragoman.decoding.hypotheses import Hypothesis, NextToken
from dragoman.decoding.log_probs import Ints, LogProbs
from dragoman.decoding.sampling import sample
from dragoman.decoding.search import greedy_search
from dragoman.decoding.wrappers import WatchedSearch
from tables import BOS, EOS, Stepper, Table

LENGTHS = [4, 2, 5, 3]
Search = Callable[..., list[list[Hypothesis]]]
SEARCHES: dict[str, Search] = {
    "greedy": greedy_search,
    "beam": partial(beam_search, beam_size=3, n_best=2),
    "diverse": partial(beam_search, beam_size=4, n_best=2, n_groups=2, diversity_penalty=0.5),
    "sampling": partial(sample, n_samples=2, seed=3, numbers=range(4), temperature=1.0, top_k=0, top_p=1.0),
}
every_search = pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)


class Watching:
    """A watcher that leaves after `patience` steps."""

    def __init__(self, patience: int = 1000) -> None:
        self.patience = patience
        self.n_calls = 0

    def __call__(self) -> bool:
        self.n_calls += 1
        return self.n_calls <= self.patience


class Counting:
    """A next-token function that remembers which sentences each of its calls was for."""

    def __init__(self, step: Stepper) -> None:
        self.step = step
        self.calls: list[set[int]] = []

    def __call__(self, last: Ints, parents: Ints) -> LogProbs:
        found = self.step(last, parents)
        self.calls.append({sentence for sentence, _ in self.step.rows})
        return found


def stepper() -> Stepper:
    return Stepper(Table(5, n_tokens=4), list(range(len(LENGTHS))))


def run(search: Search, step: NextToken) -> list[list[Hypothesis]]:
    return search(step, max_lengths=LENGTHS, bos_id=BOS, eos_id=EOS)


@every_search
def test_looking_on_changes_nothing(search: Search) -> None:
    watchers = {0: Watching(), 2: Watching()}
    counting = Counting(stepper())
    watched = WatchedSearch(counting, [watchers.get(i) for i in range(len(LENGTHS))], eos_id=EOS)
    assert run(search, watched) == run(search, stepper())
    for sentence, watcher in watchers.items():
        assert watcher.n_calls == sum(sentence in sentences for sentences in counting.calls)


@every_search
def test_what_nobody_waits_for_ends_at_the_next_step_and_leaves_the_others_alone(search: Search) -> None:
    alone = run(search, stepper())
    impatient = Watching(patience=1)
    counting = Counting(stepper())
    found = run(search, WatchedSearch(counting, [None, None, impatient, None], eos_id=EOS))
    others = [0, 1, 3]
    assert [found[i] for i in others] == [alone[i] for i in others]
    assert impatient.n_calls == 2
    assert not any(2 in sentences for sentences in counting.calls[2:])
