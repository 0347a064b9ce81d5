"""Learning curves."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from dragoman.config import parse_config
from dragoman.errors import RunError
from dragoman.report.curves import Curves, plot_learning_curves
from dragoman.report.picture import picture
from dragoman.runs import Run

DATA = {"src_lang": "en", "tgt_lang": "pl", "train": ["a.en", "a.pl"]}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(tmp_path / "run", parse_config({"name": "curves", "data": DATA}))


def log(run: Run, *, step: int, loss: float | None = 3.0) -> None:
    run.append_history({"kind": "train", "step": step, "train_loss": loss, "lr": 1e-3 / step})


def validate(run: Run, *, step: int, bleu: float) -> None:
    run.append_history({"kind": "valid", "step": step, "valid_loss": 2.0, "bleu": bleu})


@pytest.mark.slow
def test_the_same_history_gives_the_same_file(run: Run) -> None:
    log(run, step=1)
    validate(run, step=1, bleu=50.0)
    for name in ("a.svg", "b.svg"):
        plot_learning_curves(run, run.path / name)
    assert (run.path / "a.svg").read_bytes() == (run.path / "b.svg").read_bytes()


@pytest.mark.slow
def test_every_validation_is_a_point_of_the_bleu_curve(run: Run) -> None:
    for step in (1, 2, 3):
        log(run, step=step)
        validate(run, step=step, bleu=10.0 * step)
        plot_learning_curves(run, run.path / "a.svg")
        curve = ElementTree.parse(run.path / "a.svg").find(".//*[@id='bleu']")
        assert curve is not None
        assert sum(1 for element in curve.iter() if element.tag.endswith("use")) == step


def test_letters_that_no_font_has_here_are_left_to_the_reader_s(tmp_path: Path) -> None:
    with picture(tmp_path / "a.svg", size=(2, 2), purpose="drawing") as figure:
        figure.subplots().set_title("\U0001f9ff 猫 \u1480 $x^{")
    assert "\U0001f9ff 猫" in (tmp_path / "a.svg").read_text(encoding="utf-8")
    with picture(tmp_path / "b.svg", size=(2, 2), purpose="drawing") as figure:
        figure.subplots().set_title("Latin")
    assert "Latin<" not in (tmp_path / "b.svg").read_text(encoding="utf-8")


def test_a_reference_run_stands_beside_the_curves(run: Run) -> None:
    log(run, step=1)
    validate(run, step=1, bleu=50.0)
    history = [{"kind": "valid", "step": step, "valid_loss": 1.0, "bleu": 60.0} for step in (10, 20, 30)]
    plot_learning_curves(run, run.path / "a.svg", reference=Curves("reference", history, 100))
    drawn = ElementTree.parse(run.path / "a.svg").findall(".//*[@id='reference']")
    assert len(drawn) == 2  # loss and BLEU
    assert all(sum(1 for e in curve.iter() if e.tag.endswith("use")) == 3 for curve in drawn)


@pytest.mark.slow
def test_losses_that_were_not_numbers_leave_a_gap(run: Run) -> None:
    log(run, step=1)
    log(run, step=2, loss=float("nan"))
    log(run, step=3)
    plot_learning_curves(run, run.path / "a.svg")
    assert (run.path / "a.svg").exists()


def test_a_run_without_history_has_no_curves(run: Run) -> None:
    with pytest.raises(RunError, match=r"history\.jsonl: holds no log line yet; train until"):
        plot_learning_curves(run, run.path / "a.svg")


@pytest.mark.parametrize("name", ["curves.xyz", "curves"])
def test_an_unknown_suffix_is_named(run: Run, name: str) -> None:
    log(run, step=1)
    with pytest.raises(RunError, match=rf"{name}: .*\.svg, \.png or \.pdf"):
        plot_learning_curves(run, run.path / name)
