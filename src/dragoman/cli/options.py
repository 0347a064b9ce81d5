"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.errors import ConfigError, require

BEAM = "Beam search"

RunPath = Annotated[Path, typer.Argument(help="Run folder, or hf:user/model.")]
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
    ),
]
Scores = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=FILE",
        help="Add scores of another tool: one number per line, higher is better; once per NAME and test set.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, not a table.")]
Split = Annotated[str | None, typer.Option(help="Test sets: test or valid.", show_default="test, else valid")]
Source = Annotated[
    str | None, typer.Option(help="Use the sentences of this file, not the test sets; with --ref.")
]
References = Annotated[str | None, typer.Option(help="References of --src, line by line.")]
Method = Annotated[
    str | None, typer.Option(help="Search method: beam or sampling.", show_default="the run's")
]
TaskName = Annotated[str | None, typer.Option(help="classification if the file holds texts and labels.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")]
Precision = Annotated[str, typer.Option(help="fp32, bf16 or int8; auto = chosen for the device.")]
Ensemble = Annotated[
    list[Path] | None, typer.Option(help="Add a run with the same vocabulary to an ensemble; repeatable.")
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
    ),
]


TextColumn = Annotated[
    str | None, typer.Option(help="Column of the text: name, or number from 0.", show_default="detected")
]
LabelColumn = Annotated[
    str | None, typer.Option(help="Column of the label: name, or number from 0.", show_default="detected")
]
LabelSeparator = Annotated[
    str,
    typer.Option(
        help='Separator of the labels of a text that may have several, as "|".',
        show_default="one label per text",
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        metavar="SRC,TGT", help="Columns of source and target in a file of pairs: names, or numbers from 0."
    ),
]

Src = Annotated[list[str] | None, typer.Option(help="Source sentences, one per line; repeatable.")]
Tgt = Annotated[
    list[str] | None, typer.Option(help="Translations of --src, line by line; one file for each --src.")
]
Tsv = Annotated[
    list[str] | None,
    typer.Option(help="File of pairs: .tmx, .po, .csv, .jsonl, .parquet, or tab-separated; repeatable."),
]
ValidSrc = Annotated[list[str] | None, typer.Option(help="Source sentences for validation; repeatable.")]
ValidTgt = Annotated[
    list[str] | None,
    typer.Option(help="Translations of --valid-src; default: hold out a part of the training text."),
]
ValidTsv = Annotated[list[str] | None, typer.Option(help="File of pairs for validation; repeatable.")]
SrcLang = Annotated[
    str | None, typer.Option(help="Source language.", show_default="from the name, as in train.en")
]
TgtLang = Annotated[
    str | None, typer.Option(help="Target language.", show_default="from the name, as in train.de")
]


def corpus_files(files: list[str] | None, src: list[str] | None, tgt: list[str] | None) -> list[str]:
    """Return the files of one corpus, named as arguments or by --src and --tgt. ConfigError: otherwise."""
    named = [*(files or ()), *(src or ()), *(tgt or ())]
    if not named or (files and (src or tgt)) or len(src or ()) != len(tgt or ()) or len(src or ()) > 1:
        raise ConfigError("name two aligned files or one file of pairs, or give --src and --tgt once each")
    return named


def column(value: str | None) -> int | str | None:
    """Parse a column: a number, counted from 0, or a name."""
    return None if value is None else _number_or_name(value)


def two_columns(value: str | None) -> tuple[int | str, int | str] | None:
    """Parse the columns of source and target; None stays None. ConfigError: not two columns."""
    if value is None:
        return None
    named = [name.strip() for name in value.split(",")]
    if len(named) != 2 or not all(named):
        raise ConfigError(f"--columns {value}: name two, as in --columns 0,1")
    return _number_or_name(named[0]), _number_or_name(named[1])


def _number_or_name(value: str) -> int | str:
    return int(value) if value.isdecimal() else value
