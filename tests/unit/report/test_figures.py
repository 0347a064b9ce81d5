"""`dragoman show positions` and `dragoman show masks`: as text and as pictures."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner, Result

from dragoman.cli import app
from dragoman.config import ModelConfig
from dragoman.model.layers import MultiHeadAttention
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.predict.attention import watched
from dragoman.report.masks import ALLOWED, FORBIDDEN, Mask, describe_masks, masks_of
from dragoman.report.positions import SHADES, describe_positions, encodings, likeness, shade


def show(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["show", *arguments])


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


def test_shades_darken_as_values_rise() -> None:
    shades = [SHADES.index(shade(value)) for value in np.linspace(-1.0, 1.0, 50)]
    assert shades == sorted(shades)
    assert (shades[0], shades[-1]) == (0, len(SHADES) - 1)


@pytest.mark.parametrize("d_model", [8, 256])
def test_positions_in_characters_have_a_row_each(d_model: int) -> None:
    title, header, *rows = describe_positions(d_model, n_positions=4, width=64)
    sines = range(0, d_model, 2 if d_model <= 128 else d_model // 64)
    assert f"d_model {d_model} · {len(sines)} of {d_model // 2} sines" in title
    assert header.endswith(f" {sines[-1]}")
    for position, row in enumerate(rows[:4]):
        values = encodings(4, d_model)[position]
        expected = "".join(shade(values[i]) for i in sines)
        assert row == f"{position:>8}  {expected}".rstrip()


def test_the_width_is_a_recipe_s_or_set(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(
        'name = "mine"\n[data]\nsrc_lang = "en"\ntgt_lang = "de"\ntrain = ["a.tsv"]\n'
        "[model]\nd_model = 48\nn_heads = 4\n",
        encoding="utf-8",
    )
    assert "d_model 48" in show("positions", "--recipe", str(tmp_path / "recipe.toml")).stdout
    assert "d_model 64" in show("positions", "--set", "model.d_model=64").stdout
    assert f"d_model {ModelConfig().d_model}" in show("positions").stdout


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


def test_masks_in_characters_say_the_same(masks: list[Mask]) -> None:
    lines = list(describe_masks(masks))
    for mask in masks:
        title = next(i for i, line in enumerate(lines) if line.startswith(mask.name))
        first = title + 1 + max(map(len, mask.columns))
        for row, line in zip(mask.allowed, lines[first:], strict=False):
            cells = line.split()[1:]
            assert set(cells) <= {ALLOWED, FORBIDDEN}
            assert [cell == ALLOWED for cell in cells] == row.tolist()


# The command


@pytest.mark.slow
@pytest.mark.parametrize("what", ["positions", "masks"])
@pytest.mark.parametrize(("ending", "magic"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_they_are_drawn_where_out_says(tmp_path: Path, what: str, ending: str, magic: bytes) -> None:
    path = tmp_path / f"a.{ending}"
    result = show(what, "--out", str(path))
    assert result.exit_code == 0
    assert path.read_bytes().startswith(magic)
    assert result.stderr == f"{what}: {path}\n"
    assert show(what).stdout == result.stdout


@pytest.mark.parametrize("what", ["positions", "masks"])
def test_text_needs_no_matplotlib_and_a_picture_does(
    what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert show(what).exit_code == 0
    result = show(what, "--out", str(tmp_path / "a.svg"))
    assert result.exit_code == 1
    assert re.search(rf"drawing {what} needs the package matplotlib: .*pip install", result.stderr)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["masks", "--plot"], "--plot is for a run; for masks give --out masks.svg"),
        (["masks", "--set", "seed=2"], "masks are the same for every recipe; omit --recipe and --set"),
        (["positions", "--set", "model.d_mode=8"], "did you mean model.d_model?"),
        (["runs/x", "--out", "a.svg"], "are for: dragoman show schedule, positions, masks"),
    ],
)
def test_options_that_do_not_belong_together_are_named(arguments: list[str], message: str) -> None:
    result = show(*arguments)
    assert result.exit_code == 1
    assert message in result.stderr
