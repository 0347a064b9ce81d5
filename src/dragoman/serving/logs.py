"""Logging: one line per request, without its text."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

LOGGER = logging.getLogger("dragoman.serving")


def set_up(log_format: str) -> None:
    """Configure logging to stderr: "text" for people, or "json" with one object per line."""
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False  # no line has them
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else LineFormatter())
    for name in ("dragoman.serving", "uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO if name == "dragoman.serving" else logging.WARNING)


class JsonFormatter(logging.Formatter):
    """Format a record as a JSON object: time, level, event and further fields."""

    def format(self, record: logging.LogRecord) -> str:
        facts: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            facts["traceback"] = self.formatException(record.exc_info)
        return json.dumps(facts, ensure_ascii=True)


class LineFormatter(logging.Formatter):
    """Format a record as a line: time, event and further fields."""

    def format(self, record: logging.LogRecord) -> str:
        facts = " · ".join(f"{name} {_shown(value)}" for name, value in getattr(record, "facts", {}).items())
        line = f"{time.strftime('%H:%M:%S', time.localtime(record.created))} {record.getMessage()}"
        line += f" · {facts}" if facts else ""
        if record.exc_info:  # indented, so that no message in it can look like a line of the log
            traceback = self.formatException(record.exc_info)
            line += "".join(f"\n    {_shown(each)}" for each in traceback.split("\n"))
        return line


def _shown(value: Any) -> str:
    """Return `value` on one line, with control characters escaped."""
    return value.encode("unicode_escape").decode() if isinstance(value, str) else str(value)


def log(event: str, facts: Mapping[str, Any], *, level: int = logging.INFO, exc_info: bool = False) -> None:
    """Log an event with its fields."""
    if LOGGER.isEnabledFor(level):
        traceback = sys.exc_info() if exc_info else None
        # made by hand, because LOGGER.log would look for the line of code that called it
        record = logging.LogRecord(LOGGER.name, level, "", 0, event, (), traceback)
        record.facts = dict(facts)
        LOGGER.handle(record)
