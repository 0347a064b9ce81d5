"""Dragoman: parallel text in, a translator out; labelled text in, a classifier out.

    from dragoman import Translator, load_recipe, train

    run = train(load_recipe("recipes/multi30k-en-de/recipe.toml"), "runs/multi30k-en-de")
    print(Translator.load(run).translate(["A man is riding a bike."])[0].text)

Public names are imported on first use (PEP 562), so that `import dragoman` loads neither torch nor
anything else that is slow.
"""

from __future__ import annotations

TYPE_CHECKING = False  # not from typing: importing that takes time in which Ctrl-C gives a traceback

if TYPE_CHECKING:
    from typing import Any

    from dragoman.config import Config as Config
    from dragoman.config import load_recipe as load_recipe
    from dragoman.documents.files import translate_document as translate_document
    from dragoman.documents.files import translate_file as translate_file
    from dragoman.errors import DragomanError as DragomanError
    from dragoman.interop.exporting import export_run as export_run
    from dragoman.interop.pipeline import pipeline as pipeline
    from dragoman.interop.publishing import push_to_hub as push_to_hub
    from dragoman.predict.alignment import align as align
    from dragoman.predict.classifier import Classification as Classification
    from dragoman.predict.classifier import Classifier as Classifier
    from dragoman.predict.protection import Protection as Protection
    from dragoman.predict.results import Translation as Translation
    from dragoman.predict.translator import Translator as Translator
    from dragoman.predict.translator import translate_protected as translate_protected
    from dragoman.tasks import config_for as config_for
    from dragoman.tasks.training import train as train

__version__ = "0.2.0"

_HOME = {
    "Classification": "dragoman.predict.classifier",
    "Classifier": "dragoman.predict.classifier",
    "Config": "dragoman.config",
    "DragomanError": "dragoman.errors",
    "Protection": "dragoman.predict.protection",
    "Translation": "dragoman.predict.results",
    "Translator": "dragoman.predict.translator",
    "align": "dragoman.predict.alignment",
    "config_for": "dragoman.tasks",
    "export_run": "dragoman.interop.exporting",
    "load_recipe": "dragoman.config",
    "pipeline": "dragoman.interop.pipeline",
    "push_to_hub": "dragoman.interop.publishing",
    "train": "dragoman.tasks.training",
    "translate_document": "dragoman.documents.files",
    "translate_file": "dragoman.documents.files",
    "translate_protected": "dragoman.predict.translator",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        import importlib

        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'dragoman' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
