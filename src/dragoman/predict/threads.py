"""Translate several batches in parallel, one thread each.

A step of a search is a hundred small operations: two threads that share each of them spend their time
waiting for one another, two that work on batches of their own do not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_threads(
    function: Callable[[Item], Result], items: Sequence[Item], *, n_threads: int
) -> Iterator[Result]:
    """Return `function` of every item, in order, in `n_threads` threads on the CPU.

    One item alone has one thread, too: others would only wait with it, and keep processors from others. An
    error in one of them is raised where its result would have come, and the rest is not begun.
    """
    if n_threads == 1:
        yield from map(function, items)
        return
    n_before = torch.get_num_threads()
    if len(items) == 1:
        try:
            torch.set_num_threads(1)
            result = function(items[0])
        finally:
            torch.set_num_threads(n_before)
        yield result
        return
    pool = ThreadPoolExecutor(n_threads, initializer=torch.set_num_threads, initargs=(1,))
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
        torch.set_num_threads(n_before)  # part of the setting is the whole process's
