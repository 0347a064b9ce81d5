"""How long the tests take: kept from a run, and held to a budget of seconds a folder.

    make durations              # `make test`, and what it took into tests/durations.json
    python tests/durations.py   # compare what is kept with tests/budgets.toml; `make check` does

Seconds are those of the tests with their fixtures, summed over the processes that ran beside one another.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import tomllib

TESTS = Path(__file__).parent
KEPT, BUDGETS = TESTS / "durations.json", TESTS / "budgets.toml"


def seconds_of(reports: Iterable[Path]) -> Counter[str]:
    """Return the seconds of each test file, "unit/text/test_slots.py", in pytest's reports (JUnit)."""
    seconds: Counter[str] = Counter()
    for report in reports:
        for case in ElementTree.parse(report).iter("testcase"):
            name = case.get("classname", "").removeprefix("tests.").replace(".", "/")
            seconds[f"{name}.py"] += float(case.get("time", 0))
    return seconds


def by_folder(seconds: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of each folder, the slowest first."""
    folders: Counter[str] = Counter()
    for file, value in seconds.items():
        folders["/".join(file.split("/")[:-1][:2])] += value
    return {folder: round(value, 1) for folder, value in folders.most_common()}


def keep(reports: Iterable[Path]) -> None:
    """Write what a run took, on which machine, of which commit."""
    from dragoman.hardware import environment

    seconds = seconds_of(reports)
    facts = environment()
    content = {
        "machine": {name: facts[name] for name in ("cpu", "n_cores", "python", "commit")},
        "seconds": round(sum(seconds.values()), 1),
        "folders": by_folder(seconds),
        "files": {file: round(value, 1) for file, value in seconds.most_common()},
    }
    KEPT.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def over_budget(folders: Mapping[str, float], budgets: Mapping[str, float]) -> list[str]:
    """Name each folder that takes longer than it may, and each without a budget or without a duration."""
    messages = [
        f"tests/{folder}: {folders[folder]:,.0f} s, and {budget:,.0f} s are its budget; make it cheaper"
        for folder, budget in budgets.items()
        if folders.get(folder, 0) > budget
    ]
    unknown = sorted(folders.keys() - budgets.keys())
    untimed = sorted(budgets.keys() - folders.keys())
    messages += [f"tests/{folder}: has no budget; give it one in tests/budgets.toml" for folder in unknown]
    return messages + [f"tests/{folder}: was not timed; run make durations" for folder in untimed]


def main(*reports: str) -> int:
    """Keep the durations of `reports`; or compare those that are kept, and return the exit code."""
    if reports:
        keep(map(Path, reports))
        return 0
    kept: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8"))
    budgets = tomllib.loads(BUDGETS.read_text(encoding="utf-8"))["seconds"]
    messages = over_budget(kept["folders"], budgets)
    print(*messages, sep="\n", end="\n" * bool(messages), file=sys.stderr)
    return int(bool(messages))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
