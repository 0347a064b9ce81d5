"""What requests ask for at the same time is worked on together, a few threads for all of them.

Whose request waits long for how little it asks is served first (highest response ratio next, Brinch Hansen
1971): a word is not held up by a book, and the book comes to its end, too. A batch holds sentences of
similar length, so that a short one does not wait for a long one's end. A search that takes long, because its
model writes on and on, stops between two steps and lets short sentences go first.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, TypeVar

import torch

from dragoman.config import SearchConfig
from dragoman.decoding.hypotheses import Hypothesis
from dragoman.predict.engine import Engine, Sentence
from dragoman.predict.translator import WORTH_A_THREAD

Result = TypeVar("Result")
Work: TypeAlias = Callable[[Sequence[Any]], Sequence[Any]]
"""A result for each item. Items of equal works may be put together."""

SIMILAR = 32
"""Tokens by which the sentences of a batch may differ, if they are not within a factor of 2 of each other."""

PAUSE, LONGEST_PAUSE = 0.02, 0.1
"""Seconds that a thread waits for the next item of a batch; and for a batch in all."""

LONG = 1.0
"""Seconds in which a batch is not interrupted, at first and after each interruption."""

RECENT = 0.1
"""Seconds in which whoever got a result is expected to ask again, as a program does that has much to ask."""


class GoneError(Exception):
    """Nobody waits for the result any more."""


class Client:
    """Whoever waits for what a request asks for."""

    def __init__(self, batcher: Batcher, see: Callable[[int, Sequence[int]], None] | None = None) -> None:
        """`see` is shown the number of a sentence and its best hypothesis as it is being written."""
        self.gone = False
        """Whether it has left: then the searches for its sentences end."""
        self.see = see
        self.cost = 0
        """Tokens of all that it waits for."""
        self._batcher = batcher

    def results(self, work: Work, items: Sequence[Any], costs: Sequence[int]) -> list[Any]:
        """What `work` makes of each item, once it is there. `costs` are their tokens, or what compares.

        GoneError: the client has left, or the batcher is closed.
        """
        return [result.result() for result in self._batcher.submit(work, items, costs, self)]

    def run(self, function: Callable[[], Result], cost: int) -> Result:
        """What `function` returns, in one of the batcher's threads. GoneError as above."""
        found: Result = self.results(lambda _: [function()], [None], [cost])[0]
        return found

    def go_on(self, _: int = 0) -> None:
        """Called now and then by work that takes long. GoneError: there is no need to go on."""
        self._batcher.pause()
        if self.gone:
            raise GoneError

    def leave(self) -> None:
        """Ends what is done for this client, and frees the threads that wait for it."""
        self._batcher.forget(self)


class Watching(NamedTuple):
    """A client that waits for one of its sentences: a `dragoman.decoding.Watcher`."""

    client: Client
    number: int
    pause: Callable[[], None]
    """Called at every step of the search."""

    def wants(self) -> bool:
        self.pause()
        return not self.client.gone

    def see(self, ids: Sequence[int]) -> None:
        if self.client.see is not None:
            self.client.see(self.number, ids)


class _Waiting(NamedTuple):
    """An item that somebody waits for."""

    work: Work
    item: Any
    cost: int
    since: float
    client: Client
    result: Future[Any]


@dataclass
class _Turn:
    """A batch that a thread works on."""

    progress: float
    """When it last got on."""
    interrupted_from: float
    """When shorter items may interrupt it."""


class Batcher:
    """Threads that work on what clients submit."""

    def __init__(
        self,
        *,
        n_threads: int,
        max_items: int,
        max_tokens: int,
        note: Callable[[int], object] = lambda n_items: None,
    ) -> None:
        """Batches have so many items, and so many tokens with padding, at most. `close` ends the threads.

        `note` is told the size of every batch.
        """
        self.max_items, self.max_tokens = max_items, max_tokens
        self._note = note
        self._waiting: list[_Waiting] = []
        self._n_running = 0
        self._n_expected, self._expected_until = 0, 0.0
        """Items of finished batches for which none has come since: whose clients may ask again."""
        self._turns: dict[int, _Turn] = {}
        """By the numbers of the threads that work."""
        self._changed = threading.Condition()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work, name=f"batch-{i}", daemon=True) for i in range(n_threads)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def n_waiting(self) -> int:
        """Items that no thread has begun."""
        return len(self._waiting)

    @property
    def stuck_seconds(self) -> float:
        """How long ago the batch that has made no progress for longest got on; 0 if nothing is worked on."""
        now = time.monotonic()
        return max((now - turn.progress for turn in list(self._turns.values())), default=0.0)

    def progress(self) -> None:
        """Notes that the batch that this thread works on gets on."""
        if (turn := self._turns.get(threading.get_ident())) is not None:
            turn.progress = time.monotonic()

    def pause(self) -> None:
        """As `progress`; and if the batch takes long, works on short items first, in its place."""
        self.progress()
        turn = self._turns.get(threading.get_ident())
        if turn is None or turn.progress < turn.interrupted_from:
            return
        with self._changed:
            batch = self._take([each for each in self._waiting if each.cost <= SIMILAR], WORTH_A_THREAD)
            self._n_running += len(batch)
        if batch:
            self._carry_out(batch, interrupted_from=math.inf)  # it is short, and bounded like all searches
        turn.progress = time.monotonic()
        turn.interrupted_from = turn.progress + LONG

    def submit(
        self, work: Work, items: Sequence[Any], costs: Sequence[int], client: Client
    ) -> list[Future[Any]]:
        """What is going to be what `work` makes of each item: see `Client.results`."""
        now = time.monotonic()
        waiting = [
            _Waiting(work, item, max(cost, 1), now, client, Future())
            for item, cost in zip(items, costs, strict=True)
        ]
        with self._changed:
            if self._closed or client.gone:
                raise GoneError
            client.cost += sum(each.cost for each in waiting)
            self._waiting += waiting
            self._n_expected = max(0, self._n_expected - len(waiting))
            self._changed.notify(len(waiting))
        return [each.result for each in waiting]

    def forget(self, client: Client) -> None:
        """Takes out what `client` waits for, and ends the searches for it."""
        with self._changed:
            client.gone = True
            left = [each for each in self._waiting if each.client is client]
            self._waiting = [each for each in self._waiting if each.client is not client]
        for each in left:
            each.result.set_exception(GoneError())

    def close(self) -> None:
        """Ends the threads when they are done with what is there."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        torch.set_num_threads(1)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                self._gather()
                if not self._waiting:
                    if self._closed:
                        return
                    continue
                batch = self._take(self._waiting, max(self._share, WORTH_A_THREAD))
                self._n_running += len(batch)
            self._carry_out(batch, interrupted_from=time.monotonic() + LONG)

    @property
    def _share(self) -> int:
        """Items of a batch, if all threads have as many of those that are here or may come back at once.

        The clients of a batch that is done ask again one after the other. A thread that took the first of
        them alone would do much of its work in vain, for half a batch takes more than half as long; one that
        took all would leave nothing for the others.
        """
        n_expected = self._n_expected if time.monotonic() < self._expected_until else 0
        n_active = len(self._waiting) + self._n_running + n_expected
        return min(-(-n_active // len(self._threads)), self.max_items)

    def _gather(self) -> None:
        """Waits until there is a share of what may come, or until nothing more comes."""
        end = time.monotonic() + LONGEST_PAUSE
        n_before = 0
        while n_before < len(self._waiting) < self._share and not self._closed:
            n_before = len(self._waiting)
            if time.monotonic() >= end:
                return
            self._changed.wait(PAUSE)

    def _take(self, waiting: Sequence[_Waiting], n_items: int) -> list[_Waiting]:
        """The next `n_items` at most: what has waited longest for its cost, and what goes with it."""
        if not waiting:
            return []
        now = time.monotonic()
        urgent = sorted(waiting, key=lambda each: (each.since - now) / each.client.cost)
        first = urgent[0]
        like = [each for each in urgent if each.work == first.work and _are_similar(each.cost, first.cost)]
        batch: list[_Waiting] = []
        longest = 0
        for each in like[: min(n_items, self.max_items)]:
            longest = max(longest, each.cost)
            if batch and longest * (len(batch) + 1) > self.max_tokens:
                break
            batch.append(each)
        taken = set(map(id, batch))
        self._waiting = [each for each in self._waiting if id(each) not in taken]
        return sorted(batch, key=lambda each: each.cost)  # neighbours share their padding

    def _carry_out(self, batch: list[_Waiting], *, interrupted_from: float) -> None:
        results: Sequence[Any] = ()
        problem: BaseException | None = None
        thread = threading.get_ident()
        outer = self._turns.get(thread)
        self._turns[thread] = _Turn(time.monotonic(), interrupted_from)
        try:
            results = batch[0].work([each.item for each in batch])
            assert len(results) == len(batch)
        except BaseException as error:  # it is raised where the result is waited for
            problem = error
        if outer is None:
            del self._turns[thread]
        else:
            self._turns[thread] = outer
        self._note(len(batch))
        with self._changed:
            self._n_running -= len(batch)
            self._n_expected += len(batch)
            self._expected_until = time.monotonic() + RECENT
            for each in batch:
                each.client.cost -= each.cost
        for i, each in enumerate(batch):
            if each.client.gone:
                each.result.set_exception(GoneError())
            elif problem is not None:
                each.result.set_exception(problem)
            else:
                each.result.set_result(results[i])


def _are_similar(length: int, other: int) -> bool:
    return abs(length - other) <= max(SIMILAR, min(length, other))


@dataclass(frozen=True)
class Searching:
    """The work of searching for translations."""

    engine: Engine
    settings: SearchConfig

    def __call__(self, sentences: Sequence[Sentence]) -> list[list[Hypothesis]]:
        return self.engine.search(sentences, self.settings)


class BatchedEngine:
    """An engine that searches for the sentences of one client together with those of others."""

    def __init__(self, engine: Engine, client: Client) -> None:
        self._engine, self._client = engine, client
        batcher, device = client._batcher, getattr(engine, "device", None)
        # a search on a GPU writes into tensors that the next one uses again: it is not interrupted
        self._pause = batcher.progress if device is None or device.type != "cpu" else batcher.pause

    def search(self, sentences: Sequence[Sentence], settings: SearchConfig) -> list[list[Hypothesis]]:
        """As `Engine.search` has it. GoneError: the client has left."""
        watched = [
            sentence._replace(watcher=Watching(self._client, sentence.number, self._pause))
            for sentence in sentences
        ]
        work = Searching(self._engine, _same(settings))
        return self._client.results(work, watched, [len(sentence.source) for sentence in sentences])


@lru_cache(maxsize=1024)
def _same(settings: SearchConfig) -> SearchConfig:
    """One object for equal settings, so that works are compared at a glance."""
    return settings
