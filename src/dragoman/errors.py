"""Errors that a user's input can cause.

The command line prints the message of a `DragomanError` in one line and exits with 1 (70 for a
`LostProcessError`). Any other exception that reaches it is a bug.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Mapping, Set
from importlib import import_module
from importlib.util import find_spec
from typing import Any

PACKAGES = {
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
    "python_multipart": "python-multipart",
    "prometheus_client": "prometheus-client",
}
"""The packages whose modules are called otherwise."""


class DragomanWarning(UserWarning):
    """Something that a user should know, and that stops nothing; the command line prints it as one line."""


class DragomanError(Exception):
    """Something a user can put right. The message says what is wrong, where, and what to do."""


class ConfigError(DragomanError):
    """A setting is unknown, misspelt, of the wrong type, or contradicts another."""


class DataError(DragomanError):
    """A corpus cannot be read, its sides do not match, or nothing usable is in it."""


class RunError(DragomanError):
    """A run directory is missing, incomplete, or was written by another version."""


class TrainingError(DragomanError):
    """A training cannot go on."""


class LostProcessError(TrainingError):
    """Another process of a training has ended or does not respond; its launcher can restart all of them."""


class ServiceError(DragomanError):
    """A service cannot go on."""


class PausedError(Exception):
    """A training was asked to stop before its end, by a signal or a time limit, and saved a checkpoint first.

    Not an error: the same command continues.
    """

    def __init__(self, reason: int) -> None:
        super().__init__("training was paused")
        self.reason = reason
        """The number of the signal, or of none where the time was up."""


class MissingExtraError(DragomanError):
    """An optional package is not installed."""

    def __init__(self, *modules: str, extra: str, purpose: str) -> None:
        named = " and ".join(PACKAGES.get(name, name) for name in modules)
        plural = "s" * (len(modules) > 1)
        super().__init__(f"{purpose} needs the package{plural} {named}: pip install 'dragoman[{extra}]'")


def require(*modules: str, extra: str, purpose: str) -> None:
    """Check, without importing them, that optional modules are installed: before the work that needs them.

    Raises:
        MissingExtraError: some are not; the message names them.
    """
    specs = {name: sys.modules[name] if name in sys.modules else find_spec(name) for name in modules}
    if missing := [name for name, spec in specs.items() if spec is None]:
        raise MissingExtraError(*missing, extra=extra, purpose=purpose)


def optional(module: str, *, extra: str, purpose: str) -> Any:
    """Import an optional module.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(module.partition(".")[0], extra=extra, purpose=purpose) from error


def counted(n: int, noun: str) -> str:
    """Return a number with its noun, as "1 sentence" and "2,000 sentences"."""
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


def check_texts(texts: object, *, what: str = "text", first_number: int = 1) -> None:
    """Check that `texts` is a list of strings, or the like.

    Raises:
        DataError: it is not, or one of them is not; the message calls them `what`.
    """
    if not isinstance(texts, Collection) or isinstance(texts, str | bytes | Mapping | Set):
        raise DataError(f"give a list of {what}s, not a value of type {type(texts).__name__}")
    for number, text in enumerate(texts, start=first_number):
        if not isinstance(text, str):
            raise DataError(f"{what} {number}: is of type {type(text).__name__}, and not a string")


_CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
_DIRECTION = r"\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Control characters but for tabs and line ends, and those that turn the direction of writing."""


def printable(text: str, *, directions: bool = False) -> str:
    """Return `text` with control characters escaped, except line ends and tabs.

    Messages can quote untrusted text; escape sequences must not reach the terminal. Marks of direction stay
    where they belong to the text, as in the output of a model: `directions`.
    """
    escaped = _CONTROL if directions else _CONTROL + _DIRECTION
    return re.sub(f"[{escaped}]", lambda match: match[0].encode("unicode_escape").decode(), text)
