"""What requests ask for is worked on together: who is served when, and what becomes of whom has left."""

import asyncio
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from dragoman.decoding.phrases import ExactPhrase
from dragoman.predict.engine import SearchInput, longest_translation
from dragoman.predict.flow import searched
from dragoman.predict.results import Translation
from dragoman.predict.threads import WORTH_A_THREAD
from dragoman.predict.translator import Translator
from dragoman.serving import batching
from dragoman.serving.batching import SIMILAR, Batcher, Client, GoneError
from flows import results_of
from waiting import LONGEST

TEXTS = ["red cat", "big old house", "", "small bird river tree", "blue dog", "old tree"]


class Gate:
    """Work that waits until it is let go, and remembers its batches."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.begun = threading.Event()
        self.batches: list[list[object]] = []

    def __call__(self, items: Sequence[object]) -> list[object]:
        self.batches.append(list(items))
        self.begun.set()
        assert self.open.wait(LONGEST)
        return list(items)


@contextmanager
def batcher(n_threads: int = 1, max_items: int = 100, max_tokens: int = 10_000) -> Iterator[Batcher]:
    made = Batcher(n_threads=n_threads, max_items=max_items, max_tokens=max_tokens)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def blocked(made: Batcher) -> Iterator[Gate]:
    """A thread of `made` is busy from before this is entered until it is left; all is done then."""
    gate = Gate()
    (block,) = made.submit(gate, ["block"], [1], Client(made))
    assert gate.begun.wait(LONGEST)
    try:
        yield gate
    finally:
        gate.open.set()
    block.result(LONGEST)


def all_of(*results: Iterable[Future[Any]]) -> list[Any]:
    """What was submitted came to, once it is done."""
    return [each.result(LONGEST) for submitted in results for each in submitted]


def batches_of(submitted: list[tuple[str, list[int]]], **limits: int) -> list[list[str]]:
    """The batches that one thread makes of what clients submitted, in this order, while it was busy.

    A client submits items of these costs; its items are called by its name and their costs.
    """
    with batcher(**limits) as made:
        with blocked(made) as work:
            results = [
                made.submit(work, [f"{name}{cost}" for cost in costs], costs, Client(made))
                for name, costs in submitted
            ]
        all_of(*results)
    return [[str(item) for item in batch] for batch in work.batches[1:]]


def test_results_come_in_the_order_of_the_items() -> None:
    with batcher(n_threads=2, max_items=3) as made:
        found = results_of(Client(made), lambda items: [10 * x for x in items], list(range(50)), [1] * 50)
        assert found == [10 * x for x in range(50)]


def test_what_waits_is_put_together() -> None:
    assert batches_of([("a", [5]), ("b", [5]), ("c", [5])]) == [["a5", "b5", "c5"]]


def test_a_batch_holds_what_is_of_similar_length() -> None:
    near, far = 5 + SIMILAR, 5 + SIMILAR + 1
    assert batches_of([("a", [5]), ("b", [near]), ("c", [far])]) == [["a5", f"b{near}"], [f"c{far}"]]
    assert batches_of([("a", [40]), ("b", [80]), ("c", [81])]) == [["a40", "b80"], ["c81"]]


def test_a_batch_is_bounded_in_items_and_in_tokens_with_padding() -> None:
    assert [len(batch) for batch in batches_of([("a", [5] * 7)], max_items=3)] == [3, 3, 1]
    assert [len(batch) for batch in batches_of([("a", [5] * 7)], max_tokens=10)] == [2, 2, 2, 1]
    assert batches_of([("a", [50])], max_tokens=10) == [["a50"]], "one item is always worked on"


def test_a_small_request_does_not_wait_for_a_large_one() -> None:
    batches = batches_of([("book", [10] * 40), ("word", [3])], max_items=10)
    assert "word3" in batches[0]


def test_a_book_comes_to_its_end_among_words() -> None:
    """However many words keep coming, the book's turn comes: its waiting time grows, and theirs does not."""
    left = threading.Event()
    n_words = 0

    def slowly(items: Sequence[object]) -> list[object]:
        left.wait(0.002)
        return list(items)

    with batcher(max_items=1) as made:
        book = made.submit(slowly, list(range(5)), [50] * 5, Client(made))
        while not all(page.done() for page in book) and n_words < 5000:
            results_of(Client(made), slowly, ["word"], [1])
            n_words += 1
    assert n_words < 5000


def test_threads_share_what_is_worth_sharing() -> None:
    work = Gate()
    n_items = 2 * WORTH_A_THREAD
    with batcher(n_threads=2) as made:
        results = made.submit(work, list(range(n_items)), [5] * n_items, Client(made))
        while len(work.batches) < 2:
            assert work.begun.wait(LONGEST)
        work.open.set()
        assert all_of(results) == list(range(n_items))
    assert [len(batch) for batch in work.batches] == [WORTH_A_THREAD, WORTH_A_THREAD]


def test_clients_that_do_not_come_back_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with batcher() as made:
        results_of(Client(made), list, list(range(30)), [1] * 30)
        end = time.monotonic() + 2 * batching.RECENT
        while time.monotonic() < end:  # one of them does
            results_of(Client(made), list, [0], [1])
        monkeypatch.setattr(batching, "PAUSE", 60)
        monkeypatch.setattr(batching, "LONGEST_PAUSE", 60)
        all_of(made.submit(list, [0], [1], Client(made)))


def test_different_works_are_not_put_together() -> None:
    done: list[tuple[str, int]] = []
    works = {
        name: (lambda items, name=name: [done.append((name, len(items))) for _ in items]) for name in "ab"
    }
    with batcher() as made:
        with blocked(made):
            results = [made.submit(works[name], [0], [5], Client(made)) for name in "abab"]
        all_of(*results)
    assert sorted(set(done)) == [("a", 2), ("b", 2)]


@pytest.mark.parametrize(
    ("pause", "cost", "expected"),
    [(1e9, 1, ["first", "second"]), (0.0, 50, ["second", "first"]), (0.0, 51, ["first", "second"])],
    ids=["at first", "half as long", "longer"],
)
def test_a_search_gives_way_to_what_costs_half_of_it_after_its_first_seconds(
    monkeypatch: pytest.MonkeyPatch, pause: float, cost: int, expected: list[str]
) -> None:
    monkeypatch.setattr(batching, "LONG", pause)
    order: list[object] = []
    with batcher() as made:
        begun, submitted = threading.Event(), threading.Event()

        def search(items: Sequence[object]) -> list[object]:
            begun.set()
            assert submitted.wait(LONGEST)
            for _ in range(100):
                made.pause()
            order.extend(items)
            return list(items)

        first = made.submit(search, ["first"], [100], Client(made))
        assert begun.wait(LONGEST)
        second = made.submit(lambda items: [order.append(x) for x in items], ["second"], [cost], Client(made))
        submitted.set()
        all_of(first, second)
    assert order == expected


def test_what_interrupts_is_not_interrupted_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "LONG", 0.0)
    depths: list[int] = []
    with batcher(max_items=1) as made:
        depth = 0

        def nested(items: Sequence[object]) -> list[object]:
            nonlocal depth
            depth += 1
            depths.append(depth)
            for _ in range(10):
                made.pause()
            depth -= 1
            return list(items)

        with blocked(made):
            found = made.submit(nested, list(range(6)), [1] * 6, Client(made))
        all_of(found)
    assert max(depths) == 2


def test_a_batch_that_makes_no_progress_is_noticed() -> None:
    work = Gate()
    with batcher() as made:
        assert made.stuck_seconds == 0
        found = made.submit(work, ["a"], [1], Client(made))
        assert work.begun.wait(LONGEST)
        (turn,) = made._turns.values()
        turn.progress -= 100
        assert 100 <= made.stuck_seconds < 200
        work.open.set()
        found[0].result(LONGEST)
        with batcher(max_items=1) as other:
            begun = threading.Event()

            def search(items: Sequence[object]) -> list[object]:
                (turn,) = other._turns.values()
                turn.progress -= 100
                other.progress()
                begun.set()
                return list(items) if other.stuck_seconds < 100 else []

            assert other.submit(search, ["b"], [1], Client(other))[0].result(LONGEST) == "b"


def test_work_for_a_client_that_has_left_does_not_go_on() -> None:
    with batcher() as made:
        client = Client(made)
        client.go_on()
        client.leave()
        with pytest.raises(GoneError):
            client.go_on(3)


def test_an_error_reaches_its_request_and_the_threads_continue() -> None:
    def fail(_: Sequence[object]) -> list[object]:
        raise ValueError("broken")

    with batcher() as made:
        with pytest.raises(ValueError, match="broken"):
            results_of(Client(made), fail, [1], [1])
        assert results_of(Client(made), lambda _: [7], [None], [1]) == [7]


def test_what_a_client_that_left_waits_for_is_taken_out() -> None:
    with batcher() as made, ThreadPoolExecutor(1) as pool, blocked(made) as work:
        leaving = Client(made)
        waiting = pool.submit(results_of, leaving, work, ["a", "b"], [1, 1])
        while made.n_waiting < 2:
            pass
        leaving.leave()
        with pytest.raises(GoneError):
            waiting.result(LONGEST)
        assert made.n_waiting == 0
        with pytest.raises(GoneError):
            results_of(leaving, work, ["c"], [1])
    assert work.batches == [["block"]]


def test_closing_finishes_what_was_accepted_and_takes_nothing_more() -> None:
    made = Batcher(n_threads=1, max_items=1, max_tokens=100)
    results = made.submit(list, [1, 2, 3], [1, 1, 1], Client(made))
    made.close()
    assert all(result.done() for result in results)
    assert all_of(results) == [1, 2, 3]
    with pytest.raises(GoneError):
        results_of(Client(made), list, [1], [1])


def translate(
    translator: Translator, client: Client, texts: Sequence[str], first_number: int = 1, **settings: int
) -> list[Translation]:
    """Translate texts for a client of the batcher."""
    search = translator.config.search.changed(settings, where="test")
    flow = searched(translator, texts, search, first_number=first_number)
    return asyncio.run(client.finish(flow))


@pytest.mark.slow
@pytest.mark.parametrize("uninterrupted", [1.0, 0.0])
@pytest.mark.parametrize("settings", [{"beam_size": 1}, {"beam_size": 3, "n_best": 2}], ids=str)
def test_translations_are_the_same_whatever_is_translated_beside_them(
    translator: Translator, settings: dict[str, int], uninterrupted: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "LONG", uninterrupted)
    expected = translator.translate(TEXTS, **settings)
    with batcher(n_threads=2) as made, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: translate(translator, Client(made), TEXTS, **settings), range(16)))
    scores = [t.score for t in expected]
    for translations in found:
        assert [t.text for t in translations] == [t.text for t in expected]
        assert [t.score for t in translations] == pytest.approx(scores, rel=1e-4, abs=1e-6)


def test_required_phrases_make_a_sentence_cost_what_they_widen_its_beam_by(translator: Translator) -> None:
    with batcher() as made:
        engine = translator.engine
        phrases = [ExactPhrase((7, 8, 9)), ExactPhrase((10, 11)), ExactPhrase((10, 11))]
        settings = translator.config.search.model_copy(update={"beam_size": 2})
        for n_phrases, n_tokens in ((0, 0), (1, 3), (2, 5), (3, 5)):
            sentence = SearchInput([7] * 9, required=phrases[:n_phrases])
            assert made.cost(engine, sentence, settings) == 9 * (max(2, n_tokens + 1) // 2)
        longest = longest_translation(sentence, settings, limit=translator.max_positions - 1)
        made.max_required = 5 * 6 * longest
        made.cost(engine, sentence, settings)
        made.max_required -= 1
        with pytest.raises(batching.CostlyError, match=f"5 tokens .* × 6 hyp.* × {longest} tokens .* fewer"):
            made.cost(engine, sentence, settings)


def test_a_search_of_a_client_that_has_left_ends(translator: Translator) -> None:
    with batcher() as made:
        client = Client(made)
        n_steps = 0

        def leave() -> None:
            nonlocal n_steps
            n_steps += 1
            if n_steps == 2:
                client.leave()

        made.pause = leave  # type: ignore[method-assign]
        with pytest.raises(GoneError):
            translate(translator, client, ["cat " * 50], beam_size=1, max_length_extra=200)
    assert 2 <= n_steps <= 4
