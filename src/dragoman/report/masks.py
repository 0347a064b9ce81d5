"""Attention masks (section 3.2.3 of Vaswani et al. 2017), as a figure and as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from dragoman.model.transformer import attention_bias, causal_attention_bias
from dragoman.report.picture import BLUE, picture
from dragoman.text.tokenizer import BOS_ID, EOS_ID, PAD_ID
from dragoman.text.vocabulary import SPECIAL_TOKENS

Bools = npt.NDArray[np.bool_]

ALLOWED, FORBIDDEN = "■", "·"

PAIR = ("A man rides a bike", "Ein Mann fährt Rad")
"""The sentence that masks are shown for."""

N_PADDED = 2
"""Padding tokens after the source, as in a batch with a longer sentence."""


class Mask(NamedTuple):
    """The mask of one of the three kinds of attention."""

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


def plot_masks(masks: Sequence[Mask], path: Path) -> None:
    """Draw masks side by side: what is allowed is blue and bears a dot.

    `path` ends in .svg, .png or .pdf. MissingExtraError: matplotlib is not installed. RunError: `path` has
    another ending or cannot be written.
    """
    width = sum(0.3 * len(mask.columns) + 1.1 for mask in masks)
    height = max(0.3 * len(mask.rows) for mask in masks) + 1.3
    with picture(path, size=(width, height), purpose="drawing masks") as figure:
        widths = [len(mask.columns) for mask in masks]
        grid = figure.subplots(1, len(masks), squeeze=False, width_ratios=widths)[0]
        for axes, mask in zip(grid, masks, strict=True):
            _draw(axes, mask)
        figure.suptitle("Dots: a row's token may look at a column's", x=0.01, ha="left", size=11)


def describe_masks(masks: Sequence[Mask]) -> Iterator[str]:
    """Each mask in characters, a row a token; no matplotlib needed."""
    yield f"{ALLOWED}: the token of the row may look at that of the column; {FORBIDDEN}: it may not"
    for mask in masks:
        yield ""
        yield f"{mask.name}, {mask.allowed.shape[0]} × {mask.allowed.shape[1]}"
        width = max(map(len, mask.rows))
        for i in range(max(map(len, mask.columns))):  # names of columns stand upright
            letters = [name[i] if i < len(name) else " " for name in mask.columns]
            yield f"{'':>{width}}  {' '.join(letters)}".rstrip()
        for name, row in zip(mask.rows, mask.allowed, strict=True):
            cells = " ".join(ALLOWED if allowed else FORBIDDEN for allowed in row)
            yield f"{name:>{width}}  {cells}"


def _allowed(bias: torch.Tensor | None, n_rows: int, n_columns: int) -> Bools:
    """(rows, columns): where what is added to the scores is 0; None adds nothing anywhere."""
    added = torch.zeros(1) if bias is None else bias.reshape(-1, n_columns)
    allowed: Bools = (added == 0).expand(n_rows, n_columns).numpy()
    return allowed


def _draw(axes: Any, mask: Mask) -> None:
    axes.imshow(mask.allowed, cmap="Blues", vmin=0.0, vmax=2.2, interpolation="nearest")
    rows, columns = np.nonzero(mask.allowed)
    axes.plot(columns, rows, "o", color=BLUE, markersize=4, gid=mask.name)
    axes.set_title(mask.name)
    axes.set_anchor("NW")
    axes.set_xticks(range(len(mask.columns)), mask.columns, rotation=90)
    axes.set_yticks(range(len(mask.rows)), mask.rows)
    axes.set_xticks(np.arange(0.5, len(mask.columns) - 1), minor=True)
    axes.set_yticks(np.arange(0.5, len(mask.rows) - 1), minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="both", length=0)
    for side in axes.spines.values():
        side.set_visible(False)
