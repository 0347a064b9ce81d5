"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.requests import option_of
from dragoman.distillation.lessons import Lessons
from dragoman.errors import ConfigError, require
from dragoman.tasks.request import EvaluationRequest, TrainingRequest

RunPath = Annotated[Path, typer.Argument(help="Run folder, or hf:user/model.")]
Overrides = Annotated[list[str] | None, option_of(TrainingRequest, "overrides")]
MaxRatio = Annotated[float, option_of(Lessons, "max_ratio")]
BeamSize = Annotated[int | None, option_of(EvaluationRequest, "beam_size")]
LengthPenalty = Annotated[float | None, option_of(EvaluationRequest, "length_penalty")]
CoveragePenalty = Annotated[float | None, option_of(EvaluationRequest, "coverage_penalty")]
NoRepeatedNgram = Annotated[int | None, option_of(EvaluationRequest, "no_repeat_ngram")]
EngineName = Annotated[str, option_of(EvaluationRequest, "engine")]
BatchSentences = Annotated[int | None, option_of(EvaluationRequest, "batch_sentences")]
To = Annotated[str | None, option_of(EvaluationRequest, "to")]
Scores = Annotated[list[str] | None, option_of(EvaluationRequest, "scores")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, not a table.")]
Split = Annotated[str | None, option_of(EvaluationRequest, "split")]
Source = Annotated[str | None, option_of(EvaluationRequest, "src")]
References = Annotated[str | None, option_of(EvaluationRequest, "ref")]
Method = Annotated[
    str | None, typer.Option(help="Search method: beam or sampling.", show_default="the run's")
]
TaskName = Annotated[str | None, option_of(TrainingRequest, "task")]
Device = Annotated[str, option_of(EvaluationRequest, "device")]
Precision = Annotated[str, option_of(EvaluationRequest, "precision")]
Ensemble = Annotated[list[Path] | None, option_of(EvaluationRequest, "ensemble")]


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
    ),
]


TextColumn = Annotated[str | None, option_of(TrainingRequest, "text_column")]
LabelColumn = Annotated[str | None, option_of(TrainingRequest, "label_column")]
LabelSeparator = Annotated[str, option_of(TrainingRequest, "label_separator")]
Columns = Annotated[str | None, option_of(TrainingRequest, "columns")]
Src = Annotated[list[str] | None, option_of(TrainingRequest, "src")]
Tgt = Annotated[list[str] | None, option_of(TrainingRequest, "tgt")]
SrcLang = Annotated[str | None, option_of(TrainingRequest, "src_lang")]
TgtLang = Annotated[str | None, option_of(TrainingRequest, "tgt_lang")]


def corpus_files(files: list[str] | None, src: list[str] | None, tgt: list[str] | None) -> list[str]:
    """Return the files of one corpus, named as arguments or by --src and --tgt. ConfigError: otherwise."""
    named = [*(files or ()), *(src or ()), *(tgt or ())]
    if not named or (files and (src or tgt)) or len(src or ()) != len(tgt or ()) or len(src or ()) > 1:
        raise ConfigError("name two aligned files or one file of pairs, or give --src and --tgt once each")
    return named
