"""`dragoman distill`: train a small, fast student model on the translations of a run."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

from dragoman.cli.app import command_line, say
from dragoman.cli.bulk import run_job
from dragoman.cli.options import Overrides, RayAddress, RunPath, To, Workers, with_options_of
from dragoman.cli.train import run_training
from dragoman.distillation.lessons import Lessons


@with_options_of(Lessons)
def distill(
    run: RunPath,
    *,
    preset: Annotated[
        str,
        "Encoder + decoder layers: fast (6 + 2), fastest (6 + 1), small (6 + 2, half the width); same (the "
        "teacher's, to learn from several runs).",
    ] = "fast",
    out: Annotated[Path | None, "Run folder of the student. [default: runs/<name>-<preset>]"] = None,
    fields: dict[str, Any],
    to: To = None,
    overrides: Overrides = None,
    workers: Workers = 1,
    ray: RayAddress = None,
) -> None:
    """Train a small, fast student on a run's translations: sequence-level distillation (Kim & Rush 2016).

    RUN translates its own training text, or --text, with its configured search. Clearly wrong translations
    are skipped. A student with a deep encoder and a shallow decoder (Kasai et al. 2021) trains on the rest.
    It shares RUN's vocabulary and starts from RUN's weights; a smaller one searches with a beam of 2. The
    same command continues an interrupted run.
    """
    from dragoman.distillation.distilling import distill as make_student
    from dragoman.predict.model import translation_config
    from dragoman.runs import Run

    name = translation_config(Run.open(run)).name
    path = out or Path("runs") / f"{name}-{preset}"
    make_student(
        run,
        path,
        preset=preset,
        lessons=Lessons(**fields),
        to=to,
        overrides=tuple(overrides or ()),
        translate=partial(run_job, n_workers=workers, ray=ray),
        train=run_training,
        say=say,
    )
    say(f"next: {command_line('compare', run, path)}")
