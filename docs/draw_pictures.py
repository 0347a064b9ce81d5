"""Draws the pictures of these pages: python docs/draw_pictures.py [--runs FOLDER]

Two small models are trained for them, by the recipes of the notebooks, into FOLDER (else a temporary one;
about two minutes of one core). What is in FOLDER already is not trained again, and the picture of a terminal,
which shows a training, is then left as it is.
"""

from __future__ import annotations

import argparse
import io
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from dragoman.cli.figures import PLACEHOLDER, curve_of
from dragoman.cli.listener import describe_record
from dragoman.cli.live import LivePanel, sample_table
from dragoman.config import Config, ModelConfig, load_recipe, parse_config
from dragoman.evaluation.classification import evaluate, split_of
from dragoman.files import write_atomically
from dragoman.predict.alignment import align_words
from dragoman.predict.attention import attention_maps
from dragoman.predict.classifier import Classifier
from dragoman.predict.translator import Translator
from dragoman.report.attention import plot_alignment, plot_attention
from dragoman.report.classes import plot_classes, plot_confusion, plot_reliability
from dragoman.report.masks import masks_of, plot_masks
from dragoman.report.positions import plot_positions
from dragoman.report.schedule import plot_schedules
from dragoman.runs import Run
from dragoman.training.loop import train
from dragoman.training.state import Position
from dragoman.training.task import Sample
from dragoman.training.trainer import TrainingListener

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"

SENTENCE = "We cannot ride a bicycle because it is foggy."
SHARE = 0.6
"""Of the training's steps, after which the terminal is pictured."""
COLUMNS = 100
MORE_OFTEN = "training.valid_every=100"
"""A change to the recipes: a curve needs some validations."""
N_LINES = 4
"""Log lines above the validation."""


class TerminalPicture(TrainingListener):
    """Pictures what a terminal shows at the first validation after SHARE of the steps."""

    def __init__(self) -> None:
        self.svg = ""
        self._console = Console(
            record=True, width=COLUMNS, height=40, force_terminal=True, highlight=False, markup=False,
            color_system="truecolor", file=io.StringIO(),
        )  # fmt: skip
        self._lines: list[str] = []

    def started(self, position: Position, config: Config, n_parameters: int) -> None:
        self._config = config
        self._panel = LivePanel(self._console, config, position)

    def stepped(self, position: Position) -> None:
        self._step = position.step
        self._panel.stepped(position)

    def logged(self, record: dict[str, Any]) -> None:
        self._panel.logged(record)
        self._lines.append(describe_record(record, item="token"))

    def sampled(self, step: int, samples: Sequence[Sample]) -> None:
        if self.svg or step < SHARE * self._config.training.max_steps:
            return
        for line in self._lines[-N_LINES:]:
            self._console.print(line, soft_wrap=True)
        self._console.print(sample_table(samples, self._config.names.sample))
        self._console.print(self._panel)
        title = f"dragoman train {self._config.name}.toml --set {MORE_OFTEN}"
        svg = self._console.export_svg(title=title, unique_id="terminal")
        self.svg = re.sub(r"@font-face \{.*?\}\s*|<!--.*?-->", "", svg, flags=re.DOTALL)  # no address


def without_training() -> dict[str, Callable[[Path], None]]:
    """Return the pictures that need no model, by their names."""
    training = parse_config(PLACEHOLDER).training
    names = ("inverse_sqrt", "cosine", "linear", "constant", "wsd", "plateau")
    curves = [curve_of(training.model_copy(update={"schedule": name})) for name in names]
    return {
        "positions": lambda path: plot_positions(path, d_model=ModelConfig().d_model),
        "masks": lambda path: plot_masks(masks_of(), path),
        "schedule": lambda path: plot_schedules(curves, path, title="Learning-rate schedules"),
    }


def of_a_translator(run: Path) -> dict[str, Callable[[Path], None]]:
    """Return the pictures of attention, by their names."""
    translator = Translator.load(run, device="cpu", precision="fp32")
    translation = translator.translate([SENTENCE])[0].text
    maps = attention_maps(translator, SENTENCE, translation)
    alignment = align_words(translator, SENTENCE, translation)
    return {
        "self-attention": lambda path: plot_attention(
            maps.decoder, path, layer=0, title="Decoder self-attention, layer 1"
        ),
        "cross-attention": lambda path: plot_attention(maps.cross, path, title="Cross-attention, last layer"),
        "alignment": lambda path: plot_alignment(alignment, path, title="Words and their links"),
    }


def of_a_classifier(run: Path) -> dict[str, Callable[[Path], None]]:
    """Return the pictures of a test set and its labels, by their names."""
    config = Run.open(run).config
    assert config.task == "classification"
    ((name, corpus),) = split_of(config, "test")
    classifier = Classifier.load(run, device="cpu", precision="fp32")
    evaluation = evaluate(classifier, name, list(corpus.examples()))
    return {
        "confusion": lambda path: plot_confusion(evaluation, path),
        "classes": lambda path: plot_classes(evaluation, path),
        "reliability": lambda path: plot_reliability(evaluation, path),
    }


def trained(recipe: str, folder: Path, listener: TrainingListener | None = None) -> Path:
    """Return the run of one of the notebooks' recipes in `folder`, validated more often than there."""
    config = load_recipe(ROOT / "notebooks" / recipe, [MORE_OFTEN])
    return train(config, folder / config.name, listener=listener)


def main(runs: Path) -> None:
    PICTURES.mkdir(exist_ok=True)
    terminal = TerminalPicture()
    pictures = without_training()
    pictures |= of_a_translator(trained("phrasebook-en-de.toml", runs, terminal))
    pictures |= of_a_classifier(trained("phrasebook-reviews.toml", runs))
    for name, draw in pictures.items():
        draw(PICTURES / f"{name}.svg")
    if terminal.svg:
        write_atomically(PICTURES / "terminal.svg", terminal.svg.encode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=Path, help="where the models are, or are to be, trained")
    given = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as temporary:
        main(given or Path(temporary))
