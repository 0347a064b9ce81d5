"""The style of figures, and how they are saved."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dragoman.errors import RunError, require
from dragoman.files import write_atomically

# Colours that stay apart for colour-blind readers (Okabe and Ito 2008).
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#555555"

STYLE: Any = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.edgecolor": "none",
    "legend.framealpha": 0.6,
    "axes.edgecolor": GREY,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "text.parse_math": False,  # a dollar sign in a corpus is one
    "svg.hashsalt": "dragoman",  # the same content gives the same file
}


@contextmanager
def picture(path: Path, *, size: tuple[float, float], purpose: str) -> Iterator[Any]:
    """Make a figure of `size` inches; at the end of the block it is written to `path` (.svg, .png or .pdf).

    MissingExtraError: matplotlib is not installed; `purpose` says what for. RunError: `path` has another
    ending or cannot be written.
    """
    require("matplotlib", extra="plots", purpose=purpose)
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    kind = path.suffix.removeprefix(".")
    if kind not in ("svg", "png", "pdf"):
        raise RunError(f"{path}: is no kind of picture; give a name that ends in .svg, .png or .pdf")
    with rc_context(STYLE), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        content = _saved(figure, kind)
        strange = any(str(warning.message).startswith("Glyph ") for warning in caught)
        if strange and kind == "svg":  # the reader's machine may have the letters that ours has not
            with rc_context({"svg.fonttype": "none"}):
                content = _saved(figure, kind)
    for warning in caught:
        if not str(warning.message).startswith("Glyph "):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    write_atomically(path, content)


def _saved(figure: Any, kind: str) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    return content.getvalue()


def pale_grid(axes: Any, axis: str = "y") -> None:
    """Draw pale lines for the eye, below all else."""
    axes.grid(axis=axis, color="#e4e4e4", linewidth=0.7)
    axes.set_axisbelow(True)


def finish_axes(axes: Any, *, label: str) -> None:
    """Pale lines for the eye, `label` below, and steps from zero on."""
    axes.set_xlabel(label)
    pale_grid(axes)
    axes.set_xlim(left=0)
