"""`dragoman show schedule`, `positions` and `masks`: what they draw, and where."""

import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from commands import error_of, succeed
from dragoman.config import ModelConfig, TrainingConfig
from dragoman.model.layers import MultiHeadAttention
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.predict.attention import watched
from dragoman.report.figures import Mask, encodings, likeness, masks_of, plot_schedules
from dragoman.training.updates.schedule import learning_rate, learning_rates

SCHEDULES = ["inverse_sqrt", "linear", "cosine", "constant", "wsd", "plateau"]


def drawn(folder: Path, *arguments: str) -> str:
    """The content of the picture that `dragoman show` draws; it names every text in it."""
    succeed("show", *arguments, "--out", folder / "drawn.svg")
    return (folder / "drawn.svg").read_text(encoding="utf-8")


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
def test_every_schedule_is_drawn_or_that_of_a_recipe(tmp_path: Path, recipe: str) -> None:
    every = drawn(tmp_path, "schedule", "--set", "training.max_steps=300")
    assert all(f"<!-- {name} -->" in every for name in SCHEDULES)
    assert "<!-- from step 150 on -->" in every
    one = drawn(tmp_path, "schedule", "--recipe", recipe)
    assert "<!-- mine · grey: warm-up -->" in one
    assert [name for name in SCHEDULES if f"<!-- {name} -->" in one] == ["cosine"]


@pytest.mark.slow
@pytest.mark.parametrize("n_schedules", [1, 2, 4, 6])
def test_any_number_of_schedules_can_be_drawn_and_always_gives_the_same_file(
    tmp_path: Path, n_schedules: int
) -> None:
    training = TrainingConfig.model_validate({"max_steps": 5000})
    for name in ("a.svg", "b.svg"):
        plot_schedules([training] * n_schedules, tmp_path / name, title="some")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    path = tmp_path / "recipe.toml"
    path.write_text(
        'name = "mine"\n[data]\nsrc_lang = "en"\ntgt_lang = "de"\ntrain = ["a.tsv"]\n'
        '[model]\nd_model = 48\nn_heads = 4\n[training]\nschedule = "cosine"\n',
        encoding="utf-8",
    )
    return str(path)


# Positions


def test_encodings_are_the_formula_of_the_paper() -> None:
    d_model = 6
    for position, row in enumerate(encodings(5, d_model)):
        for i in range(d_model // 2):
            angle = position / 10000 ** (2 * i / d_model)
            assert row[2 * i] == pytest.approx(math.sin(angle), abs=1e-6)
            assert row[2 * i + 1] == pytest.approx(math.cos(angle), abs=1e-6)


def test_likeness_depends_on_the_distance_alone() -> None:
    alike = likeness(30, 32)
    np.testing.assert_allclose(np.diag(alike), 1.0, atol=1e-5)
    for distance in range(30):
        diagonal = np.diag(alike, distance)
        np.testing.assert_allclose(diagonal, diagonal[0], atol=1e-4)


@pytest.mark.slow
def test_the_width_is_a_recipe_s_or_set(tmp_path: Path, recipe: str) -> None:
    assert "d_model 48" in drawn(tmp_path, "positions", "--recipe", recipe)
    assert "d_model 64" in drawn(tmp_path, "positions", "--set", "model.d_model=64")
    assert f"d_model {ModelConfig().d_model}" in drawn(tmp_path, "positions")


# Masks


@pytest.fixture(scope="module")
def masks() -> list[Mask]:
    return masks_of("a b c", "x y", n_padded=2)


def test_masks_pictured_are_what_the_model_gives_weight_to(masks: list[Mask]) -> None:
    """Wherever a model puts attention is allowed, and it puts some wherever that is."""
    torch.manual_seed(1)
    config = ModelConfig(d_model=8, n_heads=2, d_ff=8, n_encoder_layers=1, n_decoder_layers=1)
    model = Seq2SeqTransformer(config, src_vocab_size=20, tgt_vocab_size=20).eval()
    src, tgt_in = torch.tensor([[7, 8, 9, 2, 0, 0]]), torch.tensor([[1, 11, 12]])
    with watched(block for block in model.modules() if isinstance(block, MultiHeadAttention)) as seen:
        model(src, src != 0, tgt_in)
    assert len(seen) == len(masks) == 3  # encoder, decoder, cross: in the order of the model
    for mask, weights in zip(masks, seen, strict=True):
        assert weights.shape[-2:] == mask.allowed.shape == (len(mask.rows), len(mask.columns))
        for head in weights[0]:
            np.testing.assert_array_equal(head.detach().numpy() > 0, mask.allowed)


def test_a_mask_s_tokens_are_named(masks: list[Mask]) -> None:
    encoder, decoder, cross = masks
    assert encoder.rows == encoder.columns == cross.columns == ("a", "b", "c", "</s>", "<pad>", "<pad>")
    assert decoder.rows == decoder.columns == cross.rows == ("<s>", "x", "y")


def test_without_padding_everything_real_may_be_looked_at() -> None:
    encoder, _, cross = masks_of("a b", "x", n_padded=0)
    assert encoder.allowed.all()
    assert cross.allowed.all()


# The command


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "noun"), [("schedule", "learning rates"), ("positions", "positions"), ("masks", "masks")]
)
@pytest.mark.parametrize(("ending", "magic"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_they_are_drawn_where_out_says(
    tmp_path: Path, what: str, noun: str, ending: str, magic: bytes
) -> None:
    path = tmp_path / f"a.{ending}"
    result = succeed("show", what, "--out", path)
    assert path.read_bytes().startswith(magic)
    assert (result.stdout, result.stderr) == ("", f"{noun}: {path}\n")


def test_a_picture_needs_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    line = error_of("show", "schedule", "--out", tmp_path / "a.svg")
    assert re.search("drawing learning rates needs the package matplotlib: .*pip install", line)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["schedule"], "learning rates are drawn into a file: give --out schedule.svg"),
        (["masks", "--plot", "--out", "a.svg"], "give --out masks.svg, and no --plot"),
        (["masks", "--out", "a.svg", "--set", "seed=2"], "masks are the same for every recipe; omit"),
        (["positions", "--out", "a.svg", "--set", "model.d_mode=8"], "did you mean model.d_model?"),
        (["schedule", "--out", "a.svg", "--set", "training.schedul=1"], "did you mean training.schedule?"),
        (["schedule", "--out", "a.svg", "--recipe", "no.toml"], "no.toml: cannot be read"),
        (["schedule", "--out", "a.xyz"], "a.xyz: is no kind of picture"),
        (["runs/x", "--out", "a.svg"], "are for: dragoman show schedule, positions, masks"),
        (["runs/x", "--set", "seed=2"], "are for: dragoman show schedule, positions, masks"),
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
