"""Options that several commands share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from dragoman.errors import ConfigError, require
from dragoman.tasks.request import Files, TrainingRequest

BEAM = "Beam search"

TRAINING = get_type_hints(TrainingRequest, include_extras=True)
FLAGS = {"start": "--from", "overrides": "--set"}
"""Names of options that are not those of their fields."""
LIMITS: dict[str, dict[str, float]] = {"extend_vocab": {"min": 0}, "replay": {"min": 0.0, "max": 0.99}}


def of_training(name: str) -> Any:
    """Return the option for a field of `TrainingRequest`, whose description may say the default."""
    description = TRAINING[name].__metadata__[0]
    flag = FLAGS.get(name, f"--{name.replace('_', '-')}")
    shows_default = "[default: " not in description
    return typer.Option(flag, help=description, show_default=shows_default, **LIMITS.get(name, {}))


RunPath = Annotated[Path, typer.Argument(help="Run folder, or hf:user/model.")]
Overrides = Annotated[list[str] | None, of_training("overrides")]
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
TaskName = Annotated[str | None, of_training("task")]
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


TextColumn = Annotated[str | None, of_training("text_column")]
LabelColumn = Annotated[str | None, of_training("label_column")]
LabelSeparator = Annotated[str, of_training("label_separator")]
Columns = Annotated[str | None, of_training("columns")]
Src = Annotated[list[str] | None, of_training("src")]
Tgt = Annotated[list[str] | None, of_training("tgt")]
SrcLang = Annotated[str | None, of_training("src_lang")]
TgtLang = Annotated[str | None, of_training("tgt_lang")]


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
    Files: (list[str] | None, lambda names: names or ()),
    Sequence[str]: (list[str] | None, lambda texts: texts or ()),
    Mapping[str, float] | None: (list[str] | None, lambda texts: shares(texts or ())),
    int | str | None: (str | None, column),
    tuple[int | str, int | str] | None: (str | None, two_columns),
    str | Path | None: (Path | None, lambda path: path),
}
"""For a type of a field: the type that Typer reads, None = not given, and what makes the value of it."""


def with_training_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter `training` of a command by options for the described fields of `TrainingRequest`.

    The command is given the fields by name. Its parameter `out` is listed before `preset`.
    """
    own = dict(signature(command, eval_str=True).parameters)
    del own["training"]
    parameters = [own.pop("recipe")]
    parsers: dict[str, Callable[[Any], Any]] = {}
    for name, hint in TRAINING.items():
        if get_origin(hint) is not Annotated:
            continue
        if name == "preset":
            parameters.append(own.pop("out"))
        kind, default = get_args(hint)[0], getattr(TrainingRequest, name)
        typed, parsers[name] = PARSED.get(kind, (kind, lambda value: value))
        default = None if kind in PARSED else default
        annotation = Annotated[typed, of_training(name)]
        parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation))

    @wraps(command)
    def call(**given: Any) -> None:
        training = {name: parse(given.pop(name)) for name, parse in parsers.items()}
        command(training=training, **given)

    call.__signature__ = Signature([*parameters, *own.values()])  # type: ignore[attr-defined]
    return call
