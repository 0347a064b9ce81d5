"""`dragoman distill`: train a small, fast student model on the translations of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from dragoman.cli.app import command_line, say
from dragoman.cli.bulk import run_job
from dragoman.cli.options import Overrides, RayAddress, RunPath, To, Workers, with_options_of
from dragoman.cli.train import run_training
from dragoman.distillation.lessons import Lessons

NAMES = ("teacher", "student")


@with_options_of(Lessons)
def distill(
    run: RunPath,
    *,
    preset: Annotated[
        str,
        typer.Option(
            help="Encoder + decoder layers: fast (6 + 2), fastest (6 + 1), small (6 + 2, half the width); "
            "same (the teacher's, to learn from several runs)."
        ),
    ] = "fast",
    out: Annotated[
        Path | None, typer.Option(help="Run folder of the student.", show_default="runs/<name>-<preset>")
    ] = None,
    fields: dict[str, Any],
    to: To = None,
    overrides: Overrides = None,
    test: Annotated[bool, typer.Option("--test", help="Score the test sets as well.")] = False,
    workers: Workers = 1,
    ray: RayAddress = None,
) -> None:
    """Train a small, fast student on a run's translations: sequence-level distillation (Kim & Rush 2016).

    RUN translates its own training text, or --text, with its configured search. Clearly wrong translations
    are skipped. A student with a deep encoder and a shallow decoder (Kasai et al. 2021) trains on the rest.
    It shares RUN's vocabulary and starts from RUN's weights. A table compares both models, with their own
    beam sizes and with equal ones. The same command continues an interrupted run.
    """
    from dragoman.distillation.distilling import distill as make_student
    from dragoman.predict.model import translation_config
    from dragoman.runs import Run

    name = translation_config(Run.open(run)).name
    path = out or Path("runs") / f"{name}-{preset}"
    record = make_student(
        run,
        path,
        preset=preset,
        lessons=Lessons(**fields),
        to=to,
        overrides=tuple(overrides or ()),
        with_test=test,
        translate=partial(run_job, n_workers=workers, ray=ray),
        train=run_training,
        say=say,
    )
    typer.echo("\n".join(describe_distillation(record)))
    say(f"next: {command_line('translate', path)}")


def describe_distillation(record: Mapping[str, Any]) -> Iterator[str]:
    """Describe teacher and student side by side: size, speed and scores, for each beam size."""
    beams = record["beam_sizes"]
    shapes = [record["models"][name] for name in NAMES]
    yield _row("", NAMES)
    yield _row("layers", [f"{shape['n_encoder_layers']} + {shape['n_decoder_layers']}" for shape in shapes])
    yield _row("million parameters", [f"{shape['n_parameters'] / 1e6:.1f}" for shape in shapes])
    yield _row("search", [_search(beams[name]) for name in NAMES])
    yield from _measured(record, beams)
    for beam in sorted({row["beam_size"] for row in record["scores"]}):
        yield f"both {_search(beam)}"
        yield from _measured(record, dict.fromkeys(NAMES, beam))


def _measured(record: Mapping[str, Any], beams: Mapping[str, int]) -> Iterator[str]:
    """Describe speed and scores of each model with its beam of `beams`, and the difference."""
    from dragoman.report.comparison import signed

    rows = {(row["set"], row["model"], row["beam_size"]): row for row in record["scores"]}
    teacher, student = (rows["valid", name, beams[name]]["sentences_per_second"] for name in NAMES)
    yield _row("sentences/s", [f"{teacher:.1f}", f"{student:.1f}", f"{student / teacher:.2f} ×"])
    for which in dict.fromkeys(row["set"] for row in record["scores"]):
        teacher, student = (rows[which, name, beams[name]]["value"] for name in NAMES)
        values = [f"{teacher:.1f}", f"{student:.1f}", signed(student - teacher)]
        yield _row(f"{which} BLEU", values)


def _row(label: str, cells: Sequence[str]) -> str:
    return f"{label:<26}" + "".join(f"{cell:>10}" for cell in cells)


def _search(beam: int) -> str:
    return "greedy" if beam == 1 else f"beam {beam}"
