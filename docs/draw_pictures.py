"""Draws the pictures of these pages: python docs/draw_pictures.py [--runs FOLDER]

Two small models are trained for them, by the recipes of the notebooks, into FOLDER (else a temporary one;
about two minutes of one core). What is in FOLDER already is not trained again.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

from dragoman.config import TrainingConfig, load_recipe
from dragoman.predict.alignment import align_words
from dragoman.predict.attention import attention_maps
from dragoman.predict.classifier import Classifier
from dragoman.predict.translator import Translator
from dragoman.report.attention import plot_alignment, plot_attention
from dragoman.report.curves import plot_schedules
from dragoman.runs import Run
from dragoman.tasks.classification.evaluation import evaluate, split_of
from dragoman.tasks.classification.report import plot_classes, plot_confusion, plot_reliability
from dragoman.tasks.training import train

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"

SENTENCE = "We cannot ride a bicycle because it is foggy."


def without_training() -> dict[str, Callable[[Path], None]]:
    """Return the pictures that need no model, by their names."""
    names = ("inverse_sqrt", "cosine", "linear", "constant", "wsd", "plateau")
    trainings = [TrainingConfig.model_validate({"schedule": name}) for name in names]
    return {
        "schedule": lambda path: plot_schedules(trainings, path, title="Learning-rate schedules"),
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


def trained(recipe: str, folder: Path) -> Path:
    """Return the run of one of the notebooks' recipes in `folder`, validated more often than there."""
    config = load_recipe(ROOT / "notebooks" / recipe, ["training.valid_every=100"])
    return train(config, folder / config.name)


def main(runs: Path) -> None:
    PICTURES.mkdir(exist_ok=True)
    pictures = without_training()
    pictures |= of_a_translator(trained("phrasebook-en-de.toml", runs))
    pictures |= of_a_classifier(trained("phrasebook-reviews.toml", runs))
    for name, draw in pictures.items():
        draw(PICTURES / f"{name}.svg")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=Path, help="where the models are, or are to be, trained")
    given = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as temporary:
        main(given or Path(temporary))
