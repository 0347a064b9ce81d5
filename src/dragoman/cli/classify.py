"""`dragoman classify`: classify texts, line by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.app import FILE_OR_STDOUT, check_folders, check_outputs, say
from dragoman.cli.options import Device, Precision, RunPath

if TYPE_CHECKING:
    from dragoman.predict.classifier import Classification


def classify(
    run: RunPath,
    file: Annotated[
        str, typer.Argument(help="Texts, one per line; - = stdin. .gz, .xz and .zst are decompressed.")
    ] = "-",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar=FILE_OR_STDOUT,
            help="Write to this file at the end, not to stdout; .gz, .xz and .zst are compressed.",
        ),
    ] = None,
    json_: Annotated[
        bool,
        typer.Option("--json", help="Write one JSON object per line: text, labels, label probabilities."),
    ] = False,
    top: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1_000_000,
            help="Number of labels per line, most likely first.",
            show_default="1; all with --json",
        ),
    ] = None,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Classify texts: one line in, one line out.

    Each output line is: label, tab, probability. Several labels of a text, and their probabilities, have
    the separator of the training file between them. Texts may have any length. Empty lines stay empty.
    Lines from a pipe are classified as they arrive.
    """
    from dragoman.bulk.input import AS_THEY_COME, SOON, Input
    from dragoman.bulk.output import write_output
    from dragoman.tasks.classification.evaluation import load_classifier

    out = None if out == Path("-") else out
    texts = Input.of(file, out=out)
    check_outputs(out, files=texts.files, runs=[run])
    check_folders(out)
    classifier = load_classifier(run, device=device, precision=precision)
    separator = classifier.labelling.separator
    lines: list[str] = []
    n_texts = n_cut_texts = n_cut_tokens = 0
    for chunk in texts.chunks(chunk_lines=AS_THEY_COME if texts.is_stream else SOON):
        results = classifier.classify(chunk.lines)
        n_texts += len(results)
        n_cut_texts += sum(c.n_cut > 0 for c in results)
        n_cut_tokens += sum(c.n_cut for c in results)
        lines += [f"{as_json(c, top) if json_ else as_line(c, top, separator)}\n" for c in results]
        if out is None:
            write_output(None, "".join(lines))
            lines.clear()
    if out is not None:
        write_output(out, "".join(lines))
        say(f"{out}: {n_texts:,} texts")
    if n_cut_texts:
        say(f"cut {n_cut_tokens:,} tokens off {n_cut_texts:,} of {n_texts:,} texts (data.max_windows)")


def as_line(classification: Classification, top: int | None, separator: str) -> str:
    """Return the labels given, joined, and their probabilities; or the `top` labels, separated by tabs.

    An empty line for an empty text.
    """
    likely = classification.probabilities
    if not likely:
        return ""
    if top is None:
        shares = (f"{likely[label]:.4f}" for label in classification.labels)
        return f"{separator.join(classification.labels)}\t{separator.join(shares)}"
    return "\t".join(f"{label}\t{likely[label]:.4f}" for label in list(likely)[:top])


def as_json(classification: Classification, top: int | None) -> str:
    """Return a classification as one line of JSON; the label of an empty text is null."""
    likely = list(classification.probabilities.items())[:top]
    record = {
        "text": classification.text,
        "label": classification.label or None,
        "labels": list(classification.labels),
        "probabilities": dict(likely),
        "n_cut": classification.n_cut,
    }
    return json.dumps(record, ensure_ascii=False)
