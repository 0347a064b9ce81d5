"""`dragoman distill`: a student, small and fast, from a run that is neither."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from dragoman.cli.app import say
from dragoman.cli.bulk import RayAddress, Workers, carry_out
from dragoman.cli.train import Overrides, run_training
from dragoman.cli.translate import RunPath


def register(app: typer.Typer) -> None:
    app.command()(distill)


def distill(
    run: RunPath,
    preset: Annotated[
        str,
        typer.Option(
            help="Layers of encoder and decoder: fast (6 + 1), balanced (6 + 2), small (6 + 2, half)."
        ),
    ] = "fast",
    out: Annotated[
        Path | None, typer.Option(help="The student's folder.", show_default="runs/<name>-<preset>")
    ] = None,
    min_chrf: Annotated[
        float,
        typer.Option(min=0.0, max=100.0, help="Leave out translations further from the reference; 0: none."),
    ] = 20.0,
    max_ratio: Annotated[
        float, typer.Option(min=0.0, help="Leave out pairs of more unequal lengths, in tokens; 0: none.")
    ] = 3.0,
    max_pairs: Annotated[
        int, typer.Option(min=0, help="Learn from the first so many pairs; 0: all of them.")
    ] = 0,
    overrides: Overrides = None,
    test: Annotated[bool, typer.Option("--test", help="Score the test sets, too.")] = False,
    workers: Workers = 1,
    ray: RayAddress = None,
) -> None:
    """Train a small, fast student on what a trained run says: distillation (Kim & Rush 2016).

    RUN translates the text it was trained on, with its own search; plainly wrong translations are left out;
    a student with a deep encoder and a shallow decoder (Kasai et al. 2021) learns the rest, with the same
    tokens. A table compares both. The same command continues after a kill.
    """
    from dragoman.distillation.distilling import distill as make_student
    from dragoman.distillation.teaching import Sieve
    from dragoman.predict.translator import translation_config
    from dragoman.runs import Run

    name = translation_config(Run.open(run)).name
    path = out or Path("runs") / f"{name}-{preset}"
    record = make_student(
        run,
        path,
        preset=preset,
        sieve=Sieve(max_ratio, min_chrf),
        max_pairs=max_pairs,
        overrides=tuple(overrides or ()),
        with_test=test,
        translate=partial(carry_out, n_workers=workers, ray=ray),
        train=run_training,
        say=say,
    )
    typer.echo("\n".join(describe_distillation(record)))
    say(f"next: dragoman translate {path}")


def describe_distillation(record: Mapping[str, Any]) -> Iterator[str]:
    """Teacher and student side by side: shapes, speeds and scores."""
    yield f"{'':<26}{'teacher':>10}{'student':>10}"
    shapes = [record["models"][name] for name in ("teacher", "student")]
    layers = [f"{shape['n_encoder_layers']} + {shape['n_decoder_layers']}" for shape in shapes]
    yield f"{'layers':<26}{layers[0]:>10}{layers[1]:>10}"
    millions = [f"{shape['n_parameters'] / 1e6:.1f}" for shape in shapes]
    yield f"{'million parameters':<26}{millions[0]:>10}{millions[1]:>10}"
    for heading, key, rows in (
        ("sentences/s", "sentences_per_second", record["speed"]),
        ("BLEU", "value", record["scores"]),
    ):
        found: dict[str, dict[str, float]] = {}
        for row in rows:
            search = "greedy" if row["beam_size"] == 1 else f"beam {row['beam_size']}"
            where = f"{row['set']} " if "set" in row else ""
            found.setdefault(f"{where}{heading}, {search}", {})[row["model"]] = row[key]
        for label, values in found.items():
            yield f"{label:<26}{values['teacher']:>10.1f}{values['student']:>10.1f}"
