"""Write constraints-lowest.txt: the lowest version of each core dependency that installs, by Python.

    pip install uv
    python tools/lowest_constraints.py

The lower bounds are those of pyproject.toml. A newer Python needs newer wheels: `uv` resolves with the lowest
versions that have wheels for Linux, macOS and Windows, and the highest of the three is written.
"""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import groupby
from pathlib import Path

from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PLATFORMS = ("x86_64-manylinux_2_28", "aarch64-apple-darwin", "x86_64-pc-windows-msvc")
HEAD = """\
# The lowest versions of the core dependencies in pyproject.toml, by Python: for `make test-lowest`.
# Written by tools/lowest_constraints.py.
"""


def main() -> None:
    """Resolve for every Python of the classifiers, and write the file."""
    if sys.version_info < (3, 11):
        sys.exit("needs Python 3.11 or later, for tomllib")
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = [re.split(r"[^\w-]", requirement)[0] for requirement in project["dependencies"]]
    pythons = [found for line in project["classifiers"] for found in re.findall(r":: (3\.\d+)$", line)]
    versions = {python: lowest(python) for python in pythons}
    pins = [line for name in names for line in lines_of(name, {p: versions[p].get(name) for p in pythons})]
    (ROOT / "constraints-lowest.txt").write_text(HEAD + "\n".join(pins) + "\n", encoding="utf-8")


def lowest(python: str) -> dict[str, Version]:
    """Return the lowest version of each package that has a wheel for `python` on every platform."""
    found: dict[str, Version] = {}
    for platform in PLATFORMS:
        command = ["uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
        command += ["--only-binary", ":all:", "--resolution", "lowest-direct", "--python-version", python]
        done = subprocess.run(
            [*command, "--python-platform", platform, ROOT / "pyproject.toml"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"Python {python} on {platform}: {done.stderr.strip()}")
        for line in done.stdout.splitlines():
            name, _, version = line.partition("==")
            found[name] = max(Version(version), found.get(name, Version("0")))
    return found


def lines_of(name: str, versions: dict[str, Version | None]) -> list[str]:
    """Return a line for each range of Pythons that shares a version; None: no such package."""
    ranges = [(version, list(pythons)) for version, pythons in groupby(versions, versions.__getitem__)]
    lines = []
    for index, (version, pythons) in enumerate(ranges):
        bounds = [f'python_version >= "{pythons[0]}"'] if index else []
        if index + 1 < len(ranges):
            bounds.append(f'python_version < "{ranges[index + 1][1][0]}"')
        if version is not None:
            lines.append(f"{name}=={version}" + (f" ; {' and '.join(bounds)}" if bounds else ""))
    return lines


if __name__ == "__main__":
    main()
