"""Dynamic batching: a few threads compute the sentences of concurrent requests together.

The next request is the one with the highest response ratio (waiting time over cost, Brinch Hansen 1971): a
word does not wait for a book, and the book is not starved. A batch holds sentences of similar length, so
that short ones do not wait for long ones. A long search pauses between two steps to let short sentences run
first.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import count
from typing import Any, NamedTuple, TypeAlias, TypeVar

from anyio import CapacityLimiter, to_thread

from dragoman.config import SearchConfig
from dragoman.errors import DataError
from dragoman.hardware import set_threads
from dragoman.predict.engine import SearchInput, StepEngine, longest_translation
from dragoman.predict.flow import ComputeStep, Flow, SearchStep
from dragoman.predict.threads import WORTH_A_THREAD

Result = TypeVar("Result")
Work: TypeAlias = Callable[..., Sequence[Any]]
"""Compute a result for each of a list of items, its first argument."""

SIMILAR = 32
"""Maximum difference of lengths within a batch, in tokens; lengths within a factor of 2 always fit."""

PAUSE, LONGEST_PAUSE = 0.004, 0.1
"""Seconds to wait for the next item of a batch, and for the whole batch."""

LONG = 1.0
"""Seconds before a batch may be interrupted, from its start or from the last interruption."""

RECENT = 0.1
"""Seconds after a result in which the client's next request is expected."""


class GoneError(Exception):
    """The result is no longer needed, or not to be had: the client has left, or the service ends."""


class LeftError(GoneError):
    """The client has disconnected: nobody reads the response."""


class CostlyError(DataError):
    """A search would cost more than a request may ask for."""


class Client:
    """The client of a request: what its flow yields is computed for it, and it can cancel that."""

    def __init__(self, batcher: Batcher) -> None:
        self.gone = False
        """Whether the client has left; its searches are then cancelled."""
        self.cost = 0
        """Total tokens of its pending items."""
        self._batcher = batcher

    async def finish(self, flow: Flow[Result], threads: CapacityLimiter | None = None) -> Result:
        """Return the result of a flow: its code runs here or in `threads`, what it yields in batches.

        Raises:
            GoneError: the client has left, or the batcher is closed.
            CostlyError: required phrases would make a search cost more than `limits.required_cost`.
        """
        results: Sequence[Any] | None = None
        try:
            while True:
                step = (
                    _advance(flow, results) if threads is None
                    else await to_thread.run_sync(_advance, flow, results, limiter=threads)
                )  # fmt: skip
                if isinstance(step, _End):
                    return step.value
                if isinstance(step, SearchStep):
                    futures = self._search(step)
                else:
                    futures = self._batcher.submit(step.work, step.items, step.costs, self)
                await _all_done(futures)
                results = [future.result() for future in futures]
        finally:
            flow.close()

    def _search(self, step: SearchStep) -> list[Future[Any]]:
        """Submit a search, which can be interrupted and cancelled."""
        engine, batcher = step.model.engine, self._batcher
        pause = batcher.pause if engine.can_be_interrupted else batcher.progress
        costs = [batcher.cost(engine, sentence, step.settings) for sentence in step.sentences]
        watched = [sentence._replace(watcher=partial(self.wants, pause)) for sentence in step.sentences]
        return batcher.submit(engine.search, watched, costs, self, _same(step.settings))

    def wants(self, pause: Callable[[], None]) -> bool:
        """Return whether the client still wants its sentences, after a `pause` of their search."""
        pause()
        return not self.gone

    def go_on(self, _: int = 0) -> None:
        """Check for cancellation; long work calls this regularly. GoneError: the client has left."""
        self._batcher.pause()
        if self.gone:
            raise GoneError

    def leave(self) -> None:
        """Cancel the client's work and release the threads that wait for it."""
        self._batcher.forget(self)


class _End(NamedTuple):
    """The end of a flow, with its result."""

    value: Any


def _advance(flow: Flow[Any], results: Sequence[Any] | None) -> SearchStep | ComputeStep | _End:
    """Return what a flow asks for next, given the `results` of what it asked for last."""
    try:
        return flow.send(results)
    except StopIteration as end:
        return _End(end.value)


async def _all_done(results: Sequence[Future[Any]]) -> None:
    """Wait until threads have set all of `results`; only the last of them wakes the loop."""
    loop, all_done, numbers = asyncio.get_running_loop(), asyncio.Event(), count(1)

    def is_done(_: Future[Any]) -> None:
        if next(numbers) == len(results):
            loop.call_soon_threadsafe(all_done.set)

    for each in results:
        each.add_done_callback(is_done)
    if results:
        await all_done.wait()


class _Waiting(NamedTuple):
    """A pending item."""

    work: tuple[Work, tuple[Any, ...]]
    item: Any
    cost: int
    since: float
    client: Client
    result: Future[Any]


@dataclass
class _Turn:
    """A batch that a thread is computing."""

    progress: float
    """Time of its last progress."""
    interrupted_from: float
    """Time from which shorter items may interrupt it."""
    shorter: int
    """Maximum cost of these."""


class Batcher:
    """A pool of threads that compute the submitted items in batches."""

    def __init__(
        self,
        *,
        n_threads: int,
        max_items: int,
        max_tokens: int,
        max_required: float = math.inf,
        note: Callable[[int], object] = lambda n_items: None,
    ) -> None:
        """Start the threads; `close` ends them.

        A batch has at most `max_items` items, and `max_tokens` tokens including padding. `max_required` is
        `limits.required_cost`. `note` receives the size of every batch.
        """
        self.max_items, self.max_tokens, self.max_required = max_items, max_tokens, max_required
        self._note = note
        self._waiting: list[_Waiting] = []
        self._n_running = 0
        self._expected: deque[float] = deque()
        """Expected items: until when, for each that was finished recently, less those submitted since."""
        self._turns: dict[int, _Turn] = {}
        """Running batches by thread id."""
        self._changed = threading.Condition()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work, name=f"batch-{i}", daemon=True) for i in range(n_threads)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def n_waiting(self) -> int:
        """Number of items that wait for a thread."""
        return len(self._waiting)

    @property
    def stuck_seconds(self) -> float:
        """Seconds without progress of the slowest running batch; 0 if idle."""
        now = time.monotonic()
        return max((now - turn.progress for turn in list(self._turns.values())), default=0.0)

    def progress(self) -> None:
        """Record progress of this thread's batch."""
        if (turn := self._turns.get(threading.get_ident())) is not None:
            turn.progress = time.monotonic()

    def pause(self) -> None:
        """Record progress; if the batch has run for long, compute waiting shorter items first.

        These may be interrupted in turn, by items of half their cost, so that the depth is bounded.
        """
        self.progress()
        turn = self._turns.get(threading.get_ident())
        if turn is None or turn.progress < turn.interrupted_from:
            return
        with self._changed:
            batch = self._take([each for each in self._waiting if each.cost <= turn.shorter], WORTH_A_THREAD)
            self._n_running += len(batch)
        if batch:
            is_short = batch[-1].cost <= SIMILAR
            self._run_batch(batch, interrupted_from=math.inf if is_short else time.monotonic() + LONG)
        turn.progress = time.monotonic()
        turn.interrupted_from = turn.progress + LONG

    def cost(self, engine: StepEngine, sentence: SearchInput, settings: SearchConfig) -> int:
        """Return the tokens of a sentence, times how much wider its required phrases make its beam.

        CostlyError: its phrases would make the search cost more than `limits.required_cost`.
        """
        if not sentence.required:
            return len(sentence.source)
        n_tokens = sum(phrase.distance(0) for phrase in set(sentence.required))
        width = max(settings.beam_size, n_tokens + 1)
        longest = longest_translation(sentence, settings, limit=engine.longest)
        cost = n_tokens * width * longest
        if cost > self.max_required:
            raise CostlyError(
                f"sentence {sentence.number}: {n_tokens:,} tokens of required phrases × {width:,} hypotheses "
                f"× {longest:,} tokens of a translation are more than the {self.max_required:,} that "
                "limits.required_cost allows; require fewer or shorter phrases"
            )
        return len(sentence.source) * (width // settings.beam_size)

    def submit(
        self, work: Work, items: Sequence[Any], costs: Sequence[int], client: Client, *arguments: Any
    ) -> list[Future[Any]]:
        """Return a future for the result of each item. Items of equal works and arguments may share a batch.

        GoneError: the client has left, or this is closed.
        """
        now = time.monotonic()
        waiting = [
            _Waiting((work, arguments), item, max(cost, 1), now, client, Future())
            for item, cost in zip(items, costs, strict=True)
        ]
        with self._changed:
            if self._closed or client.gone:
                raise GoneError
            client.cost += sum(each.cost for each in waiting)
            self._waiting += waiting
            for _ in range(min(len(waiting), len(self._expected))):
                self._expected.pop()  # the newest: who keeps asking does not stand for those who have left
            self._changed.notify(len(waiting))
        return [each.result for each in waiting]

    def forget(self, client: Client) -> None:
        """Remove the items of `client` from the queue, and cancel its searches."""
        with self._changed:
            client.gone = True
            dropped = [each for each in self._waiting if each.client is client]
            self._waiting = [each for each in self._waiting if each.client is not client]
        for each in dropped:
            each.result.set_exception(GoneError())

    def close(self) -> None:
        """Finish all submitted items, then end the threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        set_threads(1)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                n_before, end = 0, time.monotonic() + LONGEST_PAUSE
                while n_before < len(self._waiting) < self._share() and not self._closed:
                    n_before = len(self._waiting)  # goes on until a share is queued, or no more arrive
                    if time.monotonic() >= end:
                        break
                    self._changed.wait(PAUSE)
                if not self._waiting:
                    if self._closed:
                        return
                    continue
                batch = self._take(self._waiting, max(self._share(), WORTH_A_THREAD))
                self._n_running += len(batch)
            self._run_batch(batch, interrupted_from=time.monotonic() + LONG)

    def _share(self) -> int:
        """Size of a batch that splits the present and expected items evenly among the threads.

        Clients of a finished batch send their next requests one after the other. Starting with the first of
        them is inefficient, because half a batch takes more than half the time; taking all of them leaves
        the other threads idle. Forgets what was expected until now and has not come.
        """
        now = time.monotonic()
        while self._expected and self._expected[0] <= now:
            self._expected.popleft()
        n_active = len(self._waiting) + self._n_running + len(self._expected)
        return min(-(-n_active // len(self._threads)), self.max_items)

    def _take(self, waiting: Sequence[_Waiting], n_items: int) -> list[_Waiting]:
        """Take up to `n_items`: the item with the highest response ratio, and similar ones."""
        now = time.monotonic()
        urgent = sorted(waiting, key=lambda each: (each.since - now) / each.client.cost)
        like = [
            each
            for each in urgent
            if abs(each.cost - urgent[0].cost) <= max(SIMILAR, min(each.cost, urgent[0].cost))
            and each.work == urgent[0].work
        ]
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

    def _run_batch(self, batch: list[_Waiting], *, interrupted_from: float) -> None:
        results: Sequence[Any] = ()
        problem: BaseException | None = None
        thread = threading.get_ident()
        outer = self._turns.get(thread)
        self._turns[thread] = _Turn(time.monotonic(), interrupted_from, max(SIMILAR, batch[-1].cost // 2))
        self._note(len(batch))
        try:
            work, arguments = batch[0].work
            results = work([each.item for each in batch], *arguments)
            assert len(results) == len(batch)
        except BaseException as error:  # raised again in the thread that waits for the result
            problem = error
        if outer is None:
            del self._turns[thread]
        else:
            self._turns[thread] = outer
        with self._changed:
            self._n_running -= len(batch)
            self._expected.extend([time.monotonic() + RECENT] * len(batch))
            for each in batch:
                each.client.cost -= each.cost
        for i, each in enumerate(batch):
            if each.client.gone:
                each.result.set_exception(GoneError())
            elif problem is not None:
                each.result.set_exception(problem)
            else:
                each.result.set_result(results[i])


@lru_cache(maxsize=1024)
def _same(settings: SearchConfig) -> SearchConfig:
    """Return one object for equal settings, so that comparing works is fast."""
    return settings
