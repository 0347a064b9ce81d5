"""What can go wrong because of a user's input, as a tree.

    DragomanError
    ├── ConfigError        a setting is unknown, misspelt, of the wrong type or contradicts another
    ├── DataError          a corpus cannot be read, does not match, or is empty
    ├── RunError           a run directory is missing, incomplete or of another version
    ├── TrainingError      a training cannot go on: the loss became NaN, the disk is full
    ├── ServiceError       a service cannot go on: its processes die as soon as they are there
    └── MissingExtraError  an optional package is not installed; the message holds its install line

The command line prints the message of a `DragomanError` in one line and exits with 1. Any other
exception that reaches it is a bug.
"""

from __future__ import annotations


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

    def __init__(self, package: str, *, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs the package {package}: pip install 'dragoman[{extra}]'")
