"""Writes docs/licences.md: the licence of every package that Dragoman or one of its extras installs.

    python docs/generate_licences.py

Run it where all extras are installed (`make setup`). tests/docs/test_generated_pages.py fails while a
dependency of pyproject.toml is not on the page, or an installed package says another licence than the page.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, distribution, metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "licences.md"
INTRODUCTION = """\
# Licences of dependencies

<!-- Written by docs/generate_licences.py from the metadata of installed packages. -->

Dragoman is under the [MIT licence](../LICENSE). No package below is part of it: `pip` installs the core
packages always, the others with the extra that is named. The licence is what the package's own metadata says.
PyTorch for GPUs also installs NVIDIA's libraries (`nvidia-*`), which are under NVIDIA's own terms.

"""
NAMES = {  # metadata that holds a whole text, or a word that is no SPDX expression
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "3-Clause BSD License": "BSD-3-Clause",
    "ISC License": "ISC",
    "MIT License": "MIT",
    "The MIT License (MIT)": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}

ELSEWHERE = {  # these do not go with the packages of other extras, so that no environment has all
}


def page() -> str:
    """Return the whole page, for the packages that are installed."""
    lines = ["| package | licence | installed by |", "|---|---|---|"]
    by = origins()
    rows = {name: (licence(name), ", ".join(by[name])) for name in by}
    for name, (stated, extras) in sorted((ELSEWHERE | rows).items()):
        lines.append(f"| {name} | {stated} | {extras} |")
    return INTRODUCTION + "\n".join(lines) + "\n"


def direct() -> dict[str, list[Requirement]]:
    """Return the requirements of pyproject.toml by extra; "core" is no extra."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {"core": project["dependencies"], **project["optional-dependencies"]}
    return {
        extra: [one for one in map(Requirement, lines) if one.name != "dragoman"]
        for extra, lines in groups.items()
        if extra not in ("all", "dev")
    }


def origins() -> dict[str, list[str]]:
    """Return every installed package that something needs, with "core" or its extras."""
    found: dict[str, list[str]] = {}
    for group, requirements in direct().items():
        waiting, seen = list(requirements), set()
        while waiting:
            one = waiting.pop()
            name, extras = canonicalize_name(one.name), one.extras or {""}
            try:
                needed = map(Requirement, distribution(name).requires or [])
            except PackageNotFoundError:
                continue  # of another Python or system
            if (name, *extras) not in seen:
                seen.add((name, *extras))
                waiting += [
                    n for n in needed if not n.marker or any(n.marker.evaluate({"extra": e}) for e in extras)
                ]
        for name in {name for name, *_ in seen} - {name for name in found if found[name] == ["core"]}:
            found.setdefault(name, []).append(group)
    return found


def licence(name: str) -> str:
    """Return a package's licence: its SPDX expression, the name in its metadata, or its classifiers."""
    facts = metadata(name)
    classifiers = facts.get_all("Classifier") or []
    kinds = [line.rpartition(" :: ")[2] for line in classifiers if line.startswith("License ::")]
    stated = facts.get("License-Expression") or facts.get("License", "").strip()
    if not stated or "\n" in stated or len(stated) > 100 or stated.lower() == "dual license":
        stated = " AND ".join(NAMES.get(kind, kind) for kind in kinds if kind != "OSI Approved") or stated
    first = re.split(r"\n", stated)[0]
    return NAMES.get(first, first) or "not stated"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
