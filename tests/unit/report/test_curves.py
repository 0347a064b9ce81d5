"""Figures of learning curves and of schedules: what they draw, and where."""

import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from commands import error_of, succeed
from dragoman.config import TrainingConfig, parse_config
from dragoman.errors import RunError
from dragoman.report import picture
from dragoman.report.curves import Curves, plot_learning_curves, plot_runs, plot_schedules
from dragoman.runs import Run
from dragoman.training.updates.schedule import learning_rate, learning_rates

DATA = {"src_lang": "en", "tgt_lang": "pl", "train": ["a.en", "a.pl"]}
SCHEDULES = ["inverse_sqrt", "linear", "cosine", "constant", "wsd", "plateau"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(tmp_path / "run", parse_config({"name": "curves", "data": DATA}))


def log(run: Run, *, step: int, loss: float | None = 3.0) -> None:
    run.append_history({"kind": "train", "step": step, "train_loss": loss, "lr": 1e-3 / step})


def validate(run: Run, *, step: int, bleu: float) -> None:
    run.append_history({"kind": "valid", "step": step, "valid_loss": 2.0, "bleu": bleu})


def points(path: Path, gid: str) -> list[int]:
    """The number of points of each line of that id in a picture."""
    lines = ElementTree.parse(path).findall(f".//*[@id='{gid}']")
    return [sum(element.tag.endswith("use") for element in line.iter()) for line in lines]


@pytest.mark.slow
def test_every_validation_is_a_point_and_the_same_history_gives_the_same_file(run: Run) -> None:
    log(run, step=1)
    log(run, step=2, loss=float("nan"))  # a gap
    for step in (1, 2, 3):
        validate(run, step=step, bleu=10.0 * step)
    for name in ("a.svg", "b.svg"):
        plot_learning_curves(run, run.path / name)
    assert points(run.path / "a.svg", "bleu") == [3]
    assert (run.path / "a.svg").read_bytes() == (run.path / "b.svg").read_bytes()


def test_letters_that_no_font_has_here_are_left_to_the_reader_s(tmp_path: Path) -> None:
    with picture.picture(tmp_path / "a.svg", size=(2, 2), purpose="drawing") as figure:
        figure.subplots().set_title("\U0001f9ff 猫 \u1480 $x^{")
    assert "\U0001f9ff 猫" in (tmp_path / "a.svg").read_text(encoding="utf-8")
    with picture.picture(tmp_path / "b.svg", size=(2, 2), purpose="drawing") as figure:
        figure.subplots().set_title("Latin")
    assert "Latin<" not in (tmp_path / "b.svg").read_text(encoding="utf-8")


def test_a_reference_run_stands_beside_the_curves(run: Run) -> None:
    log(run, step=1)
    validate(run, step=1, bleu=50.0)
    history = [{"kind": "valid", "step": step, "valid_loss": 1.0, "bleu": 60.0} for step in (10, 20, 30)]
    plot_learning_curves(run, run.path / "a.svg", reference=Curves("reference", history, 100))
    assert points(run.path / "a.svg", "reference") == [3, 3]  # loss and BLEU


def test_a_run_without_history_has_no_curves(run: Run) -> None:
    with pytest.raises(RunError, match=r"history\.jsonl: holds no log line yet; train until"):
        plot_learning_curves(run, run.path / "a.svg")


# Legends


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Figures that were saved."""
    kept, save = [], picture._saved
    monkeypatch.setattr(picture, "_saved", lambda figure, kind: [kept.append(figure), save(figure, kind)][1])
    return kept


def covered(figure: Any) -> int:
    """How many points of lines lie below a legend."""
    figure.canvas.draw()
    legends = [*figure.legends, *filter(None, (axes.get_legend() for axes in figure.axes))]
    assert legends
    boxes = [legend.get_window_extent() for legend in legends]
    return sum(
        box.contains(*axes.transData.transform(point))
        for axes in figure.axes
        for line in axes.get_lines()
        for point in np.column_stack(line.get_data())
        for box in boxes
    )


@pytest.mark.slow
@pytest.mark.parametrize("bleu", [5.0, 30.0])
def test_legends_lie_outside_of_points(bleu: float, figures: list[Any], tmp_path: Path) -> None:
    history = [{"kind": "valid", "step": n, "valid_loss": 3.0, "bleu": bleu / n} for n in range(1, 40)]
    runs = [Curves(f"run {i}", history, 40) for i in range(6)]
    plot_runs(runs, tmp_path / "runs.svg", key="bleu", title="BLEU")
    assert covered(figures[-1]) == 0


# Schedules


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


@pytest.mark.slow
def test_every_schedule_is_drawn_or_that_of_a_recipe(tmp_path: Path) -> None:
    def drawn(*arguments: str) -> str:  # a picture names every text in it
        succeed("show", "schedule", *arguments, "--out", tmp_path / "drawn.svg")
        return (tmp_path / "drawn.svg").read_text(encoding="utf-8")

    every = drawn("--set", "training.max_steps=300")
    assert all(f"<!-- {name} -->" in every for name in SCHEDULES)
    assert "<!-- from step 150 on -->" in every
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        'name = "mine"\n[data]\nsrc_lang = "en"\ntgt_lang = "de"\ntrain = ["a.tsv"]\n'
        '[training]\nschedule = "cosine"\n',
        encoding="utf-8",
    )
    one = drawn("--recipe", str(recipe))
    assert "<!-- mine · grey: warm-up -->" in one
    assert [name for name in SCHEDULES if f"<!-- {name} -->" in one] == ["cosine"]


@pytest.mark.slow
@pytest.mark.parametrize("n_schedules", [1, 4])
def test_any_number_of_schedules_can_be_drawn_and_always_gives_the_same_file(
    tmp_path: Path, n_schedules: int
) -> None:
    training = TrainingConfig.model_validate({"max_steps": 5000})
    for name in ("a.svg", "b.svg"):
        plot_schedules([training] * n_schedules, tmp_path / name, title="some")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "magic"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_a_picture_is_drawn_where_out_says(tmp_path: Path, ending: str, magic: bytes) -> None:
    path = tmp_path / f"a.{ending}"
    result = succeed("show", "schedule", "--out", path)
    assert path.read_bytes().startswith(magic)
    assert (result.stdout, result.stderr) == ("", f"learning rates: {path}\n")


def test_a_picture_needs_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    line = error_of("show", "schedule", "--out", tmp_path / "a.svg")
    assert re.search("drawing learning rates needs the package matplotlib: .*pip install", line)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["schedule"], "learning rates are drawn into a file: give --out schedule.svg"),
        (["schedule", "--plot", "--out", "a.svg"], "give --out schedule.svg, and no --plot"),
        (["schedule", "--out", "a.svg", "--set", "training.schedul=1"], "did you mean training.schedule?"),
        (["schedule", "--out", "a.svg", "--recipe", "no.toml"], "no.toml: cannot be read"),
        (["schedule", "--out", "a.xyz"], "a.xyz: is no kind of picture; give a name that ends in .svg"),
        (["schedule", "--out", "a"], "a: is no kind of picture"),
        (["runs/x", "--out", "a.svg"], "are for: dragoman show schedule"),
        (["runs/x", "--set", "seed=2"], "are for: dragoman show schedule"),
    ],
)
def test_options_that_do_not_belong_together_are_named(arguments: list[str], message: str) -> None:
    assert message in error_of("show", *arguments)


def test_a_run_in_a_folder_called_schedule_is_shown_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schedule").mkdir()
    assert "schedule: is not a run, for it holds no config.toml" in error_of("show", "./schedule")
