"""Results that several measurements add to: a file with a JSON object on each line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects in the file `path`; none where there is no file yet."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def append_lines(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """Add `records` to the file `path`, all in one write: another process may add to it too."""
    lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as file:
        file.write(lines.encode())
