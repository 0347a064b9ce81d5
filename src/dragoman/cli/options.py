"""Options of commands: those that the described fields of requests make, and those that several share.

A field, or a command's parameter, with a description is an option: `Annotated[TYPE, "description"]`, perhaps
with limits, (least, most). The description may end in a default in words, as in "Source language.
[default: from its name]".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from dragoman.distillation.lessons import Lessons
from dragoman.errors import ConfigError, require
from dragoman.tasks.request import EvaluationRequest, Files, TrainingRequest

Function = Callable[..., None]

FLAGS = {
    "start": "--from", "overrides": "--set", "format_name": "--format", "licence": "--license",
    "baseline": "--baseline/--no-baseline", "document": "--document/--lines", "check": "--check/--no-check",
}  # fmt: skip
"""Options that are not called as their fields."""
BULK = "Large files"
PANELS = {
    "Beam search": "beam_size length_penalty coverage_penalty diversity_groups diversity_penalty",
    "Sampling": "temperature top_k top_p seed",
    "Constraints": "prefixes required glossary inflect",
    "Documents": "document protect protect_pattern align pharaoh",
    BULK: "skip_long",
}
"""Headings in the help, each with the fields below it."""


@cache
def described(request: Callable[..., Any]) -> dict[str, tuple[Any, ...]]:
    """Return the type, description and limits, if any, of each described field."""
    hints = get_type_hints(request, include_extras=True)
    return {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Annotated}


def option_of(request: Callable[..., Any], field: str) -> Any:
    """Return the option for a described field of a request; an option that is described already stays."""
    _, description, *limits = described(request)[field]
    if not isinstance(description, str):
        return description
    meaning, _, default = description.removesuffix("]").partition(" [default: ")
    least, most = limits[0] if limits else (None, None)
    return typer.Option(
        FLAGS.get(field, f"--{field.strip('_').replace('_', '-')}"),
        help=meaning,
        show_default=default or True,
        min=least,
        max=most,
        rich_help_panel=next((panel for panel, names in PANELS.items() if field in names.split()), None),
    )


def with_options(command: Function) -> Function:
    """Make options of the parameters of a command that have a description."""
    made = {
        name: Annotated[kind, option_of(command, name)] for name, (kind, *_) in described(command).items()
    }
    command.__annotations__ = command.__annotations__ | made
    return command


def with_options_of(request: Callable[..., Any], **before: str) -> Callable[[Function], Function]:
    """Return a decorator that gives a command options in the place of its parameter `fields`.

    The command then gets the described fields of `request` by name. `before`: other parameters of the command
    that the help lists among them, each with the field that it comes before.
    """

    def decorate(command: Function) -> Function:
        parameters = dict(signature(with_options(command), eval_str=True).parameters)
        moved = {field: parameters.pop(name) for name, field in before.items()}
        place, fields = list(parameters).index("fields"), parameters.pop("fields")
        options: list[Parameter] = []
        parsers: dict[str, Callable[[Any], Any]] = {}
        for name, (kind, *_) in described(request).items():
            if name in moved:
                options.append(moved[name])
            default = None if kind in PARSED else signature(request).parameters[name].default
            read, parsers[name] = PARSED.get(kind, (kind, lambda value: value))
            typed = Annotated[read, option_of(request, name)]  # type: ignore[valid-type]
            options.append(fields.replace(name=name, default=default, annotation=typed))

        @wraps(command)
        def call(**values: Any) -> None:
            command(fields={name: parse(values.pop(name)) for name, parse in parsers.items()}, **values)

        listed = list(parameters.values())
        listed[place:place] = options
        call.__signature__ = Signature(listed)  # type: ignore[attr-defined]
        return call

    return decorate


RunPath = Annotated[Path, typer.Argument(help="Run folder, or hf:user/model.")]
Overrides = Annotated[list[str] | None, option_of(TrainingRequest, "overrides")]
MaxRatio = Annotated[float, option_of(Lessons, "max_ratio")]
BeamSize = Annotated[int | None, option_of(EvaluationRequest, "beam_size")]
LengthPenalty = Annotated[float | None, option_of(EvaluationRequest, "length_penalty")]
CoveragePenalty = Annotated[float | None, option_of(EvaluationRequest, "coverage_penalty")]
NoRepeatedNgram = Annotated[int | None, option_of(EvaluationRequest, "no_repeat_ngram")]
BatchSentences = Annotated[int | None, option_of(EvaluationRequest, "batch_sentences")]
To = Annotated[str | None, option_of(EvaluationRequest, "to")]
Scores = Annotated[list[str] | None, option_of(EvaluationRequest, "scores")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, not a table.")]
Split = Annotated[str | None, option_of(EvaluationRequest, "split")]
Source = Annotated[str | None, option_of(EvaluationRequest, "src")]
References = Annotated[str | None, option_of(EvaluationRequest, "ref")]
Method = Annotated[str | None, "Search method: beam or sampling. [default: the run's]"]
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
        rich_help_panel=BULK,
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        callback=_with_ray,
        help="Work on the Ray cluster at ADDRESS; local = start one on this machine.",
        rich_help_panel=BULK,
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


def shares(texts: Sequence[str]) -> dict[str, float]:
    """Parse shares of corpora, as in ["news=0.7", "talks=0.3"]. ConfigError: one is not of this form."""
    by_name = {}
    for one in texts:
        name, _, share = one.partition("=")
        try:
            by_name[name] = float(share)
        except ValueError:
            by_name[name] = math.nan
        if not name or not 0 < by_name[name] < math.inf:
            raise ConfigError(f"--mix {one}: give the name of a file and a share, as in --mix news=0.7")
    return by_name


PARSED: dict[Any, tuple[Any, Callable[[Any], Any]]] = {
    Files: (list[str] | None, lambda files: files or ()),
    Sequence[str]: (list[str] | None, lambda texts: texts or ()),
    tuple[str, ...]: (list[str] | None, lambda texts: tuple(texts or ())),
    tuple[Path, ...]: (list[Path] | None, lambda paths: tuple(paths or ())),
    tuple[str | Path, ...]: (list[Path] | None, lambda paths: tuple(paths or ())),
    str | Path: (Path | None, lambda path: path or ""),
    str | Path | None: (Path | None, lambda path: path),
    Mapping[str, float] | None: (list[str] | None, lambda texts: shares(texts or ())),
    int | str | None: (str | None, column),
    tuple[int | str, int | str] | None: (str | None, two_columns),
}
"""For types of fields: the type that Typer reads, None = not given, and what makes the value of it."""
