"""The loaded models of a service, by name and language direction."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from dragoman.config import ClassificationConfig
from dragoman.errors import ConfigError, DataError
from dragoman.predict.classifier import Classifier
from dragoman.predict.flow import Pivot
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from dragoman.text.languages import known

PRECISIONS = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "int8": "int8"}
"""Their public names."""


@dataclass(frozen=True)
class Served:
    """A model with its public facts."""

    name: str
    parameters: int
    precision: str


@dataclass(frozen=True)
class ServedTranslator(Served):
    """A translator with its public facts."""

    translator: Translator | Pivot

    @property
    def languages(self) -> tuple[str, str]:
        """Of the source and of the translation."""
        return self.translator.config.languages

    @property
    def pivot(self) -> str | None:
        """The language that it translates through."""
        return self.translator.first.config.languages[1] if isinstance(self.translator, Pivot) else None


@dataclass(frozen=True)
class ServedClassifier(Served):
    """A classifier with its public facts."""

    classifier: Classifier


class Models:
    """The models of a service, in the given order.

    `reload` replaces all models; requests that are running keep the old ones until they end.
    """

    def __init__(
        self,
        paths: Sequence[str | Path],
        *,
        device: str = "auto",
        precision: str = "auto",
        note: Callable[[str], object] = lambda name: None,
    ) -> None:
        """Load the runs in `paths`; `note` receives the name of each before it is loaded.

        ConfigError: two models have the same name. Other errors: as `load`.
        """
        self.paths, self._note = tuple(paths), note
        self._device, self._precision = device, precision
        self.served: tuple[Served, ...] = ()
        """All of them, a model of several directions once for each; last those through a pivot language."""
        self.reload()

    def load(self, path: str | Path, name: str) -> Sequence[Served]:
        """Return the model of the run in `path`, or on the hub: once for each direction of a translator.

        Errors: `Translator.load`, `Classifier.load`.
        """
        device, precision, run = self._device, self._precision, Run.open(path)
        n_weights = sum(map(math.prod, run.weight_shapes().values()))
        if isinstance(run.config, ClassificationConfig):
            of_classifier = "auto" if precision == "int8" else precision  # int8 is for searches
            classifier = Classifier.load(path, device=device, precision=of_classifier)
            classifier.classify(["."])  # what is made at the first call is made now
            return [ServedClassifier(name, n_weights, PRECISIONS[classifier.precision], classifier)]
        translator = Translator.load(path, device=device, precision=precision)
        short = PRECISIONS[translator.engine.precision]
        turned = [translator.towards("-".join(direction)) for direction in translator.directions]
        turned[0].translate(["a"])  # what is made at the first call is made now
        return [ServedTranslator(name, n_weights, short, each) for each in turned]

    def reload(self) -> None:
        """Load all models. Errors: as of the first load; the old models then stay in use."""
        served: dict[str, Sequence[Served]] = {}
        for path in self.paths:
            name = name_of(path)
            if name in served:
                raise ConfigError(
                    f"{path}: there is another model of the name {name}; rename one of the folders, for "
                    "requests tell models by it"
                )
            self._note(name)
            served[name] = self.load(path, name)
        models = [one for of_run in served.values() for one in of_run]
        self.served = (*models, *pivots([one for one in models if isinstance(one, ServedTranslator)]))
        gc.collect()

    @property
    def translators(self) -> tuple[ServedTranslator, ...]:
        return tuple(model for model in self.served if isinstance(model, ServedTranslator))

    def translator(
        self, name: str | None = None, source: str | None = None, target: str | None = None
    ) -> ServedTranslator:
        """Return the translator of this name, or the first from `source` to `target`; None = any.

        DataError: no such translator.
        """
        named = [model for model in self.translators if name in (None, model.name)]
        if name is not None and not named:
            every = dict.fromkeys(model.name for model in self.translators)
            raise DataError(_no_model(name, "translates", [*every]))
        src, tgt = (
            code and (known(code, (model.languages[side] for model in named)) or code)
            for side, code in enumerate((source, target))
        )
        for model in named:
            if src in (None, model.languages[0]) and tgt in (None, model.languages[1]):
                return model
        pairs = ", ".join(f"{src} to {tgt}" for src, tgt in (model.languages for model in named)) or "none"
        if name is not None:
            raise DataError(
                f"{name}: translates from {pairs.replace(', ', ', from ')}; "
                "leave source and target away, or name another model"
            )
        raise DataError(
            f"no model translates from {source or 'any'} to {target or 'any'}; there are: {pairs}"
        )

    def classifier(self, name: str | None = None) -> ServedClassifier:
        """Return the classifier of this name; None = the first. DataError: no such classifier."""
        classifiers = [model for model in self.served if isinstance(model, ServedClassifier)]
        for model in classifiers:
            if name in (None, model.name):
                return model
        raise DataError(_no_model(name, "classifies", [model.name for model in classifiers]))

    @property
    def directions(self) -> tuple[tuple[str, str], ...]:
        """Return the supported language pairs, without duplicates."""
        return tuple(dict.fromkeys(model.languages for model in self.translators))


def pivots(translators: Sequence[ServedTranslator]) -> list[ServedTranslator]:
    """Return what two translators make together, for pairs of languages that none of them has alone.

    Where there are several ways, the first: in the order of the models.
    """
    by_pair: dict[tuple[str, str], ServedTranslator] = {}
    direct = {model.languages for model in translators}
    for first, second in product(translators, repeat=2):
        (source, through), (between, target) = first.languages, second.languages
        if through != between or source == target or (source, target) in direct:
            continue
        reader, writer = first.translator, second.translator
        assert isinstance(reader, Translator), "no pivot is translated through"
        assert isinstance(writer, Translator), "no pivot is translated through"
        name, parameters = first.name, first.parameters
        if name != second.name:
            name, parameters = f"{name}+{second.name}", parameters + second.parameters
        pivot = ServedTranslator(name, parameters, first.precision, Pivot(reader, writer))
        by_pair.setdefault((source, target), pivot)
    return list(by_pair.values())


def name_of(path: str | Path) -> str:
    """Return the name of a model: that of its run folder, or its name on the hub."""
    text = str(path)
    return text.removeprefix("hf:") if text.startswith("hf:") else Path(text).resolve().name


def _no_model(name: str | None, does: str, names: Sequence[str]) -> str:
    subject = "no model" if name is None else f"{name}: no such model"
    return f"{subject} {does} here; there are: {', '.join(names) or 'none'}"
