"""Several processes train one model: the same losses as one; they save and leave when asked to."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from commands import error_of, succeed
from dragoman.config import parse_config, to_toml
from ranks import Training, children_of, command, losses, wait_for, write_corpus, write_recipe
from sharing import made_once

CLASSIFIER = {
    "name": "together", "task": "classification", "tokenizer": {"vocab_size": 400},
    "data": {"train": ["phrasebook:reviews-valid"], "valid": ["phrasebook:reviews-valid"], "max_length": 64},
    "model": {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_encoder_layers": 1, "dropout": 0.0, "ngrams": 2,
              "ngram_bits": 8},
    "training": {"max_steps": 6, "batch_tokens": 400, "warmup_steps": 2, "log_every": 1, "valid_every": 6,
                 "precision": "fp32", "device": "cpu"},
}  # fmt: skip


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    write_corpus(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def run_of_one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of the recipe without dropout, in one process."""

    def make(folder: Path) -> None:
        write_corpus(folder)
        write_recipe(folder)
        run_here(folder, "one")

    return made_once(tmp_path_factory, "run-of-one", make) / "one"


def run_here(folder: Path, out: str, *options: str) -> str:
    """Train in this process, to the end; return what is written to stderr."""
    n_threads = torch.get_num_threads()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            return succeed(*command(out, *options)[3:]).stderr
    finally:
        torch.set_num_threads(n_threads)


def run(folder: Path, out: str, *options: str) -> subprocess.CompletedProcess[str]:
    return run_command(command(out, *options), folder)


def run_command(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=folder, timeout=600, capture_output=True, text=True, check=False)


KILLED_ONCE = """
import os, pathlib, signal
killed = pathlib.Path("killed")
if os.environ.get("RANK") == "1" and not killed.exists():
    from dragoman.tasks.translation.objective import TranslationObjective
    batch = TranslationObjective.batch
    def deadly(*arguments):
        if any(pathlib.Path("run").glob("checkpoints/step-*")):
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return batch(*arguments)
    TranslationObjective.batch = deadly
"""
"""The second process is killed when there is a checkpoint, once."""


def test_two_processes_have_the_losses_of_one_though_one_is_killed(workplace: Path, run_of_one: Path) -> None:
    """Every batch is the same and is spread over both, gradients are those of the mean over all of it."""
    write_recipe(workplace)
    with Training(workplace, "run", "--processes", "2", program=KILLED_ONCE) as training:
        code, said = training.end()
    assert code == 0, said
    assert re.search(r"process 1 of 2 was killed by SIGKILL[^\n]*; restarting all processes", said), said
    assert "continuing from step 6" in said
    assert len(losses(workplace / "run")) == 12
    assert losses(workplace / "run") == pytest.approx(losses(run_of_one), rel=1e-4)


@pytest.mark.nightly
def test_two_processes_have_the_losses_of_one_for_a_classifier_too(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(to_toml(parse_config(CLASSIFIER)), "utf-8")
    done = run(tmp_path, "two", "--processes", "2")
    assert done.returncode == 0, done.stderr
    assert len(losses(tmp_path / "two")) == 6
    run_here(tmp_path, "one")
    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), rel=1e-4)


@pytest.mark.nightly
def test_spread_weights_have_the_losses_of_those_that_are_not(workplace: Path, run_of_one: Path) -> None:
    """FSDP2: each process holds half of every weight; files are the same, and one process can go on."""
    write_recipe(workplace)
    spread = ["--set", "training.sharding=full"]
    paused = run(workplace, "two", *spread, "--processes", "2", "--max-hours", "1e-9")
    assert paused.returncode == 75, paused.stderr
    shutil.copytree(workplace / "two", workplace / "alone")
    done = run(workplace, "two", *spread, "--processes", "2")
    assert done.returncode == 0, done.stderr
    run_here(workplace, "alone", *spread)
    for out in ("two", "alone"):
        assert losses(workplace / out) == pytest.approx(losses(run_of_one), rel=1e-4)
    sizes = {
        file.stat().st_size
        for path in (run_of_one, workplace / "two")
        for file in path.glob("checkpoints/*/optimizer.safetensors")
    }
    assert len(sizes) == 1


@pytest.mark.nightly
def test_torchrun_starts_it_and_one_process_may_continue_the_run(workplace: Path, run_of_one: Path) -> None:
    write_recipe(workplace)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]
    arguments = command("cut", "--max-hours", "1e-9")[2:]
    done = run_command([*torchrun, *arguments], workplace)
    assert "the time is up: at step 1; the same command continues" in done.stderr
    assert "continuing from step 1" in run_here(workplace, "cut")
    assert losses(workplace / "cut") == pytest.approx(losses(run_of_one), rel=1e-4)


@pytest.mark.nightly
def test_a_mistake_is_one_line_from_one_process(workplace: Path) -> None:
    write_recipe(workplace)
    (workplace / "train.tsv").write_text("only one column\n", encoding="utf-8")
    done = run(workplace, "run", "--processes", "2")
    assert done.returncode == 1
    assert done.stderr.count("error: ") == 1, done.stderr
    assert "train.tsv line 1: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.nightly
def test_several_processes_save_and_leave_when_asked_to_end_and_go_on_with_changed_text_on_request(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As SLURM asks everything that a job has started. The launcher passes its own signal on besides."""
    write_recipe(workplace, steps=4000, valid_every=20)
    training = subprocess.Popen(
        command("run", "--processes", "2"), cwd=workplace, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_for(workplace / "run" / "checkpoints" / "step-000020")
        for process in (*children_of(training.pid), training.pid):
            os.kill(process, signal.SIGTERM)
        _, said = training.communicate(timeout=600)
    finally:
        training.kill()
    assert training.returncode == 143, said
    stopped = re.search(r"asked to end \(SIGTERM\) at step ([\d,]+); the same command continues", said)
    assert stopped, said
    step = int(stopped[1].replace(",", ""))
    with (workplace / "valid.tsv").open("a", encoding="utf-8") as file:
        file.write("\ncats sleep\tKatzen schlafen")
    monkeypatch.chdir(workplace)
    assert error_of("train", "recipe.toml", "--out", "run", silent=False).startswith(
        "error: valid.tsv: changed since the training in run began; "
    )
    done = run(workplace, "run", "--processes", "2", "--allow-changed-data", "--max-hours", "1e-9")
    assert done.returncode == 75, done.stderr
    assert done.stderr.count(f"continuing with changed text from step {step}: valid.tsv") == 1
