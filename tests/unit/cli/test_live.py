"""What a terminal shows of a training, beside the lines that a pipe gets too."""

from __future__ import annotations

import io
import math
import re
import sys
from pathlib import Path

import pytest
from rich.console import Console

from dragoman.cli.listener import TerminalListener
from dragoman.cli.live import LONGEST, Curve, LivePanel, sample_table
from dragoman.config import Config, parse_config
from dragoman.report.braille import BLANK, DOTS, braille_curve, dot_heights
from dragoman.runs import Run
from dragoman.training.loop import train
from dragoman.training.state import Position
from dragoman.training.task import N_SAMPLES, Sample, sampled

HUNDRED = [(float(x), float(x)) for x in range(1, 101)]


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


def dots_of(rows: list[str]) -> set[tuple[int, int]]:
    """The (column, height) of every dot, from the bottom left."""
    return {
        (2 * i + side, 4 * (len(rows) - 1 - r) + y)
        for r, row in enumerate(rows)
        for i, character in enumerate(row)
        for side in (0, 1)
        for y in range(4)
        if (ord(character) - BLANK) & DOTS[side][y]
    }


# Curves


@pytest.mark.parametrize("points", [HUNDRED, HUNDRED[:2], [(1, 0.0), (2, 5.0), (90, 99.0)]])
def test_what_rises_is_drawn_rising(points: list[tuple[float, float]]) -> None:
    heights = dot_heights(points, n_columns=30, n_rows=16, low=points[0][1], high=points[-1][1])
    assert heights == sorted(heights, key=lambda height: -1 if height is None else height)
    assert (heights[0], heights[-1]) == (0, 15)


def test_a_curve_upside_down_is_the_mirrored_curve() -> None:
    size = {"width": 15, "height": 4}
    up = braille_curve(HUNDRED, low=1, high=100, **size)
    down = braille_curve([(x, 101 - y) for x, y in HUNDRED], low=1, high=100, **size)
    assert {(x, 15 - y) for x, y in dots_of(up)} == dots_of(down)


def test_every_column_has_a_dot_and_none_hangs_alone() -> None:
    rows = braille_curve([(0, 0), (1, 9), (2, 0), (3, 9)], width=20, height=4, low=0, high=9)
    dots = dots_of(rows)
    assert {x for x, _ in dots} == set(range(40))
    for x, y in dots:
        assert any((x + dx, y + dy) in dots for dx in (-1, 0, 1) for dy in (-1, 0, 1) if dx or dy)


def test_what_is_no_number_leaves_a_gap() -> None:
    points = [(0.0, 1.0), (1.0, 1.0), (2.0, math.nan), (3.0, 1.0), (4.0, 1.0)]
    heights = dot_heights(points, n_columns=41, n_rows=4, low=0, high=2)
    assert [height is None for height in heights] == [10 < column < 30 for column in range(41)]


def test_a_single_point_and_equal_points_are_drawn() -> None:
    for points in ([(1.0, 3.0)], [(1.0, 3.0), (2.0, 3.0)]):
        (row,) = braille_curve(points, width=5, height=1, low=3.0, high=3.0)
        assert {y for _, y in dots_of([row])} == {2}
    assert braille_curve([], width=3, height=1, low=0, high=1) == [chr(BLANK) * 3]


def test_a_heading_names_the_last_value_and_the_best() -> None:
    curve = Curve("BLEU", "", best=True)
    assert curve.heading == "BLEU: none yet"
    for step, value in {100: 8.0, 200: 31.25, 300: None, 400: 30.0}.items():
        curve.add(step, value)
    assert curve.heading == "BLEU 30.0, best 31.2 at step 200"
    curve.add(200, 33.0)  # training has gone back
    assert curve.points == [(100, 8.0), (200, 33.0)]
    assert curve.heading == "BLEU 33.0, the best"


# The panel


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_of_the_panel_is_broken_or_too_long(config: Config, width: int) -> None:
    console = terminal(width=width)
    panel = LivePanel(console, config, Position())
    for step in range(1, 41):
        panel.logged({"kind": "train", "step": step, "train_loss": 1000.0 / step})
        panel.logged({"kind": "valid", "step": step, "bleu": float(step)})
    panel.stepped(Position(step=40))
    empty, heading, *rows, bar = shown(console, panel)
    assert not empty
    assert heading.split("  ")[0] == "loss 25.0 nats/token"
    assert "BLEU 40.0, the best" in heading
    assert [len(row) for row in rows] == [width] * 4
    assert rows[0].startswith("1000.0 ")
    assert bar.startswith("step 40 of 100 ━")
    assert " 40% " in bar
    assert bar.endswith("left")


@pytest.mark.parametrize("size", [(40, 40), (80, 8)])
def test_a_small_terminal_has_the_bar_alone(config: Config, size: tuple[int, int]) -> None:
    console = terminal(width=size[0], height=size[1])
    (bar,) = shown(console, LivePanel(console, config, Position()))
    assert bar.endswith("left")


def test_a_training_that_goes_on_shows_what_it_had_reached(config: Config) -> None:
    panel = LivePanel(terminal(), config, Position(step=20, scores={"10": 12.0, "20": 15.0}))
    assert panel.score.points == [(10, 12.0), (20, 15.0)]


def test_its_time_left_is_not_computed_from_what_was_done_before(config: Config) -> None:
    panel = LivePanel(terminal(), config, Position(step=60))
    panel.stepped(Position(step=60))
    assert panel._progress.tasks[0].speed is None


# Samples


def test_samples_are_spread_evenly_and_never_more_than_there_are() -> None:
    for n in range(20):
        indices = sampled(n)
        assert len(indices) == len(set(indices)) == min(n, N_SAMPLES)
        assert all(0 <= i < n for i in indices)
    assert sampled(30) == [5, 15, 25]


def test_samples_are_lines_that_leave_the_terminal_alone(config: Config) -> None:
    hostile = Sample("a\n\x1b[2Jb", "[red]c[/red]", "x" * 1000)
    lines = shown(terminal(width=300), sample_table([hostile], config.names.sample))
    assert [line.split()[0] for line in lines] == ["source", "reference", "hypothesis"]
    assert "\x1b" not in "".join(lines)
    assert lines[0].split(maxsplit=1)[1].rstrip() == "a \ufffd[2Jb"
    assert "[red]c[/red]" in lines[1]
    assert len(lines[2].split()[1]) == LONGEST


# The listener


def test_a_terminal_shows_samples_of_every_validation_and_the_texts_of_the_corpus(
    tiny_run: Path, tmp_path: Path
) -> None:
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


def test_a_pipe_gets_log_lines_alone(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with TerminalListener() as listener:
        train(Run.open(tiny_run).config, tmp_path / "run", listener=listener)
    said = capsys.readouterr().err
    assert "\nstep 6 · epoch" in said
    assert not re.search(r"source|hypothesis|\x1b|[\u2800-\u28ff━]", said)
    assert sys.stderr.isatty() is False


def test_a_classifier_s_samples_are_text_label_and_prediction(
    tiny_classifier_run: Path, tmp_path: Path
) -> None:
    console = terminal(width=100)
    settings = Run.open(tiny_classifier_run).config.model_dump()
    overrides = ("training.max_steps=4", "training.valid_every=2")
    config = parse_config(settings, overrides=overrides)
    with TerminalListener(console) as listener:
        train(config, tmp_path / "run", listener=listener)
    said = text_of(console)
    labels = re.findall(r"^  label +(\w+)", said, re.MULTILINE)
    assert len(labels) >= 2 * N_SAMPLES
    assert set(labels) <= {"praise", "blame"}
    assert len(re.findall(r"^  prediction +(?:praise|blame)", said, re.MULTILINE)) == len(labels)
