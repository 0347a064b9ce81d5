"""Figures of attention weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman.errors import DataError
from dragoman.predict.alignment import WordAlignment
from dragoman.predict.attention import AttentionMap, AttentionMaps
from dragoman.report.picture import ORANGE, picture

INCH_PER_TOKEN = 0.26
"""Room for a label to be read."""

N_COLUMNS = 3
"""Maps side by side."""

PURPOSE = "drawing attention"


def plot_attention(attention: AttentionMap, path: Path, *, layer: int = -1, title: str = "") -> None:
    """Draw the heads of one layer and their mean, a heat map each.

    Rows are the tokens that look, columns those that are looked at; dark is much attention. A negative
    `layer` counts from the last. Errors: those of `picture`. DataError: there is no such layer.
    """
    n_layers = len(attention.weights)
    if not -n_layers <= layer < n_layers:
        raise DataError(f"layer = {layer}: there are {n_layers}, numbered from 0")
    heads = attention.weights[layer]  # (H, T, S)
    maps = {"mean of the heads": heads.mean(0)}
    maps |= {f"head {number}": head for number, head in enumerate(heads, start=1)}
    n_columns = min(N_COLUMNS, len(maps))
    n_rows = -(-len(maps) // n_columns)
    width = INCH_PER_TOKEN * len(attention.columns) + 0.4
    height = INCH_PER_TOKEN * len(attention.rows) + 0.5
    size = (width * n_columns + 1.3, height * n_rows + 1.2)
    with picture(path, size=size, purpose=PURPOSE) as figure:
        figure.get_layout_engine().set(h_pad=0.08)  # inches
        grid = figure.subplots(n_rows, n_columns, squeeze=False)
        image = None
        for number, (axes, (name, weights)) in enumerate(zip(grid.flat, maps.items(), strict=False)):
            image = _draw_map(axes, weights, title=name)
            below = number + n_columns >= len(maps)  # labels stand at the edges alone: there are many maps
            _label(
                axes, attention.rows if number % n_columns == 0 else (), attention.columns if below else ()
            )
        for axes in grid.flat[len(maps) :]:
            axes.set_visible(False)
        figure.colorbar(image, ax=grid, shrink=min(1.0, 2.2 / size[1]), aspect=12, label="attention")
        if title:
            figure.suptitle(title, x=0.01, ha="left", size=11)


def plot_layers(maps: AttentionMaps, folder: Path) -> dict[str, Path]:
    """Draw every layer of a model into `folder`, a picture each, and return the files by their titles.

    Errors: those of `plot_attention`.
    """
    kinds: dict[str, tuple[str, AttentionMap]] = {
        "encoder": ("Encoder self-attention", maps.encoder),
        "decoder": ("Decoder self-attention", maps.decoder),
        "cross": ("Cross-attention", maps.cross),
    }
    files = {}
    for kind, (name, attention) in kinds.items():
        n_layers = len(attention.weights)
        for layer in range(n_layers):
            title = f"{name}, layer {layer + 1} of {n_layers}"
            files[title] = folder / f"{kind}-{layer + 1}.svg"
            plot_attention(attention, files[title], layer=layer, title=title)
    return files


def plot_alignment(alignment: WordAlignment, path: Path, *, title: str = "") -> None:
    """Draw the attention between words, with a frame round each pair of words that is linked.

    Rows are the words of the translation, columns those of the source. Errors: those of `plot_attention`.
    """
    n_tgt, n_src = alignment.weights.shape
    size = (0.3 * n_src + 2.2, 0.3 * n_tgt + 1.6)
    with picture(path, size=size, purpose=PURPOSE) as figure:
        axes = figure.add_subplot()
        image = _draw_map(axes, alignment.weights, title=title)
        _label(axes, alignment.tgt_words, alignment.src_words)
        from matplotlib.patches import Rectangle

        for s, t in alignment.links:
            frame = Rectangle((s - 0.5, t - 0.5), 1, 1, fill=False, edgecolor=ORANGE, linewidth=2.0)
            axes.add_patch(frame)
            frame.set_gid(f"link-{s}-{t}")
        figure.colorbar(image, ax=axes, shrink=min(1.0, 2.2 / size[1]), aspect=12, label="share of attention")


def _draw_map(axes: Any, weights: Any, *, title: str) -> Any:
    """Return a heat map of weights from 0 to 1, one cell wide to each token."""
    image = axes.imshow(weights, cmap="Blues", vmin=0.0, vmax=1.0, interpolation="nearest")
    axes.set_title(title)
    axes.tick_params(length=0)
    for side in ("top", "right", "bottom", "left"):
        axes.spines[side].set_visible(True)
        axes.spines[side].set_color("#bbbbbb")
    return image


def _label(axes: Any, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Name the tokens at the left and below; none where there are none."""
    axes.set_xticks(range(len(columns)), columns, rotation=90)
    axes.set_yticks(range(len(rows)), rows)
