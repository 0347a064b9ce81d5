"""What happens where a batch does not fit into memory."""

from typing import Any

import numpy as np
import pytest
import torch

from dragoman.errors import TrainingError
from dragoman.runs import Run
from dragoman.tasks.training import train
from dragoman.tasks.translation.objective import TranslationObjective
from dragoman.training.objective import BatchResult
from dragoman.training.state import TrainPosition
from dragoman.training.updates.updater import fit, pieces
from recording import Recorder, losses, tiny_config
from recording import corpus as corpus

CONFIG = tiny_config("model.dropout=0.0", "training.batch_tokens=200")


def smaller_machine(monkeypatch: pytest.MonkeyPatch, *, largest: int) -> list[int]:
    """A machine on which no more than `largest` sentences fit; the sizes that were tried."""
    tried, original = [], TranslationObjective.loss

    def loss(self: TranslationObjective, batch: Any) -> BatchResult:
        tried.append(len(batch.src))
        result = original(self, batch)
        if len(batch.src) > largest:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return result

    monkeypatch.setattr(TranslationObjective, "loss", loss)
    return tried


@pytest.mark.slow
def test_batches_are_cut_until_they_fit_and_updates_stay_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train(CONFIG, "whole")
    tried = smaller_machine(monkeypatch, largest=3)
    listener = Recorder()
    cut = train(CONFIG, "cut", listener=listener)
    assert max(tried) > 6
    assert max(tried[-5:]) <= 3
    assert [message for message in listener.messages if "out of memory" in message] == [
        f"out of memory: each batch is read in {n} pieces from here on; the updates are the same"
        for n in (2, 4, 8)
    ]
    assert losses(cut) == [(step, pytest.approx(loss, rel=1e-5)) for step, loss in losses(whole)]


def test_an_example_that_does_not_fit_alone_ends_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    smaller_machine(monkeypatch, largest=0)
    with pytest.raises(TrainingError, match=r"a single example does not fit.*data\.max_length"):
        train(CONFIG, "run")


def test_pieces_are_all_of_a_batch_alike_in_size_and_none_is_empty() -> None:
    batch = np.arange(10, 21)
    for n in (1, 2, 4, 16):
        found = pieces(batch, n)
        assert sorted(np.concatenate(found).tolist()) == batch.tolist()
        assert len(found) == min(n, len(batch))
        assert max(map(len, found)) - min(map(len, found)) <= 1


def test_trying_a_batch_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    smaller_machine(monkeypatch, largest=5)
    path = train(CONFIG, "run")
    task = TranslationObjective(CONFIG, Run.open(path), torch.device("cpu"), Recorder())
    largest = max(task.plan(0), key=task.memory)
    position, state = TrainPosition(), torch.get_rng_state()
    fit(task, position, largest, torch.device("cpu"))
    assert len(largest) / position.n_pieces <= 5 < len(largest) / (position.n_pieces / 2)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.grad is None for parameter in task.model.parameters())
