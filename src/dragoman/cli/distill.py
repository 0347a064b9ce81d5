"""`dragoman distill`: a student, small and fast, from a run that is neither."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from dragoman.cli.app import command_line, finite, say
from dragoman.cli.bulk import RayAddress, Workers, carry_out
from dragoman.cli.train import Overrides, run_training
from dragoman.cli.translate import RunPath

NAMES = ("teacher", "student")


def register(app: typer.Typer) -> None:
    app.command()(distill)


def distill(
    run: RunPath,
    preset: Annotated[
        str,
        typer.Option(
            help="Layers of encoder and decoder: fast (6 + 2), fastest (6 + 1), small (6 + 2, half)."
        ),
    ] = "fast",
    out: Annotated[
        Path | None, typer.Option(help="The student's folder.", show_default="runs/<name>-<preset>")
    ] = None,
    min_chrf: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=100.0,
            callback=finite,
            help="Leave out translations further from the reference; 0: none.",
        ),
    ] = 20.0,
    max_ratio: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=1e6,
            callback=finite,
            help="Leave out pairs of more unequal lengths, in tokens; 0: none.",
        ),
    ] = 3.0,
    n_best: Annotated[
        int,
        typer.Option(
            min=0,
            max=100_000,
            help="Of so many translations learn the nearest to the reference; 0: of RUN's whole beam.",
        ),
    ] = 0,
    references: Annotated[
        bool, typer.Option("--references", help="Learn also from the training pairs as they are.")
    ] = False,
    max_pairs: Annotated[
        int, typer.Option(min=0, max=10**12, help="Learn from the first so many pairs; 0: all of them.")
    ] = 0,
    overrides: Overrides = None,
    test: Annotated[bool, typer.Option("--test", help="Score the test sets, too.")] = False,
    workers: Workers = 1,
    ray: RayAddress = None,
) -> None:
    """Train a small, fast student on what a trained run says: distillation (Kim & Rush 2016).

    RUN translates the text it was trained on, with its own search; plainly wrong translations are left out;
    a student with a deep encoder and a shallow decoder (Kasai et al. 2021) learns the rest, with the same
    tokens, beginning with RUN's weights. A table compares both, each as it is configured and both searched
    alike. The same command continues after a kill.
    """
    from dragoman.distillation.distilling import distill as make_student
    from dragoman.distillation.teaching import Lessons
    from dragoman.predict.translator import translation_config
    from dragoman.runs import Run

    name = translation_config(Run.open(run)).name
    path = out or Path("runs") / f"{name}-{preset}"
    record = make_student(
        run,
        path,
        preset=preset,
        lessons=Lessons(n_best, references, max_ratio, min_chrf, max_pairs),
        overrides=tuple(overrides or ()),
        with_test=test,
        translate=partial(carry_out, n_workers=workers, ray=ray),
        train=run_training,
        say=say,
    )
    typer.echo("\n".join(describe_distillation(record)))
    say(f"next: {command_line('translate', path)}")


def describe_distillation(record: Mapping[str, Any]) -> Iterator[str]:
    """Teacher and student side by side: shapes, and what they do as configured, and searched alike."""
    beams = record["beam_sizes"]
    shapes = [record["models"][name] for name in NAMES]
    yield _row("", NAMES)
    yield _row("layers", [f"{shape['n_encoder_layers']} + {shape['n_decoder_layers']}" for shape in shapes])
    yield _row("million parameters", [f"{shape['n_parameters'] / 1e6:.1f}" for shape in shapes])
    yield _row("search", [_search(beams[name]) for name in NAMES])
    yield from _measured(record, beams)
    for beam in sorted({row["beam_size"] for row in record["speed"]}):
        yield f"both {_search(beam)}"
        yield from _measured(record, dict.fromkeys(NAMES, beam))


def _measured(record: Mapping[str, Any], beams: Mapping[str, int]) -> Iterator[str]:
    """Speed and scores, each searched with its beam of `beams`; and what the student has of the teacher's."""
    from dragoman.report.comparison import signed

    speeds = {(row["model"], row["beam_size"]): row["sentences_per_second"] for row in record["speed"]}
    teacher, student = (speeds[name, beams[name]] for name in NAMES)
    yield _row("sentences/s", [f"{teacher:.1f}", f"{student:.1f}", f"{student / teacher:.2f} ×"])
    scores = {(row["set"], row["model"], row["beam_size"]): row["value"] for row in record["scores"]}
    for which in dict.fromkeys(row["set"] for row in record["scores"]):
        teacher, student = (scores[which, name, beams[name]] for name in NAMES)
        values = [f"{teacher:.1f}", f"{student:.1f}", signed(student - teacher)]
        yield _row(f"{which} BLEU", values)


def _row(label: str, cells: Sequence[str]) -> str:
    return f"{label:<26}" + "".join(f"{cell:>10}" for cell in cells)


def _search(beam: int) -> str:
    return "greedy" if beam == 1 else f"beam {beam}"
