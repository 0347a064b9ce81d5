"""`dragoman doctor`: describe this machine and suggest how to make Dragoman faster on it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.app import say

if TYPE_CHECKING:
    from dragoman.hardware import Machine


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show hardware, versions and the measured speed of matrix products, with advice.

    To check a corpus, see `dragoman data check`.
    """
    from dragoman.hardware import advice, look_around

    say("measuring matrix products (some seconds)")
    machine = look_around()
    if as_json:
        typer.echo(json.dumps({**machine.facts(), "advice": advice(machine)}, indent=2))
        return
    for name, value in rows(machine):
        typer.echo(f"{name:<16}{value}")
    for line in advice(machine) or ["nothing to change"]:
        typer.echo(f"→ {line}")


def rows(machine: Machine) -> list[tuple[str, str]]:
    """Return the names and values of the report, one pair per line."""
    from dragoman.hardware import environment
    from dragoman.native import native

    facts = environment()
    arithmetic = [name for name, has in (("bf16", machine.has_bf16), ("AMX", machine.has_amx)) if has]
    ceilings = ", ".join(f"{name} {flops / 1e12:.2f}" for name, flops in machine.ceilings.items())
    return [
        ("dragoman", f"{facts['dragoman']}, Python {facts['python']}, PyTorch {facts['torch']}"),
        ("system", str(facts["platform"])),
        ("processor", f"{facts['cpu']}, {' and '.join(arithmetic) or 'no bf16'}"),
        ("cores", f"{machine.n_cores}, of which PyTorch uses {machine.n_threads}"),
        ("memory", f"{machine.memory / 2**30:.1f} GiB, {machine.free_memory / 2**30:.1f} free"),
        ("disk", f"{machine.free_disk / 2**30:.1f} GiB free in this folder"),
        ("GPUs", ", ".join(machine.gpus) or "none"),
        ("searches", str(native())),
        ("matrix products", f"{ceilings} TFLOP/s on the {'GPU' if machine.gpus else 'processor'}"),
    ]
