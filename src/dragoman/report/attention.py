"""Where a translator looks, as a picture."""

from __future__ import annotations

from pathlib import Path

from dragoman.errors import DataError
from dragoman.predict.attention import CrossAttention
from dragoman.report.picture import picture

INCH_PER_TOKEN = 0.26
"""Room for a label to be read."""


def plot_attention(attention: CrossAttention, path: Path, *, layer: int = -1) -> None:
    """Draws the heads of one decoder layer and their mean, a heat map each.

    Rows are the tokens of the translation, columns those of the source; dark is much attention. A negative
    `layer` counts from the last. `path` ends in .svg, .png or .pdf. DataError: there is no such layer.
    MissingExtraError: matplotlib is not installed. RunError: `path` has another ending or cannot be written.
    """
    n_layers = len(attention.weights)
    if not -n_layers <= layer < n_layers:
        raise DataError(f"layer = {layer}: the decoder has {n_layers}, numbered from 0")
    heads = attention.weights[layer]  # (H, T, S)
    maps = {"mean of the heads": heads.mean(0)}
    maps |= {f"head {number}": head for number, head in enumerate(heads, start=1)}
    n_rows = -(-len(maps) // 3)
    width = INCH_PER_TOKEN * len(attention.src_tokens) + 0.9
    height = INCH_PER_TOKEN * len(attention.tgt_tokens) + 1.2
    with picture(
        path, size=(width * min(3, len(maps)), height * n_rows), purpose="drawing attention"
    ) as figure:
        for number, (title, weights) in enumerate(maps.items(), start=1):
            axes = figure.add_subplot(n_rows, min(3, len(maps)), number)
            axes.imshow(weights, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
            axes.set_title(title)
            axes.set_xticks(range(len(attention.src_tokens)), attention.src_tokens, rotation=60, ha="right")
            axes.set_yticks(range(len(attention.tgt_tokens)), attention.tgt_tokens)
            axes.tick_params(length=0)
