"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.errors import require

BEAM = "Beam search"

RunPath = Annotated[Path, typer.Argument(help="Run folder, or hf:user/model.", show_default=False)]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change one setting; repeatable."),
]
MaxRatio = Annotated[
    float,
    typer.Option(
        min=0.0,
        max=1e6,
        help="Skip pairs whose lengths in tokens differ by more than this ratio, 1 or more; 0 = keep all.",
    ),
]
BeamSize = Annotated[
    int | None,
    typer.Option(min=1, help="Beam size; 1 = greedy.", show_default="the run's", rich_help_panel=BEAM),
]
LengthPenalty = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        help="Length penalty; 0 favours short translations.",
        show_default="the run's",
        rich_help_panel=BEAM,
    ),
]
CoveragePenalty = Annotated[
    float | None,
    typer.Option(min=0.0, help="Penalty for source tokens without attention.", rich_help_panel=BEAM),
]
NoRepeatedNgram = Annotated[
    int | None, typer.Option(min=0, help="Block repeated n-grams of this size; 0 = off.")
]
EngineName = Annotated[str, typer.Option(help="Inference engine: native or ctranslate2.")]
BatchSentences = Annotated[
    int | None, typer.Option(min=1, help="Sentences per batch.", show_default="the run's")
]
To = Annotated[
    str | None,
    typer.Option(
        metavar="LANGUAGE",
        help="Target language of a run with several, such as de; or a direction, such as en-de.",
        show_default=False,
    ),
]
Scores = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=FILE",
        help="Add scores of another tool: one number per line, higher is better; once per NAME and test set.",
    ),
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")]
Precision = Annotated[str, typer.Option(help="fp32, bf16 or int8; auto = chosen for the device.")]
Ensemble = Annotated[
    list[Path] | None,
    typer.Option(help="Add a run with the same vocabulary to an ensemble; repeatable."),
]


def _with_ray(address: str | None) -> str | None:
    if address is not None:
        require("ray", extra="ray", purpose=f"--ray {address}")
    return address


Workers = Annotated[
    int,
    typer.Option(
        min=1,
        max=256,
        help="Number of worker processes; each gets a share of the cores, or a GPU.",
        rich_help_panel="Large files",
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        callback=_with_ray,
        help="Work on the Ray cluster at ADDRESS; local = start one on this machine.",
        rich_help_panel="Large files",
        show_default=False,
    ),
]
