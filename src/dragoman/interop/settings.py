"""Settings of other toolkits: nested values of unknown kinds, looked up by name and checked on use."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.errors import RunError, require
from dragoman.interop.foreign import ForeignFolder
from dragoman.model.architecture import SIDES


class Setting(NamedTuple):
    """Where a toolkit says something about a model, and what it may say."""

    name: str
    """With "*" for a setting of both sides, "encoder" and "decoder", which must be the same."""
    default: Any
    """The value where it is not set, of the kind that belongs there; `int` itself: it must be set."""
    choices: Mapping[Any, Any] | Sequence[Any] | None = None
    """What each value means, or the values that there may be; None: any of its kind."""


class ForeignSettings:
    """Nested settings; `get("model.encoder.layers")` looks where the dots lead.

    A mapping or an argparse.Namespace, as checkpoints have them.
    """

    def __init__(self, values: object, *, where: Path) -> None:
        self.values = values
        self.where = where

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a setting, or `default` where it is not set or null."""
        value = self.values
        for part in name.split("."):
            if isinstance(value, argparse.Namespace):
                value = vars(value)
            value = value.get(part) if isinstance(value, Mapping) else None
        return default if value is None else value

    def section(self, name: str) -> dict[str, Any]:
        """Return the settings below a name, "" for all of them; none where there is no such section."""
        value = self.get(name) if name else self.values
        return dict(value) if isinstance(value, Mapping) else {}

    def check(self, settings: Iterable[Setting]) -> None:
        """RunError: one of these settings is of another kind, or cannot be expressed."""
        for setting in settings:
            self.value(setting)

    def read(self, settings: Mapping[str, Setting]) -> dict[str, Any]:
        """Our settings, by our names. RunError: one is not set, of another kind, or cannot be expressed."""
        return {ours: self.value(setting) for ours, setting in settings.items()}

    def value(self, setting: Setting) -> Any:
        """Return the meaning of a setting that both sides share. RunError: as `read`, or the sides differ."""
        name, default, choices = setting
        value, other = (self._typed(name.replace("*", side), default) for side in SIDES)
        name = name.replace("*", "encoder")
        if value != other:
            raise self.refusal(name, f"the decoder has {other!r}")
        if choices is None:
            return value
        if value not in choices:
            raise self.refusal(
                name, f"only {', '.join(str(one) or 'nothing' for one in choices)} can be expressed here"
            )
        return choices[value] if isinstance(choices, Mapping) else value

    def _typed(self, name: str, default: Any) -> Any:
        if default is int:
            return self.count(name)
        if isinstance(default, bool):
            return self.flag(name, default)
        if isinstance(default, int):
            return self.count(name, default, least=min(default, 1))
        return self.text(name, default) if isinstance(default, str) else self.number(name, default)

    def number(self, name: str, default: float | None = None) -> float:
        """Return a number. RunError: it is not set, or something else."""
        value = self.get(name, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
        return self._checked(name, value, is_number, "a number")

    def count(self, name: str, default: int | None = None, *, least: int = 1) -> int:
        """Return a whole number of at least `least`. RunError: it is not set, or something else."""
        value = self.number(name, default)
        return int(self._checked(name, value, least <= value < 10**9 and value == int(value), "a count"))

    def text(self, name: str, default: str | None = "") -> str:
        """Return a string. RunError: it is something else."""
        value = self.get(name, default)
        return self._checked(name, value, isinstance(value, str), "text")

    def texts(self, name: str) -> list[str]:
        """Return a list of strings, empty where it is not set. RunError: it is something else."""
        value = self.get(name, [])
        is_right = isinstance(value, list) and all(isinstance(one, str) for one in value)
        return self._checked(name, value, is_right, "a list of texts")

    def flag(self, name: str, default: bool | None = False) -> bool:
        """Read a boolean. RunError: it is something else."""
        value = self.get(name, default)
        return self._checked(name, value, isinstance(value, bool), "true or false")

    def _checked(self, name: str, value: Any, is_right: bool, kind: str) -> Any:
        if not is_right:
            raise RunError(f"{self.where}: {name} is {value!r} where {kind} belongs; copy the file again")
        return value

    def refuse_where_set(self, reasons: Mapping[str, str]) -> None:
        """RunError: one of these settings is set, and is neither zero nor false nor empty."""
        for pattern, reason in reasons.items():
            for name in dict.fromkeys(pattern.replace("*", side) for side in SIDES):
                if self.get(name):
                    raise self.refusal(name, reason)

    def notes(self, notes: Mapping[str, str]) -> list[str]:
        """Return the notes on those of these settings that are set, and neither false nor "none"."""
        return [note for name, note in notes.items() if self.get(name) not in (None, False, "none")]

    def refusal(self, name: str, reason: str) -> RunError:
        """Return the error that a setting cannot be expressed, for this reason."""
        return RunError(f"{self.where}: {name} = {self.get(name)!r}: {reason}; the model cannot be imported")


def read_settings(folder: ForeignFolder, name: str) -> ForeignSettings:
    """Return the settings in a file of JSON, or of YAML. RunError: it cannot be read, or holds none."""
    where = folder.path / name
    is_json = name.endswith(".json")
    return ForeignSettings(
        folder.json(name) if is_json else parse_yaml(folder.text(name), where=where), where=where
    )


def parse_yaml(text: str, *, where: Path) -> dict[str, Any]:
    """Read the mapping in a YAML file; an object tag is ignored, and its plain values are read.

    No object is made. RunError: the text is no mapping in YAML. MissingExtraError: PyYAML is not installed.
    """
    require("yaml", extra="foreign", purpose="a model with settings in YAML")
    import yaml

    class PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
        """The safe loader, to which a tag of somebody's own says nothing."""

    def plain(loader: Any, _: str, node: Any) -> Any:
        if isinstance(node, yaml.MappingNode):
            return loader.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return loader.construct_sequence(node, deep=True)
        return loader.construct_scalar(node)

    PlainLoader.add_multi_constructor("", plain)  # tags that YAML itself has no constructor for
    try:
        content = yaml.load(text, Loader=PlainLoader)  # noqa: S506 (a SafeLoader)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise RunError(f"{where}: is not valid YAML ({reason}); copy it again") from error
    if not isinstance(content, dict):
        raise RunError(f"{where}: holds no settings; copy it again")
    return content
