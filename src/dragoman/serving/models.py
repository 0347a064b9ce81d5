"""The loaded models of a service, by name and language direction."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeAlias

import torch

from dragoman.errors import ConfigError, DataError
from dragoman.predict.alignment import Link, align_translations
from dragoman.predict.classifier import Classifier
from dragoman.predict.translator import Translation, Translator
from dragoman.runs import Run
from dragoman.serving.batching import BatchedEngine, Client

ALIGNED_AT_ONCE = 64
"""Translations aligned per batch item, so that a document does not block other requests."""


class ModelInfo(NamedTuple):
    """Public facts about a model."""

    name: str
    n_parameters: int
    precision: str
    engine: str


@dataclass(frozen=True)
class ServedTranslator:
    """A translator with its public facts."""

    info: ModelInfo
    translator: Translator

    @property
    def languages(self) -> tuple[str, str]:
        """Of the source and of the translation."""
        return self.translator.config.languages

    def for_client(self, client: Client) -> Translator:
        """Return a translator for `client` that batches its sentences with those of other clients."""
        own = copy(self.translator)
        own.engine = BatchedEngine(self.translator.engine, client)
        return own

    def align(self, client: Client, translations: Sequence[Translation]) -> list[list[Link]]:
        """Return the word alignment of translations, computed in batches by the compute threads."""
        links: list[list[Link]] = []
        for start in range(0, len(translations), ALIGNED_AT_ONCE):
            part = translations[start : start + ALIGNED_AT_ONCE]
            cost = sum(len(ids) for translation in part for ids in translation.ids[:1])
            links += client.run(partial(align_translations, self.translator, part), cost)
        return links


@dataclass(frozen=True)
class ServedClassifier:
    """A classifier with its public facts."""

    info: ModelInfo
    classifier: Classifier


Served: TypeAlias = ServedTranslator | ServedClassifier


@dataclass(frozen=True)
class LoadOptions:
    """How models are loaded."""

    device: str = "auto"
    precision: str = "auto"
    engine: str = "native"

    def load(self, path: str | Path, name: str) -> Served:
        """Return the model of the run in `path`, or on the hub.

        Errors: `Translator.load`, `Classifier.load`.
        """
        load: dict[str, Callable[[str | Path, str], Served]]
        load = {"translation": self._translator, "classification": self._classifier}
        return load[Run.open(path).config.task](path, name)

    def _classifier(self, path: str | Path, name: str) -> ServedClassifier:
        precision = "auto" if self.precision == "int8" else self.precision  # int8 is for searches
        classifier = Classifier.load(path, device=self.device, precision=precision)
        classifier.classify(["."])  # what is made at the first call is made now
        return ServedClassifier(_info(name, classifier.model, "native", None), classifier)

    def _translator(self, path: str | Path, name: str) -> ServedTranslator:
        translator = Translator.load(path, device=self.device, precision=self.precision, engine=self.engine)
        translator.translate(["."])
        given = self.precision if self.precision == "int8" or self.engine != "native" else None
        return ServedTranslator(_info(name, translator.model, self.engine, given), translator)


class Models:
    """The models of a service, in the given order.

    `reload` replaces all models; requests that are running keep the old ones until they end.
    """

    def __init__(
        self,
        paths: Sequence[str | Path],
        options: LoadOptions,
        *,
        note: Callable[[str], object] = lambda name: None,
    ) -> None:
        """Load the runs in `paths`; `note` receives the name of each before it is loaded.

        ConfigError: two models have the same name. Other errors: as `LoadOptions.load`.
        """
        self.paths, self._options, self._note = tuple(paths), options, note
        self._loading = Lock()
        self._served = self._load()

    def _load(self) -> dict[str, Served]:
        served: dict[str, Served] = {}
        for path in self.paths:
            name = name_of(path)
            if name in served:
                raise ConfigError(
                    f"{path}: there is another model of the name {name}; rename one of the folders, for "
                    "requests tell models by it"
                )
            self._note(name)
            served[name] = self._options.load(path, name)
        return served

    def reload(self) -> None:
        """Reload all models. Errors: as of the first load; the old models then stay in use."""
        with self._loading:
            self._served = self._load()
            gc.collect()

    @property
    def served(self) -> tuple[Served, ...]:
        """All of them."""
        return tuple(self._served.values())

    @property
    def translators(self) -> tuple[ServedTranslator, ...]:
        return tuple(model for model in self.served if isinstance(model, ServedTranslator))

    @property
    def classifiers(self) -> tuple[ServedClassifier, ...]:
        return tuple(model for model in self.served if isinstance(model, ServedClassifier))

    def translator(
        self, name: str | None = None, source: str | None = None, target: str | None = None
    ) -> ServedTranslator:
        """Return the translator of this name, or the first from `source` to `target`; None = any.

        DataError: no such translator.
        """
        if name is not None:
            found = self._served.get(name)
            if not isinstance(found, ServedTranslator):
                raise DataError(_no_model(name, "translates", [m.info.name for m in self.translators]))
            self._check_direction(found, source, target)
            return found
        for model in self.translators:
            if source in (None, model.languages[0]) and target in (None, model.languages[1]):
                return model
        there = ", ".join(f"{src} to {tgt}" for src, tgt in self.directions) or "none"
        raise DataError(
            f"no model translates from {source or 'any'} to {target or 'any'}; there are: {there}"
        )

    def _check_direction(self, model: ServedTranslator, source: str | None, target: str | None) -> None:
        if source not in (None, model.languages[0]) or target not in (None, model.languages[1]):
            raise DataError(
                f"{model.info.name}: translates from {model.languages[0]} to {model.languages[1]}; "
                "leave source and target away, or name another model"
            )

    def classifier(self, name: str | None = None) -> ServedClassifier:
        """Return the classifier of this name; None = the first. DataError: no such classifier."""
        for model in self.classifiers:
            if name in (None, model.info.name):
                return model
        raise DataError(_no_model(name, "classifies", [m.info.name for m in self.classifiers]))

    @property
    def directions(self) -> tuple[tuple[str, str], ...]:
        """Return the supported language pairs, without duplicates."""
        return tuple(dict.fromkeys(model.languages for model in self.translators))


def name_of(path: str | Path) -> str:
    """Return the name of a model: that of its run folder, or its name on the hub."""
    text = str(path)
    return text.removeprefix("hf:") if text.startswith("hf:") else Path(text).resolve().name


def _no_model(name: str | None, does: str, there: Sequence[str]) -> str:
    wanted = "no model" if name is None else f"{name}: no such model"
    return f"{wanted} {does} here; there are: {', '.join(there) or 'none'}"


def _info(name: str, model: torch.nn.Module, engine: str, precision: str | None) -> ModelInfo:
    parameters = list(model.parameters())
    short = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
    dtype = next(iter(parameters)).dtype
    own = precision or short.get(dtype, str(dtype))
    return ModelInfo(name, sum(p.numel() for p in parameters), "fp32" if own == "auto" else own, engine)
