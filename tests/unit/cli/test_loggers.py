"""What a training logs arrives at TensorBoard and at Weights & Biases, by their own readers."""

import html
from pathlib import Path
from typing import Any

import pytest

from commands import succeed
from dragoman.cli.listener import markdown_table, run_id
from dragoman.runs import Run
from dragoman.training.objective import N_SAMPLES
from tiny import TINY, write_corpus

SETTINGS = [part for setting in TINY for part in ("--set", setting)]
COMMAND = ["train", "--src", "train.en", "--tgt", "train.de", "--out", "run", *SETTINGS]


@pytest.fixture(autouse=True)
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path, "train", 60, seed=1)


def test_signs_of_markdown_and_html_are_text_in_a_table() -> None:
    table = markdown_table(["a"], [["<b>|*x* & y\nz</b>"]])
    *head, row = table.splitlines()
    assert head == ["| a |", "| --- |"]
    inner = row.removeprefix("| ").removesuffix(" |")
    assert html.unescape(inner) == "<b>|*x* & y z</b>"
    assert not set("<>|*\n") & set(inner)


@pytest.mark.slow
def test_tensorboard_and_weights_and_biases_get_the_losses_of_the_history(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    wandb = pytest.importorskip("wandb")
    calls: list[Any] = []

    class FakeRun:
        def log(self, values: dict[str, float], step: int) -> None:
            calls.append((step, values))

    def init(**options: Any) -> FakeRun:
        calls.append(options)
        return FakeRun()

    monkeypatch.setattr(wandb, "init", init)
    succeed(*COMMAND, "--tensorboard", "--wandb", "mine")
    history = [(r["step"], r["train_loss"]) for r in Run.open("run").history() if r["kind"] == "train"]

    events = reader.EventAccumulator("run/tensorboard")
    events.Reload()
    found = [(event.step, event.tensor_proto.float_val[0]) for event in events.Tensors("train/train_loss")]
    assert [step for step, _ in found] == [step for step, _ in history]
    assert [loss for _, loss in found] == pytest.approx([loss for _, loss in history])
    assert "valid/bleu" in events.Tags()["tensors"]
    validations = [r["step"] for r in Run.open("run").history() if r["kind"] in ("valid", "average")]
    samples = events.Tensors("valid/samples")
    assert [event.step for event in samples] == validations
    table = samples[-1].tensor_proto.string_val[0].decode()
    assert table.startswith("| source | reference | hypothesis |\n")
    assert len(table.splitlines()) == 2 + N_SAMPLES

    options, *logged = calls
    assert (options["project"], options["name"], options["resume"]) == ("mine", "run", "allow")
    assert options["id"] == run_id(Path("./run")) != run_id(Path("other")), "a run goes on in its own"
    assert options["config"]["training"]["max_steps"] == 6
    losses = [(step, values["train/train_loss"]) for step, values in logged if "train/train_loss" in values]
    assert losses == history
