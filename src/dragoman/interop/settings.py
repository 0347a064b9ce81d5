"""Settings of other toolkits: nested values of unknown kinds, looked up by name and checked on use."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dragoman.errors import RunError, require


class Settings:
    """Nested settings; `get("model.encoder.layers")` looks where the dots lead.

    A mapping or an argparse.Namespace, as checkpoints have them.
    """

    def __init__(self, values: object, *, where: Path) -> None:
        self.values = values
        self.where = where

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a setting, or `default` where it is not set or null."""
        value = self.values
        for part in name.split("."):
            if isinstance(value, argparse.Namespace):
                value = vars(value)
            value = value.get(part) if isinstance(value, Mapping) else None
        return default if value is None else value

    def number(self, name: str, default: float | None = None) -> float:
        """A number. RunError: it is not set, or something else."""
        value = self.get(name, default)
        if isinstance(value, list) and len(value) == 1:  # one for each stage of a training
            value = value[0]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise RunError(f"{self.where}: {name} is {value!r} where a number belongs; copy the file again")
        return value

    def count(self, name: str, default: int | None = None, *, least: int = 1) -> int:
        """A whole number of at least `least`. RunError: it is not set, or something else."""
        value = self.number(name, default)
        if value != value or value not in range(least, 10**9):
            raise RunError(f"{self.where}: {name} is {value!r} where a count belongs; copy the file again")
        return int(value)

    def text(self, name: str, default: str = "") -> str:
        """A string. RunError: it is something else."""
        value = self.get(name, default)
        if not isinstance(value, str):
            raise RunError(f"{self.where}: {name} is {value!r} where text belongs; copy the file again")
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        """True or false. RunError: it is something else."""
        value = self.get(name, default)
        if not isinstance(value, bool):
            raise RunError(f"{self.where}: {name} is {value!r} where true or false belongs; copy it again")
        return value

    def choose(self, name: str, default: str, known: Mapping[str, Any]) -> Any:
        """What `known` has for a setting. RunError: it has nothing for it."""
        value = self.text(name, default)
        if value not in known:
            raise self.refusal(name, f"only {', '.join(known)} can be expressed here")
        return known[value]

    def refuse_where_set(self, reasons: Mapping[str, str]) -> None:
        """RunError: one of these settings is set, and is neither zero nor false nor empty."""
        for name, reason in reasons.items():
            if self.get(name):
                raise self.refusal(name, reason)

    def refusal(self, name: str, reason: str) -> RunError:
        """The error that a setting cannot be expressed, for this reason."""
        return RunError(f"{self.where}: {name} = {self.get(name)!r}: {reason}; the model cannot be imported")


def parse_yaml(text: str, *, where: Path) -> dict[str, Any]:
    """The mapping that a YAML file holds; what is tagged as an object is read as the plain values below it.

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

    for prefix in ("!", "tag:yaml.org,2002:python/"):
        PlainLoader.add_multi_constructor(prefix, plain)
    try:
        content = yaml.load(text, Loader=PlainLoader)  # noqa: S506 (a SafeLoader)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        said = " ".join(str(error).split())[:200]
        raise RunError(f"{where}: is not valid YAML ({said}); copy it again") from None
    if not isinstance(content, dict):
        raise RunError(f"{where}: holds no settings; copy it again")
    return content
