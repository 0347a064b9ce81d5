"""What processes that train together do with a batch, and in which order they do things."""

from __future__ import annotations

import numpy as np
import pytest

from dragoman.training.parallel.processes import ALONE, Processes


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_shares_are_all_of_a_batch_and_alike_in_size(size: int, n: int) -> None:
    indices = np.arange(100, 100 + n)
    shares = [Processes(rank, size).share(indices) for rank in range(size)]
    assert sorted(np.concatenate(shares).tolist()) == indices.tolist()
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(("rank", "expected"), [(0, ["work", "wait"]), (1, ["wait", "work"])])
def test_the_first_goes_ahead_and_the_others_wait(
    rank: int, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(Processes, "wait", lambda self: done.append("wait"))
    with Processes(rank, 2).first_ahead():
        done.append("work")
    assert done == expected


def test_one_process_has_nobody_to_ask() -> None:
    assert ALONE.first
    assert ALONE.total(1.5, 2.0) == ALONE.largest(1.5, 2.0) == [1.5, 2.0]
    assert ALONE.from_first("text") == "text"
