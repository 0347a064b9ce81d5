"""Model cards: what a run is, what it was trained on, its scores, and how to use it.

README.md as the Hugging Face hub reads it: a head in YAML, and Markdown. It says what the run's own files
say, and where they say nothing, that it is not known.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PureWindowsPath
from typing import Any

from dragoman.config import Config, CorpusFiles, to_toml
from dragoman.data import catalog
from dragoman.data.corpora import PHRASEBOOK
from dragoman.data.named import with_files
from dragoman.data.readers.tables import HUB
from dragoman.metrics.score import interval_text
from dragoman.runs import Run, is_private, saved_scores

UNKNOWN = "unknown"
"""What is said of whatever a run does not say; of licences, the hub knows the word."""

ALTERATIONS = "alterations"
"""What a record of scores.json has that is about altered text, see `tasks.translation.robustness`."""


def model_card(run: Run, *, name: str | None = None, licence: str | None = None) -> str:
    """README.md for `run`. `name` is the one it has on the hub, `licence` one of the hub's identifiers.

    RunError: the run has no weights yet, or a file of it is damaged.
    """
    records = saved_scores(run)
    scores = [record for record in records if ALTERATIONS not in record]
    altered = [record for record in records if ALTERATIONS in record]
    config = published(run.config)
    files = [file for _, files in config.data.files() for file in files]
    entries: dict[str, Any] = {
        "language": sorted({language for pair in config.directions for language in pair}),
        "license": licence or UNKNOWN,
        "library_name": "dragoman",
        "pipeline_tag": config.names.on_hub,
        "tags": ["dragoman", "transformer"],
        "datasets": sorted({f[len(HUB) :].split(":")[0] for f in files if f.startswith(HUB)}),
    }
    # YAML reads JSON, and so strings stay strings; what cannot be seen becomes a space.
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in entries.items() if value]
    head = "".join(c if c.isprintable() or c == "\n" else " " for c in "\n".join(lines))
    texts = [(part, ", ".join(files), *licence_of(files)) for part, files in config.data.files()]
    body = "\n\n".join(
        [
            f"# {name or config.name}",
            _about(run),
            "## How to use it\n\n" + _usage(run, name),
            "## Scores\n\n" + _scores(scores),
            *(["## Text unlike the corpus\n\n" + _robustness(altered)] if altered else []),
            "## Text it learnt from\n\n" + _table(("part", "files", "licence", "from"), texts),
            "## Training\n\n" + _facts(run, "report.json"),
            "## Environment\n\n" + _facts(run, "environment.json"),
            f"## Settings\n\n```toml\n{to_toml(config).strip()}\n```",
        ]
    )
    return f"---\n{head}\n---\n\n{body}\n"


def published(config: Config) -> Config:
    """Return the configuration for others to see: of private files (`runs.is_private`), only the names."""

    def cut(file: str) -> str:
        return PureWindowsPath(file).name if is_private(file) or "\\" in file else file

    cut_config = with_files(config, cut)
    if origin := getattr(cut_config.training, "start_from", ""):
        training = cut_config.training.model_copy(update={"start_from": cut(origin)})
        cut_config = cut_config.model_copy(update={"training": training})
    return cut_config


def without_folders(value: Any) -> Any:
    """Return the content of a run's JSON file for others to see: absolute paths become names."""
    if isinstance(value, Mapping):
        return {without_folders(key): without_folders(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_folders(inner) for inner in value]
    is_path = isinstance(value, str) and (Path(value).is_absolute() or PureWindowsPath(value).is_absolute())
    return PureWindowsPath(value).name if is_path else value


def _about(run: Run) -> str:
    config, shapes = run.config, run.weight_shapes()
    what = config.names.on_hub.replace("-", " ")
    begun = getattr(config.training, "start_from", "")
    origin = f"begun from {_inline(Path(begun).name)}" if begun else "trained with Dragoman"
    imported = run.read_json("report.json").get("imported") if (run.path / "report.json").exists() else None
    if isinstance(imported, dict):
        origin = f"taken over from a model of {_inline(str(imported.get('format', 'another toolkit')))}"
    n_parameters = sum(math.prod(shape) for shape in shapes.values())
    about = f"A Transformer for {what} ({_inline(config.subject)}), {origin}: {n_parameters:,} parameters."
    if (run.path / "labels.json").exists():
        labels = run.read_json("labels.json").get("labels")
        named = map(str, labels if isinstance(labels, list) else [UNKNOWN])
        about += f" Its labels: {_inline(', '.join(named))}."
    return f"{about} Written from the files of the run; what they do not say is {UNKNOWN}."


def _usage(run: Run, name: str | None) -> str:
    """Code that works as it stands where the model is on the hub, or beside the folder of the run."""
    names, directions, folder = run.config.names, run.config.directions, _inline(run.path.name)
    kind = names.predictor
    load = f'{kind}.from_pretrained("{name}")' if name else f'{kind}.load("{folder}")'
    where = f"hf:{name}" if name else folder
    extra = "'.[hub]'" if name else "."
    option = ""
    if len(directions) > 1:
        way = "-".join(directions[0])
        load, option = f'{load}.towards("{way}")', f" --to {way}"
    return (
        f"```python\nfrom dragoman import {kind}\n\nmodel = {load}\n"
        f'print(model.{names.verb}(["One sentence."])[0].{names.result})\n```\n\n'
        f"In a clone of Dragoman's repository `pip install {extra}` installs it.\n\n"
        f"```sh\ndragoman {names.verb} {where} input.txt{option}\n```"
    )


def _scores(scores: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for record in scores:
        n = record.get("n_sentences", record.get("n_texts", UNKNOWN))
        searched = f", beam {record['beam_size']}" if "beam_size" in record else ""
        searched += f", length penalty {record['length_penalty']}" if "length_penalty" in record else ""
        for score in (score for score in record["scores"] if "signature" in score):
            interval = interval_text(score.get("interval"), missing=UNKNOWN)
            test = f"{record['name']} ({n}{searched})"
            rows.append((test, score["name"], f"{score['value']:.1f}", interval, score["signature"]))
    if not rows:
        return f"{UNKNOWN.capitalize()}: the run has not been evaluated."
    return _table(("test set", "score", "value", "95 % interval", "signature"), rows)


def _robustness(records: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of altered test sets. A number that is missing or damaged is unknown."""
    rows = []
    for record in records:
        altered = record[ALTERATIONS]
        for row in altered if isinstance(altered, list) else []:
            if isinstance(row, dict):
                values = [row.get(key, UNKNOWN) for key in _ALTERED]
                cells = [f"{value:.1f}" if isinstance(value, float) else _said(value) for value in values]
                rows.append((str(record["name"]), *cells))
    return (
        "The test set again, its text altered. Shares in percent: chrF2 of that of the unaltered text; "
        "translations that copy their source, repeat themselves or are empty; numbers, addresses and tags "
        "that are kept.\n\n" + _table(("test set", *_ALTERED.values()), rows)
    )


_ALTERED = {
    "name": "text", "n_sentences": "sentences", "bleu": "BLEU", "chrf": "chrF2", "share": "of plain",
    "copied": "copied", "repeated": "repeated", "empty": "empty", "kept": "kept",
}  # fmt: skip
"""Keys of an alteration in scores.json, and the headings of their columns."""


def licence_of(files: CorpusFiles) -> tuple[str, str]:
    """Return the licence of a corpus, and where it is from, as the catalogue knows them."""
    if files[0].startswith(PHRASEBOOK):
        return "MIT (made by Dragoman)", "the package"
    if files[0].startswith(HUB):
        return "see there", f"https://huggingface.co/datasets/{files[0][len(HUB) :].split(':')[0]}"
    dataset = catalog.providing(files[0])
    return (dataset.licence, dataset.homepage) if dataset else (UNKNOWN, UNKNOWN)


def _facts(run: Run, file: str) -> str:
    if not (run.path / file).exists():
        return f"{UNKNOWN.capitalize()}: the run has no {file}."
    facts = without_folders(run.read_json(file))
    return _table(("", ""), [(key, _said(value)) for key, value in facts.items()])


def _said(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _table(heading: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [heading, ["---"] * len(heading), *([_inline(str(cell)) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _inline(text: str) -> str:
    """`text` on one line, nothing in it a command to Markdown, HTML or a terminal."""
    plain = "".join(c if c.isprintable() or c == "\xa0" else " " for c in text[:500])
    return re.sub(r"([\\`*<>\[\]|])", r"\\\1", " ".join(plain.split()))
