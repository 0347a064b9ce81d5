"""Positional encodings (section 3.5 of Vaswani et al. 2017), as a figure and as text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dragoman.model.layers import sinusoids
from dragoman.report.picture import BLUE, GREEN, GREY, ORANGE, pale_grid, picture

Floats = npt.NDArray[np.float32]

SHADES = " ·░▒▓█"
"""From -1 to 1."""

N_DRAWN = 100
"""Positions in the picture."""


def encodings(n_positions: int, d_model: int) -> Floats:
    """(n_positions, D): what the model adds to the embeddings."""
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
    """Draw the encodings of the first positions, some of their dimensions, and how alike positions are.

    `path` ends in .svg, .png or .pdf. MissingExtraError: matplotlib is not installed. RunError: `path` has
    another ending or cannot be written.
    """
    with picture(path, size=(11.0, 3.6), purpose="drawing positions") as figure:
        table, waves, products = figure.subplots(1, 3)
        values = encodings(N_DRAWN, d_model)
        sorted_values = np.concatenate(
            [values[:, 0::2], values[:, 1::2]], axis=1
        )  # side by side they flicker
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
        waves.set_title("Single dimensions")
        waves.set_xlabel("position")
        waves.set_ylim(-1.1, 1.4)
        waves.legend(ncols=3, loc="upper left", fontsize=8)
        alike = likeness(N_DRAWN, d_model)
        for start, dash, colour in ((0, "-", BLUE), (N_DRAWN // 2, "--", ORANGE)):
            products.plot(alike[start], dash, color=colour, linewidth=1.5, label=f"with position {start}")
        products.set_title("How alike: scalar product over D/2")
        products.set_xlabel("position")
        products.set_ylim(min(0.0, float(alike.min()) - 0.05), 1.25)
        products.legend(loc="upper center", ncols=2, fontsize=8)
        for axes in (waves, products):
            pale_grid(axes)
        figure.suptitle(f"Sinusoidal positions · d_model {d_model}", x=0.01, ha="left", size=11, color=GREY)


def describe_positions(d_model: int, *, n_positions: int = 16, width: int = 64) -> Iterator[str]:
    """Yield the sines of the first positions in shades, `width` characters at most; no matplotlib needed."""
    n_sines = d_model // 2
    columns = min(width, n_sines)
    chosen = [2 * (i * n_sines // columns) for i in range(columns)]
    values = encodings(n_positions, d_model)[:, chosen]
    yield (
        f"Sinusoidal positions · d_model {d_model} · {columns} of {n_sines} sines, "
        f"first {n_positions} positions"
    )
    yield f"position  dimension 0{chosen[-1]:>{max(4, columns - len('dimension 0'))}}"
    for position, row in enumerate(values):
        yield f"{position:>8}  {''.join(shade(value) for value in row)}".rstrip()
    yield f"shades from -1 to 1: '{SHADES}'; dimension 2i is sin(position / 10000^(2i/D)), 2i+1 its cosine"
    yield "likeness of two positions, by distance: scalar product over D/2"
    distances = (0, 1, 2, 4, 8, 16, 32, 64)
    alike = likeness(distances[-1] + 1, d_model)[0]
    yield "  " + "  ".join(f"{distance:>5}" for distance in distances)
    yield "  " + "  ".join(f"{alike[distance]:>5.2f}" for distance in distances)


def shade(value: float) -> str:
    """Return the character of a value from -1 to 1."""
    share = (min(1.0, max(-1.0, float(value))) + 1) / 2
    return SHADES[min(len(SHADES) - 1, int(share * len(SHADES)))]
