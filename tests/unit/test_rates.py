"""Every rate that is printed, on a clock of the test's own: things done, by the seconds that they took."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman.bulk.running import Status
from dragoman.cli.bulk import describe_status, describe_summary
from dragoman.cli.listener import EVERY, TerminalListener
from dragoman.data.records import Pair
from dragoman.runs import Run
from dragoman.tasks.training import train
from dragoman.tasks.translation.evaluation import evaluate
from dragoman.training.trainer import Listeners, TrainingListener
from recording import Recorder, tiny_config
from recording import corpus as corpus


class Clock:
    """Stands still but when it is told to go on."""

    now = 1000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for name in ("perf_counter", "monotonic"):
        monkeypatch.setattr(time, name, lambda: clock.now)
    return clock


class Ticking(TrainingListener):
    """A second passes in every update, and an hour in every validation."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def stepped(self, position: Any) -> None:
        self.clock.now += 1.0

    def validating(self) -> None:
        self.clock.now += 3600.0


@pytest.mark.slow
def test_tokens_per_second_are_those_of_updates(clock: Clock) -> None:
    """Whatever is validated between two log lines, or interrupted: here a second passes in every update."""
    ticking = Ticking(clock)
    train(tiny_config("training.log_every=1"), "each", listener=ticking)
    each = {r["step"]: r["tokens_per_second"] for r in Run.open("each").history() if r["kind"] == "train"}
    config = tiny_config("training.log_every=4", "training.valid_every=3")
    with pytest.raises(KeyboardInterrupt):
        train(config, "run", listener=Listeners([ticking, Recorder(stop_at=6)]))
    clock.now += 100.0
    train(config, "run", listener=ticking)
    records = [r for r in Run.open("run").history() if r["kind"] == "train"]
    assert [r["step"] for r in records] == [4, 8, 12]
    for record in records:
        window = [each[step] for step in range(record["step"] - 3, record["step"] + 1)]
        assert record["tokens_per_second"] == pytest.approx(sum(window) / 4)


def test_pairs_per_second_are_counted_from_the_first_of_a_corpus(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    listener = TerminalListener()
    for after, n_pairs in [(600, 100), (EVERY, 250), (1, 260), (EVERY, 580), (60, 50), (EVERY, 200)]:
        clock.now += after
        listener.tokenized(n_pairs)
    expected = [(250, 10), (580, 20.625), (200, 10)]
    lines = [f"tokenizing: {n:,} pairs, {rate:,.0f} a second" for n, rate in expected]
    assert capsys.readouterr().err.splitlines() == lines


def test_sentences_per_second_are_those_of_translating(clock: Clock) -> None:
    pairs = [Pair("a red cat", "eine rote Katze"), Pair("a dog", "ein Hund"), Pair("a", "ein")]

    def translate(sources: list[str], *, beam_size: int, **_: Any) -> list[SimpleNamespace]:
        clock.now += beam_size * len(sources)
        return [SimpleNamespace(text="ein Hund") for _ in sources]

    translator: Any = SimpleNamespace(config=tiny_config(), translate=translate)
    assert evaluate(translator, "test", pairs, settings={"beam_size": 4}).sentences_per_second == 1 / 4


def test_lines_per_second_are_those_of_this_sitting() -> None:
    status = Status(share=0.5, n_read=300, n_earlier=100, n_new=200, seconds=40.0)
    assert describe_status(status) == "50.0 % read · 300 lines · 5.0 sentences/s · 60 s left"
    job: Any = SimpleNamespace(out="a.de", noun="sentences", has_journal=True, remarks=lambda *_, **__: [])
    (line,) = describe_summary(Status(n_earlier=100, n_new=200, seconds=40.0), job)
    assert line == "a.de: 300 lines, 100 of them earlier; 200 in 40.0 s, 5.0 sentences/s with loading"
