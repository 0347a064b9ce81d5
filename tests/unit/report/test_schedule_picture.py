"""`dragoman show schedule`: learning rates as text and as a picture."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dragoman.cli import app
from dragoman.config import TrainingConfig
from dragoman.report.schedule import (
    BLOCKS,
    ScheduleCurve,
    plot_schedules,
    rate_in_words,
    text_chart,
    text_line,
)
from dragoman.training.updates.schedule import learning_rate, learning_rates

SCHEDULES = ["inverse_sqrt", "linear", "cosine", "constant", "wsd", "plateau"]


def show(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["show", *arguments])


def rising(n_steps: int) -> ScheduleCurve:
    return ScheduleCurve("rising", [step / n_steps for step in range(1, n_steps + 1)], n_steps)


@pytest.mark.parametrize("schedule", SCHEDULES[:-1])
def test_rates_are_those_of_every_update(schedule: str) -> None:
    config = TrainingConfig.model_validate({"schedule": schedule, "max_steps": 50, "warmup_steps": 10})
    assert learning_rates(config) == [learning_rate(step, config) for step in range(1, 51)]


def test_a_plateau_is_drawn_as_if_validation_stalled_after_half_of_the_steps() -> None:
    """Validated every 10 of 100 steps, the second stalled one is at step 70, the fourth at step 90."""
    config = TrainingConfig.model_validate(
        {
            "schedule": "plateau", "max_steps": 100, "warmup_steps": 5, "valid_every": 10,
            "plateau_patience": 2, "plateau_factor": 0.5, "learning_rate": 1.0,
        }
    )  # fmt: skip
    rates = learning_rates(config)
    assert rates[4:70] == [1.0] * 66
    assert rates[70:90] == [0.5] * 20
    assert rates[90:] == [0.25] * 10


def test_a_plateau_validated_once_an_epoch_is_drawn_too() -> None:
    config = TrainingConfig.model_validate({"schedule": "plateau", "max_steps": 10, "valid_every": 0})
    assert len(learning_rates(config)) == 10


@pytest.mark.parametrize("n_steps", [1, 3, 60, 6001])
def test_characters_rise_where_the_rate_rises(n_steps: int) -> None:
    line = text_line(rising(n_steps), width=40)
    heights = [BLOCKS.index(character) for character in line]
    assert len(line) == 40
    assert heights == sorted(heights)
    assert heights[-1] == 8


def test_a_chart_has_its_scales() -> None:
    *rows, floor, labels = text_chart(rising(1000), width=20, height=4)
    assert len(rows) == 4
    assert rows[0].startswith("1.0e0 ┤")
    assert rows[-1].endswith("█" * 14)
    assert floor == "    0 └" + "─" * 20
    assert labels.split() == ["1", "1,000"]
    assert len(labels) == len(floor)


@pytest.mark.parametrize(
    ("rate", "words"), [(0.0, "0"), (2e-3, "2.0e-3"), (7.31e-4, "7.3e-4"), (1.0, "1.0e0")]
)
def test_a_rate_in_words_has_two_digits(rate: float, words: str) -> None:
    assert rate_in_words(rate) == words


def test_every_schedule_is_shown_on_a_line_of_its_own() -> None:
    result = show("schedule", "--set", "training.max_steps=300", "--set", "training.warmup_steps=100")
    assert result.exit_code == 0
    title, *lines = result.stdout.splitlines()
    assert title == "Learning-rate schedules · peak 2.0e-3 · 100 steps of warm-up · 300 steps"
    assert [line.split()[0] for line in lines] == SCHEDULES
    assert lines[1].endswith("ends at 0")
    assert lines[-1].endswith("if validation stalls from step 150 on")


def test_a_recipe_s_schedule_is_shown_with_what_may_end_it(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        'name = "mine"\n[data]\nsrc_lang = "en"\ntgt_lang = "de"\ntrain = ["a.tsv"]\n'
        '[training]\nschedule = "cosine"\nmax_steps = 3000\nmax_epochs = 20\n',
        encoding="utf-8",
    )
    result = show("schedule", "--recipe", str(recipe), "--set", "training.learning_rate=0.01")
    assert result.exit_code == 0
    assert result.stdout.startswith("mine · peak 1.0e-2 · 800 steps of warm-up · 3,000 steps\n1.0e-2 ┤")
    assert result.stdout.endswith("cosine, ends at 0\nmay end earlier: training.max_epochs = 20 passes\n")


def test_text_needs_no_matplotlib_and_a_picture_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert show("schedule").exit_code == 0
    result = show("schedule", "--out", str(tmp_path / "a.svg"))
    assert result.exit_code == 1
    assert re.search("drawing learning rates needs the package matplotlib: .*pip install", result.stderr)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "magic"), [("a.svg", b"<?xml"), ("a.png", b"\x89PNG"), ("a.pdf", b"%PDF")])
def test_the_suffix_chooses_the_kind_of_picture(tmp_path: Path, name: str, magic: bytes) -> None:
    result = show("schedule", "--out", str(tmp_path / name))
    assert result.exit_code == 0
    assert (tmp_path / name).read_bytes().startswith(magic)
    assert result.stderr == f"learning rates: {tmp_path / name}\n"


@pytest.mark.slow
@pytest.mark.parametrize("n_curves", [1, 2, 4, 6])
def test_any_number_of_curves_can_be_drawn_and_always_gives_the_same_file(
    tmp_path: Path, n_curves: int
) -> None:
    for name in ("a.svg", "b.svg"):
        plot_schedules([rising(5000)] * n_curves, tmp_path / name, title="some")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["schedule", "--plot"], "--plot is for a run; for learning rates give --out schedule.svg"),
        (["runs/x", "--out", "a.svg"], "--recipe, --set and --out are for: dragoman show schedule"),
        (["runs/x", "--set", "seed=2"], "--recipe, --set and --out are for: dragoman show schedule"),
        (["schedule", "--recipe", "no.toml"], "no.toml: cannot be read"),
        (["schedule", "--set", "training.schedul=1"], "did you mean training.schedule?"),
        (["schedule", "--out", "a.xyz"], "a.xyz: is no kind of picture"),
    ],
)
def test_options_that_do_not_belong_together_are_named(arguments: list[str], message: str) -> None:
    result = show(*arguments)
    assert result.exit_code == 1
    assert message in result.stderr


def test_a_run_in_a_folder_called_schedule_is_shown_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schedule").mkdir()
    assert "schedule: is not a run, for it holds no config.toml" in show("./schedule").stderr
