"""Several processes train one model, with the losses of one: killed, hung, asked to end, joined by others."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from commands import error_of, succeed
from dragoman.config import parse_config, to_toml
from ranks import (
    Training,
    children_of,
    command,
    is_equal,
    losses,
    pids_by_rank,
    wait_for,
    write_corpus,
    write_recipe,
)
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


SLOW = """
import os, time
if os.environ.get("RANK") == "0":
    from dragoman.tasks.translation.objective import TranslationObjective
    validate = TranslationObjective.validate
    def slowly(task, weights):
        time.sleep(15)
        TranslationObjective.validate = validate
        return validate(task, weights)
    TranslationObjective.validate = slowly
"""


@pytest.mark.nightly
def test_a_process_that_hangs_times_out_and_the_run_goes_on_to_the_bit(workplace: Path) -> None:
    """PyTorch's launcher asks the one that hangs to end, and kills it after half a minute."""
    write_recipe(workplace, dropout=0.1, steps=160, valid_every=40, timeout_minutes=0.2)
    done = run(workplace, "whole", "--processes", "2")
    assert done.returncode == 0, done.stderr
    with Training(workplace, "run", "--processes", "2", program=SLOW) as training:
        wait_for(workplace / "run" / "checkpoints" / "step-000040")
        os.kill(pids_by_rank(training.pid)[1], signal.SIGSTOP)
        code, said = training.end()
    assert code == 0, said
    assert said.count("error: ") == 1, said
    assert "error: process 0 of 2: another one has ended, or has not responded for 0.2 minutes (" in said
    restarted = r"process 0 of 2 ended with exit code 70 after step \d+; restarting all processes"
    assert len(re.findall(restarted, said)) == 1, said
    assert "Traceback" not in said
    assert is_equal(workplace / "run", workplace / "whole")


@pytest.mark.nightly
def test_a_machine_joins_a_training_and_leaves_it_and_no_update_is_lost(workplace: Path) -> None:
    """Two launchers on this machine stand for two machines."""
    write_recipe(workplace, steps=20_000, valid_every=50)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launcher = [
        sys.executable, "-m", "torch.distributed.run", "--nnodes", "1:2", "--nproc-per-node", "1",
        "--max-restarts", "3", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id",
        "elastic", "--rdzv-conf", "last_call_timeout=2", "--local-addr", "127.0.0.1",
    ]  # fmt: skip
    arguments = [*launcher, *command("run")[1:]]
    environment = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    with Training(workplace, "run", arguments=arguments, environment=environment) as first:
        wait_for(workplace / "run" / "checkpoints" / "step-000050")
        with Training(workplace, "run", arguments=arguments, environment=environment) as second:
            first.wait_for(r"continuing from step \d+\n(.*\n)*step")
            second.stop()
            second.end()
        first.wait_for(r"continuing from step \d+\n(.*\n)*continuing from step \d+\n(.*\n)*step")
        first.stop()
        _, said = first.end()
    stops = re.findall(r"asked to end \(SIGTERM\) at step ([\d,]+); the same command continues", said)
    stops = [stop.replace(",", "") for stop in stops]
    assert re.findall(r"continuing from step (\d+)", said) == stops[:2], said
    assert len(stops) == 3
    assert len(losses(workplace / "run")) == int(stops[-1])
