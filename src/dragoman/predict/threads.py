"""Drive a flow here and now: its searches in several threads, one batch each.

A step of a search is a hundred small operations: two threads that share each of them spend their time
waiting for one another, two that work on batches of their own do not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from dragoman.decoding.hypotheses import Hypothesis
from dragoman.predict.flow import ComputeStep, Flow

Item = TypeVar("Item")
Result = TypeVar("Result")

WORTH_A_THREAD = 16
"""Sentences in a batch, at least, before another thread takes some of them."""


def finish(flow: Flow[Result], progress: Callable[[int], None] | None = None) -> Result:
    """Return the result of a flow; its searches are in batches of similar length.

    `progress` receives the number of finished texts, whenever it grew.
    """
    n_told = 0
    results: Any = None
    try:
        while True:
            step = flow.send(results)
            if isinstance(step, ComputeStep):
                results = step.work(step.items)
                continue
            sentences, settings = step.sentences, step.settings
            search = partial(step.model.engine.search, settings=settings)
            n_threads = step.model.engine.n_threads
            by_length = sorted(range(len(sentences)), key=lambda i: -len(sentences[i].source))
            size = min(settings.batch_sentences, max(-(-len(by_length) // n_threads), WORTH_A_THREAD))
            batches = [by_length[start : start + size] for start in range(0, len(by_length), size)]
            groups = [[sentences[i] for i in batch] for batch in batches]
            is_one = n_threads == 1 or len(groups) == 1
            searches = map(search, groups) if is_one else map_in_threads(search, groups, n_threads)
            by_number: dict[int, list[Hypothesis]] = {}
            for batch, hypotheses in zip(batches, searches, strict=True):
                by_number.update(zip(batch, hypotheses, strict=True))
                n_done = -1 if step.n_done is None else step.n_done + len(by_number)
                if progress is not None and n_done > n_told:  # what is translated twice counts once
                    n_told = n_done
                    progress(n_done)
            results = [by_number[i] for i in range(len(sentences))]
    except StopIteration as end:
        result: Result = end.value
        return result
    finally:
        flow.close()


def map_in_threads(
    function: Callable[[Item], Result], items: Sequence[Item], n_threads: int
) -> Iterator[Result]:
    """Yield `function` of every item, in order, in `n_threads` threads.

    An error in one of them is raised where its result would have come, and the rest is not begun.
    """
    pool = ThreadPoolExecutor(n_threads)
    try:
        remaining = iter(items)
        running: deque[Future[Result]] = deque()
        running.extend(pool.submit(function, item) for item in islice(remaining, n_threads + 1))
        while running:
            result = running.popleft().result()
            running.extend(pool.submit(function, item) for item in islice(remaining, 1))
            yield result
    finally:
        pool.shutdown(cancel_futures=True)
