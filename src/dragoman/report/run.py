"""Report sections common to all tasks: facts of the run, curves, model card."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dragoman.card import licence_of
from dragoman.config import to_toml
from dragoman.hardware import environment
from dragoman.report.curves import Curves, plot_learning_curves
from dragoman.report.page import Facts, Figure, Group, Listing, Notice, Paragraph, Part, Section, Table, Text
from dragoman.runs import Run

UNKNOWN = "not recorded"


def summary_facts(run: Run) -> Iterator[tuple[str, Text]]:
    """Yield the state of a training, its size, its length, what it cost, and by which commit and seed."""
    report, facts = read_facts(run, "report.json"), read_facts(run, "environment.json")
    config = run.config
    step = max((record.get("step", 0) for record in run.history()), default=0)
    if report:
        yield "state", f"finished after {_number(report, 'steps')} steps, {_number(report, 'epochs')} epochs"
    else:
        yield "state", f"not finished: step {step:,} of {config.training.max_steps:,}"
    yield "parameters", _number(report, "n_parameters")
    minutes = report.get("minutes")
    yield "training time", f"{minutes:.1f} minutes" if isinstance(minutes, (int, float)) else UNKNOWN
    kwh = report.get("kwh", facts.get("kwh"))
    yield "energy", f"{kwh:.3f} kWh" if isinstance(kwh, (int, float)) else "not measured"
    yield "seed", str(config.seed)
    yield "commit of the training", said(facts.get("commit") or UNKNOWN)
    machine = [said(facts.get(key, UNKNOWN)) for key in ("cpu", "n_threads", "gpus")]
    yield "trained on", f"{machine[0]}, threads: {machine[1]}, GPUs: {machine[2]}"


def curves_section(run: Run, figures: Path, reference: Curves | None) -> Section:
    """Loss, score and learning rate, beside the recipe's reference run where there is one."""
    title = "Learning curves"
    if not any(record.get("kind") == "train" for record in run.history()):
        return Section(title, [Notice("The run has no log line yet.")])
    path = figures / "curves.svg"
    plot_learning_curves(run, path, reference=reference)
    valid = [record for record in run.history() if record.get("kind") == "valid"]
    key = run.config.names.score
    said_scores = ", ".join(f"step {r['step']}: {r[key]:.1f}" for r in valid if isinstance(r.get(key), float))
    beside = f" Dashed: {reference.name}." if reference is not None else ""
    search = " BLEU while training is that of a quick search, not that of the scores above."
    return Section(
        title,
        [
            Figure(
                path,
                f"Curves of loss, {key} on validation and learning rate. {key}: {said_scores or 'none yet'}",
                f"From {run.history_path.name} of the run.{search if key == 'bleu' else ''}{beside}",
            )
        ],
    )


def card_section(run: Run) -> Section:
    """Return the model card as a section: text and licences, settings, environment."""
    config = run.config
    rows = []
    for name, files in config.data.files():
        licence, home = licence_of(files)
        rows.append((name, " + ".join(files), licence, home.partition("://")[2] or home))
    parts: list[Part] = [
        Paragraph("Written from the files of the run. What they do not say, nobody has recorded."),
        Group(
            "Text", [Table("As config.toml names it", ("part", "files", "licence", "from"), rows, n_words=4)]
        ),
    ]
    for title, name in (("Training", "report.json"), ("Environment", "environment.json")):
        facts = read_facts(run, name)
        listed = [Facts([(key, said(value)) for key, value in facts.items()])] if facts else []
        parts.append(
            Group(title, listed or [Notice(f"The run has no {name}: its training is not finished.")])
        )
    parts.append(Group("Settings", [Listing(to_toml(config).strip())], folded=True))
    return Section("Model card", parts)


def read_facts(run: Run, name: str) -> Mapping[str, Any]:
    """Read a JSON file of the run; {} = it does not exist. RunError: it is damaged."""
    return run.read_json(name) if (run.path / name).exists() else {}


def footer(run: Run) -> str:
    """By which Dragoman the report was written."""
    facts = environment()
    return (
        f"Written by Dragoman {facts['dragoman']}, commit {facts['commit'] or UNKNOWN}, with sacreBLEU "
        f"{facts['sacrebleu']} and PyTorch {facts['torch']}, from the run {run.path.name}, "
        f"seed {run.config.seed}."
    )


def said(value: Any) -> str:
    """Return a value of a JSON file in words."""
    if value is None or value == []:
        return "none"
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _number(facts: Mapping[str, Any], key: str) -> str:
    value = facts.get(key)
    return f"{value:,}" if isinstance(value, (int, float)) else UNKNOWN
