"""The doctor for labelled text."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping

import numpy as np

from dragoman.data.doctor.checkup import N_EXAMPLES
from dragoman.data.doctor.content import markup
from dragoman.data.doctor.encoding import damage
from dragoman.data.doctor.findings import Report
from dragoman.data.doctor.overlap import HeldOut
from dragoman.data.doctor.reading import Reading, numbered_examples, unit_of
from dragoman.data.doctor.statistics import duplicates, with_several
from dragoman.data.doctor.tally import Faults, Tally
from dragoman.data.doctor.windows import Progress, silent
from dragoman.data.labelled import LabelledCorpus, labels_of

_MAX_SHOWN = 20  # labels that are listed


def check_labelled(
    corpus: LabelledCorpus,
    *,
    held_out: Mapping[str, LabelledCorpus] | None = None,
    n_examples: int = N_EXAMPLES,
    progress: Progress = silent,
) -> Report:
    """Check labelled text: as `check_corpus`, and equal texts with different labels."""
    faults, tally = Faults(), Tally(n_examples)
    numbers, texts, labels = array("q"), array("q"), array("q")
    n_of_label: Counter[str] = Counter()
    held = None
    if held_out:
        progress("reading valid and test", 0)
        by_name = {f"{name} {unit_of(one)}": numbered_examples(one) for name, one in held_out.items()}
        held = HeldOut(by_name, ("text",))
    reading = Reading(numbered_examples(corpus))
    for chunk in reading.chunks():
        if held is not None:
            overlap = held.look_up(len(numbers), chunk)
            faults.by_kind["overlap"].update(overlap.exact)
            faults.by_kind["overlap-near"].update(overlap.near)
        for number, (text, label) in chunk:
            _check_example(text, label or corpus.separator, len(numbers), faults)
            numbers.append(number)
            texts.append(hash(" ".join(text.split())))
            labels.append(hash(label))
            n_of_label.update(labels_of(label, corpus.separator))
        progress("reading", len(numbers))
    unit = unit_of(corpus)
    _add_repetitions(np.array(texts), np.array(labels), faults, np.array(numbers), unit)
    tally.add(faults, numbers)
    _summarise_labels(n_of_label, len(numbers) - n_of_label.pop("", 0), tally)
    if reading.trouble is not None:
        tally.summarise("unreadable", [str(reading.trouble)], count=1)
    findings, _ = tally.findings(lambda: numbered_examples(corpus))
    return Report(corpus.name, len(numbers), unit, findings)


def _check_example(text: str, label: str, index: int, faults: Faults) -> None:
    missing = [name for name, value in (("text", text), ("label", label)) if not value.strip()]
    for kind, detail in (
        ("empty", f"no {' and no '.join(missing)}" if missing else ""),
        ("encoding", damage(text)),
        ("markup", markup(text)),
    ):
        if detail:
            faults.add(kind, index, detail)


def _add_repetitions(
    texts: np.ndarray, labels: np.ndarray, faults: Faults, numbers: np.ndarray, unit: str
) -> None:
    filled = np.ones(len(texts), dtype=bool)
    filled[list(faults.by_kind["empty"])] = False
    kept = np.flatnonzero(filled)
    first = dict(zip(*map(np.ndarray.tolist, duplicates(texts[kept])), strict=True))
    conflicting = np.isin(texts[kept], texts[kept][with_several(texts[kept], labels[kept])[0]])
    for i in np.flatnonzero(conflicting).tolist():
        other = f"as {unit} {numbers[kept[first[i]]]}, " if i in first else ""
        faults.add("conflict", int(kept[i]), f"{other}with another label elsewhere")
    for i, original in first.items():
        if not conflicting[i]:
            faults.add("duplicate", int(kept[i]), f"as {unit} {numbers[kept[original]]}")


def _summarise_labels(n_of_label: Counter[str], n_texts: int, tally: Tally) -> None:
    lines = [
        f"{label!r}: {n:,} ({100 * n / n_texts:.1f} %)" for label, n in n_of_label.most_common(_MAX_SHOWN)
    ]
    if len(n_of_label) > _MAX_SHOWN:
        lines.append(f"and {len(n_of_label) - _MAX_SHOWN:,} more labels")
    tally.summarise("labels", lines, count=len(n_of_label))
