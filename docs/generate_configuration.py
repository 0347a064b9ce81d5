"""Writes docs/configuration.md from the code: every setting, its default and its docstring.

    python docs/generate_configuration.py

tests/docs/test_generated_pages.py fails while the page and the code disagree.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from dragoman import config
from dragoman.serving import settings as serving

PAGE = Path(__file__).resolve().parent / "configuration.md"

INTRODUCTION = """\
# Configuration

<!-- Written by docs/generate_configuration.py from src/dragoman/config.py and
src/dragoman/serving/settings.py. Change the docstrings there. -->

A recipe is one TOML file. What it does not say has the default below; `dragoman train` writes every
setting, defaults included, into the run's `config.toml`, so that a default which changes later never changes
what an old run meant. For a translator only `name`, `data.src_lang`, `data.tgt_lang` and `data.train` must be
given, or `name` and `data.corpora`, for a classifier `task = "classification"`, `name` and `data.train`.

Any setting can be changed for one training with `--set section.key=value`, as often as needed; the value is
checked like the file. A name that does not exist is an error, with the closest one that does:

```
training.learing_rate is not a setting; did you mean training.learning_rate?
```
"""

SERVICE = """\
# A service

What `dragoman serve` allows and how it behaves is in a TOML file of its own, `--settings serve.toml`; `--set`
changes one of them here, too.
"""

WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false"}
SIGNS = {"Ge": ("ge", "≥"), "Gt": ("gt", ">"), "Le": ("le", "≤"), "Lt": ("lt", "<")}


def page() -> str:
    """Return the whole page."""
    docstrings = setting_docstrings()
    parts = [INTRODUCTION]
    for recipe in (config.TranslationConfig, config.ClassificationConfig):
        parts += [f"# {paragraph(recipe.__doc__)[:-1]}\n", section_text(None, recipe, docstrings)]
        for name, field in recipe.model_fields.items():
            if is_section(field) and not (recipe is config.ClassificationConfig and name == "tokenizer"):
                parts.append(section_text(f"[{name}]", field.annotation, docstrings))
                parts += [
                    section_text(f"[[{name}.{inner}]]", one, docstrings)
                    for inner, within in field.annotation.model_fields.items()  # type: ignore[union-attr]  # a section
                    if (one := listed_section(within)) is not None
                ]
    parts += [SERVICE, section_text(None, serving.ServeConfig, docstrings)]
    parts += [
        section_text(f"[{name}]", field.annotation, docstrings)
        for name, field in serving.ServeConfig.model_fields.items()
        if is_section(field)
    ]
    return "\n".join(parts)


def section_text(name: str | None, section: Any, docstrings: dict[tuple[str, str], str]) -> str:
    """Return a heading, what the section is for, and the table of its settings."""
    title = "Top level" if name is None else f"`{name}`"
    about = "At the top of the file, before any section." if name is None else paragraph(section.__doc__)
    rows = ["| setting | type | default | meaning |", "|---|---|---|---|"]
    for key, field in section.model_fields.items():
        if not is_section(field) and listed_section(field) is None:
            meaning = next(
                paragraph(docstrings[part.__name__, key])
                for part in section.__mro__
                if (part.__name__, key) in docstrings
            )
            cells = (f"`{key}`", type_in_words(field), default_as_toml(field), meaning)
            rows.append(
                "| " + " | ".join(cell.replace("|", "\\|").replace("<", "&lt;") for cell in cells) + " |"
            )
    return "\n".join([f"## {title}", "", about, "", *rows, ""])


def is_section(field: FieldInfo) -> bool:
    return isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)


def listed_section(field: FieldInfo) -> type[BaseModel] | None:
    """Return the section that a setting holds several of; None: it is no list of sections."""
    inner = get_args(field.annotation)[:1] if get_origin(field.annotation) is tuple else ()
    return next((one for one in inner if isinstance(one, type) and issubclass(one, BaseModel)), None)


def setting_docstrings() -> dict[tuple[str, str], str]:
    """Return the string that stands under each attribute, by class and attribute."""
    found: dict[tuple[str, str], str] = {}
    for module in (config, serving):
        found |= _docstrings(ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8")))
    return found


def _docstrings(module: ast.Module) -> Iterator[tuple[tuple[str, str], str]]:
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            for attribute, below in zip(node.body, node.body[1:]):  # noqa: B905 (one shorter on purpose)
                if isinstance(attribute, ast.AnnAssign) and isinstance(attribute.target, ast.Name):
                    text = getattr(getattr(below, "value", None), "value", None)
                    if isinstance(below, ast.Expr) and isinstance(text, str):
                        yield (node.name, attribute.target.id), text


def paragraph(text: str | None) -> str:
    """`text` in one line."""
    return " ".join((text or "").split())


def type_in_words(field: FieldInfo) -> str:
    """Return the type of a setting and the range it must be in."""
    annotation = field.annotation
    if choices := _choices(annotation):
        *first, last = (f"`{as_toml(value)}`" for value in choices)
        return f"{', '.join(first)} or {last}" if first else last
    if annotation == tuple[config.DirectionName, ...]:
        return "a list of directions"
    if annotation == tuple[config.Language, config.Language]:
        return "two languages"
    if get_origin(annotation) is dict and get_args(annotation)[1] != config.Corpora:
        kind, of_each = get_args(get_args(annotation)[1])
        if kind is float:
            return "name = number" + _range(of_each)
    if annotation == get_args(config.Corpora)[0]:
        return "one or two files, or a list of such lists"
    if get_origin(annotation) is dict:
        return "name = one or two files, or a list of such lists"
    if annotation == config.Column:
        return "number or name"
    if annotation == tuple[config.Column, config.Column]:
        return "two numbers or names"
    if annotation == tuple[str, ...]:
        return "a list of texts"
    for both in (config.Beta, config.Share):
        if annotation == tuple[both, both]:
            kind, of_each = get_args(both)
            return f"two {WORDS[kind]}s{_range(of_each)}"
    return WORDS[annotation] + _range(field)  # type: ignore[index]


def _range(field: FieldInfo) -> str:
    """Return the bounds of a number, written after its type."""
    bounds = []
    for constraint in field.metadata:
        attribute, sign = SIGNS.get(type(constraint).__name__, ("", ""))
        if sign:
            bound = getattr(constraint, attribute)
            bounds.append(f"{sign} {'2^63 - 1' if bound == config.MAX_SEED else f'{bound:g}'}")
    return f" {', '.join(bounds)}" if bounds else ""


def _choices(annotation: Any) -> tuple[Any, ...]:
    """Return the values of a Literal, or of several that are joined; none for other types."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    parts = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else ()
    if parts and all(get_origin(part) is Literal for part in parts):
        return tuple(value for part in parts for value in get_args(part))
    return ()


def default_as_toml(field: FieldInfo) -> str:
    return "required" if field.is_required() else f"`{as_toml(field.get_default(call_default_factory=True))}`"


def as_toml(value: Any) -> str:
    """Return a setting's value as it is written in a recipe."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    return "{}" if value == {} else repr(value)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
