"""`dragoman show`: describe a run, or draw schedules. `dragoman doctor`: describe this machine."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from dragoman.cli.app import as_called, command_line, say
from dragoman.cli.options import AsJson, Overrides
from dragoman.errors import ConfigError, RunError, counted, printable
from dragoman.files import holder, refuse_overwriting, size_of

if TYPE_CHECKING:
    from dragoman.runs import Run

PLACEHOLDER = {"name": "figure", "data": {"src_lang": "en", "tgt_lang": "de", "train": ["phrasebook:train"]}}
"""The settings that every recipe needs; schedules do not depend on them."""


def show(
    run: Annotated[str, typer.Argument(metavar="RUN|schedule", help="Run folder, or schedule.")],
    plot: Annotated[bool, "Draw the learning curves into the run folder."] = False,
    recipe: Annotated[
        Path | None,
        "For schedule: take the settings of this recipe. [default: every schedule, default settings]",
    ] = None,
    overrides: Overrides = None,
    out: Annotated[Path | None, "File of the figure: .svg, .png or .pdf."] = None,
) -> None:
    """Show a run: state, size, scores, files and settings.

    schedule in place of a run draws the learning rate over training steps into the file of --out, of one
    recipe or of every schedule. --set changes settings such as training.max_steps. A run in a folder of that
    name is ./schedule.
    """
    if run == "schedule":
        if plot or out is None:
            raise ConfigError("learning rates are drawn into a file: give --out schedule.svg, and no --plot")
        refuse_overwriting(out, inputs=[recipe] if recipe else [])
        _draw_schedules(recipe, overrides or (), out)
        say(f"learning rates: {out}")
        return
    if recipe is not None or overrides or out is not None:
        raise ConfigError("--recipe, --set and --out are for: dragoman show schedule")
    from dragoman.runs import Run

    opened = Run.open(run)
    try:
        lines = list(describe_run(opened))
        if plot:
            from dragoman.report.curves import CURVES, plot_learning_curves

            plot_learning_curves(opened, opened.path / CURVES)
            lines = list(describe_run(opened))  # the picture is one of its files
    except (KeyError, TypeError, ValueError) as error:  # what a stranger's JSON may lack or hold
        raise RunError(
            f"{run}: its report.json, scores.json or history.jsonl is not one that Dragoman wrote "
            f"({type(error).__name__}: {error}); remove it"
        ) from error
    typer.echo(printable("\n".join(lines)))


def _draw_schedules(recipe: Path | None, overrides: Sequence[str], out: Path) -> None:
    """Draw the schedule of a recipe, or every schedule, into `out`."""
    from dragoman.config import TrainingConfig, load_recipe, parse_config
    from dragoman.report.curves import plot_schedules

    if recipe is not None:
        config = load_recipe(recipe, overrides)
        plot_schedules([config.training], out, title=config.name)
        return
    training = parse_config(PLACEHOLDER, overrides=overrides, where="dragoman show schedule").training
    names = get_args(TrainingConfig.model_fields["schedule"].annotation)
    every = [training.model_copy(update={"schedule": name}) for name in names]
    plot_schedules(every, out, title="Learning-rate schedules")


def describe_run(run: Run) -> Iterator[str]:
    """Describe a run line by line: state, size, scores, files and settings."""
    from dragoman.cli.console import describe_scores
    from dragoman.config import to_toml
    from dragoman.evaluation.scores import describe_record
    from dragoman.runs import saved_scores

    config = run.config
    yield f"{run.path} · {config.name} · {config.subject}"
    yield f"state     {_state(run)}"
    size = "no weights yet"
    if run.weights_path.exists():
        n_parameters = sum(map(math.prod, run.weight_shapes().values()))
        size = f"{counted(n_parameters, 'parameter')}, {run.weights_path.stat().st_size / 1e6:.1f} MB"
    yield f"size      {size}"
    best = [record for record in run.history() if record.get("best")][-1:]
    for record in best:
        averaged = ", averaged weights" * (record["kind"] == "average")
        scores = " · ".join(describe_scores(record, item=config.names.unit))
        yield f"best      step {record['step']:,} · {scores} (validation{averaged})"
    if not best:
        yield "best      no validation yet"
    if (labels := _labels(run)) is not None:
        yield f"labels    {labels}"
    for record in saved_scores(run):
        yield f"score     {describe_record(record)}"
    yield "files"
    for path in sorted(p for p in run.path.iterdir() if not p.name.startswith(".")):
        yield f"  {path.name + '/' * path.is_dir():<24} {size_of(path) / 1000:>12,.1f} kB"
    curves = run.path / "curves.svg"
    yield f"curves    {curves if curves.exists() else as_called(command_line('show', '--plot', run.path))}"
    yield "settings"
    yield from (f"  {line}".rstrip() for line in to_toml(config).splitlines())


def _state(run: Run) -> str:
    step = max((record["step"] for record in run.history()), default=0)
    if writer := holder(run.path / ".lock"):
        return f"being trained by {writer}, step {step:,} of {run.config.training.max_steps:,}"
    if (run.path / "report.json").exists():
        report = run.read_json("report.json")
        if "imported" in report:
            origin = report["imported"]
            return f"imported from {origin['path']} ({origin['format']})"
        if "merged" in report:  # by version 0.2
            runs, weight = report["merged"]["runs"], report["merged"]["weight"]
            return f"merged from {runs[0]} and {runs[1]}, {weight:g} of the second"
        return (
            f"finished after {report['steps']:,} steps, {report['epochs']} epochs, "
            f"{report['minutes']:.1f} minutes"
        )
    return f"not finished, step {step:,} of {run.config.training.max_steps:,}; train again to continue"


def _labels(run: Run) -> str | None:
    from dragoman.predict.classifier import LABELS, classification_config, load_calibration, load_labels

    if not (run.path / LABELS).exists():
        return None
    labels = load_labels(run)
    shown = ", ".join(labels[:10]) + f" and {len(labels) - 10} more" * (len(labels) > 10)
    calibration = load_calibration(run)
    shown += f" · temperature {calibration.temperature:.2f}"
    if classification_config(run).data.label_separator:
        shown += f" · threshold {calibration.threshold:.2f}"
    return f"{len(labels)}: {shown}"


def doctor(as_json: AsJson = False) -> None:
    """Show hardware, versions and the measured speed of matrix products, with advice.

    To check a corpus, see `dragoman data check`.
    """
    from dragoman.hardware import look_around

    say("measuring matrix products (some seconds)")
    machine = look_around()
    if as_json:
        typer.echo(json.dumps({**machine, "advice": advice(machine)}, indent=2))
        return
    for name, value in rows(machine):
        typer.echo(f"{name:<16}{value}")
    for line in advice(machine) or ["nothing to change"]:
        typer.echo(f"→ {line}")


def advice(machine: Mapping[str, Any]) -> list[str]:
    """Return advice on a machine, as `look_around` found it, or on the settings, one sentence each."""
    n_threads, n_cores = machine["n_threads"], machine["n_cores"]
    faster = machine["ceilings"]["bf16"] / machine["ceilings"]["fp32"]
    sentences = {
        f"PyTorch uses {n_threads} of {n_cores} cores: unset OMP_NUM_THREADS, or train "
        f"with --processes {n_cores // n_threads}": n_threads < n_cores and not machine["gpus"],
        f"more threads than cores ({n_threads}, {n_cores}): they wait for one another": n_threads > n_cores,
        'bf16 is slower than fp32 here: set training.precision = "fp32"': machine["has_bf16"]
        and faster < 0.9,
        'bf16 is faster than fp32 here: set training.precision = "bf16"': not machine["has_bf16"]
        and faster > 1.2,
        "less than 2 GiB of memory are free: set a smaller training.batch_tokens": machine["free_memory"]
        < 2 << 30,
        "less than 2 GiB of disk are free: set training.max_disk_gb": machine["free_disk"] < 2 << 30,
    }
    return [sentence for sentence, applies in sentences.items() if applies]


def rows(machine: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the names and values of the report, one pair per line."""
    from dragoman.native import native

    arithmetic = [name for name, has in (("bf16", "has_bf16"), ("AMX", "cpu_amx")) if machine[has]]
    ceilings = ", ".join(f"{name} {flops / 1e12:.2f}" for name, flops in machine["ceilings"].items())
    memory, free, disk = (machine[name] / 2**30 for name in ("memory", "free_memory", "free_disk"))
    return [
        ("dragoman", f"{machine['dragoman']}, Python {machine['python']}, PyTorch {machine['torch']}"),
        ("system", machine["platform"]),
        ("processor", f"{machine['cpu']}, {' and '.join(arithmetic) or 'no bf16'}"),
        ("cores", f"{machine['n_cores']}, of which PyTorch uses {machine['n_threads']}"),
        ("memory", f"{memory:.1f} GiB, {free:.1f} free"),
        ("disk", f"{disk:.1f} GiB free in this folder"),
        ("GPUs", ", ".join(machine["gpus"]) or "none"),
        ("searches", str(native())),
        ("matrix products", f"{ceilings} TFLOP/s on the {'GPU' if machine['gpus'] else 'processor'}"),
    ]
