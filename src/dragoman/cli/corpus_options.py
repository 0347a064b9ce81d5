"""Options that say what a corpus is read from, which several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from dragoman.errors import ConfigError

TextColumn = Annotated[
    str | None,
    typer.Option(help="Column of the text: name, or number from 0.", show_default="detected"),
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

Src = Annotated[
    list[str] | None, typer.Option(help="Source sentences, one per line; repeatable.", show_default=False)
]
Tgt = Annotated[
    list[str] | None,
    typer.Option(help="Translations of --src, line by line; one file for each --src.", show_default=False),
]
Tsv = Annotated[
    list[str] | None,
    typer.Option(
        help="File of pairs: .tmx, .po, .csv, .jsonl, .parquet, or tab-separated; repeatable.",
        show_default=False,
    ),
]
ValidSrc = Annotated[
    list[str] | None,
    typer.Option(help="Source sentences for validation; repeatable.", show_default=False),
]
ValidTgt = Annotated[
    list[str] | None,
    typer.Option(
        help="Translations of --valid-src; default: hold out a part of the training text.",
        show_default=False,
    ),
]
ValidTsv = Annotated[
    list[str] | None, typer.Option(help="File of pairs for validation; repeatable.", show_default=False)
]
SrcLang = Annotated[
    str | None, typer.Option(help="Source language.", show_default="from the name, as in train.en")
]
TgtLang = Annotated[
    str | None, typer.Option(help="Target language.", show_default="from the name, as in train.de")
]


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
