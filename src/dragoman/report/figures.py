"""Figures that need no run: learning-rate schedules, positional encodings, attention masks.

Errors: those of `picture`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from dragoman.config import TrainingConfig
from dragoman.model.layers import sinusoids
from dragoman.model.transformer import attention_bias, causal_attention_bias
from dragoman.report.picture import BLUE, GREEN, GREY, ORANGE, finish_axes, pale_grid, picture
from dragoman.text.tokenizer import BOS_ID, EOS_ID, PAD_ID
from dragoman.text.vocabulary import SPECIAL_TOKENS
from dragoman.training.updates.schedule import learning_rates

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]

N_POINTS = 1000
"""Points of the line of a schedule, at most."""

N_DRAWN = 100
"""Positions in the picture of encodings."""

PAIR = ("A man rides a bike", "Ein Mann fährt Rad")
"""The sentence that masks are shown for."""

N_PADDED = 2
"""Padding tokens after the source, as in a batch with a longer sentence."""


def plot_schedules(trainings: Sequence[TrainingConfig], path: Path, *, title: str) -> None:
    """Draw the learning rate of every update, each schedule on axes of its own, all to one scale."""
    n_columns = min(3, len(trainings))
    n_rows = -(-len(trainings) // n_columns)
    size = (6.4, 3.4) if len(trainings) == 1 else (3.5 * n_columns, 0.4 + 2.2 * n_rows)
    curves = [learning_rates(training) for training in trainings]
    with picture(path, size=size, purpose="drawing learning rates") as figure:
        grid = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False)
        for axes, training, rates in zip(grid.flat, trainings, curves, strict=False):
            n_steps, warmup = len(rates), min(training.warmup_steps, len(rates))
            steps = sorted({*range(1, n_steps + 1, max(1, n_steps // N_POINTS)), warmup, n_steps})
            axes.axvspan(0, warmup, color="#eeeeee", linewidth=0)
            axes.plot(steps, [1000 * rates[step - 1] for step in steps], color=BLUE, linewidth=1.8)
            axes.set_title(training.schedule)
            last = 1000 * rates[-1]
            beside = {"xytext": (4, 1), "textcoords": "offset points", "va": "bottom"}
            axes.annotate(f"{last:.2g}", (n_steps, last), color=BLUE, annotation_clip=False, **beside)
            if training.schedule == "plateau":
                note = f"if validation stalls\nfrom step {training.max_steps // 2:,} on"
                axes.text(0.13, 0.08, note, transform=axes.transAxes, ha="left", color=GREY, size=8)
        for axes in grid.flat[len(curves) :]:
            axes.set_visible(False)
        for i, axes in enumerate(grid.flat[: len(curves)]):
            finish_axes(axes, label="step" if i + n_columns >= len(curves) else "")
            axes.set_ylim(0, 1150 * max(map(max, curves)))
        for row in grid:
            row[0].set_ylabel("learning rate, 10⁻³", color=GREY)
        figure.suptitle(f"{title} · grey: warm-up", x=0.01, ha="left", size=11)


def encodings(n_positions: int, d_model: int) -> Floats:
    """(n_positions, D): what the model adds to the embeddings (section 3.5 of Vaswani et al. 2017)."""
    values: Floats = sinusoids(n_positions, d_model).numpy()
    return values


def likeness(n_positions: int, d_model: int) -> Floats:
    """(n_positions, n_positions): the scalar products of encodings over that of one with itself, D / 2.

    It depends on the distance of two positions alone: the sum of the cosines of rate x distance.
    """
    values = encodings(n_positions, d_model)
    products: Floats = values @ values.T / (d_model / 2)
    return products


def plot_positions(path: Path, *, d_model: int) -> None:
    """Draw the encodings of the first positions, some of their dimensions, and how alike positions are."""
    with picture(path, size=(11.0, 3.6), purpose="drawing positions") as figure:
        table, waves, products = figure.subplots(1, 3)
        values = encodings(N_DRAWN, d_model)
        sorted_values = np.concatenate([values[:, 0::2], values[:, 1::2]], axis=1)  # in turn they flicker
        image = table.imshow(
            sorted_values, cmap="cividis", vmin=-1, vmax=1, aspect="auto", interpolation="nearest"
        )
        table.axvline(d_model / 2 - 0.5, color="white", linewidth=2)
        table.set_title("Encodings")
        table.set_xticks([d_model / 4, 3 * d_model / 4], ["sines (even dim.)", "cosines (odd dim.)"])
        table.set_ylabel("position")
        figure.colorbar(image, ax=table, aspect=30)
        chosen = sorted({2 * round(share * (d_model // 2 - 1)) for share in (0.1, 0.25, 0.4)})
        for i, dash, colour in zip(chosen, ("-", "--", ":"), (BLUE, ORANGE, GREEN), strict=False):
            waves.plot(values[:, i], dash, color=colour, linewidth=1.5, label=f"dim. {i}")
        waves.set(title="Single dimensions", xlabel="position", ylim=(-1.1, 1.4))
        waves.legend(ncols=3, loc="upper left", fontsize=8)
        alike = likeness(N_DRAWN, d_model)
        for start, dash, colour in ((0, "-", BLUE), (N_DRAWN // 2, "--", ORANGE)):
            products.plot(alike[start], dash, color=colour, linewidth=1.5, label=f"with position {start}")
        products.set(title="How alike: scalar product over D/2", xlabel="position")
        products.set_ylim(min(0.0, float(alike.min()) - 0.05), 1.25)
        products.legend(loc="upper center", ncols=2, fontsize=8)
        for axes in (waves, products):
            pale_grid(axes)
        figure.suptitle(f"Sinusoidal positions · d_model {d_model}", x=0.01, ha="left", size=11, color=GREY)


class Mask(NamedTuple):
    """The mask of one of the three kinds of attention (section 3.2.3 of Vaswani et al. 2017)."""

    name: str
    allowed: Bools
    """(rows, columns): True where attention is allowed."""
    rows: tuple[str, ...]
    """The tokens that look."""
    columns: tuple[str, ...]
    """The tokens that may be looked at."""


def masks_of(source: str = PAIR[0], target: str = PAIR[1], *, n_padded: int = N_PADDED) -> list[Mask]:
    """Return the masks of encoder, decoder and cross-attention, as the model computes them.

    Words stand for tokens; `n_padded` padding tokens follow the source.
    """
    pad, bos, eos = (SPECIAL_TOKENS[i] for i in (PAD_ID, BOS_ID, EOS_ID))
    src = (*source.split(), eos, *[pad] * n_padded)
    tgt_in = (bos, *target.split())
    src_mask = torch.tensor([[token != pad for token in src]])
    src_bias = attention_bias(src_mask)
    causal_bias = causal_attention_bias(len(tgt_in), device=src_mask.device)
    return [
        Mask("Encoder self-attention", _allowed(src_bias, len(src), len(src)), src, src),
        Mask("Decoder self-attention", _allowed(causal_bias, len(tgt_in), len(tgt_in)), tgt_in, tgt_in),
        Mask("Cross-attention", _allowed(src_bias, len(tgt_in), len(src)), tgt_in, src),
    ]


def _allowed(bias: torch.Tensor | None, n_rows: int, n_columns: int) -> Bools:
    """(rows, columns): where what is added to the scores is 0; None adds nothing anywhere."""
    added = torch.zeros(1) if bias is None else bias.reshape(-1, n_columns)
    allowed: Bools = (added == 0).expand(n_rows, n_columns).numpy()
    return allowed


def plot_masks(path: Path) -> None:
    """Draw the masks of PAIR side by side: what is allowed is blue and bears a dot."""
    masks = masks_of()
    width = sum(0.3 * len(mask.columns) + 1.1 for mask in masks)
    height = max(0.3 * len(mask.rows) for mask in masks) + 1.3
    with picture(path, size=(width, height), purpose="drawing masks") as figure:
        widths = [len(mask.columns) for mask in masks]
        grid = figure.subplots(1, len(masks), squeeze=False, width_ratios=widths)[0]
        for axes, mask in zip(grid, masks, strict=True):
            axes.imshow(mask.allowed, cmap="Blues", vmin=0.0, vmax=2.2, interpolation="nearest")
            rows, columns = np.nonzero(mask.allowed)
            axes.plot(columns, rows, "o", color=BLUE, markersize=4, gid=mask.name)
            axes.set(title=mask.name, anchor="NW")
            axes.set_xticks(range(len(mask.columns)), mask.columns, rotation=90)
            axes.set_yticks(range(len(mask.rows)), mask.rows)
            axes.set_xticks(np.arange(0.5, len(mask.columns) - 1), minor=True)
            axes.set_yticks(np.arange(0.5, len(mask.rows) - 1), minor=True)
            axes.grid(which="minor", color="white", linewidth=1.5)
            axes.tick_params(which="both", length=0)
            for side in axes.spines.values():
                side.set_visible(False)
        figure.suptitle("Dots: a row's token may look at a column's", x=0.01, ha="left", size=11)
