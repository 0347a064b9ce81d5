"""What a training prints: log lines, and on a terminal samples and a progress bar."""

import io
import re
from pathlib import Path

import pytest

from dragoman.cli.console import Console
from dragoman.cli.listener import LONGEST, TerminalListener, done, sample_table
from dragoman.config import Config, parse_config
from dragoman.runs import Run
from dragoman.tasks.training import train
from dragoman.training.objective import N_SAMPLES, Sample, sampled
from dragoman.training.state import TrainPosition


@pytest.fixture(scope="module")
def config() -> Config:
    data = {"src_lang": "en", "tgt_lang": "de", "train": ["a.en", "a.de"]}
    return parse_config({"name": "live", "data": data}, overrides=["training.max_steps=100"])


def terminal(*, width: int = 80, height: int = 40) -> Console:
    return Console(
        file=io.StringIO(), force_terminal=True, width=width, height=height, color_system=None, markup=False
    )


def shown(console: Console, *what: object) -> list[str]:
    with console.capture() as capture:
        console.print(*what)
    return capture.get().splitlines()


def text_of(console: Console) -> str:
    """What was written to `console`; a new line in place of what moves the cursor."""
    return re.sub(r"\r|\x1b\[[0-9;?]*[A-Za-z]", "\n", console.file.getvalue())  # type: ignore[attr-defined]


# The progress bar


@pytest.mark.parametrize("width", [40, 120])
def test_the_bar_is_one_line_with_the_step_and_the_time_left(config: Config, width: int) -> None:
    with TerminalListener(terminal(width=width)) as listener:
        listener.started(TrainPosition(), config, n_parameters=10)
        listener.stepped(TrainPosition(step=40))
        assert listener._bar is not None
        (bar,) = shown(terminal(width=width), listener._bar.get_renderable())
    assert bar.startswith("step 40 of 100 ━")
    assert " 40% " in bar
    assert bar.endswith("left")
    with TerminalListener(terminal()) as resumed:
        resumed.started(TrainPosition(step=60), config, n_parameters=10)
        resumed.stepped(TrainPosition(step=60))
        assert resumed._bar is not None
        assert resumed._bar.tasks[0].completed == 0.6
        assert resumed._bar.tasks[0].speed is None, "not computed from what was done before"


def test_a_training_that_is_limited_by_time_is_done_by_time(config: Config) -> None:
    training = config.training.model_copy(update={"max_minutes": 1.0})
    assert done(TrainPosition(step=10, seconds=30.0), training) == 0.5
    assert done(TrainPosition(step=70, seconds=30.0), training) == 0.7
    assert done(TrainPosition(step=70, seconds=90.0), training) == 1.0


# Samples


def test_samples_are_lines_that_leave_the_terminal_alone(config: Config) -> None:
    assert [sampled(n) for n in (0, 2, 30)] == [[], [0, 1], [5, 15, 25]], "evenly spread"
    hostile = Sample("a\n\x1b[2Jb", "[red]c[/red]", "x" * 1000)
    lines = shown(terminal(width=300), sample_table([hostile], config.names.sample))
    assert [line.split()[0] for line in lines] == ["source", "reference", "hypothesis"]
    assert "\x1b" not in "".join(lines)
    assert lines[0].split(maxsplit=1)[1].rstrip() == "a \ufffd[2Jb"
    assert "[red]c[/red]" in lines[1]
    assert len(lines[2].split()[1]) == LONGEST


# The listener


@pytest.mark.slow
def test_a_terminal_shows_samples_of_the_corpus_at_each_validation(tiny_run: Path, tmp_path: Path) -> None:
    console = terminal(width=100)
    run = Run.open(tiny_run)
    with TerminalListener(console) as listener:
        train(run.config, tmp_path / "run", listener=listener)
    said = text_of(console)
    n_validations = sum(r["kind"] in ("valid", "average") for r in Run.open(tmp_path / "run").history())
    assert n_validations > 1
    sources = re.findall(r"^  source +(.*?) *$", said, re.MULTILINE)
    assert len(sources) == N_SAMPLES * n_validations
    assert sources[:N_SAMPLES] == sources[-N_SAMPLES:]
    corpus = Path(run.config.data.valid[0]).read_text("utf-8").splitlines()
    assert set(sources) <= {line.split("\t")[0] for line in corpus}
    assert "left" in said
    assert re.search(r"step 2 · .* · lr \d\.\de-\d", said)
