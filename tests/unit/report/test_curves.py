"""Figures of learning curves and of schedules: what they draw, and where."""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from commands import error_of, succeed
from dragoman.config import TrainingConfig, parse_config, to_toml
from dragoman.errors import RunError
from dragoman.report import picture
from dragoman.report.curves import Curves, plot_learning_curves
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
    with pytest.raises(RunError, match=r"history\.jsonl: holds no log line yet; train until"):
        plot_learning_curves(run, run.path / "a.svg")
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
    assert len(learning_rates(config.model_copy(update={"valid_every": 0}))) == 100, "once an epoch"


@pytest.mark.slow
def test_every_schedule_is_drawn_or_that_of_a_recipe(tmp_path: Path) -> None:
    def drawn(*arguments: str) -> str:  # a picture names every text in it
        succeed("show", "schedule", *arguments, "--out", tmp_path / "drawn.svg")
        return (tmp_path / "drawn.svg").read_text(encoding="utf-8")

    every = drawn("--set", "training.max_steps=300")
    assert all(f"<!-- {name} -->" in every for name in SCHEDULES)
    assert "<!-- from step 150 on -->" in every
    recipe = tmp_path / "recipe.toml"
    config = parse_config({"name": "mine", "data": DATA, "training": {"schedule": "cosine"}})
    recipe.write_text(to_toml(config), encoding="utf-8")
    one = drawn("--recipe", str(recipe))
    assert "<!-- mine · grey: warm-up -->" in one
    assert [name for name in SCHEDULES if f"<!-- {name} -->" in one] == ["cosine"]


@pytest.mark.slow
def test_a_picture_is_drawn_where_out_says_and_needs_matplotlib(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "a.png"
    result = succeed("show", "schedule", "--out", path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert (result.stdout, result.stderr) == ("", f"learning rates: {path}\n")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    line = error_of("show", "schedule", "--out", tmp_path / "a.svg")
    assert re.search("drawing learning rates needs the package matplotlib: .*pip install", line)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["schedule"], "learning rates are drawn into a file: give --out schedule.svg"),
        (["schedule", "--plot", "--out", "a.svg"], "give --out schedule.svg, and no --plot"),
        (["schedule", "--out", "a.svg", "--set", "training.schedul=1"], "did you mean training.schedule?"),
        (["schedule", "--out", "a.xyz"], "a.xyz: is no kind of picture; give a name that ends in .svg"),
        (["runs/x", "--out", "a.svg"], "are for: dragoman show schedule"),
    ],
)
def test_options_that_do_not_belong_together_are_named(arguments: list[str], message: str) -> None:
    assert message in error_of("show", *arguments)
