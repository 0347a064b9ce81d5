"""A signal falls between two updates; a second one ends a training at once, unless it is the same again."""

import signal
from collections.abc import Iterator

import pytest

from dragoman.tasks.training import interruption


@pytest.fixture
def caught() -> Iterator[list[int]]:
    """The signals that reach those who listened before the training."""
    numbers: list[int] = []
    before = {
        number: signal.signal(number, lambda signum, _: numbers.append(signum))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    yield numbers
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_at_once_but_for_the_echo_of_a_sigterm(
    first: int, second: int, caught: list[int]
) -> None:
    at_once = [] if first == second == signal.SIGTERM else [second]
    with interruption() as interrupted:
        assert not interrupted()
        signal.raise_signal(first)
        assert interrupted() == first
        signal.raise_signal(second)
        assert caught == at_once
        assert interrupted() == first
    signal.raise_signal(first)
    assert caught == [*at_once, first]


def test_a_late_second_sigterm_is_no_echo(caught: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.tasks.training.ECHO", 0.0)
    with interruption():
        signal.raise_signal(signal.SIGTERM)
        assert not caught
        signal.raise_signal(signal.SIGTERM)
        assert caught == [signal.SIGTERM]
