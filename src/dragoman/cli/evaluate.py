"""`dragoman evaluate`: score a run on its test sets. `dragoman score`: score a file of translations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.app import check_outputs, say
from dragoman.cli.options import AsJson, RunPath, Scores, with_options_of
from dragoman.errors import ConfigError, DataError
from dragoman.tasks.request import EvaluationRequest

if TYPE_CHECKING:
    from dragoman.runs import Run


@with_options_of(EvaluationRequest, out="baseline", as_json="beam_size")
def evaluate(
    run: RunPath,
    *,
    fields: dict[str, Any],
    out: Annotated[
        Path | None, "Write translations or labels to this file; folder if several test sets."
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Score a run on its test sets: translations by BLEU, chrF and TER, labels by accuracy and F1.

    Each score has a 95 % confidence interval and a signature. Scores are stored in the run's scores.json,
    except for runs on the hub. A classifier is compared with a baseline trained on the same texts.

    --scores adds numbers of another tool, such as COMET, for the lines that --out writes. They are kept in
    the run, for compare and report.
    """
    from dragoman.bulk.output import write_output
    from dragoman.evaluation.scores import keep_scores
    from dragoman.runs import Run
    from dragoman.tasks import task_of
    from dragoman.tasks.task import open_run

    opened = open_run(run, say)
    task = task_of(opened.config)
    request = EvaluationRequest(**fields, say=say)
    task.check(request)
    tests = task.tests(opened, request)
    runs, files = [opened, *map(Run.open, request.ensemble)], (request.src, request.ref, request.file)
    places = places_of(out, list(tests), files=files, runs=runs)
    records = []
    for evaluation in task.evaluate(opened, tests, request):
        if (place := places.get(evaluation.name)) is not None:
            place.parent.mkdir(parents=True, exist_ok=True)
            write_output(place, "".join(f"{line}\n" for line in evaluation.lines()))
            say(f"written: {place}")
        if not as_json:
            typer.echo(evaluation.describe())
        records.append(evaluation.record())
    if as_json:
        typer.echo(json.dumps({"run": str(run), "results": records}, ensure_ascii=False, indent=2))
    other = text_mark(*files)
    keep_scores(opened, [record | other for record in records])  # last: a command that fails changes no run


def text_mark(*files: str | None) -> dict[str, str]:
    """Return what tells scores of these files from those of others of the same names; {} without files."""
    from dragoman.data.readers.files import find_file, hash_strings

    places = list(filter(None, files))
    for i, name in enumerate(places):
        with suppress(DataError):  # it is the name of a data set
            places[i] = str(find_file(name, copied=False).resolve())
    return {"text": hash_strings(*places)[:16]} if places else {}


def places_of(
    out: Path | None, tests: Sequence[str], *, files: Iterable[str | None], runs: Sequence[Run]
) -> dict[str, Path]:
    """Return the output file of each test set; {} if `out` is None.

    Raises:
        ConfigError: an output is one of `files`, or a file that belongs to a run or that its settings name.
    """
    if out is None:
        return {}
    places = {test: out if len(tests) == 1 else out / f"{test}.txt" for test in tests}
    named = [name for run in runs for _, corpus in run.config.data.files() for name in corpus]
    check_outputs(*places.values(), files=[*files, *named], runs=[run.path for run in runs])
    return places


def score(
    hypotheses: Annotated[Path, typer.Argument(help="Translations, one per line.")],
    references: Annotated[Path, typer.Argument(help="References, line by line.")],
    tgt_lang: Annotated[str, "Target language, which selects the tokenization of scores."],
    scores: Scores = None,
    as_json: AsJson = False,
) -> None:
    """Score a file of translations against references."""
    from dragoman.data.readers.files import find_file, open_lines
    from dragoman.evaluation.scores import scores_table
    from dragoman.tasks.translation.evaluation import scores_of
    from dragoman.tasks.translation.kept import read_given_scores
    from dragoman.text.words import LANGUAGE

    if not LANGUAGE.fullmatch(tgt_lang):
        raise ConfigError(f"--tgt-lang {tgt_lang}: is not a language code; give one such as de")
    translations, expected = (list(open_lines(find_file(str(p)))) for p in (hypotheses, references))
    if len(translations) != len(expected):
        raise DataError(
            f"{hypotheses} has {len(translations)} lines and {references} {len(expected)}; "
            "every translation needs its reference on the same line"
        )
    name = str(hypotheses)
    sentence_scores = read_given_scores(scores or (), {name: len(translations)})[name]
    results = scores_of(translations, expected, tgt_lang=tgt_lang)
    results += [one.score() for one in sentence_scores]
    if as_json:
        typer.echo(json.dumps([asdict(s) for s in results], ensure_ascii=False, indent=2))
    else:
        typer.echo(scores_table(results))
